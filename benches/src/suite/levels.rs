//! Whole solves with levels against whole solves with block Jacobi: time until the same energy.
//!
//! Each problem is solved by default options but for the preconditioner. The energy to reach is within 1 percent of the lowest that any kind comes
//! to. Set-ups count, compilation and plans do not: `auto` has its levels compiled by an untimed solve. `SUMSQ_CASES` names what the names of the problems that run contain.

use super::THREADS;
use super::ceres_problems::{Goal, NO_LIMIT, dog, finer_dog, image_warping, skull, tulips_in_coffee};
use crate::harness::{Ratio, Times};
use crate::peer::Trajectory;
use crate::report::Report;
use std::error::Error;
use std::time::Duration;
use sumsq::energy::Energy;
use sumsq::{
    CompileOptions, NamedArray, Options, Preconditioner, Problem, ProblemData, SolveOptions, Solver,
};
use sumsq_examples::demos::Demo;

/// The kinds that block Jacobi is compared with, where an energy can have them.
const KINDS: [(Preconditioner, &str); 3] = [
    (Preconditioner::Auto, "auto"),
    (Preconditioner::Multigrid, "multigrid"),
    (Preconditioner::Aggregation, "aggregation"),
];

/// Pairs of solves; of those that take seconds, one.
const PAIRS: usize = 5;
const SECONDS: f64 = 5.0;

/// A solve that takes longer is ended.
const LIMIT: Duration = Duration::from_secs(40);

type Failed = Box<dyn Error>;

/// A problem, and how it is solved.
struct Case {
    name: String,
    text: String,
    inputs: Vec<NamedArray>,
    solve: SolveOptions,
}

/// A kind, ready to solve a problem.
struct Side<'a> {
    name: &'static str,
    problem: Problem,
    data: &'a ProblemData<'a>,
    options: &'a SolveOptions,
}

pub fn run() -> Result<Report, Failed> {
    let setting = format!(
        "time with block Jacobi / time with levels to within 1 % of the lowest E, {THREADS} threads, mixed precision"
    );
    let mut report = Report::new("levels", setting);
    let wanted = report.wanted("SUMSQ_CASES");
    for case in cases()?.into_iter().filter(|case| case.name.contains(&wanted)) {
        measure(&mut report, &case)?;
    }
    Ok(report)
}

/// The problems of the comparison with Ceres, and two demos on images.
fn cases() -> Result<Vec<Case>, Failed> {
    let mut all = vec![];
    for case in [image_warping()?, dog()?, finer_dog()?, tulips_in_coffee()?, skull()?] {
        let steps = match case.goal {
            Goal::Lowest { steps } if steps < NO_LIMIT => Some(steps),
            _ => None,
        };
        let solve = SolveOptions { iterations: steps, ..SolveOptions::default() };
        all.push(Case { name: case.name, text: case.text, inputs: case.inputs, solve });
    }
    for name in ["optical_flow", "intrinsic_image_decomposition"] {
        let problem = Demo::find(name).ok_or_else(|| format!("there is no demo {name}"))?.problem()?;
        // The demo's own limit of iterations leaves systems unsolved, which levels would not.
        let Options { solve, .. } = problem.options;
        let solve = SolveOptions { linear_iterations: None, function_tolerance: None, ..solve };
        all.push(Case { name: name.into(), text: problem.text.into(), inputs: problem.inputs, solve });
    }
    Ok(all)
}

/// The ratios of a problem, and what each kind took.
fn measure(report: &mut Report, case: &Case) -> Result<(), Failed> {
    let energy = Energy::from_text(&case.name, &case.text)?;
    let data = ProblemData::bind(&energy, &case.inputs)?;
    let options = SolveOptions { max_time: Some(LIMIT), ..case.solve.clone() };
    let side = |kind: Preconditioner, name| -> Result<Side<'_>, Failed> {
        let options_of =
            CompileOptions { preconditioner: kind, threads: Some(THREADS), ..CompileOptions::default() };
        let problem = Solver::compile(energy.clone(), &options_of)?.plan(&data)?;
        Ok(Side { name, problem, data: &data, options: &options })
    };
    let mut jacobi = side(Preconditioner::BlockJacobi, "block_jacobi")?;
    // Those that an energy cannot have are refused.
    let mut others: Vec<Side> = KINDS.iter().filter_map(|&(kind, name)| side(kind, name).ok()).collect();
    let (mut lowest, mut longest) = (f64::INFINITY, 0.0f64);
    for side in [&mut jacobi].into_iter().chain(&mut others) {
        let run = side.solve(f64::NEG_INFINITY)?;
        let took = format!("{}, {}", case.name, side.name);
        report.fact(&format!("{took}: lowest E"), run.lowest(), &run.termination);
        report.fact(
            &format!("{took}: linear iterations"),
            run.linear as f64,
            &format!("in {} steps", run.steps),
        );
        let whole = format!("s of {:.3} s", run.seconds);
        report.fact(&format!("{took}: set-ups of all steps"), run.set_up, &whole);
        (lowest, longest) = (lowest.min(run.lowest()), longest.max(run.seconds));
    }
    let target = 1.01 * lowest;
    let count = if longest > SECONDS { 1 } else { PAIRS };
    for other in &mut others {
        let pairs = (0..count).map(|_| times(&jacobi.solve(target)?, &other.solve(target)?, target));
        let pairs = pairs.collect::<Result<Vec<Times>, Failed>>()?;
        report.ratio(Ratio::of(&format!("{}: block Jacobi / {}", case.name, other.name), &pairs));
    }
    Ok(())
}

/// The times of both to an energy; one that did not come there took at least as long as it ran.
fn times(jacobi: &Trajectory, levels: &Trajectory, target: f64) -> Result<Times, Failed> {
    let (a, b) = (jacobi.time_to(target), levels.time_to(target));
    Ok(Times {
        a: a.unwrap_or(jacobi.seconds),
        b: b.unwrap_or(if a.is_some() { f64::INFINITY } else { levels.seconds }),
        at_least: a.is_none(),
    })
}

impl Side<'_> {
    /// A solve that ends at an energy.
    fn solve(&mut self, target: f64) -> Result<Trajectory, Failed> {
        Ok(Trajectory::of(&mut self.problem, &mut self.data.clone(), self.options, target)?)
    }
}
