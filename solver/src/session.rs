//! A solve in progress: one step at a time, with numbers that may change in between.

use crate::assembled::{Explicit, ExplicitError, NonFinite, Threads, free_elements};
use crate::error::{Blame, SolveError};
use crate::growth::Growth;
use crate::matrix_free::plan::on_device::Exported;
use crate::matrix_free::plan::steps::{Grow, Run};
use crate::outer::lm::{Callback, Control, Energies, InitialNotFinite, Minimiser};
use crate::problem::data::ProblemData;
use crate::problem::options::{Precision, SolveOptions};
use crate::problem::report::{Grids, Iteration, Lent, Report, Seconds, Setting, Termination};
use crate::solver::Problem;
use std::borrow::BorrowMut;
use std::fmt;
use std::time::Instant;
use sumsq_codegen::runtime::FloatEnvironment;
use sumsq_codegen::runtime::cuda::Stream;
use thiserror::Error;

/// A solve between two steps, on a problem that it owns or, as a `Session<&mut Problem>`, borrows. Dropping it leaves the caller's data as
/// they were.
pub struct Session<P: BorrowMut<Problem> = Problem> {
    problem: P,
    run: Run,
    minimiser: Minimiser,
    options: SolveOptions,
    free: usize,
    started: Instant,
    /// Waits for the GPU before.
    waited: u64,
    /// Warnings of the data that came last.
    of_data: Vec<String>,
    /// Of unknowns that had to be moved into their bounds.
    warnings: Vec<String>,
}

/// A problem of which no session could be made, and why.
#[derive(Error)]
#[error("{error}")]
pub struct Unstarted {
    /// The problem as it was.
    pub problem: Problem,
    /// Why.
    #[source]
    pub error: SolveError,
}

impl fmt::Debug for Unstarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unstarted").field("error", &self.error).finish_non_exhaustive()
    }
}

impl Problem {
    /// Minimises from the unknowns in `data` and writes the result there. Everything else in `data` is what the problem was given last:
    /// by [`crate::Solver::plan`], [`Problem::set_arrays`] or [`Problem::rebind`].
    ///
    /// # Errors
    /// As for [`Problem::init`]; then `data` is unchanged.
    pub fn solve(&mut self, data: &mut ProblemData, options: &SolveOptions) -> Result<Report, SolveError> {
        self.solve_with(data, options, &mut |_| Control::Continue)
    }

    /// [`Problem::solve`], observed after each step. If the engine fails in mid-solve, the unknowns are those of the last good step, and the
    /// report says so.
    ///
    /// # Errors
    /// As for [`Problem::solve`].
    pub fn solve_with(
        &mut self,
        data: &mut ProblemData,
        options: &SolveOptions,
        callback: Callback<'_>,
    ) -> Result<Report, SolveError> {
        let mut session = self.init(data, options)?;
        session.run_or_fail(Some(data), callback);
        if let Err(error) = session.unknowns(data) {
            session.lose(error);
        }
        Ok(session.finish().0)
    }

    /// Starts a solve from the unknowns in `data`, to be taken step by step.
    ///
    /// # Errors
    /// Options out of range, data that the problem does not hold, bounds without room, an energy that is not finite at the start, or a failure
    /// of the engine.
    pub fn init(
        &mut self,
        data: &ProblemData,
        options: &SolveOptions,
    ) -> Result<Session<&mut Problem>, SolveError> {
        Session::start(self, data, options).map_err(|(error, _)| error)
    }

    /// As [`Problem::init`], for a session that owns the problem until [`Session::finish`] gives it back.
    ///
    /// # Errors
    /// As for [`Problem::init`], with the problem.
    pub fn into_session(self, data: &ProblemData, options: &SolveOptions) -> Result<Session, Box<Unstarted>> {
        Session::start(self, data, options).map_err(|(error, problem)| Box::new(Unstarted { problem, error }))
    }
}

impl<P: BorrowMut<Problem>> Session<P> {
    /// Starts a solve from the unknowns in `data`.
    ///
    /// # Errors
    /// As for [`Problem::init`], together with the problem.
    pub(crate) fn start(
        mut owner: P,
        data: &ProblemData,
        options: &SolveOptions,
    ) -> Result<Session<P>, (SolveError, P)> {
        let _standard = FloatEnvironment::standard();
        let problem = owner.borrow_mut();
        let started = Instant::now();
        let waited = problem.plan.waits();
        let mut options = options.decided_for(problem.energy());
        // Without levels there are no exact steps: nothing is set aside for them.
        options.second = options.second.filter(|second| !second.exact || problem.auto.is_some());
        match Started::new(problem, data, &options) {
            Ok(Started { run, minimiser, free, warnings }) => Ok(Session {
                problem: owner,
                run,
                minimiser,
                options,
                free,
                started,
                waited,
                of_data: data.warnings().to_vec(),
                warnings,
            }),
            Err(e) => Err((e, owner)),
        }
    }

