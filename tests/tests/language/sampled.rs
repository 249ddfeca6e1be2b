//! Sampled images.

use super::agrees;
use sumsq::{CompileOptions, Options, Precision, SolveOptions};
use sumsq_tests::{Random, assert_close, bind, doubles, solve};

const W: usize = 29;
const H: usize = 19;

#[test]
fn at_unknowns_slices_and_outside() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float2, {W,H}, 1)
        local I = Array("I", opt_float6, {W,H}, 2)
        local S = SampledImage(Slice(I, 0, 2), Slice(I, 2, 4), Slice(I, 4, 6))
        local R = SampledImage(A)
        local i, j = Index(0), Index(1)
        Energy(S(i + X(0,0,0), j + X(0,0,1)) - A(0,0))
        Energy(0.7 * S(i + 40 * X(0,0,0), j - X(0,0,1) * X(0,0,0), 1))
        Energy(R(i * 0.5 + 0.25, j - 3.75, 1) * X(0,0,0), R(j, i)(0) + X(0,0,1))
        Energy(0.3 * (X(0,0) - X(1,0)), 0.3 * (X(0,0) - X(0,1)))
        local C = ComputedArray("C", {W,H}, S(i + X(0,0,1), j + 0.5, 0))
        Energy(C(0,0) - C(1,0))
    "#;
    let mut random = Random::new(21);
    agrees(
        text,
        &[
            doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
            doubles("A", &[H, W, 2], random.numbers(2 * W * H)),
            doubles("I", &[H, W, 6], random.numbers(6 * W * H)),
        ],
    );
}

#[test]
fn lines_volumes_and_images_of_another_space() {
    let text = r#"
        local N, U, V, D = Dim("N", 0), Dim("U", 1), Dim("V", 2), Dim("D", 3)
        local X = Unknown("X", opt_float3, {N}, 0)
        local T = Unknown("T", opt_float2, {}, 1)
        local L = Array("L", opt_float2, {U}, 2)
        local B = Array("B", opt_float4, {U,V,D}, 3)
        local line = SampledImage(Slice(L, 0, 1), Slice(L, 1, 2))
        local block = SampledImage(Slice(B, 0, 1), Slice(B, 1, 2), Slice(B, 2, 3), Slice(B, 3, 4))
        Energy(line(5 + 4 * X(0,0) + T(0)) - 0.2)
        Energy(block(3 + X(0,0), 2 + 2 * X(0,1), 1 + X(0,2) * T(1)) - 0.1)
        Energy(X(0), T() - 0.4)
    "#;
    let (n, u, v, d) = (43, 11, 7, 5);
    let mut random = Random::new(22);
    agrees(
        text,
        &[
            doubles("X", &[n, 3], random.numbers(3 * n)),
            doubles("T", &[2], random.numbers(2)),
            doubles("L", &[u, 2], random.numbers(2 * u)),
            doubles("B", &[d, v, u, 4], random.numbers(4 * u * v * d)),
        ],
    );
}

/// A pixel that no guard lets through is never seen, whatever it holds.
#[test]
fn nan_does_not_leak_where_it_is_not_read() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local I = Array("I", opt_float3, {W,H}, 2)
        local S = SampledImage(Slice(I, 0, 1), Slice(I, 1, 2), Slice(I, 2, 3))
        local i, j = Index(0), Index(1)
        local known = And(greater(i, 6), less(i, 20))
        local C = ComputedArray("C", {W,H}, Select(known, S(i + 0.2 * X(0,0,0), j + X(0,0,1)), 0))
        Energy(Select(known, S(i + X(0,0,0), j + X(0,0,1)) - 0.1, 0))
        Energy(Select(eq(A(0,0), A(0,0)), A(0,0) * X(0,0,0), 0))
        Energy(X(0,0), C(0,0) - C(0,1))
    "#;
    let mut random = Random::new(23);
    let mut image = random.numbers(3 * W * H);
    image
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| (i / 3) % W < 5 || (i / 3) % W > 22)
        .for_each(|(_, v)| *v = f64::NAN);
    let mut a = random.numbers(W * H);
    a.iter_mut().step_by(3).for_each(|v| *v = f64::NAN);
    agrees(
        text,
        &[
            doubles("X", &[H, W, 2], random.numbers(2 * W * H)),
            doubles("A", &[H, W], a),
            doubles("I", &[H, W, 3], image),
        ],
    );
}

/// A ramp is its own interpolation: the unknown that samples it at a wanted height is known. Outside, every tap is 0.
#[test]
fn a_ramp_is_followed_exactly() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local I, dI = Array("I", opt_float, {N}, 1), Array("dI", opt_float, {N}, 2)
        local S = SampledImage(I, dI)
        Energy(Select(And(greater(Index(0), 1), less(Index(0), 28)), S(Index(0) + X(0)) - (3 * Index(0) + 2), X(0)))
        Energy(Select(eq(Index(0), 0), S(X(0) - 7.5) - 5, 0))
    "#;
    let n = 31;
    let ramp = (0..n).map(|i| 3.0 * i as f64).collect();
    let arrays =
        [doubles("X", &[n], vec![0.0; n]), doubles("I", &[n], ramp), doubles("dI", &[n], vec![3.0; n])];
    let (energy, mut data) = bind(text, &arrays);
    let options = Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions { iterations: Some(10), ..SolveOptions::default() },
    };
    let report = solve(&energy, &mut data, &options);
    // The last term samples left of the image all along.
    assert_close("energy", report.energy_final, 25.0, 1e-9);
    for (i, x) in data.unknowns()[0].iter().enumerate() {
        let expected = if (2..28).contains(&i) { 2.0 / 3.0 } else { 0.0 };
        assert!((x - expected).abs() < 1e-6, "x[{i}] = {x}");
    }
}
