//! Systems without a unique solution, and ones at the end of float32's range: solved like any other, in every precision.

use sumsq::matrix_free::preconditioner::kinds;
use sumsq::{
    CompileOptions, Method, NamedArray, Options, Precision, Preconditioner, Report, SolveOptions, Solver,
};
use sumsq_tests::{Random, bind, doubles, made_fast, solve};

const PRECISIONS: [Precision; 3] = [Precision::F64, Precision::Mixed, Precision::F32];

/// LM and Gauss-Newton bring E below `share` of its start under every preconditioner that the energy can have.
#[track_caller]
fn vanishes(text: &str, arrays: &[NamedArray], share: [f64; 3]) {
    vanishes_and(text, arrays, share, &|_, _, _| {});
}

/// Further claims on a solve: on its report, and on the unknowns before and behind it.
type Also<'a> = &'a dyn Fn(&Report, &[f64], &[f64]);

#[track_caller]
fn vanishes_and(text: &str, arrays: &[NamedArray], share: [f64; 3], also: Also) {
    let (energy, data) = bind(text, arrays);
    let kinds = Preconditioner::ALL.iter().map(|(kind, _)| *kind).filter(|k| *k != Preconditioner::Auto);
    for preconditioner in kinds.filter(|kind| kinds::chosen(*kind, &energy).is_ok()) {
        for (precision, share) in PRECISIONS.into_iter().zip(share) {
            let compiled = CompileOptions {
                precision,
                preconditioner,
                limits: made_fast(),
                ..CompileOptions::default()
            };
            let solver = Solver::compile(energy.clone(), &compiled).unwrap();
            for method in [Method::LevenbergMarquardt, Method::GaussNewton] {
                let options = SolveOptions {
                    method,
                    iterations: Some(10),
                    function_tolerance: Some(0.0),
                    ..SolveOptions::default()
                };
                let (before, mut data) = (data.x(), data.clone());
                let report = solver.plan(&data).unwrap().solve(&mut data, &options).unwrap();
                let what = format!("{precision:?}, {preconditioner:?}, {method:?}");
                assert!(report.energy_final <= share * report.energy_initial, "{what}: {report:?}");
                // Nothing is flung along directions that no residual sees.
                let far = before.iter().zip(&data.x()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far <= 20.0, "{what}: some unknown moved by {far}");
                also(&report, &before, &data.x());
            }
        }
    }
}

/// One residual sees two unknowns of an element: every block has rank one.
#[test]
fn blocks_of_rank_one() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        local A = Array("A", opt_float2, {N}, 1)
        local B = Array("B", opt_float, {N}, 2)
        Energy(X(0):dot(A(0)) - B(0))
    "#;
    let (n, mut random) = (1000, Random::new(1));
    // Directions of length at least 1.
    let a = random.numbers(2 * n).iter().map(|a| a + a.signum()).collect();
    let arrays = [
        doubles("X", &[n, 2], random.numbers(2 * n)),
        doubles("A", &[n, 2], a),
        doubles("B", &[n], random.numbers(n)),
    ];
    vanishes(text, &arrays, [1e-20, 1e-20, 1e-8]);
}

/// Differences alone: constants are in the null space.
#[test]
fn differences_only() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float3, {W,H}, 0)
        Energy(X(0,0) - X(1,0), X(0,0) - X(0,1))
    "#;
    let (w, h) = (19, 13);
    vanishes(text, &[doubles("X", &[h, w, 3], Random::new(2).numbers(w * h * 3))], [1e-15, 1e-15, 1e-8]);
}

