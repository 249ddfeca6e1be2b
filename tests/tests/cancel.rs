//! A time limit and a request end a solve within one linear solve, with the unknowns of the last good step.

use std::sync::mpsc;
use std::time::{Duration, Instant};
use sumsq::assembled::{self, LinearSolver};
use sumsq::energy::Energy;
use sumsq::{Cancel, CompileOptions, Preconditioner, ProblemData, Report, SolveOptions, Solver, Termination};
use sumsq_tests::{bind, bits, doubles};

/// A chain whose ends hardly know of each other: PCG takes as many iterations as it has elements.
const CHAIN: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", opt_float, {N}, 0)
    local A = Array("A", opt_float, {N}, 1)
    Energy(0.0001 * (X(0) - A(0)), X(0) - X(1))
"#;

fn chain(n: usize) -> (Energy, ProblemData<'static>) {
    let values = (0..n).map(|i| (i % 7) as f64).collect();
    bind(CHAIN, &[doubles("X", &[n], vec![0.5; n]), doubles("A", &[n], values)])
}

/// One linear solve without an end.
fn endless() -> SolveOptions {
    SolveOptions {
        linear_tolerance: Some(1e-300),
        linear_iterations: Some(1 << 40),
        ..SolveOptions::default()
    }
}

/// Needs thousands of iterations, where multigrid comes to the end of the digits.
fn jacobi() -> CompileOptions {
    CompileOptions { preconditioner: Preconditioner::Jacobi, ..CompileOptions::default() }
}

/// Solves until a request that comes `after` the start; returns the report and the time from the request to the end.
fn cancelled(after: Duration, solve: impl FnOnce(SolveOptions) -> Report + Send) -> (Report, Duration) {
    let cancel = Cancel::default();
    let options = SolveOptions { cancel: Some(cancel.clone()), ..endless() };
    let (done, finished) = mpsc::channel();
    std::thread::scope(|s| {
        s.spawn(move || drop(done.send(solve(options))));
        std::thread::sleep(after);
        let asked = Instant::now();
        cancel.cancel();
        let report = finished.recv().unwrap();
        (report, asked.elapsed())
    })
}

/// Far more than an iteration, far less than the linear solve.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_request_from_another_thread_ends_one_long_linear_solve() {
    let (energy, mut data) = chain(1 << 20);
    let before = bits(&data);
    let solver = Solver::compile(energy, &jacobi()).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let (report, late) =
        cancelled(Duration::from_millis(300), |options| problem.solve(&mut data, &options).unwrap());
    assert_eq!(report.termination, Termination::Interrupted);
    assert!(late < SOON, "{late:?}");
    assert_eq!(bits(&data), before, "the last good unknowns");
    assert_eq!((report.iterations.len(), report.energy_final), (0, report.energy_initial));
    assert!(report.to_string().ends_with("ended by request, not by convergence: E may fall further\n"));

    // The problem can be solved again; a request that stands ends it at once.
    let cancel = Cancel::default();
    cancel.cancel();
    let options = SolveOptions {
        cancel: Some(cancel.clone()),
        iterations: Some(1),
        linear_iterations: Some(5),
        ..SolveOptions::default()
    };
    assert_eq!(problem.solve(&mut data, &options).unwrap().termination, Termination::Interrupted);
    cancel.reset();
    let report = problem.solve(&mut data, &options).unwrap();
    assert!(report.energy_final < report.energy_initial);
    assert_eq!(report.termination, Termination::MaxIterations);
}

#[test]
fn a_time_limit_ends_one_long_linear_solve() {
    let (energy, mut data) = chain(1 << 20);
    let before = bits(&data);
    let solver = Solver::compile(energy, &jacobi()).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let options = SolveOptions { max_time: Some(Duration::from_millis(300)), ..endless() };
    let started = Instant::now();
    let report = problem.solve(&mut data, &options).unwrap();
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    assert_eq!((report.termination, report.iterations.len()), (Termination::MaxSeconds, 0));
    assert_eq!(bits(&data), before);
}

#[test]
fn the_assembled_path_is_ended_likewise() {
    let (energy, mut data) = chain(1 << 17);
    let before = bits(&data);
    let mut solve = |options: SolveOptions| {
        let compiled = CompileOptions::default();
        assembled::solve(&energy, &mut data, &compiled, &options, LinearSolver::Cg).unwrap()
    };
    let (report, late) = cancelled(Duration::from_millis(700), &mut solve);
    assert_eq!((report.termination, report.iterations.len()), (Termination::Interrupted, 0));
    assert!(late < SOON, "{late:?}");
    let report = solve(SolveOptions { max_time: Some(Duration::from_millis(700)), ..endless() });
    assert_eq!((report.termination, report.iterations.len()), (Termination::MaxSeconds, 0));
    assert_eq!(bits(&data), before);
}
