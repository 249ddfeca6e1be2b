"""Products by cuSPARSE through CuPy: J^T (J p), and (J^T J) p where that is assembled before. float32, CSR.

products.py laplacian|image_warping N REPEATS TIMES prints `jtj_twice NORM SECONDS...` and `jtj NORM SECONDS...`: the norm of the product
with p of ones and noise, and the seconds of REPEATS products, one per time. The problems are those of ../cuda/energy.h. With
SUMSQ_REHEARSAL in the environment SciPy computes, to try the script where no GPU is.
"""

import os
import sys
import time

import numpy as np

CPU = "SUMSQ_REHEARSAL" in os.environ
if CPU:
    import scipy.sparse as sparse

    xp = np
else:
    import cupy as xp
    import cupyx.scipy.sparse as sparse


def noise(i):
    return ((i.astype(xp.uint32) * xp.uint32(2654435761)) >> 8).astype(xp.float32) / xp.float32(1 << 24)


def rows(columns, values, count):
    """Rows of J that have these columns each, lists of equal length."""
    height, width = columns[0].size, len(columns)
    data = xp.stack([xp.broadcast_to(xp.asarray(v), (height,)) for v in values], 1).astype(xp.float32).ravel()
    index = xp.stack(columns, 1).astype(xp.int32).ravel()
    return sparse.csr_matrix((data, index, xp.arange(0, height * width + 1, width, dtype=xp.int32)), shape=(height, count))


def pairs(n):
    """Pixels and their neighbours, in four directions."""
    i = xp.arange(n * n, dtype=xp.int32).reshape(n, n)
    right, below = (i[:, :-1].ravel(), i[:, 1:].ravel()), (i[:-1].ravel(), i[1:].ravel())
    return right, below, right[::-1], below[::-1]


def laplacian(n):
    i = xp.arange(n * n, dtype=xp.int32)
    parts = [rows([i], [0.2], n * n)]
    parts += [rows([own, other], [1.0, -1.0], n * n) for own, other in pairs(n)[:2]]
    return sparse.vstack(parts, format="csr")


def image_warping(n):
    area = n * n
    i = xp.arange(area, dtype=xp.int32)
    x, y = (i % n).astype(xp.float32), (i // n).astype(xp.float32)
    angle = xp.float32(0.1) * noise(i)
    c, s = xp.cos(angle), xp.sin(angle)
    dragged = i[(i % n % 64 == 32) & (i // n % 64 == 32)]
    parts = [rows([dragged + k * area], [10.0], 3 * area) for k in (0, 1)]
    for own, other in pairs(n):
        ex, ey = x[own] - x[other], y[own] - y[other]
        dx, dy = -s[own] * ex - c[own] * ey, c[own] * ex - s[own] * ey
        for k, d in ((0, dx), (1, dy)):
            columns = [own + k * area, other + k * area, own + 2 * area]
            parts.append(rows(columns, [0.1, -0.1, -0.1 * d], 3 * area))
    return sparse.vstack(parts, format="csr")


def wait():
    if not CPU:
        xp.cuda.Device().synchronize()


def measure(name, product, p, repeats, times):
    norm = float(xp.linalg.norm(product(p)))
    line = [name, f"{norm:.9e}"]
    for _ in range(times):
        wait()
        begun = time.perf_counter()
        for _ in range(repeats):
            product(p)
        wait()
        line.append(f"{time.perf_counter() - begun:.9e}")
    print(*line, flush=True)


def main(energy, n, repeats, times):
    j = {"laplacian": laplacian, "image_warping": image_warping}[energy](n)
    p = 1 + noise(xp.arange(j.shape[1], dtype=xp.uint32))
    # As CSR: products with a transposed matrix are slower.
    transposed = j.T.tocsr()
    measure("jtj_twice", lambda p: transposed @ (j @ p), p, repeats, times)
    jtj = (transposed @ j).tocsr()
    del j, transposed
    measure("jtj", lambda p: jtj @ p, p, repeats, times)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
