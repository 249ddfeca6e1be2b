"""Golden vectors for gradients of pipelines: values and J^T w in float64, from JAX.

    python3 -m venv environment && environment/bin/pip install -r requirements.txt && environment/bin/python make.py

writes `constructs.npz`, `layers.npz` and `themes.npz` beside this file. Of each case CASE they hold the inputs `CASE/NAME`, the output `CASE/out`, its weights `CASE/w`
and for each input J^T w, `CASE/d.NAME`. An array's last axis is the first dimension of a Func.
"""

import pathlib

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np

CASES = {"constructs": {}, "layers": {}, "themes": {}}
N = 9


def case(*shapes, group="constructs", **more):
    """Registers a function of arrays in [0.25, 1.25), one for each of its arguments: `shapes` are theirs. `more` are arrays as they are."""

    def register(f):
        CASES[group][f.__name__.rstrip("_")] = (f, shapes, more)
        return f

    return register


# Operators and functions, at each of N points.

POINTWISE = {
    "add": lambda f, g: f + g,
    "sub": lambda f, g: f - g,
    "mul": lambda f, g: f * g,
    "div": lambda f, g: f / g,
    "modulo": lambda f, g: jnp.mod(5 * f, g) - jnp.mod(-5 * f, g),
    "neg": lambda f, g: -f * g,
    "abs": lambda f, g: jnp.abs(f - g),
    "min": lambda f, g: jnp.minimum(f, g),
    "max": lambda f, g: jnp.maximum(f, g),
    "select": lambda f, g: jnp.where(f < g, f * f, 3 * g),
    "clamp": lambda f, g: jnp.clip(f, 0.5, g + 0.2),
    "lerp": lambda f, g: f * (1 - g) + g * 2.0 * g,
    "floor": lambda f, g: jnp.floor(4 * f) * g,
    "ceil": lambda f, g: jnp.ceil(4 * f) * g,
    "round": lambda f, g: jnp.round(4 * f) * g,
    "trunc": lambda f, g: jnp.trunc(-4 * f) * g,
    "to_integer": lambda f, g: jnp.trunc(100 * f) * g + f,
    "powi": lambda f, g: f**3 - g**-2,
    "mux": lambda f, g: jnp.select([jnp.arange(N) % 3 == k for k in range(2)], [f, g], f * g),
    "acos": lambda f, g: jnp.arccos(0.7 * f),
    "acosh": lambda f, g: jnp.arccosh(f + 1),
    "asin": lambda f, g: jnp.arcsin(0.7 * f),
    "asinh": lambda f, g: jnp.arcsinh(3 * f - 2),
    "atan": lambda f, g: jnp.arctan(3 * f - 2),
    "atanh": lambda f, g: jnp.arctanh(0.7 * f),
    "cos": lambda f, g: jnp.cos(7 * f),
    "cosh": lambda f, g: jnp.cosh(3 * f - 2),
    "exp": lambda f, g: jnp.exp(3 * f - 2),
    "log": lambda f, g: jnp.log(f),
    "log10": lambda f, g: jnp.log10(f),
    "sin": lambda f, g: jnp.sin(7 * f),
    "sinh": lambda f, g: jnp.sinh(3 * f - 2),
    "sqrt": lambda f, g: jnp.sqrt(f),
    "tan": lambda f, g: jnp.tan(f),
    "tanh": lambda f, g: jnp.tanh(3 * f - 2),
    "atan2": lambda f, g: jnp.arctan2(f - 0.7, g - 0.6),
    "pow": lambda f, g: f**g,
}
for name, function in POINTWISE.items():
    CASES["constructs"][name] = (function, [(N,), (N,)], {})


# Stencils and index maps: `at` reads out of bounds nowhere.


@case((N + 4,))
def box(f):
    return f[0:N] + 2 * f[1 : N + 1] + f[2 : N + 2] * f[4 : N + 4]


@case((N,))
def clamped_box(f):
    at = lambda k: f[jnp.clip(jnp.arange(N) + k, 0, N - 1)]
    blurred = at(-1) + at(0) + at(1)
    return blurred * blurred


