//! Levenberg-Marquardt, sumsq against Ceres: time until the same energy, both with the same number of threads.
//!
//! Ceres solves the same energies, residual for residual, from the same bytes (`benches/peers/ceres`), by automatic
//! differentiation and LEVENBERG_MARQUARDT with each of two linear solvers: CGNR with JACOBI, which is block Jacobi, and
//! SPARSE_NORMAL_CHOLESKY with SuiteSparse. CGNR stops at a forcing term of 1e-2, the one of sumsq:
//! with Ceres' default 0.1 it stalls.
//!
//! The seconds of Ceres count from the start of its minimiser, without building the problem and its preprocessor; those of sumsq
//! without reading and compiling the energy and what `auto` goes on with, once for any number of problems, and without the plan, which lays out
//! a problem's memory.
//! A first solve pays for all of that, on both sides: its ratio stands beside. Nothing is kept from run to run (`SUMSQ_CACHE=off`).
//! Energies are sums of squares; both must have the same one at the start. `SUMSQ_CASES` names what the names of the problems that run contain.

use super::THREADS;
use super::ceres_problems::{Case, Goal, Linear, NO_LIMIT, cases};
use crate::harness::{Ratio, Times};
use crate::peer::{Peer, Trajectory, write_problem};
use crate::report::Report;
use std::cell::Cell;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use sumsq::energy::model::Energy;
use sumsq::{CompileOptions, Options, ProblemData, SolveOptions, Solver};

/// A solve that takes longer than this is ended.
const LIMIT: Duration = Duration::from_secs(180);

/// A run of Ceres that takes longer than this is not repeated.
const SHORT: f64 = 20.0;

/// Runs of sumsq against such a one, whose minute is not so easily disturbed as a second is; one, if it takes longer, too.
const AGAINST_ONE: usize = 5;

/// Pairs of one problem: at least so many, at most so many as start within the budget.
const MIN_PAIRS: usize = 3;
const MOST_PAIRS: usize = 15;
const BUDGET: Duration = Duration::from_secs(90);

/// Forcing term of CGNR, and of sumsq.
const FORCING: f64 = 1e-2;

/// Relative distance that the energies at the start may have.
const SAME: f64 = 1e-9;

type Failed = Box<dyn Error>;

