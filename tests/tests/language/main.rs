//! Every construct of the energy language, on small problems of odd sizes: the matrix-free path against the assembled one, which
//! shares no derivative with it, and against numbers worked out by hand where there are any.

mod blocks;
mod computed;
mod domains;
mod functions;
mod globals;
mod loss_digits;
mod losses;
mod masks;
mod sampled;
mod vertex_stencils;
mod views;

use sumsq::assembled::{Explicit, LinearSolver};
use sumsq::check::seeded_direction;
use sumsq::{
    CompileLimits, CompileOptions, NamedArray, Options, Precision, Preconditioner, Report, SolveOptions,
    Solver, assembled,
};
use sumsq_tests::{assert_close, bind, made_fast, solve};

/// A few steps with exact linear solves, small enough to compare one by one.
fn options(precision: Precision, preconditioner: Preconditioner) -> Options {
    Options {
        compile: CompileOptions { precision, preconditioner, ..CompileOptions::default() },
        solve: SolveOptions {
            iterations: Some(4),
            linear_tolerance: Some(if precision == Precision::F64 { 1e-12 } else { 1e-6 }),
            linear_iterations: Some(2000),
            function_tolerance: Some(0.0),
            radius: Some(10.0),
            ..SolveOptions::default()
        },
    }
}

/// The matrix-free path agrees with the assembled one on a problem: derivatives, energies, whole steps, in every precision.
#[track_caller]
fn agrees(text: &str, arrays: &[NamedArray]) {
    certified(text, arrays, Preconditioner::Jacobi, made_fast());
    certified(text, arrays, Preconditioner::BlockJacobi, CompileLimits::default());
    steps_agree(text, arrays, &options(Precision::F64, Preconditioner::Auto));
    for precision in [Precision::Mixed, Precision::F32] {
        let (energy, start) = bind(text, arrays);
        let mut options = options(precision, Preconditioner::Auto);
        options.compile.limits = made_fast();
        let expected =
            assembled::solve(&energy, &mut start.clone(), &options.compile, &options.solve, LinearSolver::Cg)
                .unwrap();
        let report = solve(&energy, &mut start.clone(), &options);
        let initial = if precision == Precision::F32 { 1e-5 } else { 1e-12 };
        assert_close("initial energy", report.energy_initial, expected.energy_initial, initial);
        assert!(report.iterations.iter().any(|i| i.accepted), "{precision:?}: {report:?}");
        // What float32 cannot tell from the start's energy is no disagreement.
        let off = (report.energy_final - expected.energy_final).abs();
        let allowed = 1e-3 * expected.energy_final + 1e-6 * expected.energy_initial;
        assert!(off <= allowed, "{precision:?}: E = {}, not {}", report.energy_final, expected.energy_final);
    }
}

/// g, diag(J^T J), J^T J v and M^-1 under four masks; E per group and the number of instances that count.
#[track_caller]
fn certified(text: &str, arrays: &[NamedArray], preconditioner: Preconditioner, limits: CompileLimits) {
    let (energy, mut data) = bind(text, arrays);
    let compile = CompileOptions { limits, ..options(Precision::F64, preconditioner).compile };
    let solver = Solver::compile(energy.clone(), &compile).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    let evaluation = problem.evaluate(&data).unwrap();
    let explicit = Explicit::new(&energy, &data).unwrap();
    let expected = explicit.energies(&explicit.initial());
    assert_eq!(evaluation.residuals, explicit.rows(), "instances that count");
    assert!(expected.total > 0.0 && expected.total.is_finite(), "nothing to compare: {expected:?}");
    for (group, (came, expected)) in evaluation.energies.by_group.iter().zip(&expected.by_group).enumerate() {
        assert_close(&format!("energy of group {group}"), *came, *expected, 1e-12);
    }
    let x = data.x();
    let certificate = problem.certify(&data, &x, &seeded_direction(x.len(), 5)).unwrap();
    assert_eq!(certificate.failures(), Vec::<String>::new(), "{preconditioner:?}");
    let judged: usize = certificate.unknowns.iter().map(|u| u.compared).sum();
    assert!(judged > 0, "every difference was skipped");
    // The certificate has left the energy's own mask and arrays behind.
    assert_eq!(problem.evaluate(&data).unwrap().residuals, explicit.rows());
    data.set_x(&x.iter().map(|x| x * 0.5).collect::<Vec<f64>>()).unwrap();
    let halved = problem.evaluate(&data).unwrap().energies.total;
    let explicit = Explicit::new(&energy, &data).unwrap();
    assert_close("energy elsewhere", halved, explicit.energies(&explicit.initial()).total, 1e-12);
}

/// Both paths take the same steps.
#[track_caller]
fn steps_agree(text: &str, arrays: &[NamedArray], options: &Options) -> Report {
    let (energy, start) = bind(text, arrays);
    let expected =
        assembled::solve(&energy, &mut start.clone(), &options.compile, &options.solve, LinearSolver::Cg)
            .unwrap();
    let report = solve(&energy, &mut start.clone(), options);
    assert_close("initial energy", report.energy_initial, expected.energy_initial, 1e-12);
    assert_eq!(report.unknowns, expected.unknowns);
    assert_eq!(report.unconstrained, expected.unconstrained);
    assert_eq!(report.iterations.len(), expected.iterations.len(), "{report:?}\n{expected:?}");
    for (came, expected) in report.iterations.iter().zip(&expected.iterations) {
        assert_eq!(came.accepted, expected.accepted, "{came:?}\n{expected:?}");
        assert_close("energy", came.energy, expected.energy, 1e-7);
        assert_close("step", came.step_norm, expected.step_norm, 1e-6);
        let gain = (came.gain_ratio - expected.gain_ratio).abs();
        assert!(gain <= 1e-6 * expected.gain_ratio.abs().max(1.0), "{came:?}\n{expected:?}");
        for (a, b) in came.energy_by_group.iter().zip(&expected.energy_by_group) {
            assert_close("energy of a group", *a, *b, 1e-6);
        }
    }
    report
}