@case((6, N))
def box_2d(f):
    y, x = jnp.arange(6)[:, None], jnp.arange(N)[None, :]
    at = lambda g, j, i: g[jnp.clip(y + j, 0, 5), jnp.clip(x + i, 0, N - 1)]
    wide = at(f, 0, -1) + at(f, 0, 0) + at(f, 0, 1)
    return at(wide, -1, 0) + at(wide, 0, 0) + at(wide, 1, 0)


@case((N + 4,), (5,))
def convolution(f, k):
    return sum(f[r : r + N] * k[r] for r in range(5))


@case((8, N + 2), (3, 3))
def convolution_2d(f, k):
    return sum(f[j : j + 6, i : i + N] * k[j, i] for j in range(3) for i in range(3))


@case((2, 6, 8), (3, 2, 3, 3))
def layer(f, k):
    terms = [f[None, c, j : j + 4, i : i + 6] * k[:, c, j, i, None, None] for c in range(2) for j in range(3) for i in range(3)]
    return jnp.maximum(sum(terms) - 4.5, 0)


@case((N,))
def one_to_two(f):
    x, y = jnp.arange(4), jnp.arange(5)
    return f[x[None, :] + y[:, None]] * f[x][None, :]


@case((N,))
def resampled(f):
    place = 0.71 * jnp.arange(N)
    left = jnp.floor(place).astype(int)
    share = place - left
    return f[left] * (1 - share) + f[jnp.minimum(left + 1, N - 1)] * share


@case((N,), (N,))
def sampled(f, g):
    place = jnp.clip(7.3 * (g - 0.25), 0, N - 1)
    left = jnp.floor(place).astype(int)
    share = place - left
    return f[left] * (1 - share) + f[jnp.minimum(left + 1, N - 1)] * share


@case((6, 7), (6, 7), (6, 7))
def sampled_2d(f, gx, gy):
    px, py = jnp.clip(5.1 * gx - 0.7, 0, 6), jnp.clip(4.3 * gy - 0.4, 0, 5)
    lx, ly = jnp.floor(px).astype(int), jnp.floor(py).astype(int)
    sx, sy = px - lx, py - ly
    at = lambda j, i: f[jnp.minimum(ly + j, 5), jnp.minimum(lx + i, 6)]
    return (at(0, 0) * (1 - sx) + at(0, 1) * sx) * (1 - sy) + (at(1, 0) * (1 - sx) + at(1, 1) * sx) * sy


@case((2 * N + 1,))
def downsampled(f):
    return f[0 : 2 * N : 2] + f[1 : 2 * N + 1 : 2] * f[2 : 2 * N + 1 : 2]


