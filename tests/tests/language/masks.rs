//! Grids of which little is free: what lies far from it is skipped.

use super::{agrees, options};
use sumsq::{NamedArray, Precision, Preconditioner, Solver};
use sumsq_tests::{Random, bind, bits, doubles, solve};

const W: usize = 181;
const H: usize = 43;

/// A computed array that another one reads, a loss, an instance far out that reads one free element alone.
const BLOBS: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W,H}, 0)
    local A = Array("A", opt_float, {W,H}, 1)
    local M = Array("M", uint8, {W,H}, 2)
    Exclude(eq(M(0,0), 0))
    local S = ComputedArray("S", {W,H}, X(0,0) * X(0,0) - 0.5 * X(3,0))
    local T = ComputedArray("T", {W,H}, S(0,0) * S(-2,1) + A(0,0))
    Energy(X(0,0) - A(0,0))
    Energy(Select(InBounds(0,0), 0.3 * (T(0,0) - T(0,-2)), 0))
    Residual{name="robust", loss=Cauchy(0.5), S(0,0) - S(-1,0), X(0,0) * X(5,0)}
"#;

/// Free: two discs and one element, `shift` to the right.
fn blobs(shift: usize) -> Vec<NamedArray> {
    let mut random = Random::new(17);
    let disc = |x: usize, y: usize, at: [usize; 2], radius: usize| {
        x.abs_diff(at[0] + shift).pow(2) + y.abs_diff(at[1]).pow(2) <= radius.pow(2)
    };
    let free = |x, y| disc(x, y, [30, 12], 7) || disc(x, y, [37, 20], 4) || disc(x, y, [120, 35], 0);
    let mask = (0..W * H).map(|i| f64::from(u8::from(free(i % W, i / W)))).collect();
    vec![
        doubles("X", &[H, W], random.numbers(W * H)),
        doubles("A", &[H, W], random.numbers(W * H)),
        doubles("M", &[H, W], mask),
    ]
}

#[test]
fn blobs_on_a_wide_grid() {
    // The last one is cut off by the border.
    for shift in [0, 40, 146] {
        agrees(BLOBS, &blobs(shift));
    }
}

#[test]
fn a_volume() {
    let text = r#"
        local W, H, D = Dim("W", 0), Dim("H", 1), Dim("D", 2)
        local X = Unknown("X", opt_float2, {W,H,D}, 0)
        local A = Array("A", opt_float2, {W,H,D}, 1)
        Exclude(less(A(0,0,0,1), 0.93))
        local S = ComputedArray("S", {W,H,D}, X(0,0,0,0) * X(1,0,-1,1))
        Energy(X(0,0,0) - A(0,0,0))
        Energy(0.2 * (S(0,0,0) - S(0,1,0)))
    "#;
    let (w, h, d) = (67, 7, 9);
    let mut random = Random::new(18);
    let mut numbers = |n| random.numbers(n);
    agrees(
        text,
        &[
            doubles("X", &[d, h, w, 2], numbers(2 * w * h * d)),
            doubles("A", &[d, h, w, 2], numbers(2 * w * h * d)),
        ],
    );
}

/// A graph into the grid keeps everything from being skipped; this one has no residuals.
#[test]
fn skipping_changes_no_bit() {
    let whole = format!("{BLOBS}\nlocal G = Graph(\"G\", 3, \"v\", {{W,H}}, 4)");
    for precision in [Precision::Mixed, Precision::F32, Precision::F64] {
        let options = options(precision, Preconditioner::Auto);
        let outcome = |text: &str, arrays: &[NamedArray]| {
            let (energy, mut data) = bind(text, arrays);
            let report = solve(&energy, &mut data, &options);
            let energies: Vec<u64> = report.iterations.iter().map(|i| i.energy.to_bits()).collect();
            assert!(report.iterations.iter().filter(|i| i.accepted).count() >= 2, "{report:?}");
            (bits(&data), energies)
        };
        let mut arrays = blobs(0);
        let skipped = outcome(BLOBS, &arrays);
        arrays.push(sumsq_tests::indices("G.v", 2, vec![1, 1]));
        assert!(skipped == outcome(&whole, &arrays), "{precision:?}");
    }
}

/// Values that a solve left in buffers where nothing is free any more, or now is, do not matter.
#[test]
fn the_free_part_moves() {
    let options = options(Precision::Mixed, Preconditioner::Auto);
    let (energy, start) = bind(BLOBS, &blobs(0));
    let solver = Solver::compile(energy, &options.compile).unwrap();
    let mut problem = solver.plan(&start).unwrap();
    for shift in [0, 40, 3, 0] {
        let (energy, mut fresh) = bind(BLOBS, &blobs(shift));
        let mut data = fresh.clone();
        problem.set_arrays(&data).unwrap();
        let report = problem.solve(&mut data, &options.solve).unwrap();
        assert!(report.iterations.iter().any(|i| i.accepted), "{report:?}");
        let expected = solve(&energy, &mut fresh, &options);
        assert_eq!(report.energy_final, expected.energy_final, "{shift}");
        assert!(bits(&data) == bits(&fresh), "{shift}");
    }
}

/// Elements far out that only a view's sample reads keep their x.
#[test]
fn a_view_sampled_far_from_what_is_free() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local V = Array("V", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local M = Array("M", uint8, {W,H}, 2)
        Exclude(eq(M(0,0), 0))
        local S = SampledImage(V)
        Energy((1 + S(180 - Index(0), Index(1))) * X(0,0) - A(0,0))
        Energy(0.2 * (X(0,0) - X(1,0)))
    "#;
    agrees(text, &blobs(0));
}

/// A quotient is rounded once where equality is asked for.
#[test]
fn a_condition_on_a_quotient_is_exact() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", opt_float, {W,H}, 1)
        local p = Param("p", opt_float, 2)
        Exclude(eq(A(0,0) / p, 1))
        Energy(X(0,0) / p - Select(eq(A(0,0) / p, 3), 5, A(0,0)))
        Energy(X(0,0) - X(1,0))
    "#;
    let (w, h) = (49, 5);
    let mut random = Random::new(19);
    // Times the reciprocal of 49, 49 is less than 1.
    let values: Vec<f64> = (0..w * h).map(|i| [49.0, 147.0, 12.0, 98.0][i % 4]).collect();
    let param = doubles("p", &[], vec![49.0]);
    let x = doubles("X", &[h, w], random.numbers(w * h));
    let arrays = [x, doubles("A", &[h, w], values), param];
    agrees(text, &arrays);
    let (energy, mut data) = bind(text, &arrays);
    let report = solve(&energy, &mut data, &options(Precision::Mixed, Preconditioner::Auto));
    assert_eq!(report.unknowns, (0..w * h).filter(|i| i % 4 != 0).count());
}
