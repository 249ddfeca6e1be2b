//! Levenberg-Marquardt on generated code, with the default options, on the reference cases.

use sumsq::assembled::LinearSolver;
use sumsq::{CompileOptions, Options, Precision, Report, SolveOptions, Solver, assembled};
use sumsq_tests::{Case, assert_close, bind, bits, doubles, solve};

fn lm() -> Options {
    Options {
        solve: SolveOptions {
            iterations: Some(120),
            function_tolerance: Some(0.0),
            ..SolveOptions::default()
        },
        ..Options::default()
    }
}

/// The energies of accepted steps fall strictly; rejected ones keep the old energy.
#[track_caller]
fn assert_falls(report: &Report) {
    let mut energy = report.energy_initial;
    for step in &report.iterations {
        assert!(if step.accepted { step.energy < energy } else { step.energy == energy }, "{step:?}");
        energy = step.energy;
    }
    assert_eq!(energy, report.energy_final);
}

/// LM in mixed precision reaches the listed minimum; `converged`: it is one, and the gradient there is as in float64.
fn minimum(name: &str, converged: bool) {
    let case = Case::open(name);
    let from = |&radius: &f64| {
        let options = Options { solve: SolveOptions { radius: Some(radius), ..lm().solve }, ..lm() };
        let report = solve(&case.energy, &mut case.data(), &options);
        assert_close("initial energy", report.energy_initial, case.number("/energy_initial"), 1e-9);
        assert_falls(&report);
        report
    };
    let reports = case.radii().iter().map(from);
    let report = reports.min_by(|a, b| a.energy_final.total_cmp(&b.energy_final)).unwrap();
    let (e, listed) = (report.energy_final, case.minimum());
    let steps = report.iterations.len();
    println!("{name}: E = {e:.9e} ({:+.1e}), {:?} after {steps}", e / listed - 1.0, report.termination);
    assert!(e <= listed * (1.0 + 1e-4), "{name}: E = {e}, listed {listed} ({:?})", report.termination);
    if converged {
        assert_close(name, e, listed, 1e-6);
        let f64 = Options { compile: CompileOptions { precision: Precision::F64, ..lm().compile }, ..lm() };
        let exact = solve(&case.energy, &mut case.data(), &f64);
        assert_falls(&exact);
        assert_close(name, exact.energy_final, listed, 1e-6);
        let [mixed, exact] = [&report, &exact].map(last_gradient);
        println!("{name}: max|g| = {mixed:.2e} in mixed, {exact:.2e} in f64");
        // Residuals with sines of several hundred keep some 13 digits, gradients no more of what they were at the start.
        let rounding = 1e-11 * report.iterations[0].gradient_max_norm;
        assert!(
            mixed <= rounding.max(10.0 * exact),
            "{name}: max|g| = {mixed} in mixed precision, {exact} in float64"
        );
    }
}

fn last_gradient(report: &Report) -> f64 {
    report.iterations.last().expect("at least one step").gradient_max_norm
}

macro_rules! cases {
    ($($test:ident $name:literal $converged:literal),* $(,)?) => { mod minimum { $(
        #[test]
        fn $test() { super::minimum($name, $converged); }
    )* } };
}

cases! {
    laplacian_small "laplacian_small" true,
    laplacian "laplacian" true,
    poisson_image_editing_small "poisson_image_editing_small" true,
    curve_fitting_small "curveFitting_small" true,
    curve_fitting "curveFitting" true,
    arap_hand "arap_hand" true,
    volumetric_mesh_deformation "volumetric_mesh_deformation" true,
    image_warping_small "image_warping_small" false,
    shape_from_shading_small "shape_from_shading_small" false,
    optical_flow_flower "optical_flow_flower" false,
}

#[test]
fn image_warping() {
    let case = Case::open("image_warping");
    let options = Options {
        solve: SolveOptions {
            iterations: Some(60),
            forcing: 1e-3,
            linear_iterations: Some(2000),
            function_tolerance: Some(0.0),
            ..lm().solve
        },
        ..lm()
    };
    let report = solve(&case.energy, &mut case.data(), &options);
    assert_close("initial energy", report.energy_initial, case.number("/energy_initial"), 1e-9);
    assert_falls(&report);
    println!("E = {} after {} steps", report.energy_final, report.iterations.len());
    assert!(report.energy_final <= 80.0, "E = {}", report.energy_final);
}

/// After a rejected step x is the old x, to the bit.
#[test]
fn rejected_steps_leave_no_trace() {
    let mut rejections = 0;
    for name in ["image_warping_small", "arap_hand", "curveFitting_small"] {
        let case = Case::open(name);
        let options = Options {
            solve: SolveOptions { iterations: Some(25), radius: Some(1e12), ..lm().solve },
            ..lm()
        };
        let solver = Solver::compile(case.energy.clone(), &options.compile).unwrap();
        let mut data = case.data();
        let mut problem = solver.plan(&data).unwrap();
        let mut session = problem.init(&data, &options.solve).unwrap();
        let mut before = bits(&data);
        for taken in 1..=options.solve.iterations() {
            session.step().unwrap();
            let Some(step) = session.iterations().get(taken - 1) else { break };
            session.unknowns(&mut data).unwrap();
            let after = bits(&data);
            assert_eq!(before == after, !step.accepted, "{name}: {step:?}");
            rejections += usize::from(!step.accepted);
            before = after;
        }
    }
    assert!(rejections >= 3, "the test saw {rejections} rejections");
}

/// One step on r = 3 (x - a) with clamped damping, by hand: diag = 9 everywhere, D = clamp(9, 9 min, 9 max) / R. With and without a stored
/// diagonal, and by the assembled path.
#[test]
fn the_diagonal_is_clamped() {
    const RADIUS: f64 = 8.0;
    let plain = "Energy(3 * (X(0) - A(0)))";
    let masked = "Exclude(eq(A(0), 0))\nEnergy(3 * (X(0) - A(0)))";
    for body in [plain, masked] {
        let text = format!(
            "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {{N}}, 0)\nlocal A = Array(\"A\", opt_float, {{N}}, 1)\n{body}"
        );
        let arrays = [doubles("X", &[3], vec![0.0; 3]), doubles("A", &[3], vec![1.0, -2.0, 0.5])];
        for (min, max) in [(1e-6, 1e32), (2.0, 1e32), (1e-6, 0.25), (2.0, 0.125)] {
            let (energy, data) = bind(&text, &arrays);
            let options = Options {
                compile: CompileOptions { precision: Precision::F64, ..lm().compile },
                solve: SolveOptions {
                    iterations: Some(1),
                    linear_tolerance: Some(1e-14),
                    radius: Some(RADIUS),
                    min_lm_diagonal: min,
                    max_lm_diagonal: max,
                    ..lm().solve
                },
            };
            let d = 9.0 * f64::min(f64::max(1.0, min), max) / RADIUS;
            let expected = 9.0 * 5.25 * (1.0 - 9.0 / (9.0 + d)).powi(2);
            let report = solve(&energy, &mut data.clone(), &options);
            assert_close("generated", report.energy_final, expected, 1e-12);
            let report = assembled::solve(
                &energy,
                &mut data.clone(),
                &options.compile,
                &options.solve,
                LinearSolver::Cholesky,
            )
            .unwrap();
            assert_close("explicit", report.energy_final, expected, 1e-12);
        }
    }
}
