//! `auto`: begins with block Jacobi, goes on with levels where they pay, and takes the same steps on any number of threads.

use sumsq::{CompileOptions, Precision, Preconditioner, ProblemData, Report, SolveOptions, Solver};
use sumsq_tests::hierarchies::{assert_same_bits, compiled, coupled, lattice_held};
use sumsq_tests::small::Small;
use sumsq_tests::{assert_vectors_close, bind, doubles};

fn options(threads: usize) -> CompileOptions {
    compiled(Preconditioner::Auto, Precision::Mixed, threads)
}

/// A solve of four steps for which the code of levels costs nothing.
fn solve((energy, data): &Small, threads: usize, options: SolveOptions) -> (Report, ProblemData<'static>) {
    let mut data = data.clone();
    let solver = Solver::compile(energy.clone(), &self::options(threads)).unwrap();
    let options = SolveOptions { iterations: Some(4), ..options };
    let mut problem = solver.plan(&data).unwrap().with_free_compilation();
    let report = problem.solve(&mut data, &options).unwrap();
    (report, data)
}

/// Linear systems that end by the model rule.
fn by_model() -> SolveOptions {
    SolveOptions { forcing: 1e-6, ..SolveOptions::default() }
}

/// Those that end where |r| is small enough.
fn by_residual() -> SolveOptions {
    SolveOptions { linear_tolerance: Some(1e-9), ..SolveOptions::default() }
}

fn kinds(report: &Report) -> Vec<&str> {
    report.iterations.iter().map(|i| i.preconditioner).collect()
}

#[test]
fn bits_do_not_depend_on_threads() {
    let grid = ("multigrid", coupled(257, 190, 0.001), by_model());
    let graph = ("aggregation", lattice_held(80, 70, 0.002), by_residual());
    for (kind, problem, options) in [grid, graph] {
        let (report, _) = solve(&problem, 2, options.clone());
        assert!(kinds(&report).contains(&kind), "{:?}", kinds(&report));
        assert!(!report.grids.is_empty());
        assert_same_bits(|threads| solve(&problem, threads, options.clone()).1);
    }
}

/// Levels in mid-solve lead where block Jacobi leads: PCG goes on from the same d and r.
#[test]
fn a_linear_system_has_the_same_solution() {
    for (energy, data) in [coupled(128, 101, 0.001), lattice_held(60, 50, 0.002)] {
        let options = SolveOptions {
            iterations: Some(1),
            linear_tolerance: Some(1e-10),
            linear_iterations: Some(5000),
            ..SolveOptions::default()
        };
        let solve = |kind| {
            let mut data = data.clone();
            let solver = Solver::compile(energy.clone(), &compiled(kind, Precision::F64, 2)).unwrap();
            let mut problem = solver.plan(&data).unwrap().with_free_compilation();
            (problem.solve(&mut data, &options).unwrap(), data)
        };
        let (ours, x) = solve(Preconditioner::Auto);
        let (theirs, expected) = solve(Preconditioner::BlockJacobi);
        assert_ne!(kinds(&ours), ["block_jacobi"]);
        let totals = [&ours, &theirs].map(|report| report.linear_iterations_total);
        assert!(2 * totals[0] < totals[1], "{totals:?}");
        assert_vectors_close("x", &x.x(), &expected.x(), 1e-7);
    }
}

/// The first solve that goes on with levels compiles them, as its report says. Later problems of that solver have them from the plan on, and take the same
/// steps with the same bits.
#[test]
fn code_of_levels_is_made_once() {
    let (energy, data) = coupled(257, 190, 0.001);
    let solver = Solver::compile(energy, &options(2)).unwrap();
    let growths = [0, 1].map(|_| {
        let mut problem = solver.plan(&data).unwrap().with_free_compilation();
        let planned = !problem.hierarchies().is_empty();
        let options = SolveOptions { iterations: Some(4), ..by_model() };
        let mut data = data.clone();
        let report = problem.solve(&mut data, &options).unwrap();
        assert!(kinds(&report).contains(&"multigrid"), "{:?}", kinds(&report));
        assert!(report.seconds.growth < report.seconds.solve);
        let tells = report.to_string().contains("s of the solve went into compiling");
        let bits: Vec<u64> = data.x().iter().map(|x| x.to_bits()).collect();
        (planned, report.seconds.growth, tells, kinds(&report).join(" "), bits)
    });
    let [(planned, growth, tells, kinds, bits), later] = growths;
    assert!(!planned && growth > 0.0 && tells, "{planned} {growth} {tells}");
    assert_eq!(later, (true, 0.0, false, kinds, bits));
}

/// Code of levels is made when block Jacobi has cost as much as that does, and not before.
#[test]
fn small_problems_keep_block_jacobi() {
    let (energy, data) = coupled(128, 101, 0.1);
    let solver = Solver::compile(energy, &options(2)).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let options = SolveOptions { linear_tolerance: Some(1e-6), ..SolveOptions::default() };
    let report = problem.solve(&mut data.clone(), &options).unwrap();
    assert!(report.linear_iterations_total > 100 && report.grids.is_empty());
    assert!(kinds(&report).iter().all(|kind| *kind == "block_jacobi"), "{:?}", kinds(&report));
}

/// A linear system that no rule ends, as in Gauss-Newton of the published interface, takes as many iterations as are asked for.
#[test]
fn what_no_rule_ends_keeps_block_jacobi() {
    let options = SolveOptions { forcing: 0.0, linear_iterations: Some(300), ..SolveOptions::default() };
    let (report, _) = solve(&coupled(128, 101, 0.001), 2, options);
    for step in &report.iterations {
        assert_eq!((step.preconditioner, step.linear_iterations), ("block_jacobi", 300));
    }
}

/// Levels need couplings; without its data a session keeps block Jacobi.
#[test]
fn levels_that_cannot_be_had_are_not_tried() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float2, {N}, 0)
        Energy(X(0,0) * X(0,1) - 1, X(0,0) - 0.3)
    "#;
    let single = bind(text, &[doubles("X", &[40, 2], vec![1.0; 80])]);
    let (report, _) = solve(&single, 1, by_residual());
    assert!(kinds(&report).iter().all(|kind| *kind == "block_jacobi"), "{:?}", kinds(&report));

    let (energy, data) = coupled(128, 101, 0.1);
    let solver = Solver::compile(energy, &options(2)).unwrap();
    let mut problem = solver.plan(&data).unwrap().with_free_compilation();
    let options = SolveOptions { linear_tolerance: Some(1e-6), ..SolveOptions::default() };
    let mut session = problem.init(&data, &options).unwrap();
    session.step().unwrap();
    assert_eq!(session.iterations()[0].preconditioner, "block_jacobi");
    assert!(session.iterations()[0].linear_iterations > 50);
}
