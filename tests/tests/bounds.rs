//! Box bounds: results are feasible to the bit, stationary in the box, the same on both paths, and E never rises.

use sumsq::assembled::{Explicit, LinearSolver};
use sumsq::energy::model::Energy;
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::{
    CompileOptions, Control, Method, NamedArray, Options, Precision, Preconditioner, ProblemData, Report,
    SolveOptions, Solver, assembled,
};
use sumsq_tests::{Random, assert_close, bind, bits, doubles, solve};

/// A banded linear system; x in [L, U].
const BANDED: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float, {N}, 0)
    local C = Array("C", opt_float3, {N}, 1)
    local B = Array("B", opt_float, {N}, 2)
    local L, U = Array("L", opt_float, {N}, 3), Array("U", opt_float, {N}, 4)
    Energy(InBounds(0) * (C(0,0) * X(-1) + C(0,1) * X(0) + C(0,2) * X(1) - B(0)))
    Bounds(X, L(0), U(0))
"#;

/// The dense J and b of [`BANDED`], and its inputs.
struct Banded {
    j: Vec<Vec<f64>>,
    b: Vec<f64>,
    lower: Vec<f64>,
    upper: Vec<f64>,
    arrays: Vec<NamedArray>,
}

fn banded(n: usize, seed: u64, lower: Vec<f64>, upper: Vec<f64>) -> Banded {
    let mut random = Random::new(seed);
    let (c, b) = (random.numbers(3 * n), random.numbers(n));
    let mut j = vec![vec![0.0; n]; n];
    for i in 0..n {
        for k in 0..3 {
            if let Some(row) = (i + k).checked_sub(1).filter(|&column| column < n) {
                j[i][row] = c[3 * i + k];
            }
        }
    }
    let arrays = vec![
        doubles("X", &[n], random.numbers(n)),
        doubles("C", &[n, 3], c),
        doubles("B", &[n], b.clone()),
        doubles("L", &[n], lower.clone()),
        doubles("U", &[n], upper.clone()),
    ];
    Banded { j, b, lower, upper, arrays }
}

impl Banded {
    /// J^T (J x - b).
    fn gradient(&self, x: &[f64]) -> Vec<f64> {
        let n = x.len();
        let r = |i: usize| (0..n).map(|k| self.j[i][k] * x[k]).sum::<f64>() - self.b[i];
        let r: Vec<f64> = (0..n).map(r).collect();
        (0..n).map(|k| (0..n).map(|i| self.j[i][k] * r[i]).sum()).collect()
    }

    /// The minimum by projected coordinate descent, which converges where J^T J is positive definite.
    fn minimum(&self) -> Vec<f64> {
        let n = self.b.len();
        let mut x: Vec<f64> = (0..n).map(|i| 0.0f64.max(self.lower[i]).min(self.upper[i])).collect();
        let gram = |i: usize, k: usize| (0..n).map(|row| self.j[row][i] * self.j[row][k]).sum::<f64>();
        let a: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|k| gram(i, k)).collect()).collect();
        let zero = self.gradient(&vec![0.0; n]);
        for _ in 0..1_000_000 {
            let mut moved = 0.0f64;
            for i in 0..n {
                let g: f64 = zero[i] + (0..n).map(|k| a[i][k] * x[k]).sum::<f64>();
                let new = (x[i] - g / a[i][i]).max(self.lower[i]).min(self.upper[i]);
                moved = moved.max((new - x[i]).abs());
                x[i] = new;
            }
            if moved < 1e-15 {
                break;
            }
        }
        x
    }

    fn energy(&self, x: &[f64]) -> f64 {
        let n = x.len();
        (0..n).map(|i| ((0..n).map(|k| self.j[i][k] * x[k]).sum::<f64>() - self.b[i]).powi(2)).sum()
    }
}

fn precise() -> Options {
    Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions {
            iterations: Some(300),
            function_tolerance: Some(0.0),
            linear_tolerance: Some(1e-12),
            ..SolveOptions::default()
        },
    }
}

/// Inside of [lower, upper], to the bit.
#[track_caller]
fn assert_feasible(x: &[f64], lower: &[f64], upper: &[f64]) {
    for (i, x) in x.iter().enumerate() {
        assert!(lower[i] <= *x && *x <= upper[i], "{i}: {x} in [{}, {}]", lower[i], upper[i]);
    }
}

