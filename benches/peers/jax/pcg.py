"""Matrix-free PCG in JAX: J p and J^T v by automatic differentiation of the residuals, the loop compiled.

pcg.py laplacian|image_warping N ITERATIONS TIMES prints `jax RZ SECONDS...`: r.z behind 20 iterations, and the seconds of runs of
ITERATIONS, one per time. The problems are those of ../cuda/energy.h, the preconditioner is the diagonal.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

CHECKED = 20


def noise(i):
    return ((i.astype(np.uint32) * np.uint32(2654435761)) >> 8).astype(np.float32) / np.float32(1 << 24)


def laplacian(n):
    a = jnp.asarray(noise(np.arange(n * n)).reshape(n, n))

    def residuals(x):
        x = x[0]
        return [0.2 * (x - a), x[:, 1:] - x[:, :-1], x[1:] - x[:-1]]

    edges = np.zeros((n, n), np.float32)
    edges[:, 1:] += 1
    edges[:, :-1] += 1
    edges[1:] += 1
    edges[:-1] += 1
    return residuals, jnp.zeros((1, n, n), jnp.float32), jnp.asarray(0.04 + edges)[None]


def image_warping(n):
    y, x = np.mgrid[0:n, 0:n].astype(np.float32)
    i = np.arange(n * n)
    rest = jnp.asarray(np.stack([x, y]))
    angle = 0.1 * noise(i).reshape(n, n)
    dragged = ((x % 64 == 32) & (y % 64 == 32)).astype(np.float32)
    goal = np.stack([x + 3 * noise(2 * i).reshape(n, n), y + 3 * noise(2 * i + 1).reshape(n, n)])
    held, goal = jnp.asarray(dragged), jnp.asarray(goal)
    cut = [(slice(None), slice(0, n - 1)), (slice(None), slice(1, n)), (slice(0, n - 1), slice(None)), (slice(1, n), slice(None))]
    pairs = [(cut[0], cut[1]), (cut[1], cut[0]), (cut[2], cut[3]), (cut[3], cut[2])]

    def residuals(u):
        offset, turn = u[:2], u[2]
        out = [10.0 * held * (offset - goal)]
        for own, other in pairs:
            edge = offset[(slice(None), *own)] - offset[(slice(None), *other)]
            ex, ey = rest[(slice(None), *own)] - rest[(slice(None), *other)]
            c, s = jnp.cos(turn[own]), jnp.sin(turn[own])
            out.append(0.1 * (edge - jnp.stack([c * ex - s * ey, s * ex + c * ey])))
        return out

    edges = np.zeros((n, n), np.float32)
    for own, _ in pairs:
        edges[own] += 1
    # Edges are one pixel long.
    diagonal = np.stack([100 * dragged + 0.02 * edges, 100 * dragged + 0.02 * edges, 0.01 * edges])
    return residuals, jnp.concatenate([rest, jnp.asarray(angle)[None]]), jnp.asarray(diagonal)


def main(energy, n, iterations, times):
    residuals, start, diagonal = {"laplacian": laplacian, "image_warping": image_warping}[energy](n)

    @jax.jit
    def prepare(x):
        value, transposed = jax.vjp(residuals, x)
        return -transposed(value)[0]

    def apply(x, p):
        _, forward = jax.jvp(residuals, (x,), (p,))
        _, transposed = jax.vjp(residuals, x)
        return transposed(forward)[0]

    def solve(x, b, count):
        def turn(_, state):
            d, r, p, rz = state
            q = apply(x, p)
            alpha = rz / jnp.vdot(p, q)
            d, r = d + alpha * p, r - alpha * q
            z = r / diagonal
            new = jnp.vdot(r, z)
            return d, r, z + new / rz * p, new

        z = b / diagonal
        return jax.lax.fori_loop(0, count, turn, (jnp.zeros_like(b), b, z, jnp.vdot(b, z)))[3]

    solve = jax.jit(solve)
    b = prepare(start).block_until_ready()
    rz = float(solve(start, b, CHECKED))
    line = ["jax", f"{rz:.9e}"]
    for _ in range(times):
        begun = time.perf_counter()
        solve(start, b, iterations).block_until_ready()
        line.append(f"{time.perf_counter() - begun:.9e}")
    print(*line)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
