"""Arguments of the layers, and what tests ask of results."""

import pathlib

import numpy as np

from sumsq import layers

GOLDEN = pathlib.Path(__file__).parents[2] / "data" / "gradients" / "layers.npz"

#: Layers with parameters and shapes of their inputs: no extent is a multiple of what schedules split by.
CASES = {
    "bilateral_slice": (dict(cell=4), [(2, 6, 3, 3, 5), (2, 9, 19), (2, 2, 9, 19)]),
    "bilateral_slice_3d": (dict(cell=3), [(1, 6, 3, 2, 2, 6), (1, 5, 4, 17), (1, 2, 5, 4, 17)]),
    "spatial_transformer": ({}, [(2, 3, 6, 19), (2, 2, 3)]),
    "flow_warp": ({}, [(2, 3, 6, 19), (2, 2, 6, 19)]),
    "bicubic_warp": ({}, [(2, 3, 6, 19), (2, 2, 6, 19)]),
}


def arguments(name, dtype=np.float64, seed=1):
    """Inputs of a layer, whose places are not near to where slopes jump; and weights of its output."""
    rng = np.random.default_rng(seed)
    parameters, shapes = CASES[name]
    x = [rng.uniform(-1, 1, shape) for shape in shapes]
    if name.startswith("bilateral"):
        # Depths between those at which slopes jump: whole numbers of guide * D - 1/2.
        depth = rng.integers(-1, 4, shapes[1]) + rng.uniform(0.2, 0.8, shapes[1])
        x[1] = (depth + 0.5) / shapes[0][2]
    elif name == "spatial_transformer":
        x[1] = np.array([[[0.9, 0.1, 0.03], [-0.08, 0.8, -0.11]], [[1.1, -0.2, 0.02], [0.15, 0.7, 0.21]]])
    else:
        x[1] = rng.integers(-4, 5, shapes[1]) + rng.uniform(0.2, 0.8, shapes[1])
    layer = getattr(layers, name)
    x = [np.asarray(array, dtype) for array in x]
    w = rng.uniform(-1, 1, layer(*x, **parameters).shape).astype(dtype)
    return layer, parameters, x, w


def directions(x, seed=2):
    """Arrays like these, at random."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, array.shape).astype(array.dtype) for array in x]


def strided(array, how):
    """The same values with other strides."""
    if how == "transposed":
        return np.ascontiguousarray(array.T).T
    if how == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if how == "reversed rows":
        return np.ascontiguousarray(array[:, ::-1])[:, ::-1]
    if how == "sliced":
        room = np.full((*array.shape[:-1], 3 * array.shape[-1]), np.nan, array.dtype)
        room[..., 1::3] = array
        return room[..., 1::3]
    if how == "channels last":
        return np.ascontiguousarray(np.moveaxis(array, 1, -1)).swapaxes(-1, 1) if array.ndim == 3 else np.moveaxis(
            np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1
        )
    raise ValueError(how)


STRIDES = ["transposed", "reversed", "reversed rows", "sliced", "channels last"]


class OnlyDlpack:
    """An array that lends its memory by DLPack alone, as tensors of other libraries do."""

    def __init__(self, array, versions=True, device=1):
        self.array, self.versions, self.device = array, versions, device

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **options):
        if options and not self.versions:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)
