"""A layer or a convolution and its J^T 1 in PyTorch, for the benchmark `gradients`.

    python gradients.py NAME INPUTS.npz THREADS

Prints `ready SECONDS` with the time of the first runs, then for each line `forward` or `both` of standard input the seconds of one run; for a line
`write FILE` it writes the output and J^T 1 to an archive and prints `written`. The layers are what PyTorch's own operators make of them:
`grid_sample`, of a volume for the bilateral slice.
"""

import sys
import time

import numpy as np
import torch
from torch.nn.functional import affine_grid, conv2d, grid_sample


def convolution(image, kernel):
    """Of an image (H + 4, W + 2) with a kernel (5, 3), where it fits."""
    return conv2d(image[None, None], kernel[None, None])[0, 0]


def spatial_transformer(input, theta):
    return grid_sample(input, affine_grid(theta, input.shape, align_corners=False), align_corners=False)


def flow_warp(input, flow):
    h, w = input.shape[2:]
    y, x = torch.meshgrid(torch.arange(h, dtype=input.dtype), torch.arange(w, dtype=input.dtype), indexing="ij")
    place = torch.stack([(x + flow[:, 0]) * (2 / (w - 1)) - 1, (y + flow[:, 1]) * (2 / (h - 1)) - 1], dim=-1)
    return grid_sample(input, place, padding_mode="border", align_corners=True)


def bilateral_slice(grid, guide, input, cell=16):
    h, w = input.shape[2:]
    y, x = torch.meshgrid(torch.arange(h, dtype=input.dtype), torch.arange(w, dtype=input.dtype), indexing="ij")
    along = [(2 * v + 1) / (cell * n) - 1 for v, n in ((x, grid.shape[4]), (y, grid.shape[3]))]
    place = torch.stack([*(v.expand(guide.shape) for v in along), 2 * guide - 1], dim=-1)
    maps = grid_sample(grid, place[:, None], padding_mode="border", align_corners=False)[:, :, 0]
    maps = maps.reshape(maps.shape[0], -1, input.shape[1] + 1, h, w)
    return (maps[:, :, :-1] * input[:, None]).sum(2) + maps[:, :, -1]


LAYERS = {f.__name__: f for f in (convolution, spatial_transformer, flow_warp, bilateral_slice)}


def both(function, given):
    """The output, and the slopes of its sum."""
    leaves = {k: v.detach().requires_grad_() for k, v in given.items()}
    out = function(**leaves)
    return out.detach(), dict(zip(leaves, torch.autograd.grad(out.sum(), list(leaves.values()))))


def main(name, inputs, threads):
    torch.set_num_threads(threads)
    given = {k: torch.from_numpy(v) for k, v in np.load(inputs).items()}

    def forward():
        with torch.no_grad():
            return LAYERS[name](**given)

    runs = {"forward": forward, "both": lambda: both(LAYERS[name], given)}
    started = time.perf_counter()
    for run in runs.values():
        run()
    print("ready", time.perf_counter() - started, flush=True)
    for line in sys.stdin:
        what, *rest = line.split()
        if what == "write":
            out, slopes = runs["both"]()
            np.savez(rest[0], output=out.numpy(), **{f"d.{k}": v.numpy() for k, v in slopes.items()})
            print("written", flush=True)
            continue
        started = time.perf_counter()
        runs[what]()
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