pub fn run() -> Result<Report, Failed> {
    let peer = Peer::find("ceres")?;
    let limit = LIMIT.as_secs();
    let setting = format!(
        "time of Ceres / time of sumsq to the same E; {THREADS} threads; Ceres: LM, cgnr: CGNR + JACOBI (forcing term \
         {FORCING}), cholesky: SPARSE_NORMAL_CHOLESKY (SuiteSparse); at most {limit} s a solve"
    );
    let mut report = Report::new("ceres", setting);
    let folder = std::env::temp_dir().join(format!("sumsq-ceres-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut table = vec![];
    let wanted = report.wanted("SUMSQ_CASES");
    for case in cases() {
        match case {
            Ok(case) if !case.name.contains(&wanted) => {}
            Ok(case) => {
                let contest = Contest::new(&peer, &case, folder.join(case.energy))?;
                table.extend(contest.run(&mut report)?);
            }
            Err(missing) => report.note(format!("left out: {missing}")),
        }
    }
    std::fs::remove_dir_all(&folder)?;
    table.into_iter().for_each(|line| report.note(line));
    Ok(report)
}

/// Both sides, ready to solve one problem.
struct Contest<'a> {
    case: &'a Case,
    solver: Solver,
    data: ProblemData<'a>,
    /// Seconds that reading and compiling the energy took, in solves as well.
    compile: Cell<f64>,
    peer: &'a Peer,
    file: PathBuf,
}

/// Times of both sides: of a solve alone, and of the first one, set-up included.
#[derive(Clone, Copy)]
struct Pair {
    warm: Times,
    first: Times,
}

/// Names of what sumsq is compared with, and the times of both.
type Pairs = Vec<(String, Vec<Pair>)>;

fn against(linear: Linear) -> String {
    format!("Ceres {}", linear.name)
}

impl<'a> Contest<'a> {
    fn new(peer: &'a Peer, case: &'a Case, file: PathBuf) -> Result<Contest<'a>, Failed> {
        let start = Instant::now();
        let energy = Energy::from_text(&format!("{}.t", case.energy), &case.text)?;
        let read = start.elapsed();
        let data = ProblemData::bind(&energy, &case.inputs)?;
        let start = Instant::now();
        let solver = Solver::compile(energy, &options(1e4, NO_LIMIT).compile)?;
        let compile = Cell::new((read + start.elapsed()).as_secs_f64());
        write_problem(&file, &case.inputs)?;
        Ok(Contest { case, solver, data, compile, peer, file })
    }

    /// Runs both sides; the lines of the table.
    fn run(&self, report: &mut Report) -> Result<Vec<String>, Failed> {
        let contests = match self.case.goal {
            Goal::Energies { targets, radii } => self.to_energies(report, targets, radii)?,
            Goal::Lowest { .. } => self.to_lowest(report)?,
        };
        let mut lines = vec![];
        for (against, pairs) in contests.iter().filter(|(_, pairs)| !pairs.is_empty()) {
            let name = format!("{}: {against} / sumsq", self.case.name);
            let times = |of: fn(&Pair) -> Times| pairs.iter().map(of).collect::<Vec<_>>();
            let warm = Ratio::of(&name, &times(|pair| pair.warm));
            let first = Ratio::of(&format!("{name}, first solve"), &times(|pair| pair.first));
            let line = self.line(&warm, self.goal(against));
            lines.push(format!("{line}; first solve {:.1}x", first.median));
            report.ratio(warm);
            report.ratio(first);
        }
        Ok(lines)
    }

    /// The ratio to reach against a linear solver of Ceres; against the faster of both, the lesser of theirs.
    fn goal(&self, opponent: &str) -> f64 {
        let own = self.case.linear.iter().find(|l| against(**l) == opponent);
        let least = || self.case.linear.iter().map(|l| l.factor).fold(f64::INFINITY, f64::min);
        own.map_or_else(least, |l| l.factor)
    }

    fn line(&self, r: &Ratio, goal: f64) -> String {
        let bound = if r.at_least { "at least" } else { "" };
        let verdict = if r.median >= goal { "reached" } else { "missed" };
        format!("{:<60} {bound:>8} {:>7.1}x   goal {goal}x: {verdict}", r.name, r.median)
    }

    /// Erratic trajectories: a pair per energy and first radius, against each linear solver and against the faster one.
    fn to_energies(&self, report: &mut Report, targets: &[f64], radii: &[f64]) -> Result<Pairs, Failed> {
        let lowest = targets.iter().copied().fold(f64::INFINITY, f64::min);
        let mut all: Pairs = self.case.linear.iter().map(|l| (against(*l), vec![])).collect();
        let mut faster = vec![];
        for &radius in radii {
            let at = format!("{}, R0 = {radius:e}", self.case.name);
            let ours = self.against_one(radius, lowest)?;
            facts(report, &format!("{at}, sumsq"), &ours[0]);
            let mut runs = vec![];
            for linear in self.case.linear {
                let theirs = self.ceres(linear, radius, lowest)?;
                self.same_start(&ours[0], &theirs)?;
                facts(report, &format!("{at}, {}", against(linear)), &theirs);
                runs.push(theirs);
            }
            for &target in targets {
                let pairs: Vec<_> = runs.iter().map(|theirs| pairs(&ours, theirs, target)).collect();
                for ((name, known), pairs) in all.iter_mut().zip(&pairs) {
                    if pairs.is_empty() {
                        report.note(format!("{at}: neither sumsq nor {name} came to E = {target}"));
                        continue;
                    }
                    let warm: Vec<Times> = pairs.iter().map(|pair| pair.warm).collect();
                    report.ratio(Ratio::of(&format!("{at}, E <= {target}: {name} / sumsq"), &warm));
                    known.extend(pairs);
                }
                let came = pairs.into_iter().filter(|pairs| !pairs.is_empty());
                faster.extend(came.min_by(|x, y| faster_peer(&x[0], &y[0])).unwrap_or_default());
            }
        }
        all.push(("the faster Ceres".into(), faster));
        Ok(all)
    }

    /// Within 1 percent of the lowest energy that any side comes to: against each linear solver.
    fn to_lowest(&self, report: &mut Report) -> Result<Pairs, Failed> {
        let (name, radius) = (&self.case.name, SolveOptions::default().radius());
        let ours = self.sumsq(radius, f64::NEG_INFINITY)?;
        facts(report, &format!("{name}, sumsq"), &ours);
        let mut theirs = vec![];
        for linear in self.case.linear {
            let run = self.ceres(linear, radius, f64::NEG_INFINITY)?;
            self.same_start(&ours, &run)?;
            facts(report, &format!("{name}, {}", against(linear)), &run);
            theirs.push((linear, run));
        }
        let target = 1.01 * theirs.iter().map(|(_, run)| run.lowest()).fold(ours.lowest(), f64::min);
        report.fact(&format!("{name}: E to reach"), target, "");
        let pairs = theirs.iter().map(|&(linear, ref run)| {
            let short = run.time_to(target).is_some_and(|seconds| seconds <= SHORT);
            if short {
                return Ok((against(linear), self.alternate(linear, target)?));
            }
            let ours = self.against_one(SolveOptions::default().radius(), target)?;
            Ok((against(linear), pairs(&ours, run, target)))
        });
        pairs.collect()
    }

    /// Runs of sumsq against one of Ceres that takes too long to be repeated.
    fn against_one(&self, radius: f64, target: f64) -> Result<Vec<Trajectory>, Failed> {
        let mut ours = vec![self.sumsq(radius, target)?];
        while ours.len() < AGAINST_ONE && ours[0].seconds <= SHORT {
            ours.push(self.sumsq(radius, target)?);
        }
        Ok(ours)
    }

    /// Pairs in alternating order.
    fn alternate(&self, linear: Linear, target: f64) -> Result<Vec<Pair>, Failed> {
        let radius = SolveOptions::default().radius();
        let (started, mut pairs) = (Instant::now(), vec![]);
        while pairs.len() < MIN_PAIRS || (pairs.len() < MOST_PAIRS && started.elapsed() < BUDGET) {
            let (ours, theirs) = if pairs.len() % 2 == 0 {
                let ours = self.sumsq(radius, target)?;
                (ours, self.ceres(linear, radius, target)?)
            } else {
                let theirs = self.ceres(linear, radius, target)?;
                (self.sumsq(radius, target)?, theirs)
            };
            pairs.push(times(&ours, &theirs, target).ok_or("no side comes to its own energy again")?);
        }
        Ok(pairs)
    }

    /// Steps at most, on both sides.
    fn steps(&self) -> usize {
        match self.case.goal {
            Goal::Lowest { steps } => steps,
            Goal::Energies { .. } => NO_LIMIT,
        }
    }

    fn sumsq(&self, radius: f64, target: f64) -> Result<Trajectory, Failed> {
        let mut data = self.data.clone();
        let options = options(radius, self.steps());
        let start = Instant::now();
        let mut problem = self.solver.plan(&data)?;
        let planned = start.elapsed().as_secs_f64();
        let solved = Trajectory::of(&mut problem, &mut data, &options.solve, target)?;
        if solved.growth > 0.0 {
            // The code that it made is there from now on.
            self.compile.set(self.compile.get() + solved.growth);
            return self.sumsq(radius, target);
        }
        Ok(Trajectory { set_up: self.compile.get() + planned, ..solved })
    }

    fn ceres(&self, linear: Linear, radius: f64, target: f64) -> Result<Trajectory, Failed> {
        let mut arguments = vec![
            ("solver", linear.name.to_string()),
            ("blocks", linear.blocks.to_string()),
            ("radius", radius.to_string()),
            ("eta", FORCING.to_string()),
            ("max-seconds", LIMIT.as_secs().to_string()),
            ("max-steps", self.steps().to_string()),
        ];
        if target.is_finite() {
            arguments.push(("target", format!("{target:.17e}")));
        }
        self.peer.solve(self.case.energy, &self.file, &arguments, THREADS)
    }

    /// An error unless both minimise the same function from the same place.
    fn same_start(&self, ours: &Trajectory, theirs: &Trajectory) -> Result<(), Failed> {
        let (a, b) = (ours.initial, theirs.initial);
        if (a - b).abs() <= SAME * a.abs() {
            return Ok(());
        }
        Err(format!("{}: not the same problem, E is {a} and {b} at the start", self.case.name).into())
    }
}