@case((N,))
def upsampled(f):
    x = jnp.arange(4 * N)
    return f[x // 4] * (x % 4 + 1)


@case((N,))
def strided(f):
    return f[(3 * jnp.arange(6) + 1) // 2] ** 2


@case((5, 7))
def transposed(f):
    return f.T * f.T


@case((7, 7), (7, 7))
def diagonal(f, g):
    x = jnp.arange(7)
    return f[x, x] * g[x, 6 - x]


@case((N,))
def reversed_(f):
    return f[::-1] * f


@case((N,))
def one_element(f):
    return f[3] * f + f[jnp.zeros(N, int)]


# Boundary conditions: read from -6 to N + 5.


def beyond(f, place):
    x = jnp.arange(-6, N + 6)
    inside = (x >= 0) & (x < N)
    return jnp.where(inside | (place(x) >= 0), f[jnp.clip(place(x), 0, N - 1)], 0.5) ** 2


@case((N,))
def repeat_edge(f):
    return beyond(f, lambda x: jnp.clip(x, 0, N - 1))


@case((N,))
def constant_exterior(f):
    return beyond(f, lambda x: jnp.where((x >= 0) & (x < N), x, -1))


@case((N,))
def repeat_image(f):
    return beyond(f, lambda x: x % N)


@case((N,))
def mirror_image(f):
    return beyond(f, lambda x: jnp.minimum(x % (2 * N), 2 * N - 1 - x % (2 * N)))


@case((N,))
def mirror_interior(f):
    period = 2 * (N - 1)
    return beyond(f, lambda x: jnp.minimum(x % period, period - x % period))


# Reductions and updates.


@case((N,), (N,))
def update(f, g):
    return f + g * f


@case((N,))
def squared_twice(f):
    h = f * f + f
    return h * h


@case((N,), (4,))
def horner(f, g):
    h = f
    for r in range(4):
        h = h * f + g[r]
    return h


@case((N,), (5,))
def order_matters(f, g):
    h = f
    for r in range(5):
        h = h * h * 0.3 + g[r]
    return h


@case((N,), (N,))
def sparse_update(f, g):
    return f.at[0].set(0).at[5].set(2 * g[3])


@case((N,), (12,), (12,))
def histogram(f, g, weight):
    bins = jnp.clip(jnp.floor(8 * g - 2).astype(int), 0, N - 1)
    return f.at[bins].add(weight) * f


@case((12,), (12,))
def histograms(f, weight):
    a = jnp.clip(jnp.floor(8 * f - 2).astype(int), 0, N - 1)
    b = jnp.clip(jnp.floor(5 * f).astype(int), 0, N - 1)
    return jnp.zeros(N).at[a].add(weight).at[b].add(weight * weight)


@case((12,), (12,))
def fading_histogram(f, g):
    h = jnp.ones(N)
    for r in range(12):
        b = jnp.clip(jnp.floor(4 * g[r]).astype(int), 0, N - 1)
        h = h.at[b].set(h[b] * 0.9 * g[r] + f[r])
    return h


@case((N,), (N,))
def part_updated(f, g):
    return f.at[1:5].add(g[1:5] * 3) * f


@case((7, N))
def row_sums(f):
    return f.sum(axis=1) ** 2


@case((7, N))
def norm(f):
    return jnp.sqrt((f * f).sum())


@case((N + 3,))
def products(f):
    return sum_of(lambda a, b: a * b, f)


@case((N + 3,))
def maxima(f):
    return sum_of(jnp.maximum, f)


@case((N + 3,))
def minima(f):
    return sum_of(jnp.minimum, f)


def sum_of(combine, f):
    all = f[0:N]
    for r in range(1, 4):
        all = combine(all, f[r : r + N])
    return all


@case((6, 8))
def max_pooling(f):
    return f.reshape(3, 2, 4, 2).max(axis=(1, 3))


@case((N, 5), (N, 5))
def argmax(f, g):
    best = jnp.argmax(f, axis=1)
    return jnp.take_along_axis(f * g, best[:, None], axis=1)[:, 0]


@case((N,))
def prefix_sum(f):
    return jnp.cumsum(f) * f


@case((5, N))
def summed_area(f):
    return jnp.cumsum(jnp.cumsum(f, axis=0), axis=1)


@case((N,), (1,))
def recursive_filter(f, share):
    h = [f[0]]
    for x in range(1, N):
        h.append(h[-1] * (1 - share[0]) + f[x] * share[0])
    return jnp.stack(h)


@case((N,), (N,))
def backward_scan(f, g):
    h = [f[N - 1]]
    for x in reversed(range(N - 1)):
        h.append(jnp.sin(h[-1]) * g[x] + f[x])
    return jnp.stack(h[::-1])


@case((N,), (N,))
def tuples(f, g):
    a, b = f, g
    for r in range(3):
        a, b = b * 0.5 + a * f, a * b
    return a - b


@case((7, 7))
def triangle(f):
    return jnp.tril(f).sum(axis=1)


@case((8, 8))
def disc(f):
    y, x = jnp.mgrid[0:8, 0:8]
    return jnp.where((x - 4) ** 2 + (y - 3) ** 2 < 10, f * f, 0).sum(axis=0)


@case((N,), (N,))
def guarded(f, g):
    safe = jnp.where(f > 0.6, f - 0.6, 1.0)
    return jnp.where(f > 0.6, jnp.log(safe) * g, g)


@case((N,), gamma=np.array(1.7), gain=np.array(0.4))
def parameters(f, gamma, gain):
    return gain * f**gamma


# The gradient of an energy is what these return: J^T w is a product with its Hessian.


@case((N,))
def second_order(f):
    return jax.grad(lambda f: (jnp.sin(f[1:] * f[:-1]) ** 2).sum())(f)


@case((N + 2,), (3,))
def second_order_convolution(f, k):
    return jax.grad(lambda f: (sum(f[r : r + N] * k[r] for r in range(3)) ** 3).sum())(f)


# The layers, as `examples/src/pipelines` says; bilinear and trilinear weights are products of shares.


@case(
    group="layers",
    grid=np.array([2, 6, 4, 3, 3]),
    guide=np.array([2, 7, 8]),
    input=np.array([2, 2, 7, 8]),
)
def bilateral_slice(grid, guide, input):
    (n, ci, h, w), depth = input.shape, grid.shape[2]
    cell = -(-w // grid.shape[4])
    image = jnp.arange(n)[:, None, None]

    def place(at, size):
        low = jnp.floor(at).astype(int)
        return [(jnp.clip(low, 0, size - 1), 1 - (at - low)), (jnp.clip(low + 1, 0, size - 1), at - low)]

    rows = place(((jnp.arange(h) + 0.5) / cell - 0.5)[None, :, None], grid.shape[3])
    columns = place(((jnp.arange(w) + 0.5) / cell - 0.5)[None, None, :], grid.shape[4])
    bins = place(guide * depth - 0.5, depth)
    maps = sum(
        grid[image, :, b, r, c] * (wb * wr * wc)[..., None] for b, wb in bins for r, wr in rows for c, wc in columns
    )
    maps = maps.reshape(n, h, w, -1, ci + 1)
    return jnp.moveaxis((maps[..., :ci] * jnp.moveaxis(input, 1, -1)[..., None, :]).sum(-1) + maps[..., ci], -1, 1)


def bilinear(input, px, py, outside):
    """Samples of (C, H, W) at places (H, W) in pixels: `outside` is 0 there, or none for the edge."""
    h, w = input.shape[1:]
    lx, ly = jnp.floor(px).astype(int), jnp.floor(py).astype(int)
    total = 0
    for j, by in ((0, 1 - (py - ly)), (1, py - ly)):
        for i, bx in ((0, 1 - (px - lx)), (1, px - lx)):
            y, x = ly + j, lx + i
            value = input[:, jnp.clip(y, 0, h - 1), jnp.clip(x, 0, w - 1)]
            inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            total = total + (value if outside is None else jnp.where(inside, value, outside)) * (bx * by)
    return total


@case(group="layers", input=np.array([2, 3, 6, 7]), theta=np.array([2, 2, 3]))
def spatial_transformer(input, theta):
    h, w = input.shape[2:]
    u, v = jnp.meshgrid((2 * jnp.arange(w) + 1) / w - 1, (2 * jnp.arange(h) + 1) / h - 1)

    def one(input, theta):
        place = lambda row, size: ((row[0] * u + row[1] * v + row[2] + 1) * size - 1) / 2
        return bilinear(input, place(theta[0], w), place(theta[1], h), 0.0)

    return jax.vmap(one)(input, theta)


@case(group="layers", input=np.array([2, 3, 6, 7]), flow=np.array([2, 2, 6, 7]))
def flow_warp(input, flow):
    h, w = input.shape[2:]
    x, y = jnp.meshgrid(jnp.arange(w), jnp.arange(h))
    one = lambda input, flow: bilinear(
        input, jnp.clip(x + flow[0], 0, w - 1), jnp.clip(y + flow[1], 0, h - 1), None
    )
    return jax.vmap(one)(input, flow)


# Themes of Halide's test of gradients that no case above has.


@case((5,), group="themes")
def reversed_in_place(f):
    h = f
    for r in range(5):
        h = h.at[r].set(h[4 - r])
    return h * f


@case((7, 7), group="themes")
def scaled_disc(f):
    y, x = jnp.mgrid[0:7, 0:7]
    return jnp.where((x - 3) ** 2 + (y - 3) ** 2 <= 10, f * 2, f)


@case((5, 5), (6,), group="themes")
def diagonal_store(f, g):
    x = jnp.arange(5)
    return f.at[x, x].set(g[:5] * g[1:]) ** 2


@case(group="themes", f=np.array([0.0, 1.0, 0.25, 0.0, 2.25]))
def select_guards(f):
    safe = jnp.where(f > 0, f, 1.0)
    guard = lambda taken, other: jnp.where(f > 0, taken, other)
    return (
        guard((jnp.arange(5) + 1) / safe, f)
        + guard(jnp.sqrt(safe), 1.0)
        + guard(jnp.arctan2(1.0, safe), 2 * f)
        + guard(jnp.log(safe), 3 * f)
    )


@case((4,), group="themes", gain=np.array(1.5))
def parameter_and_extent(f, gain):
    return gain * gain * f.shape[0] * f[0] + 0 * f


@case((4,), group="themes")
def floor_and_ceil(f):
    place = jnp.arange(12) / 4
    return f[jnp.floor(place).astype(int)] * f[jnp.ceil(place).astype(int)]


@case((5, 5), (5, 5), group="themes")
def other_variables(f, g):
    return (f - g) ** 2


@case((5, 6), group="themes")
def columns(f):
    h = jnp.zeros((2, 5)).at[0].set(f[:, 0])
    return h.at[1].set(h[0] * h[0] + f[:, 1])


@case((2, 3), group="themes")
def recurrence(f):
    h = [f[0]]
    for r in range(3):
        h.append(h[-1] * h[-1] * 0.5 + f[1, r])
    return jnp.stack(h)


@case((4,), (4,), group="themes")
def horner_scan(f, g):
    h = [jnp.zeros(4)]
    for r in range(4):
        h.append(h[-1] * g + f[r])
    return jnp.stack(h[::-1])


@case((8,), group="themes")
def parts_replaced(f):
    return f.at[1:3].set(f[0:2]).at[3:7].set(0) * f


@case((4,), group="themes")
def bins_of_a_func(f):
    return jnp.zeros(5).at[jnp.array([2, 2, 1, 3])].add(f)


@case((4,), group="themes")
def many_updates(f):
    h = jnp.zeros(5)
    for k in range(10):
        h = h.at[jnp.array([2, 2, 1, 3])].add(f * (k + 1))
    return h * h


def inputs_of(name, group, shapes, more, names, rng):
    """Arrays by name. Those of layers are made from their shapes: in [0, 1), but for maps and flows, which reach beyond the image."""
    if group != "layers":
        made = dict(zip(names, (rng.random(shape) + 0.25 for shape in shapes)))
        return made | {k: v for k, v in more.items()}
    arrays = {k: rng.random(tuple(shape)) for k, shape in more.items()}
    if name == "bilateral_slice":
        arrays["guide"] = 1.2 * arrays["guide"] - 0.1
    if name == "spatial_transformer":
        arrays["theta"] = np.eye(2, 3) + 0.8 * arrays["theta"] - 0.4
    if name == "flow_warp":
        arrays["flow"] = 8 * arrays["flow"] - 4
    return arrays


def main():
    rng = np.random.default_rng(2026)
    for group, cases in CASES.items():
        arrays = {}
        for name, (f, shapes, more) in cases.items():
            names = f.__code__.co_varnames[: f.__code__.co_argcount]
            given = inputs_of(name, group, shapes, more, names, rng)
            out, back = jax.vjp(lambda given: f(**given), given)
            w = rng.standard_normal(out.shape)
            (slopes,) = back(jnp.asarray(w))
            arrays |= {f"{name}/{k}": np.asarray(v) for k, v in given.items()}
            arrays |= {f"{name}/d.{k}": np.asarray(v) for k, v in slopes.items()}
            arrays |= {f"{name}/out": np.asarray(out), f"{name}/w": w}
        assert all(v.dtype == np.float64 and np.isfinite(v).all() for v in arrays.values())
        np.savez_compressed(pathlib.Path(__file__).with_name(f"{group}.npz"), **arrays)


if __name__ == "__main__":
    main()