/// P(x - g) - x is 0.
#[track_caller]
fn assert_stationary(x: &[f64], g: &[f64], lower: &[f64], upper: &[f64], tolerance: f64) {
    for i in 0..x.len() {
        let step = (x[i] - g[i]).max(lower[i]).min(upper[i]) - x[i];
        assert!(step.abs() <= tolerance, "{i}: {step:e}");
    }
}

#[track_caller]
fn assert_falls(report: &Report) {
    let mut before = report.energy_initial;
    for step in &report.iterations {
        assert!(step.energy <= before, "from {before} to {step:?}");
        before = step.energy;
    }
}

/// Every way to solve it in float64, with every preconditioner that it can have.
fn solve_all(energy: &Energy, data: &ProblemData, options: &Options) -> Vec<(String, Report, Vec<f64>)> {
    let mut all = Vec::new();
    let kinds = Preconditioner::ALL.iter().map(|(kind, _)| *kind).filter(|k| *k != Preconditioner::Auto);
    for preconditioner in kinds.filter(|kind| kinds::chosen(*kind, energy).is_ok()) {
        let options = Options {
            compile: CompileOptions { preconditioner, ..options.compile.clone() },
            ..options.clone()
        };
        let mut came = data.clone();
        let report = solve(energy, &mut came, &options);
        all.push((format!("generated, {preconditioner:?}"), report, came.x()));
        let mut came = data.clone();
        let report =
            assembled::solve(energy, &mut came, &options.compile, &options.solve, LinearSolver::Cg).unwrap();
        all.push((format!("explicit, {preconditioner:?}"), report, came.x()));
    }
    let mut came = data.clone();
    let report =
        assembled::solve(energy, &mut came, &options.compile, &options.solve, LinearSolver::Cholesky)
            .unwrap();
    all.push(("explicit, Cholesky".into(), report, came.x()));
    all
}

/// Non-negative least squares, and boxes of all kinds: against projected coordinate descent.
#[test]
fn a_linear_system_in_a_box() {
    let n = 37;
    for seed in 1..4 {
        let mut random = Random::new(100 + seed);
        let sides = random.numbers(2 * n);
        let boxes = [
            (vec![0.0; n], vec![f64::INFINITY; n]),
            (
                (0..n).map(|i| sides[i].min(sides[n + i])).collect(),
                (0..n)
                    .map(|i| if i % 5 == 0 { sides[i].min(sides[n + i]) } else { sides[i].max(sides[n + i]) })
                    .collect(),
            ),
        ];
        for (lower, upper) in boxes {
            let system = banded(n, seed, lower, upper);
            let (energy, data) = bind(BANDED, &system.arrays);
            let expected = system.energy(&system.minimum());
            for (what, report, x) in solve_all(&energy, &data, &precise()) {
                assert_feasible(&x, &system.lower, &system.upper);
                assert_stationary(&x, &system.gradient(&x), &system.lower, &system.upper, 1e-6);
                assert_close(&what, system.energy(&x), expected, 1e-9);
                assert_close(&what, report.energy_final, system.energy(&x), 1e-12);
                assert_falls(&report);
                let held = x.iter().zip(&system.lower).filter(|(x, l)| x == l).count();
                assert!(held > 3, "{what}: {held} at the lower bound");
            }
        }
    }
}

/// An image between two others, some of it fixed, one channel of two unknowns without bounds.
const IMAGE: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float2, {W,H}, 0)
    local Y = Unknown("Y", opt_float, {W,H}, 1)
    local A = Array("A", opt_float2, {W,H}, 2)
    local L, U = Array("L", opt_float2, {W,H}, 3), Array("U", opt_float2, {W,H}, 4)
    local M = Array("M", opt_float, {W,H}, 5)
    Exclude(M(0,0))
    Energy(0.3 * (X(0,0) - A(0,0)), X(0,0,0) * X(0,0,1) - Y(0,0), 0.1 * Y(0,0))
    Energy(X(0,0) - X(1,0), X(0,0) - X(0,1))
    Bounds(X, L(0,0), U(0,0))
"#;

fn image(w: usize, h: usize, seed: u64) -> Vec<NamedArray> {
    let mut random = Random::new(seed);
    let (a, b) = (random.numbers(2 * w * h), random.numbers(2 * w * h));
    let one = |f: fn(f64, f64) -> f64| -> Vec<f64> { a.iter().zip(&b).map(|(&a, &b)| f(a, b)).collect() };
    let mask = random.numbers(w * h).iter().map(|m| f64::from(u8::from(*m > 0.8))).collect();
    vec![
        doubles("X", &[h, w, 2], random.numbers(2 * w * h)),
        doubles("Y", &[h, w], random.numbers(w * h)),
        doubles("A", &[h, w, 2], random.numbers(2 * w * h).iter().map(|a| 2.0 * a).collect()),
        doubles("L", &[h, w, 2], one(f64::min)),
        doubles("U", &[h, w, 2], one(f64::max)),
        doubles("M", &[h, w], mask),
    ]
}