/// The times of each of our runs and of one of Ceres; none where neither came to the target.
fn pairs(ours: &[Trajectory], theirs: &Trajectory, target: f64) -> Vec<Pair> {
    ours.iter().filter_map(|ours| times(ours, theirs, target)).collect()
}

/// Both sides' times to an energy; a side that did not come there took at least as long as it ran. `None` if neither did.
fn times(ours: &Trajectory, theirs: &Trajectory, target: f64) -> Option<Pair> {
    let (a, b) = (theirs.time_to(target), ours.time_to(target));
    if a.is_none() && b.is_none() {
        return None;
    }
    let warm = Times { a: a.unwrap_or(theirs.seconds), b: b.unwrap_or(f64::INFINITY), at_least: a.is_none() };
    let first = Times { a: warm.a + theirs.set_up, b: warm.b + ours.set_up, ..warm };
    Some(Pair { warm, first })
}

/// Orders pairs by the time of Ceres; one that got there is faster than one that did not.
fn faster_peer(x: &Pair, y: &Pair) -> std::cmp::Ordering {
    x.warm.at_least.cmp(&y.warm.at_least).then(x.warm.a.total_cmp(&y.warm.a))
}

fn facts(report: &mut Report, side: &str, run: &Trajectory) {
    let apart = if side.ends_with("sumsq") {
        "s to compile, once, and to plan, apart"
    } else {
        "s to build and preprocess, apart"
    };
    report.fact(
        &format!("{side}: lowest E"),
        run.lowest(),
        &format!("after {} s, {}", run.seconds, run.termination),
    );
    report.fact(
        &format!("{side}: steps"),
        run.steps as f64,
        &format!("with {} linear iterations", run.linear),
    );
    report.fact(&format!("{side}: set-up"), run.set_up, apart);
}

/// The defaults of sumsq, but for the first radius and the limits.
fn options(radius: f64, iterations: usize) -> Options {
    Options {
        compile: CompileOptions { threads: Some(THREADS), ..CompileOptions::default() },
        solve: SolveOptions {
            radius: Some(radius),
            forcing: FORCING,
            iterations: Some(iterations),
            max_time: Some(LIMIT),
            ..SolveOptions::default()
        },
    }
}
