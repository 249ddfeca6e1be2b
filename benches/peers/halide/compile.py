"""Compiles pipelines with Halide and says how long lowering and code generation took.

Reads names of pipelines from standard input, a line each, and answers each with a line of seconds. The pipelines and
their schedules are those of `benches/src/suite/engine_pipelines.rs`; building them is not timed.
"""

import os
import sys
import tempfile
import time

import halide as hl

STAGES = 32
LEVELS = 8
LANES = 8
X, Y, K = hl.Var("x"), hl.Var("y"), hl.Var("k")


def clamped(image):
    x = hl.clamp(X, 0, image.width() - 1)
    y = hl.clamp(Y, 0, image.height() - 1)
    f = hl.Func("clamped")
    f[X, Y] = image[x, y]
    return f


def stencil(f, name):
    total = hl.f32(0)
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            total = total + f[X + dx, Y + dy] * hl.f32(1.0 / (1 + abs(dx) + 2 * abs(dy)))
    g = hl.Func(name)
    g[X, Y] = total
    return g


def chain():
    image = hl.ImageParam(hl.Float(32), 2, "image")
    stages = [clamped(image)]
    for i in range(STAGES):
        stages.append(stencil(stages[-1], f"stage{i}"))
    return image, stages[1:]


def chain_roots():
    image, stages = chain()
    for f in stages:
        f.compute_root().vectorize(X, LANES).parallel(Y)
    return stages[-1], [image]


def chain_strips():
    image, stages = chain()
    strip, row = hl.Var("strip"), hl.Var("row")
    out = stages[-1]
    out.split(Y, strip, row, 32).vectorize(X, LANES).parallel(strip)
    for f in stages[:-1]:
        f.compute_at(out, strip).vectorize(X, LANES)
    return out, [image]


def downsample(f, name, dims):
    at = [K] if dims == 3 else []
    downx, downy = hl.Func(name + "_downx"), hl.Func(name + "_downy")
    tap = lambda dx: f[tuple([2 * X + dx, Y] + at)]
    downx[tuple([X, Y] + at)] = (tap(-1) + 3.0 * (tap(0) + tap(1)) + tap(2)) / 8.0
    tap = lambda dy: downx[tuple([X, 2 * Y + dy] + at)]
    downy[tuple([X, Y] + at)] = (tap(-1) + 3.0 * (tap(0) + tap(1)) + tap(2)) / 8.0
    return downy


def upsample(f, name, dims):
    at = [K] if dims == 3 else []
    upx, upy = hl.Func(name + "_upx"), hl.Func(name + "_upy")
    upx[tuple([X, Y] + at)] = 0.25 * f[tuple([X // 2 - 1 + 2 * (X % 2), Y] + at)] + 0.75 * f[tuple([X // 2, Y] + at)]
    upy[tuple([X, Y] + at)] = 0.25 * upx[tuple([X, Y // 2 - 1 + 2 * (Y % 2)] + at)] + 0.75 * upx[tuple([X, Y // 2] + at)]
    return upy


def pyramid():
    image = hl.ImageParam(hl.Float(32), 2, "image")
    gray = clamped(image)
    remap = hl.Func("remap")
    fx = hl.f32(X) / 256.0
    remap[X] = fx * hl.exp(-fx * fx / 2.0)
    top = LEVELS - 1
    g = [hl.Func("g0")]
    level = hl.f32(K) * hl.f32(1.0 / top)
    index = hl.clamp(hl.i32(gray[X, Y] * float(top * 256)), 0, top * 256)
    g[0][X, Y, K] = hl.f32(0.9) * (gray[X, Y] - level) + level + remap[index - 256 * K]
    for j in range(1, LEVELS):
        f = hl.Func(f"g{j}")
        f[X, Y, K] = downsample(g[j - 1], f"g{j}", 3)[X, Y, K]
        g.append(f)
    laplacian = [None] * LEVELS
    laplacian[top] = hl.Func(f"l{top}")
    laplacian[top][X, Y, K] = g[top][X, Y, K]
    for j in range(top - 1, -1, -1):
        f = hl.Func(f"l{j}")
        f[X, Y, K] = g[j][X, Y, K] - upsample(g[j + 1], f"l{j}", 3)[X, Y, K]
        laplacian[j] = f
    own = [hl.Func("in0")]
    own[0][X, Y] = gray[X, Y]
    for j in range(1, LEVELS):
        f = hl.Func(f"in{j}")
        f[X, Y] = downsample(own[j - 1], f"in{j}", 2)[X, Y]
        own.append(f)
    mixed = []
    for j in range(LEVELS):
        at = own[j][X, Y] * float(top)
        low = hl.clamp(hl.i32(at), 0, top - 1)
        part = at - hl.f32(low)
        f = hl.Func(f"mixed{j}")
        f[X, Y] = (1.0 - part) * laplacian[j][X, Y, low] + part * laplacian[j][X, Y, low + 1]
        mixed.append(f)
    out = [None] * LEVELS
    out[top] = hl.Func(f"out{top}")
    out[top][X, Y] = mixed[top][X, Y]
    for j in range(top - 1, -1, -1):
        f = hl.Func(f"out{j}")
        f[X, Y] = upsample(out[j + 1], f"out{j}", 2)[X, Y] + mixed[j][X, Y]
        out[j] = f
    result = hl.Func("result")
    result[X, Y] = hl.clamp(out[0][X, Y], 0.0, 1.0)
    remap.compute_root()
    for f in [gray] + g[1:] + own[1:] + out[1:]:
        f.compute_root().vectorize(X, LANES).parallel(Y)
    result.vectorize(X, LANES).parallel(Y)
    return result, [image]


PIPELINES = {"chain_roots": chain_roots, "chain_strips": chain_strips, "pyramid": pyramid}


def main():
    target = hl.get_host_target()
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            name = line.strip()
            out, arguments = PIPELINES[name]()
            start = time.perf_counter()
            out.compile_to_object(os.path.join(folder, name + ".o"), arguments, name, target)
            print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
