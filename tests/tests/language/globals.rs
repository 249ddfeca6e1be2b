//! Unknowns on no dims.

use super::{agrees, certified, options, steps_agree};
use sumsq::{CompileLimits, CompileOptions, Method, Options, Precision, Preconditioner, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles, indices, solve};

#[test]
fn beside_a_stencil() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local B = Array("B", opt_float, {W,H}, 2)
        local T = Unknown("T", opt_float2, {}, 3)
        local R = Unknown("R", opt_float, {}, 4)
        Exclude(greater(B(0,0), 0.7))
        Energy(A(0,0) * exp(T(0)) + T(1) + X(0,0) - B(0,0))
        Energy(2 * (X(0,0) - X(1,0)), R() * (X(0,0) - X(0,1)))
        Energy(0.1 * X(0,0))
        Energy(0.01 * T(), R() - 1)
        local S = ComputedArray("S", {W,H}, sin(R()) * X(0,0))
        Residual{loss=Huber(0.3), S(0,0) - S(-1,0), T(0) * A(0,0)}
    "#;
    let (w, h) = (35, 23);
    let mut random = Random::new(41);
    let arrays = [
        doubles("X", &[h, w], random.numbers(w * h)),
        doubles("A", &[h, w], random.numbers(w * h)),
        doubles("B", &[h, w], random.numbers(w * h)),
        doubles("T", &[2], random.numbers(2)),
        doubles("R", &[], random.numbers(1)),
    ];
    agrees(text, &arrays);
    certified(text, &arrays, Preconditioner::None, CompileLimits::default());
    steps_agree(text, &arrays, &options(Precision::F64, Preconditioner::None));
}

#[test]
fn beside_a_graph() {
    let text = r#"
        local N, E = Dim("N", 0), Dim("E", 1)
        local X = Unknown("X", opt_float2, {N}, 0)
        local T = Unknown("T", opt_float, {}, 1)
        local Wt = Array("Wt", opt_float, {E}, 2)
        local A = Array("A", opt_float2, {N}, 3)
        local G = Graph("G", 4, "v0", {N}, 5, "v1", {N}, 6, "e", {E}, 7)
        local S = ComputedArray("S", {N}, Vector(sin(X(0,0)) * T(), X(0,1) * X(0,0)))
        Energy(X(0) - A(0))
        Energy(Wt(G.e) * (Rotate2D(T(), X(G.v0)) - X(G.v1)))
        Energy(0.3 * (S(G.v0) - 2 * S(G.v1)))
    "#;
    let (n, e) = (61, 203);
    let mut random = Random::new(42);
    agrees(
        text,
        &[
            doubles("X", &[n, 2], random.numbers(2 * n)),
            doubles("T", &[], random.numbers(1)),
            doubles("Wt", &[e], random.numbers(e)),
            doubles("A", &[n, 2], random.numbers(2 * n)),
            indices("G.v0", 1, random.below(n, e)),
            indices("G.v1", 1, random.below(n, e)),
            indices("G.e", 1, (0..e as i64).collect()),
        ],
    );
}

#[test]
fn alone() {
    let text = r#"
        local N = Dim("N", 0)
        local T = Unknown("T", opt_float3, {}, 0)
        local R = Unknown("R", opt_float, {}, 1)
        local A = Array("A", opt_float2, {N}, 2)
        Energy(T(0) * exp(T(1) * A(0,0)) + T(2) - A(0,1))
        Energy(0.1 * R() * A(0,1) - R() * T(0))
    "#;
    let n = 1013;
    let mut random = Random::new(43);
    agrees(
        text,
        &[
            doubles("T", &[3], random.numbers(3)),
            doubles("R", &[], random.numbers(1)),
            doubles("A", &[n, 2], random.numbers(2 * n)),
        ],
    );
}

/// A straight line through noisy points, by the normal equations.
#[test]
fn linear_regression() {
    let text = r#"
        local N = Dim("N", 0)
        local T = Unknown("T", opt_float2, {}, 0)
        local P = Array("P", opt_float2, {N}, 1)
        Energy(T(0) * P(0,0) + T(1) - P(0,1))
    "#;
    let n = 777;
    let points = Random::new(44).numbers(2 * n);
    let sum = |f: &dyn Fn(f64, f64) -> f64| points.chunks(2).map(|p| f(p[0], p[1])).sum::<f64>();
    let (sx, sy, sxx, sxy) = (sum(&|x, _| x), sum(&|_, y| y), sum(&|x, _| x * x), sum(&|x, y| x * y));
    let slope = (n as f64 * sxy - sx * sy) / (n as f64 * sxx - sx * sx);
    let offset = (sy - slope * sx) / n as f64;
    for preconditioner in [Preconditioner::None, Preconditioner::Jacobi, Preconditioner::BlockJacobi] {
        for (precision, tolerance) in
            [(Precision::F64, 1e-10), (Precision::Mixed, 1e-10), (Precision::F32, 1e-4)]
        {
            let arrays = [doubles("T", &[2], vec![3.0, -2.0]), doubles("P", &[n, 2], points.clone())];
            let (energy, mut data) = bind(text, &arrays);
            let options = Options {
                compile: CompileOptions { precision, preconditioner, ..CompileOptions::default() },
                solve: SolveOptions {
                    method: Method::GaussNewton,
                    iterations: Some(2),
                    linear_tolerance: Some(1e-12),
                    linear_iterations: Some(10),
                    ..SolveOptions::default()
                },
            };
            solve(&energy, &mut data, &options);
            assert_close("slope", data.unknowns()[0][0], slope, tolerance / slope.abs().min(1.0));
            assert_close("offset", data.unknowns()[0][1], offset, tolerance / offset.abs().min(1.0));
        }
    }
}