    /// Takes one step; returns why the solve ended, once it has. After the end nothing happens.
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn step(&mut self) -> Result<Option<Termination>, SolveError> {
        self.step_on(None)
    }

    /// As [`Session::step`], with the data that the problem has, if they are at hand: a plan with other preconditioners is made of them, which
    /// `auto` may go on with.
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn step_on(&mut self, data: Option<&ProblemData<'_>>) -> Result<Option<Termination>, SolveError> {
        let _standard = FloatEnvironment::standard();
        let Problem { plan, code, base, .. } = self.problem.borrow_mut();
        let mut growth = data.map(|data| Growth { base, code, data });
        let growth = growth.as_mut().map(|growth| growth as &mut dyn Grow);
        let mut steps = self.run.growing_on(plan, growth);
        let ended = self.minimiser.step(&mut steps);
        self.check()?;
        Ok(ended)
    }

    /// Steps until the solve ends or the callback ends it.
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn run(&mut self, callback: Callback<'_>) -> Result<(), SolveError> {
        self.run_on(None, callback)
    }

    /// As [`Session::run`], with data as for [`Session::step_on`].
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn run_on(
        &mut self,
        data: Option<&ProblemData<'_>>,
        callback: Callback<'_>,
    ) -> Result<(), SolveError> {
        let _standard = FloatEnvironment::standard();
        let Problem { plan, code, base, .. } = self.problem.borrow_mut();
        let mut growth = data.map(|data| Growth { base, code, data });
        let growth = growth.as_mut().map(|growth| growth as &mut dyn Grow);
        let mut steps = self.run.growing_on(plan, growth);
        self.minimiser.run(&mut steps, callback);
        self.check()
    }

    /// As [`Session::run`]; a failure of the engine ends the solve, and the report tells of it.
    fn run_or_fail(&mut self, data: Option<&ProblemData<'_>>, callback: Callback<'_>) {
        if let Err(error) = self.run_on(data, callback) {
            self.fail(error);
        }
    }

    /// Ends the solve by a failure of the engine.
    fn fail(&mut self, error: SolveError) {
        self.warnings.push(format!("the engine failed: {error}"));
        self.minimiser.fail();
    }

    /// As [`Session::fail`], by one that has taken x along.
    fn lose(&mut self, error: SolveError) {
        self.fail(error);
        let steps = self.iterations().len();
        self.warnings.push(format!("the unknowns are those from before the solve: {steps} steps are lost"));
    }

    /// Takes arrays and params of the same sizes anew; x stays where it is, E and g are evaluated there again. What is excluded
    /// must not change.
    ///
    /// # Errors
    /// As for [`Problem::set_arrays`], an energy that is not finite at x, or a failure of the engine.
    pub fn set_arrays(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        let _standard = FloatEnvironment::standard();
        let problem = self.problem.borrow_mut();
        problem.set_arrays(data)?;
        self.of_data = data.warnings().to_vec();
        self.warnings.extend(problem.plan.project(data)?);
        let refreshed = self.minimiser.refresh(&mut self.run.on(&mut problem.plan));
        self.check()?;
        let problem = self.problem.borrow();
        refreshed.map_err(|e| not_finite(problem, data, e))
    }

    /// Goes on with another of the preconditioners that the solver was compiled with, by number, from the next linear solve on. Returns
    /// whether there is one of this number.
    #[doc(hidden)]
    pub fn change_to(&mut self, preconditioner: u8) -> bool {
        let there = usize::from(preconditioner) < self.problem.borrow().code.settings.preconditioners.len();
        if there {
            self.run.change_to(preconditioner);
        }
        there
    }

    /// Copies the current unknowns to `data`: those in the memory of the problem's GPU where they are, without the host.
    ///
    /// # Errors
    /// Data of other sizes, or of another energy; a device that does not hand them out: `data` is as it was then.
    pub fn unknowns(&self, data: &mut ProblemData) -> Result<(), SolveError> {
        let problem = self.problem.borrow();
        problem.check_sizes(data)?;
        problem.plan.download_unknowns(data)
    }

    /// A copy of the current unknown of that name in memory of the problem's GPU, which is the caller's; what `stream` is asked for next comes
    /// behind it. `None` where there is no such unknown, or the problem is not on a GPU.
    ///
    /// # Errors
    /// Too little memory, a stream of another context, or the GPU fails.
    pub fn export(&self, name: &str, stream: Stream) -> Result<Option<Exported>, SolveError> {
        let problem = self.problem.borrow();
        let unknown = problem.energy().unknowns.iter().position(|u| u.name == name);
        unknown.map_or(Ok(None), |unknown| problem.plan.export(unknown, stream))
    }

