//! Gauss-Newton and Levenberg-Marquardt over the assembled Jacobian: the baseline in the manner of general solvers.

use crate::assembled::model::{AssembledModel, LinearSolver};
use crate::assembled::{Explicit, ExplicitError, NonFinite, Threads};
use crate::outer::host::Host;
use crate::outer::lm::{Callback, Control, Energies, LinearResult, Linearisation, Minimiser, Steps};
use crate::problem::cancel::Watch;
use crate::problem::data::ProblemData;
use crate::problem::levels;
use crate::problem::memory::{Bytes, Memory, MemoryLimit};
use crate::problem::options::{CompileOptions, OptionError, Precision, Preconditioner, SolveOptions};
use crate::problem::report::{Lent, Report, Seconds, Setting};
use std::time::Instant;
use sumsq_energy::model::Energy;
use thiserror::Error;

/// Reason why there was no solve. The unknowns have not changed.
#[derive(Clone, PartialEq, Debug, Error)]
#[allow(missing_docs)]
pub enum SolveError {
    #[error(transparent)]
    Explicit(#[from] ExplicitError),
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error(
        "the assembled system needs {} of memory, {} are available: solve it with PCG, or raise the limit (max_memory)",
        Bytes(*needed),
        Bytes(*limit)
    )]
    Memory { needed: u64, limit: u64 },
    #[error("the energy is {energy} at the start{}", location.as_ref().map(|l| format!(": {l}")).unwrap_or_default())]
    InitialNotFinite { energy: f64, location: Option<Box<NonFinite>> },
    #[error("a derivative is not finite at the start: {0}")]
    DerivativeNotFinite(Box<NonFinite>),
}

/// Minimises `energy` from the unknowns of `data`, which it overwrites. Of `compiled`, preconditioner, order of losses, threads and
/// memory count: the precision is always float64.
///
/// # Errors
/// An energy that the assembled path cannot evaluate, options out of range, too little memory, or an energy that is not finite at the
/// start, or whose derivative is not.
pub fn solve(
    energy: &Energy,
    data: &mut ProblemData,
    compiled: &CompileOptions,
    options: &SolveOptions,
    linear: LinearSolver,
) -> Result<Report, SolveError> {
    solve_with(energy, data, compiled, options, linear, &mut |_| Control::Continue)
}

/// [`solve`], observed after each step.
///
/// # Errors
/// As for [`solve`].
pub fn solve_with(
    energy: &Energy,
    data: &mut ProblemData,
    compiled: &CompileOptions,
    options: &SolveOptions,
    linear: LinearSolver,
    callback: Callback<'_>,
) -> Result<Report, SolveError> {
    let started = Instant::now();
    options.check()?;
    compiled.check()?;
    match compiled.preconditioner {
        Preconditioner::Multigrid if linear == LinearSolver::Cg => levels::check_grids(energy)?,
        Preconditioner::Aggregation if linear == LinearSolver::Cg => levels::check_aggregates(energy)?,
        _ => {}
    }
    let threads = Threads::new(compiled.threads);
    let (energy, options) = (&compiled.losses.apply(energy.clone()), &options.decided_for(energy));
    let new = || {
        let problem = Explicit::new(energy, data)?;
        let (bounds, component) = (problem.column_bounds(), problem.components());
        let (model, x, moved) = AssembledModel::new(problem, compiled.preconditioner, linear);
        Ok((Host::new(model, x, bounds, component, options), moved))
    };
    let (mut host, moved) = threads.run(new).map_err(SolveError::Explicit)?;
    let (inputs, buffers) = (data.bytes(), host.model.bytes());
    let limit = MemoryLimit::bytes(compiled.max_memory, inputs);
    let too_much = |limit| SolveError::Memory { needed: inputs.saturating_add(buffers), limit };
    let memory = Memory::within(inputs, buffers, limit).map_err(too_much)?;
    let free = host.x.len();
    let planned = started.elapsed().as_secs_f64();
    let mut steps = OnThreads { threads: &threads, host: &mut host };
    let minimiser = Minimiser::start(&mut steps, options.clone(), Precision::F64, free);
    let mut minimiser = minimiser.map_err(|e| {
        let model = &steps.host.model;
        let location = threads.run(|| model.problem.locate_non_finite(model.point())).map(Box::new);
        SolveError::InitialNotFinite { energy: e.energy, location }
    })?;
    if !steps.host.gradient().iter().all(|g| g.is_finite()) {
        let model = &steps.host.model;
        let located = threads.run(|| model.problem.locate_non_finite_partial(model.point()));
        if let Some(place) = located {
            return Err(SolveError::DerivativeNotFinite(Box::new(place)));
        }
    }
    minimiser.run(&mut steps, callback);
    let outcome = minimiser.finish();
    let solved = started.elapsed().as_secs_f64() - planned;
    let seconds = Seconds { compile: 0.0, plan: planned, solve: solved, ..Seconds::default() };
    let mut warnings = data.warnings().to_vec();
    warnings.extend(moved.into_iter().chain(host.model.problem.energy.warnings.iter().cloned()));
    let setting = Setting {
        groups: energy.groups.clone(),
        unknowns: free,
        residuals: host.model.problem.rows(),
        unconstrained: host.unconstrained,
        method: options.method,
        preconditioner: host.model.preconditioner(),
        grids: vec![],
        without_levels: vec![],
        device: "the assembled Jacobian".to_string(),
        backend: "cpu",
        repeatable: true,
        why_cpu: None,
        lent: Lent::default(),
        waits: 0,
        precision: Precision::F64,
        threads: threads.count(),
        memory,
    };
    let report = Report::new(outcome, setting, seconds, warnings);
    let x = host.model.scattered(&host.x).to_vec();
    drop(host);
    let mut rest = x.as_slice();
    for (unknown, length) in data.unknown_lengths().into_iter().enumerate() {
        let (own, others) = rest.split_at(length);
        data.new_unknown(unknown).copy_from_slice(own);
        rest = others;
    }
    Ok(report)
}

/// The steps of a solve on its threads.
struct OnThreads<'s, 'a> {
    threads: &'s Threads,
    host: &'s mut Host<'a, AssembledModel<'a>>,
}

impl Steps for OnThreads<'_, '_> {
    fn watch(&self) -> &Watch {
        self.host.watch()
    }

    fn energy_at_start(&mut self) -> Energies {
        self.threads.run(|| self.host.energy_at_start())
    }

    fn linearise(&mut self, radius: Option<f64>) -> Linearisation {
        self.threads.run(|| self.host.linearise(radius))
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        self.threads.run(|| self.host.solve_linear(radius))
    }

    fn trial_energy(&mut self) -> Energies {
        self.threads.run(|| self.host.trial_energy())
    }

    fn accept(&mut self) -> Option<Energies> {
        self.threads.run(|| self.host.accept())
    }

    fn reject(&mut self) {
        self.host.reject();
    }

    fn set_aside(&mut self) -> bool {
        self.threads.run(|| self.host.set_aside())
    }
}
