"""A layer or a convolution and its J^T 1 in JAX, jitted, for the benchmark `gradients`.

    python gradients.py NAME INPUTS.npz THREADS

Prints `ready SECONDS` with the time of compilation, then for each line `forward` or `both` of standard input the seconds of one run; for a line
`write FILE` it writes the output and J^T 1 to an archive and prints `written`. The layers are those of `data/gradients/make.py`.
"""

import importlib.util
import os
import pathlib
import sys
import time

name, inputs, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
# XLA has as many threads as the process has processors.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

import jax
import jax.numpy as jnp
import numpy as np

golden = pathlib.Path(__file__).parents[3] / "data/gradients/make.py"
spec = importlib.util.spec_from_file_location("golden", golden)
layers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layers)
jax.config.update("jax_enable_x64", False)


def convolution(image, kernel):
    """Of an image (H + 4, W + 2) with a kernel (5, 3), where it fits."""
    return jax.lax.conv(image[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]


function = convolution if name == "convolution" else layers.CASES["layers"][name][0]
given = {k: jnp.asarray(v) for k, v in np.load(inputs).items()}
forward = jax.jit(lambda given: function(**given))


@jax.jit
def both(given):
    out, back = jax.vjp(lambda given: function(**given), given)
    return out, back(jnp.ones_like(out))[0]


started = time.perf_counter()
runs = {"forward": forward, "both": both}
for run in runs.values():
    jax.block_until_ready(run(given))
print("ready", time.perf_counter() - started, flush=True)
for line in sys.stdin:
    what, *rest = line.split()
    if what == "write":
        out, slopes = both(given)
        np.savez(rest[0], output=np.asarray(out), **{f"d.{k}": np.asarray(v) for k, v in slopes.items()})
        print("written", flush=True)
        continue
    started = time.perf_counter()
    jax.block_until_ready(runs[what](given))
    print(time.perf_counter() - started, flush=True)