/// Numbers as the narrowest precision has them.
fn in_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// Islands of a grid that nothing holds in place, elements that no residual sees, and excluded ones, of which a block holds all children of
/// some coarser elements; data are no numbers there.
#[test]
fn islands_that_float_freely() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local M = Array("M", opt_float, {W,H}, 1)
        local D = Array("D", opt_float, {W,H}, 2)
        Exclude(greater(M(0,0), 1.5))
        Energy(Select(less(M(0,0) + M(1,0), 0.5), X(0,0) - X(1,0), 0))
        Energy(Select(less(M(0,0) + M(0,1), 0.5), X(0,0) - X(0,1), 0))
        Energy(D(0,0) * Select(less(M(0,0), 0.5), X(0,0,0) - X(0,0,1), 0))
    "#;
    let (w, h, mut random) = (45, 31, Random::new(3));
    let kind = |i: usize| match (i % w, i / w) {
        (24 | 25, _) | (8..19, 4..15) => 2.0,
        (x, y) if (x * 7 + y * 5) % 37 == 0 => 1.0,
        _ => 0.0,
    };
    let kinds: Vec<f64> = (0..w * h).map(kind).collect();
    let data = kinds.iter().map(|&k| if k == 2.0 { f64::NAN } else { 1.0 }).collect();
    let arrays = [
        doubles("X", &[h, w, 2], random.numbers(2 * w * h)),
        doubles("M", &[h, w], kinds.clone()),
        doubles("D", &[h, w], data),
    ];
    let floating = kinds.iter().filter(|&&k| k == 1.0).count();
    vanishes_and(text, &arrays, [1e-15, 1e-15, 1e-8], &|report, before, after| {
        assert_eq!(report.unconstrained, 2 * floating);
        for (i, kind) in kinds.iter().enumerate().filter(|(_, kind)| **kind > 0.0) {
            let (before, after) = (&before[2 * i..2 * i + 2], &after[2 * i..2 * i + 2]);
            assert_eq!(in_f32(before), in_f32(after), "{kind} at {i}");
        }
    });
}

/// Columns of J between 1 and 1e-100: beyond what float32 can square, or hold at all.
#[test]
fn columns_that_underflow() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        Energy(exp(-X(0) * X(0)) - 0.5)
    "#;
    let arrays = [doubles("X", &[4, 2], vec![1.0, 0.5, 9.5, 0.7, 0.9, 15.0, 1.1, 6.5])];
    for precision in PRECISIONS {
        for preconditioner in [Preconditioner::Jacobi, Preconditioner::BlockJacobi] {
            let (energy, mut data) = bind(text, &arrays);
            let options = Options {
                compile: CompileOptions { precision, preconditioner, ..CompileOptions::default() },
                solve: SolveOptions {
                    iterations: Some(30),
                    function_tolerance: Some(0.0),
                    ..SolveOptions::default()
                },
            };
            let report = solve(&energy, &mut data, &options);
            // Three residuals stay at 0.5^2, the others vanish.
            assert!(
                (report.energy_final - 0.75).abs() < 1e-5,
                "{precision:?}, {preconditioner:?}: {report:?}"
            );
            let gn =
                Options { solve: SolveOptions { method: Method::GaussNewton, ..options.solve }, ..options };
            let (_, mut data) = bind(text, &arrays);
            let report = solve(&energy, &mut data, &gn);
            assert!(report.failure().is_none(), "{precision:?}, {preconditioner:?}: {report:?}");
            assert!(
                (report.energy_final - 0.75).abs() < 1e-5,
                "{precision:?}, {preconditioner:?}: {report:?}"
            );
        }
    }
}

/// Values of excluded elements say nothing of how small a step is.
#[test]
fn excluded_elements_are_no_part_of_the_step_test() {
    let text = r#"
        local W = Dim("W", 0)
        local X = Unknown("X", opt_float, {W}, 0)
        local A = Array("A", opt_float, {W}, 1)
        Exclude(less(A(0), 0))
        Energy(Select(less(A(0), 0), 0, X(0) * X(0) - A(0)))
    "#;
    let options = Options {
        solve: SolveOptions {
            iterations: Some(40),
            function_tolerance: Some(0.0),
            ..SolveOptions::default()
        },
        ..Options::default()
    };
    let last = |held: f64| {
        let arrays =
            [doubles("X", &[4], vec![1.0, 2.0, held, 1.0]), doubles("A", &[4], vec![3.0, 2.0, -1.0, 5.0])];
        let (energy, mut data) = bind(text, &arrays);
        let report = solve(&energy, &mut data, &options);
        assert_eq!(data.unknowns()[0][2], held);
        (report.energy_final, report.iterations.len())
    };
    assert_eq!(last(0.0), last(-1e12));
    assert!(last(-1e12).0 < 1e-20);
}
