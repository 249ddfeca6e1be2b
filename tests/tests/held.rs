//! Residuals that read excluded unknowns alone: no part of E, shown beside it.

use sumsq::{CompileOptions, Held, NamedArray, SolveOptions, Solver};
use sumsq_tests::{assert_close, bind, doubles};

/// A smooth curve through data, of which all from the fourth place on is held.
const CURVE: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float, {N}, 0)
    local A = Array("A", opt_float, {N}, 1)
    local M = Array("M", opt_float, {N}, 2)
    Exclude(greater(M(0), 0.5))
    Energy(X(0) - A(0), Select(InBounds(1), X(1) - X(0), 0))
"#;

/// The mask.
fn held(n: usize) -> NamedArray {
    doubles("M", &[n], (0..n).map(|i| f64::from(u8::from(i > 3))).collect())
}

#[test]
fn residuals_of_held_unknowns_stand_beside() {
    let x: Vec<f64> = (0..9).map(|i| f64::from(i * i % 7)).collect();
    let a: Vec<f64> = (0..9).map(|i| 0.5 * f64::from(i)).collect();
    let (energy, mut data) =
        bind(CURVE, &[doubles("X", &[9], x.clone()), doubles("A", &[9], a.clone()), held(9)]);
    let mut problem = Solver::compile(energy, &CompileOptions::default()).unwrap().plan(&data).unwrap();
    // Places 4 to 8 are held: five differences to data, four steps, and the one behind the end, which is 0.
    let expected: f64 = (4..9).map(|i: usize| (x[i] - a[i]).powi(2)).sum::<f64>()
        + (4..8).map(|i: usize| (x[i + 1] - x[i]).powi(2)).sum::<f64>();
    let before = problem.held(&data).unwrap();
    let e = problem.evaluate(&data).unwrap().energies.total;
    assert_close("E of held residuals", before.energy, expected, 1e-12);
    let all: f64 = (0..9).map(|i: usize| (x[i] - a[i]).powi(2)).sum::<f64>()
        + (0..8).map(|i: usize| (x[i + 1] - x[i]).powi(2)).sum::<f64>();
    assert_close("E and the rest", e + before.energy, all, 1e-12);
    // A solve neither changes them nor is changed by the question.
    let report = problem.solve(&mut data, &SolveOptions::default()).unwrap();
    assert!(report.energy_final < report.energy_initial);
    let after = problem.held(&data).unwrap();
    assert_eq!(after.residuals, before.residuals);
    assert_close("E of held residuals", after.energy, expected, 1e-12);
    assert_eq!(before.residuals, 10);
}

#[test]
fn without_excluded_unknowns_there_are_none() {
    let text = CURVE.replace("Exclude(greater(M(0), 0.5))", "");
    let (energy, data) =
        bind(&text, &[doubles("X", &[3], vec![1.0; 3]), doubles("A", &[3], vec![2.0; 3]), held(3)]);
    let mut problem = Solver::compile(energy, &CompileOptions::default()).unwrap().plan(&data).unwrap();
    assert_eq!(problem.held(&data).unwrap(), Held::default());
}