/// Asserts that the data's unknowns are a feasible, stationary point of [`IMAGE`]. Excluded elements stay where they were.
#[track_caller]
fn assert_image(energy: &Energy, before: &ProblemData, x: &[f64], tolerance: f64) {
    let problem = Explicit::new(energy, before).unwrap();
    let g = problem.scatter(&problem.gradient(x));
    let free = problem.scatter(&vec![1.0; problem.free()]);
    let start = before.x();
    let (lowers, uppers) = (before.array("L").unwrap(), before.array("U").unwrap());
    let n = lowers.len();
    for i in 0..x.len() {
        if free[i] == 0.0 {
            assert_eq!(x[i], start[i]);
            continue;
        }
        let (lower, upper) = if i < n { (lowers[i], uppers[i]) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        assert!(lower <= x[i] && x[i] <= upper, "{i}: {} in [{lower}, {upper}]", x[i]);
        let step = (x[i] - g[i]).max(lower).min(upper) - x[i];
        assert!(step.abs() <= tolerance, "{i}: {step:e}");
    }
}

#[test]
fn an_image_between_two_others() {
    let (energy, data) = bind(IMAGE, &image(23, 17, 5));
    let options = precise();
    let all = solve_all(&energy, &data, &options);
    let expected = all[0].1.energy_final;
    for (what, report, x) in &all {
        assert_image(&energy, &data, x, 1e-5);
        assert_falls(report);
        assert_close(what, report.energy_final, expected, 1e-9);
        assert!(report.warnings.iter().any(|w| w.contains("outside of their bounds")), "{what}");
        assert_eq!(report.unconstrained, 0);
    }
    // Narrower types: the same minimum, as far as they can say.
    for (precision, tolerance) in [(Precision::Mixed, 1e-7), (Precision::F32, 1e-4)] {
        let options = Options {
            compile: CompileOptions { precision, ..options.compile.clone() },
            solve: SolveOptions { function_tolerance: Some(1e-9), ..options.solve.clone() },
        };
        let mut came = data.clone();
        let report = solve(&energy, &mut came, &options);
        assert_falls(&report);
        assert_close("narrow", report.energy_final, expected, tolerance);
        if precision == Precision::Mixed {
            assert_image(&energy, &data, &came.x(), 1e-2);
        }
    }
}

/// The same problem through Gauss-Newton, whose steps are not judged: feasible, and at the end stationary.
#[test]
fn gauss_newton_stays_in_the_box() {
    let (energy, data) = bind(IMAGE, &image(9, 8, 6));
    let options = Options {
        solve: SolveOptions { method: Method::GaussNewton, iterations: Some(60), ..precise().solve },
        ..precise()
    };
    for (_, _, x) in solve_all(&energy, &data, &options) {
        assert_image(&energy, &data, &x, 1e-6);
    }
}

/// Two scalars that pull at each other: the Newton step, cut at x0 = 0, leads uphill. Minimum (0, 3) for c = (-10, 12).
const COUPLED: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float2, {N}, 0)
    local C = Array("C", opt_float2, {N}, 1)
    local d = X(0) - C(0)
    Energy(d(0) + 0.9 * d(1), math.sqrt(1 - 0.81) * d(1))
    Bounds(X, 0, 100)
"#;

#[test]
fn where_the_cut_step_leads_uphill_the_gradient_is_followed() {
    let n = 20;
    let c: Vec<f64> = (0..n).flat_map(|i| [-10.0 - i as f64, 12.0 + i as f64]).collect();
    let start: Vec<f64> = (0..n).flat_map(|_| [0.1, 1.0]).collect();
    let (energy, data) = bind(COUPLED, &[doubles("X", &[n, 2], start), doubles("C", &[n, 2], c.clone())]);
    for method in [Method::LevenbergMarquardt, Method::GaussNewton] {
        let options = Options { solve: SolveOptions { method, ..precise().solve }, ..precise() };
        for (what, report, x) in solve_all(&energy, &data, &options) {
            // Gauss-Newton would take the step uphill, too.
            assert!(report.iterations[0].energy < report.energy_initial, "{what}");
            for i in 0..n {
                assert_eq!(x[2 * i], 0.0, "{what}");
                assert_close(&what, x[2 * i + 1], c[2 * i + 1] + 0.9 * c[2 * i], 1e-6);
            }
        }
    }
}

