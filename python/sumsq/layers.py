"""Layers of networks, with their derivatives.

A layer takes tensors x of float32 or float64, all of one type: NumPy arrays or whatever else has the buffer protocol or `__dlpack__` and lies in the
memory of the host, with any strides. Nothing is copied. With J the derivatives of its output by x:

    output = layer(*x)
    d_x = layer.backward(w, *x)                  # J^T w, one for each of x
    d_w, *d_x = layer.double_backward(v, w, *x)  # of <v, J^T w>: J v, and the slopes by each of x

w has the shape of the output; v is a list of directions with the shapes of x, None in place of zeros. Results are new NumPy arrays, or are
written to the tensors that `out` names, which are then returned: one tensor of a layer itself, of the other two a list, None where an array is to be
made. `threads` is the number of threads, by default one for each core; results do not depend on it. Python's lock is let go while they compute.

A routine is compiled when it is called for the first time, for each type and set of parameters, and once more where neighbours of a last axis are not
next to each other; code is kept in the cache folder of `sumsq`.
"""

from sumsq import _native

__all__ = ["Layer", "bicubic_warp", "bilateral_slice", "bilateral_slice_3d", "flow_warp", "spatial_transformer"]

_INPUTS = {name: (inputs, parameters) for name, inputs, parameters in _native.layers()}


class Layer:
    """A layer: call it for its output."""

    def __init__(self, name, doc):
        self.__name__ = name
        self.__doc__ = doc
        #: Names of the tensors that it takes.
        self.inputs, parameters = _INPUTS[name]
        #: Names of its parameters.
        self.parameters = parameters

    def __repr__(self):
        return f"<layer {self.__name__}({', '.join([*self.inputs, *(p + '=..' for p in self.parameters)])})>"

    def __call__(self, *x, out=None, threads=None, **parameters):
        """The output."""
        (output,) = self._run("forward", x, None if out is None else [out], threads, parameters)
        return output

    def backward(self, w, *x, out=None, threads=None, **parameters):
        """J^T w: a tuple, one array for each of x."""
        return tuple(self._run("backward", [w, *x], out, threads, parameters))

    def double_backward(self, v, w, *x, out=None, threads=None, **parameters):
        """The slopes of <v, J^T w>: a tuple of those by w and by each of x."""
        if len(v) != len(self.inputs):
            raise TypeError(f"v: expected {len(self.inputs)} directions ({', '.join(self.inputs)}), came {len(v)}")
        return tuple(self._run("double_backward", [*v, w, *x], out, threads, parameters))

    def _run(self, which, arguments, out, threads, parameters):
        for name in parameters:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise TypeError(f"{self.__name__} has no parameter {name}; it has {known}")
        texts = [(name, str(value)) for name, value in parameters.items()]
        out = None if out is None else list(out)
        return _native.run(self.__name__, which, list(arguments), out, texts, threads)


bilateral_slice = Layer(
    "bilateral_slice",
    """bilateral_slice(grid, guide, input, cell=16): affine maps of colours, sliced from a grid.

    grid (N, CO (CI + 1), D, H / cell, W / cell): for each output channel the factors of the input channels, then the offset; H / cell and W / cell
    are rounded up. guide (N, H, W): depth in the grid, 0 to 1. input (N, CI, H, W). Output (N, CO, H, W): the maps, sampled trilinearly at the pixel's
    centre and depth, the ends of the grid repeated, applied to its colours.

    Gharbi, Chen, Barron, Hasinoff and Durand, "Deep bilateral learning for real-time image enhancement", 2017.
    """,
)

bilateral_slice_3d = Layer(
    "bilateral_slice_3d",
    """bilateral_slice_3d(grid, guide, input, cell=8): `bilateral_slice` of volumes.

    grid (N, CO (CI + 1), D, Z / cell, H / cell, W / cell), guide (N, Z, H, W), input (N, CI, Z, H, W). Output (N, CO, Z, H, W).
    """,
)

spatial_transformer = Layer(
    "spatial_transformer",
    """spatial_transformer(input, theta): features warped by an affine map.

    input (N, C, H, W), theta (N, 2, 3): maps from places of the output to those of the input. Output (N, C, H, W): as PyTorch's
    `grid_sample(input, affine_grid(theta, input.shape))` by default, bilinear, 0 outside of the image, -1 and 1 its edges.

    Jaderberg, Simonyan, Zisserman and Kavukcuoglu, "Spatial transformer networks", 2015.
    """,
)

flow_warp = Layer(
    "flow_warp",
    """flow_warp(input, flow): features warped backwards by a flow field.

    input (N, C, H, W), flow (N, 2, H, W): way to the right and down, in pixels. Output (N, C, H, W): the input, bilinear, at each pixel's place plus
    its flow; places beyond the image are moved to its edge.

    Ilg et al., "FlowNet 2.0: evolution of optical flow estimation with deep networks", 2017.
    """,
)

bicubic_warp = Layer(
    "bicubic_warp",
    """bicubic_warp(input, flow): `flow_warp` with cubic interpolation, which has a continuous first derivative.

    Keys, "Cubic convolution interpolation for digital image processing", 1981, a = -1/2.
    """,
)
