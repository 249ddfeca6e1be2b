//! Reference cases, solved to their listed minima with the options of their tests on the CPU.

use sumsq::{Backend, CompileOptions, Report, SolveOptions, Solver};
use sumsq_tests::{Case, assert_close};

/// The full size, whose minimum is listed nowhere, and the E that it is to reach.
const FULL: (&str, f64) = ("image_warping", 80.0);

pub fn case(name: &str) {
    let case = Case::open(name);
    let reports: Vec<Report> = case.radii().iter().map(|&radius| solved(&case, radius)).collect();
    let best = reports.iter().map(|r| r.energy_final).fold(f64::INFINITY, f64::min);
    if name == FULL.0 {
        assert!(best <= FULL.1, "{name}: E = {best}");
        return;
    }
    let listed = case.minimum();
    println!("{name}: E = {best:.9e} ({:+.1e})", best / listed - 1.0);
    assert!(best <= listed * (1.0 + 1e-4), "{name}: E = {best}, listed {listed}");
}

fn solved(case: &Case, radius: f64) -> Report {
    let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
    let mut solve = SolveOptions {
        iterations: Some(120),
        function_tolerance: Some(0.0),
        radius: Some(radius),
        ..SolveOptions::default()
    };
    if case.name == FULL.0 {
        solve = SolveOptions { iterations: Some(60), forcing: 1e-3, linear_iterations: Some(2000), ..solve };
    }
    let solver = Solver::compile(case.energy.clone(), &compile).unwrap_or_else(|e| panic!("{e}"));
    let mut data = case.data();
    let mut problem = solver.plan(&data).unwrap_or_else(|e| panic!("{e}"));
    let report = problem.solve(&mut data, &solve).unwrap_or_else(|e| panic!("{e}"));
    println!(
        "R0 = {radius:e}: E = {:e} after {} steps, {} PCG iterations, {:.3} s, {:?}",
        report.energy_final,
        report.iterations.len(),
        report.linear_iterations_total,
        report.seconds.solve,
        report.termination
    );
    assert_close("initial energy", report.energy_initial, case.number("/energy_initial"), 1e-9);
    let mut energy = report.energy_initial;
    for step in &report.iterations {
        assert!(if step.accepted { step.energy < energy } else { step.energy == energy }, "{step:?}");
        energy = step.energy;
    }
    report
}