    /// E at the current unknowns.
    pub fn energies(&self) -> &Energies {
        self.minimiser.energies()
    }

    /// Uses of the caller's memory on a GPU, so far.
    pub fn lent(&self) -> Lent {
        self.problem.borrow().plan.lent()
    }

    /// The hierarchies that the preconditioner has now, level by level.
    pub fn hierarchies(&self) -> Vec<Grids> {
        self.problem.borrow().hierarchies()
    }

    /// The index spaces that have none and keep block Jacobi, where others have one.
    pub fn without_levels(&self) -> Vec<String> {
        self.problem.borrow().plan.without_levels()
    }

    /// The records of all steps so far.
    pub fn iterations(&self) -> &[Iteration] {
        self.minimiser.iterations()
    }

    /// Ends the solve without a report.
    pub fn into_problem(self) -> P {
        self.problem
    }

    /// Gives the problem back; the unknowns are to be copied before. A solve that is finished before it ended counts as aborted.
    pub fn finish(self) -> (Report, P) {
        let outcome = self.minimiser.finish();
        let solve = self.started.elapsed().as_secs_f64();
        let problem = self.problem.borrow();
        let code = &problem.code;
        let seconds = Seconds {
            compile: problem.base.compile_seconds,
            plan: problem.plan_seconds,
            solve,
            setup: self.run.setup_seconds,
            growth: self.run.growth_seconds,
        };
        let warnings = [self.of_data, self.warnings].concat();
        let setting = Setting {
            groups: problem.plan.k.energy.groups.clone(),
            unknowns: self.free,
            residuals: self.run.residuals,
            unconstrained: self.run.start.unconstrained as usize,
            method: self.options.method,
            preconditioner: self.run.preconditioner(),
            grids: problem.hierarchies(),
            without_levels: problem.plan.without_levels(),
            device: code.target().processor.name.clone(),
            backend: if code.target().gpu.is_some() { "cuda" } else { "cpu" },
            repeatable: !problem.plan.k.spaces.iter().any(|s| s.scatters),
            why_cpu: problem.base.why_cpu.clone(),
            lent: problem.plan.lent(),
            waits: problem.plan.waits() - self.waited,
            precision: code.options.precision,
            threads: code.pool.threads(),
            memory: problem.plan.memory,
        };
        (Report::new(outcome, setting, seconds, warnings), self.problem)
    }

    /// The first engine failure, if there was one.
    fn check(&mut self) -> Result<(), SolveError> {
        self.run.failure.take().map_or(Ok(()), Err)
    }
}

/// State that a solve begins with.
struct Started {
    run: Run,
    minimiser: Minimiser,
    free: usize,
    warnings: Vec<String>,
}

impl Started {
    fn new(problem: &mut Problem, data: &ProblemData, options: &SolveOptions) -> Result<Started, SolveError> {
        options.check()?;
        problem.upload_unknowns(data)?;
        let warnings = problem.plan.project(data)?;
        let free = problem.free_scalars(data)?;
        let ten_times = || if options.linear_tolerance.is_some() { 10 * free } else { 500 };
        let limit = options.linear_iterations.unwrap_or_else(ten_times);
        let run = Run::new(options.clone(), limit, &problem.code.settings.preconditioners);
        // Without a rule that ends PCG, the limit says how many iterations of the kind there is are wanted.
        let ends_by_rule = options.linear_tolerance.is_some() || options.forcing > 0.0;
        let mut run = run.choosing(problem.auto.clone().filter(|_| ends_by_rule));
        let precision = problem.code.options.precision;
        let minimiser = Minimiser::start(&mut run.on(&mut problem.plan), options.clone(), precision, free);
        if let Some(e) = run.failure.take() {
            return Err(e);
        }
        let minimiser = minimiser.map_err(|e| not_finite(problem, data, e))?;
        if !run.gradient_is_finite() {
            // What only float32 cannot hold is left to the steps.
            if let Ok(Some(place)) = locate(problem, data, |e, x| e.locate_non_finite_partial(x)) {
                return Err(SolveError::DerivativeNotFinite(Box::new(place)));
            }
        }
        Ok(Started { run, minimiser, free, warnings })
    }
}