/// A bounded global, with an expression of a param for a bound.
#[test]
fn a_global_in_a_box() {
    let text = r#"
        local N = Dim("N", 0)
        local T = Unknown("T", opt_float2, {}, 0)
        local A, B = Array("A", opt_float, {N}, 1), Array("B", opt_float, {N}, 2)
        local s = Param("s", opt_float, 3)
        Energy(T(0) * A(0) + T(1) - B(0))
        Bounds(T, Vector(-s, -1), Vector(s / 2, 1))
    "#;
    let n = 50;
    let a = Random::new(3).numbers(n);
    let b: Vec<f64> = a.iter().map(|a| 3.0 * a + 0.2).collect();
    let arrays = [
        doubles("T", &[2], vec![0.0, 0.0]),
        doubles("A", &[n], a.clone()),
        doubles("B", &[n], b.clone()),
        doubles("s", &[], vec![1.0]),
    ];
    let (energy, data) = bind(text, &arrays);
    // With the slope at its bound the other is the mean of what is left.
    let mean = a.iter().zip(&b).map(|(a, b)| b - 0.5 * a).sum::<f64>() / n as f64;
    // A small radius, the default of globals alone, would leave half of the digits to the noise of E.
    let options = Options { solve: SolveOptions { radius: Some(1e4), ..precise().solve }, ..precise() };
    for (what, _, x) in solve_all(&energy, &data, &options) {
        assert_eq!(x[0], 0.5, "{what}");
        assert_close(&what, x[1], mean, 1e-9);
    }
}

#[test]
fn bounds_that_leave_no_room_are_named() {
    let (mut lower, mut upper) = (vec![0.0; 8], vec![1.0; 8]);
    (lower[3], upper[3]) = (0.5, 0.25);
    let system = banded(8, 1, lower, upper);
    let (energy, data) = bind(BANDED, &system.arrays);
    let expected = "Bounds of `X`, element [3], channel 0: expected lower <= upper, came 0.5 and 0.25";
    let options = Options::default();
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let mut came = data.clone();
    let error = problem.solve(&mut came, &options.solve).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(bits(&came), bits(&data));
    let error =
        assembled::solve(&energy, &mut came, &options.compile, &options.solve, LinearSolver::Cg).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

/// The routines are certified without regard to bounds, and the plan has them again afterwards.
#[test]
fn a_certificate_holds_nothing() {
    let (energy, data) = bind(IMAGE, &image(9, 8, 7));
    let options = precise();
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let mut expected = data.clone();
    problem.solve(&mut expected, &options.solve).unwrap();
    let x = data.x();
    let certificate = problem.certify(&data, &x, &Random::new(9).numbers(x.len())).unwrap();
    assert!(certificate.passed(), "{:?}", certificate.failures());
    let mut came = data.clone();
    problem.solve(&mut came, &options.solve).unwrap();
    assert_eq!(bits(&came), bits(&expected));
}

/// Between steps the box may move: x follows it.
#[test]
fn a_box_that_moves_takes_x_along() {
    let n = 24;
    let before = banded(n, 4, vec![-0.1; n], vec![0.1; n]);
    let after = banded(n, 4, vec![0.2; n], vec![0.5; n]);
    let (energy, data) = bind(BANDED, &before.arrays);
    let options = precise();
    let solver = Solver::compile(energy.clone(), &options.compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let mut session = problem.init(&data, &options.solve).unwrap();
    session.step().unwrap();
    let mut came = data.clone();
    session.unknowns(&mut came).unwrap();
    assert_feasible(&came.unknowns()[0], &before.lower, &before.upper);
    came.update(&energy, &after.arrays[3..]).unwrap();
    session.set_arrays(&came).unwrap();
    session.run(&mut |_| Control::Continue).unwrap();
    session.unknowns(&mut came).unwrap();
    let (report, _) = session.finish();
    let x = &came.unknowns()[0];
    assert_feasible(x, &after.lower, &after.upper);
    assert_stationary(x, &after.gradient(x), &after.lower, &after.upper, 1e-6);
    assert!(report.warnings.iter().any(|w| w.starts_with("24 scalars of `X`")), "{:?}", report.warnings);
}
