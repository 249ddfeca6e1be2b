//! Levenberg-Marquardt, generated against the assembled path: time until E is within 1 percent of the lower final E.
//!
//! Both sides run the same outer loop with the same options; the assembled path keeps float64 throughout, the generated one is
//! mixed. The time counts from bound data: set-up of the side's structures, then the iterations. Compiling an energy, which is done
//! once for any number of problems, is reported apart.

use super::THREADS;
use crate::harness::compare_within;
use crate::report::Report;
use std::time::{Duration, Instant};
use sumsq::assembled::{LinearSolver, solve_with};
use sumsq::energy::model::Energy;
use sumsq::{CompileOptions, Control, NamedArray, Options, ProblemData, SolveOptions, Solver};
use sumsq_examples::demos::{arap_mesh_deformation, image_warping};

/// Steps at most: image_warping creeps on for hundreds.
const STEPS: usize = 60;

/// Time for the pairs of one problem.
const BUDGET: Duration = Duration::from_secs(60);

pub fn run() -> Report {
    let mut report = Report::new(
        "assembled",
        format!("time until E <= 1.01 E_final, at most {STEPS} steps of LM, {THREADS} threads"),
    );
    let text = image_warping::Scene::tulips().expect("the demo's own data").problem().text;
    let inputs = super::image_warping_512().expect("the project's own data");
    compare(&mut report, "image_warping 512 x 512", text, &inputs);
    let dog = arap_mesh_deformation::Scene::dog_17k().expect("the demo's own data").problem();
    compare(&mut report, "arap_mesh_deformation 17k", dog.text, &dog.inputs);
    report
}

fn compare(report: &mut Report, name: &str, text: &str, inputs: &[NamedArray]) {
    let options = Options {
        compile: CompileOptions { threads: Some(THREADS), ..CompileOptions::default() },
        solve: SolveOptions { iterations: Some(STEPS), ..SolveOptions::default() },
    };
    let energy = Energy::from_text(name, text).expect("the energy is well formed");
    let data = ProblemData::bind(&energy, inputs).expect("the inputs fit the energy");
    let solver = Solver::compile(energy.clone(), &options.compile).expect("the energy compiles");
    let generated = |target: f64| {
        until(target, &mut |callback| {
            let mut data = data.clone();
            let start = Instant::now();
            let mut problem = solver.plan(&data).expect("the plan fits into memory");
            let r = problem.solve_with(&mut data, &options.solve, callback).expect("the energy is finite");
            (start, r.energy_final, r.seconds.compile, r.linear_iterations_total)
        })
    };
    let assembled = |target: f64| {
        until(target, &mut |callback| {
            let mut data = data.clone();
            let start = Instant::now();
            let r =
                solve_with(&energy, &mut data, &options.compile, &options.solve, LinearSolver::Cg, callback)
                    .expect("the energy is finite");
            (start, r.energy_final, 0.0, r.linear_iterations_total)
        })
    };
    let (ours, theirs) = (generated(f64::NEG_INFINITY), assembled(f64::NEG_INFINITY));
    for (side, run) in [("generated", &ours), ("assembled", &theirs)] {
        report.fact(&format!("{name}, {side}: final E"), run.energy, "");
        report.fact(&format!("{name}, {side}: PCG iterations to the end"), run.linear as f64, "");
        report.fact(&format!("{name}, {side}: whole solve"), run.time.as_secs_f64(), "s");
    }
    report.fact(&format!("{name}: compile, once"), ours.compile, "s");
    let target = 1.01 * ours.energy.min(theirs.energy);
    let timed = |run: Reached| if run.energy <= target { run.time } else { Duration::MAX };
    report.ratio(compare_within(
        &format!("{name}: generated / assembled"),
        &mut || timed(generated(target)),
        &mut || timed(assembled(target)),
        BUDGET,
    ));
    report.ratio(compare_within(
        &format!("{name}: generated / generated"),
        &mut || timed(generated(target)),
        &mut || timed(generated(target)),
        BUDGET / 4,
    ));
}

/// A solve up to a target energy, or to its end.
struct Reached {
    time: Duration,
    energy: f64,
    compile: f64,
    linear: usize,
}

type Solve<'a> =
    &'a mut dyn FnMut(&mut dyn FnMut(&sumsq::Iteration) -> Control) -> (Instant, f64, f64, usize);

fn until(target: f64, solve: Solve) -> Reached {
    let mut reached = None;
    let (start, energy, compile, linear) = solve(&mut |i| {
        if i.energy > target {
            return Control::Continue;
        }
        reached.get_or_insert_with(Instant::now);
        Control::Abort
    });
    Reached { time: reached.unwrap_or_else(Instant::now) - start, energy, compile, linear }
}