/// Looks for a residual in float64, one after the other, where the unknowns of the problem stand.
fn locate(
    problem: &Problem,
    data: &ProblemData,
    first: impl Fn(&Explicit<'_>, &[f64]) -> Option<NonFinite> + Sync,
) -> Result<Option<NonFinite>, ExplicitError> {
    let mut data = data.clone();
    // Where x is on a device that does not hand it out the start is looked at, which is where energies fail.
    let _ = problem.plan.download_unknowns(&mut data);
    let energy = problem.energy();
    Threads::new(Some(problem.code.pool.threads())).run(|| {
        let explicit = Explicit::without_jacobian(energy, &data, free_elements(energy, &data)?)?;
        Ok(first(&explicit, &explicit.initial()))
    })
}

/// The error of an energy that is not finite at x: names the first residual to blame, and what it reads.
fn not_finite(problem: &Problem, data: &ProblemData, e: InitialNotFinite) -> SolveError {
    let located = locate(problem, data, |e, x| e.locate_non_finite(x));
    let place = match (located, problem.code.options.precision) {
        (Ok(Some(place)), _) => Blame::Residual(Box::new(place)),
        (Ok(None), Precision::F32) => Blame::Float32,
        (Ok(None), _) => Blame::Sum,
        (Err(why), _) => Blame::Unknown(why),
    };
    SolveError::InitialNotFinite { energy: e.energy, place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayData, CompileOptions, NamedArray, Solver};
    use sumsq_energy::Energy;

    /// A host that flushes subnormals and rounds to 0 gets the bits that others get, and its environment back.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_hosts_floating_point_environment_has_no_say() {
        let text = "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {N}, 0)\nlocal T = Unknown(\"T\", opt_float, {}, 1)\n\
                    Energy(exp(X(0)) * T() - 1.3 - Index(0), 1e-160 * X(0) * 1e-150, 0.3 * sin(X(0) - X(1)) + T())\n";
        let array = |name: &str, shape: &[usize], values: Vec<f64>| NamedArray {
            name: name.to_string(),
            shape: shape.to_vec(),
            data: ArrayData::F64(values),
        };
        // The numbers of the text and of the start are the host's own affair.
        let energy = Energy::from_text("test.t", text).unwrap();
        let x = (0..500).map(|i| 0.1 + f64::from(i) * 1e-3).collect();
        let arrays = [array("X", &[500], x), array("T", &[1], vec![0.7])];
        let data = ProblemData::bind(&energy, &arrays).unwrap().into_owned();
        let solve = |threads| {
            let (energy, mut data) = (energy.clone(), data.clone());
            let options = CompileOptions { threads: Some(threads), ..CompileOptions::default() };
            let mut problem = Solver::compile(energy, &options).unwrap().plan(&data).unwrap();
            let report = problem.solve(&mut data, &SolveOptions::default()).unwrap();
            assert!(report.iterations.len() > 2 && report.energy_final < 0.9 * report.energy_initial);
            let bits = data.x().iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
            (bits, report.energy_final.to_bits())
        };
        let expected = solve(2);
        let host = FloatEnvironment::of(0x1f80 | 0x8000 | 0x0040 | 0x6000);
        let came = solve(1);
        let sum = std::hint::black_box(1.0) + std::hint::black_box(f64::EPSILON) * 0.75;
        drop(host);
        assert_eq!(sum, 1.0, "the host's environment is back");
        assert_eq!(came, expected);
    }

    #[test]
    fn an_engine_that_fails_in_mid_solve_leaves_the_last_good_step() {
        let text =
            "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {N}, 0)\nEnergy(X(0) * X(0) - 2)\n";
        let energy = Energy::from_text("test.t", text).unwrap();
        let x =
            NamedArray { name: "X".to_string(), shape: vec![3], data: ArrayData::F64(vec![9.0, 7.0, 5.0]) };
        let mut data = ProblemData::bind(&energy, [&x]).unwrap().into_owned();
        let solver = Solver::compile(energy, &CompileOptions::default()).unwrap();
        let mut problem = solver.plan(&data).unwrap();
        let mut session = problem.init(&data, &SolveOptions::default()).unwrap();
        assert_eq!(session.step().unwrap(), None);
        let good = session.energies().total;
        session.run.failure =
            Some(SolveError::Backend(sumsq_codegen::error::CudaError::NoSuchDevice { asked: 1, last: 0 }));
        session.run_or_fail(None, &mut |_| Control::Continue);
        session.unknowns(&mut data).unwrap();
        let report = session.finish().0;
        assert_eq!((report.termination, report.iterations.len()), (Termination::Failed, 1));
        assert!(
            report.failure().is_some() && report.warnings[0].contains("the engine failed"),
            "{:?}",
            report.warnings
        );
        assert_eq!(report.energy_final, good);
        assert!(good < report.energy_initial && good.is_finite());
        let e: f64 = data.x().iter().map(|x| (x * x - 2.0).powi(2)).sum();
        assert!((e - good).abs() <= 1e-9 * good, "{e} at the unknowns, {good} reported");
    }
}
