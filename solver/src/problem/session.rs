//! A solve in progress: one step at a time, with numbers that may change in between.

use crate::assembled::Explicit;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::steps::Run;
use crate::outer::lm::{Callback, Energies, InitialNotFinite, Minimiser};
use crate::problem::data::ProblemData;
use crate::problem::error::SolveError;
use crate::problem::options::{Method, Options, Precision};
use crate::problem::report::{Iteration, Report, Seconds, Termination};
use crate::problem::solver::{Code, Problem};
use std::sync::Arc;
use std::time::Instant;

/// A solve between two steps. Dropping it leaves the caller's data as they were.
pub struct Session<'p> {
    run: Run<'p>,
    minimiser: Minimiser,
    options: Options,
    code: Arc<Code>,
    free: usize,
    preconditioner: &'static str,
    started: Instant,
    plan_seconds: f64,
    /// Of unknowns that had to be moved into their bounds.
    warnings: Vec<String>,
}

impl<'p> Session<'p> {
    pub(crate) fn start(
        problem: &'p mut Problem,
        data: &ProblemData,
        options: &Options,
    ) -> Result<Session<'p>, SolveError> {
        problem.upload_unknowns(data)?;
        let warnings = problem.plan.project(data)?;
        let free = problem.free_scalars(data);
        let ten_times = || if options.linear_tolerance.is_some() { 10 * free } else { 500 };
        let limit = options.linear_iterations.unwrap_or_else(ten_times);
        let (code, plan_seconds) = (problem.code.clone(), problem.plan_seconds);
        let preconditioner = problem.preconditioner();
        let started = Instant::now();
        let mut run = Run::new(&mut problem.plan, options.clone(), limit);
        let minimiser = Minimiser::start(&mut run, options.clone(), free);
        if let Some(e) = run.failure.take() {
            return Err(e);
        }
        let minimiser = minimiser.map_err(|e| not_finite(run.plan, data, e, options.precision))?;
        let options = options.clone();
        Ok(Session { run, minimiser, options, code, free, preconditioner, started, plan_seconds, warnings })
    }

    /// Takes one step; returns why the solve ended, once it has. After the end nothing happens.
    pub fn step(&mut self) -> Result<Option<Termination>, SolveError> {
        let ended = self.minimiser.step(&mut self.run);
        self.check()?;
        Ok(ended)
    }

    /// Steps until the solve ends or the callback ends it.
    pub fn run(&mut self, callback: Callback<'_>) -> Result<(), SolveError> {
        self.minimiser.run(&mut self.run, callback);
        self.check()
    }

    /// Takes arrays and params of the same sizes anew; x stays where it is, E and g are evaluated there again. What is excluded
    /// must not change.
    pub fn set_arrays(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        self.run.plan.upload_arrays(data)?;
        self.warnings.extend(self.run.plan.project(data)?);
        let refreshed = self.minimiser.refresh(&mut self.run);
        self.check()?;
        let precision = self.options.precision;
        refreshed.map_err(|e| not_finite(self.run.plan, data, e, precision))
    }

    /// Copies the current unknowns to `data`.
    pub fn unknowns(&self, data: &mut ProblemData) {
        self.run.plan.download_unknowns(data);
    }

    /// E at the current unknowns.
    pub fn energies(&self) -> &Energies {
        self.minimiser.energies()
    }

    /// The records of all steps so far.
    pub fn iterations(&self) -> &[Iteration] {
        self.minimiser.iterations()
    }

    /// Writes the unknowns to `data`. A solve that is finished before it ended counts as aborted.
    pub fn finish(self, data: &mut ProblemData) -> Report {
        self.unknowns(data);
        let outcome = self.minimiser.finish();
        let solve = self.started.elapsed().as_secs_f64();
        let seconds = Seconds { compile: self.code.compile_seconds, plan: self.plan_seconds, solve };
        let mut warnings = data.warnings.clone();
        warnings.extend(self.warnings);
        if outcome.termination == Termination::NoFreeUnknown {
            warnings.push("every unknown is excluded: there is nothing to solve".into());
        }
        Report {
            energy_initial: outcome.energy_initial,
            energy_final: outcome.energy_final,
            termination: outcome.termination,
            linear_iterations_total: outcome.iterations.iter().map(|i| i.linear_iterations).sum(),
            iterations: outcome.iterations,
            unknowns: self.free,
            residuals: self.run.residuals,
            unconstrained: self.run.start.unconstrained as usize,
            method: if self.options.method == Method::GaussNewton { "gn" } else { "lm" },
            preconditioner: self.preconditioner,
            backend: "cpu",
            device: self.code.target.processor.name.clone(),
            precision: match self.options.precision {
                Precision::Mixed => "mixed",
                Precision::F32 => "f32",
                Precision::F64 => "f64",
            },
            threads: self.code.pool.threads(),
            seconds,
            warnings,
            non_finite: outcome.non_finite,
        }
    }

    /// The first engine failure, if there was one.
    fn check(&mut self) -> Result<(), SolveError> {
        self.run.failure.take().map_or(Ok(()), Err)
    }
}

/// The error of an energy that is not finite at x: names the first residual to blame, and what it reads.
fn not_finite(plan: &Plan, data: &ProblemData, e: InitialNotFinite, precision: Precision) -> SolveError {
    let mut data = data.clone();
    plan.download_unknowns(&mut data);
    let located = Explicit::new(&plan.k.energy, &data)
        .map(|explicit| explicit.locate_non_finite(&explicit.initial()))
        .map_err(|e| e.to_string());
    let place = match (located, precision) {
        (Ok(Some(place)), _) => place.to_string(),
        (Ok(None), Precision::F32) => {
            "in float64 every residual is finite, so float32 is too narrow for them: use --precision mixed"
                .into()
        }
        (Ok(None), _) => "every residual is finite, but the sum of their squares is not".into(),
        (Err(why), _) => format!("which residual it is cannot be said ({why})"),
    };
    SolveError::InitialNotFinite { energy: e.energy, place }
}
