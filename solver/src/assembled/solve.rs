//! Gauss-Newton and Levenberg-Marquardt over the assembled Jacobian: the baseline in the manner of general solvers.

use crate::assembled::cholesky::NormalCholesky;
use crate::assembled::inverse::Inverse;
use crate::assembled::preconditioner::element_blocks;
use crate::assembled::{Explicit, ExplicitError, Jacobian, NonFinite, Threads, preconditioner};
use crate::outer::forcing::Forcing;
use crate::outer::lm::{Callback, Control, Energies, LinearResult, Linearisation, Minimiser, Steps};
use crate::outer::pcg::{Solution, Stopping, dot, pcg};
use crate::problem::aggregates;
use crate::problem::bounds::{HALVINGS, clamp, is_held, projected_gradient};
use crate::problem::cancel::Watch;
use crate::problem::data::ProblemData;
use crate::problem::grids::served;
use crate::problem::memory::{Bytes, Memory, MemoryLimit};
use crate::problem::options::{CompileOptions, OptionError, Precision, Preconditioner, SolveOptions};
use crate::problem::report::{Lent, LinearStop, Report, Seconds, Setting};
use std::time::Instant;
use sumsq_energy::model::Energy;
use thiserror::Error;

/// PCG iterations at most where nothing else is said.
const LINEAR_ITERATIONS: usize = 500;

/// Ways to solve A d = b.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinearSolver {
    /// Conjugate gradients on products with J and J^T.
    Cg,
    /// Sparse Cholesky of J^T J + D.
    Cholesky,
}

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
    if compiled.preconditioner == Preconditioner::Multigrid
        && linear == LinearSolver::Cg
        && served(energy).is_empty()
    {
        return Err(OptionError::NoGrid.into());
    }
    if compiled.preconditioner == Preconditioner::Aggregation
        && linear == LinearSolver::Cg
        && aggregates::served(energy).is_empty()
    {
        return Err(OptionError::NoAggregates.into());
    }
    let threads = Threads::new(compiled.threads);
    let (energy, options) = (&compiled.losses.apply(energy.clone()), &options.decided_for(energy));
    let new = || Ok(State::new(Explicit::new(energy, data)?, compiled.preconditioner, options, linear));
    let mut state = threads.run(new).map_err(SolveError::Explicit)?;
    let (inputs, buffers) = (data.bytes(), state.bytes());
    let limit = MemoryLimit::bytes(compiled.max_memory, inputs);
    let too_much = |limit| SolveError::Memory { needed: inputs.saturating_add(buffers), limit };
    let memory = Memory::within(inputs, buffers, limit).map_err(too_much)?;
    let free = state.problem.free();
    let planned = started.elapsed().as_secs_f64();
    let mut steps = OnThreads { threads: &threads, state: &mut state };
    let minimiser = Minimiser::start(&mut steps, options.clone(), Precision::F64, free);
    let mut minimiser = minimiser.map_err(|e| {
        let location = threads.run(|| steps.state.problem.locate_non_finite(&steps.state.x)).map(Box::new);
        SolveError::InitialNotFinite { energy: e.energy, location }
    })?;
    if !steps.state.gradient.iter().all(|g| g.is_finite()) {
        let located = threads.run(|| steps.state.problem.locate_non_finite_partial(&steps.state.x));
        if let Some(place) = located {
            return Err(SolveError::DerivativeNotFinite(Box::new(place)));
        }
    }
    minimiser.run(&mut steps, callback);
    let outcome = minimiser.finish();
    let solved = started.elapsed().as_secs_f64() - planned;
    let seconds = Seconds { compile: 0.0, plan: planned, solve: solved, setup: 0.0 };
    let mut warnings = data.warnings().to_vec();
    warnings.extend(state.moved.iter().chain(&state.problem.energy.warnings).cloned());
    let setting = Setting {
        groups: energy.groups.clone(),
        unknowns: free,
        residuals: state.problem.rows(),
        unconstrained: state.unconstrained,
        method: options.method,
        preconditioner: match state.linear {
            Linear::Cg(_) => state.preconditioner.name(),
            Linear::Cholesky(_) => "sparse Cholesky",
        },
        grids: vec![],
        device: "the assembled Jacobian".to_string(),
        backend: "cpu",
        why_cpu: None,
        lent: Lent::default(),
        precision: Precision::F64,
        threads: threads.count(),
        memory,
    };
    let report = Report::new(outcome, setting, seconds, warnings);
    let x = std::mem::take(&mut state.x);
    drop(state);
    let mut rest = x.as_slice();
    for (unknown, length) in data.unknown_lengths().into_iter().enumerate() {
        let (own, others) = rest.split_at(length);
        data.new_unknown(unknown).copy_from_slice(own);
        rest = others;
    }
    Ok(report)
}

/// x and everything evaluated there.
struct State<'a> {
    problem: Explicit<'a>,
    options: &'a SolveOptions,
    watch: Watch,
    preconditioner: Preconditioner,
    x: Vec<f64>,
    /// Warnings of unknowns that started outside of their bounds.
    moved: Vec<String>,
    trial: Vec<f64>,
    residuals: Vec<f64>,
    /// J, g and diag(J^T J); 0 at the columns of held scalars, which so are like columns without a residual.
    jacobian: Jacobian,
    gradient: Vec<f64>,
    diag: Vec<f64>,
    /// That diagonal to first order in losses: what is damped with.
    first_order: Vec<f64>,
    /// Lower and upper bound of each column, if the energy has any.
    bounds: Option<[Vec<f64>; 2]>,
    /// Free scalars that no residual constrains.
    unconstrained: usize,
    /// The channel of an unknown that each column belongs to, by number.
    component: Vec<usize>,
    /// Per such channel, the largest entry that diag(J^T J) has had; empty before the first linearisation.
    largest: Vec<f64>,
    /// The largest value that each entry of diag(J^T J) has had.
    running: Vec<f64>,
    linear: Linear,
    /// eta of the preconditioners that have levels.
    forcing: Forcing,
}

/// State that a linear solver keeps from step to step.
enum Linear {
    /// The columns of each element, if M is made of them.
    Cg(Vec<Vec<u32>>),
    Cholesky(Box<NormalCholesky>),
}

impl<'a> State<'a> {
    fn new(
        problem: Explicit<'a>,
        preconditioner: Preconditioner,
        options: &'a SolveOptions,
        linear: LinearSolver,
    ) -> State<'a> {
        let (x, moved) = problem.feasible();
        let of_columns = |lists: &[Vec<f64>]| problem.gather(&lists.concat());
        let bounds = problem.bounds().map(|b| [of_columns(&b.lower), of_columns(&b.upper)]);
        let preconditioner = preconditioner::resolve(preconditioner, &problem.energy);
        let linear = match linear {
            LinearSolver::Cg => Linear::Cg(element_blocks(preconditioner, &problem)),
            LinearSolver::Cholesky => Linear::Cholesky(Box::new(NormalCholesky::new(&problem.pattern))),
        };
        State {
            trial: x.clone(),
            x,
            moved,
            bounds,
            unconstrained: 0,
            residuals: vec![0.0; problem.rows()],
            jacobian: problem.pattern.clone(),
            gradient: vec![0.0; problem.free()],
            diag: vec![0.0; problem.free()],
            first_order: Vec::new(),
            component: problem.components(),
            largest: Vec::new(),
            running: Vec::new(),
            problem,
            options,
            watch: Watch::new(options.cancel.clone(), options.max_time),
            preconditioner,
            linear,
            forcing: Forcing::new(options),
        }
    }

    /// Bytes of J, of what is as long as its rows and columns, and of the linear solver.
    fn bytes(&self) -> u64 {
        let entries = self.jacobian.rows().nnz();
        let vectors = 2 * self.problem.scalars() + 6 * self.problem.free() + 2 * self.problem.rows();
        // Two copies of J, each in both orders: what is solved with, and the pattern that it began with.
        let jacobian = 2 * entries * (2 * (size_of::<f64>() + size_of::<u32>()) + size_of::<u32>());
        let linear = match &self.linear {
            Linear::Cg(_) => 0,
            Linear::Cholesky(cholesky) => cholesky.bytes(),
        };
        (jacobian + vectors * size_of::<f64>()) as u64 + linear
    }

    /// D_i = clamp(diag_i, min, max) / R, with bounds relative to the largest entry of the channel; 0 for Gauss-Newton.
    fn damping(&self, radius: Option<f64>) -> Vec<f64> {
        let Some(radius) = radius else { return vec![0.0; self.diag.len()] };
        let SolveOptions { min_lm_diagonal: min, max_lm_diagonal: max, .. } = *self.options;
        let diag = if self.options.running_scales() { &self.running } else { &self.first_order };
        let damp =
            |(&diag, &c): (&f64, &usize)| diag.max(min * self.largest[c]).min(max * self.largest[c]) / radius;
        diag.iter().zip(&self.component).map(damp).collect()
    }

    /// Takes the diagonal of J^T J at a new x into the largest values so far.
    fn scale(&mut self) {
        self.running.resize(self.first_order.len(), 0.0);
        self.largest.resize(self.component.iter().max().map_or(0, |c| c + 1), 0.0);
        for ((running, &diag), &c) in self.running.iter_mut().zip(&self.first_order).zip(&self.component) {
            *running = running.max(diag);
            self.largest[c] = self.largest[c].max(diag);
        }
    }

    /// max|g_i| / |column i of J|, each within its bounds; infinite for NaN.
    fn scaled_gradient(&self) -> f64 {
        let x = self.bounds.is_some().then(|| self.problem.gather(&self.x));
        let scaled = |(i, (&g, &diag)): (usize, (&f64, &f64))| match (&x, &self.bounds) {
            _ if g.is_nan() => f64::INFINITY,
            _ if diag <= 0.0 => 0.0,
            (Some(x), Some([lower, upper])) => {
                projected_gradient(x[i], g / diag, lower[i], upper[i]).abs() * diag.sqrt()
            }
            _ => g.abs() / diag.sqrt(),
        };
        self.gradient.iter().zip(&self.diag).enumerate().map(scaled).fold(0.0, f64::max)
    }

    /// Solves (J^T J + D) d = -g.
    fn direction(&self, damping: &[f64]) -> Solution {
        let b: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
        match &self.linear {
            Linear::Cg(blocks) => {
                let system = (&self.diag[..], damping);
                let m =
                    Inverse::new(self.preconditioner, &self.problem, &self.x, &self.jacobian, system, blocks);
                pcg(&mut |p| self.apply(p, damping), &|r| m.apply(r), &b, &self.stopping())
            }
            Linear::Cholesky(cholesky) => match cholesky.solve(&self.jacobian, &self.diag, damping, &b) {
                Some(d) => self.direct_solution(d, damping, &b),
                None => Solution {
                    d: vec![0.0; b.len()],
                    iterations: 0,
                    stop: LinearStop::Indefinite,
                    residual: 1.0,
                    usable: false,
                },
            },
        }
    }

    fn direct_solution(&self, d: Vec<f64>, damping: &[f64], b: &[f64]) -> Solution {
        let ad = self.apply(&d, damping);
        let r: Vec<f64> = b.iter().zip(ad).map(|(b, a)| b - a).collect();
        let residual = dot(&r, &r).sqrt() / dot(b, b).sqrt();
        let stop = if residual.is_finite() { LinearStop::Tolerance } else { LinearStop::NotFinite };
        Solution { d, iterations: 1, stop, residual, usable: true }
    }

    /// A p.
    fn apply(&self, p: &[f64], damping: &[f64]) -> Vec<f64> {
        let mut q = self.jacobian.apply_transpose(&self.jacobian.apply(p));
        q.iter_mut().zip(p.iter().zip(damping)).for_each(|(q, (p, d))| *q += d * p);
        q
    }

    /// Holds the scalars at bounds that -g points out of: they leave the linear system. Returns max|P(x - g) - x|.
    fn hold(&mut self) -> f64 {
        let Some([lower, upper]) = &self.bounds else { return max_norm(&self.gradient) };
        let x = self.problem.gather(&self.x);
        let projected = |i: usize| projected_gradient(x[i], self.gradient[i], lower[i], upper[i]);
        let norm = max_norm(&(0..x.len()).map(projected).collect::<Vec<f64>>());
        let held = |i: usize| is_held(x[i], self.gradient[i], lower[i], upper[i]);
        let held: Vec<bool> = (0..x.len()).map(held).collect();
        self.jacobian.drop_columns(&held);
        for i in (0..x.len()).filter(|&i| held[i]) {
            (self.gradient[i], self.diag[i]) = (0.0, 0.0);
        }
        norm
    }

    /// Sets the trial point to P(x + d). Returns the step that x can hold, not the one that was asked for.
    fn propose(&mut self, d: &[f64]) -> Vec<f64> {
        let free = self.problem.free_scalars();
        self.trial.copy_from_slice(&self.x);
        for (i, (&scalar, d)) in free.iter().zip(d).enumerate().filter(|(_, (_, d))| **d != 0.0) {
            let moved = self.x[scalar as usize] + d;
            self.trial[scalar as usize] = match &self.bounds {
                Some([lower, upper]) => clamp(moved, lower[i], upper[i]),
                None => moved,
            };
        }
        let moved = |&scalar: &u32| self.trial[scalar as usize] - self.x[scalar as usize];
        free.iter().map(moved).collect()
    }

    /// The projected gradient step P(x - t g) - x with t = |g|^2 / |J g|^2, halved until the model falls, and by how much it
    /// does.
    fn descend(&mut self) -> (Vec<f64>, f64) {
        let jg = self.jacobian.apply(&self.gradient);
        let mut t = dot(&self.gradient, &self.gradient) / dot(&jg, &jg);
        let mut halvings = 0;
        loop {
            let d: Vec<f64> = self.gradient.iter().map(|g| -t * g).collect();
            let s = self.propose(&d);
            let predicted = self.predicted(&s);
            if predicted > 0.0 || halvings == HALVINGS {
                return (s, predicted);
            }
            t *= 0.5;
            halvings += 1;
        }
    }

    fn stopping(&self) -> Stopping<'_> {
        let o = self.options;
        let default = if o.linear_tolerance.is_some() { 10 * self.problem.free() } else { LINEAR_ITERATIONS };
        Stopping {
            tolerance: o.linear_tolerance,
            forcing: o.forcing,
            eta: self.preconditioner.has_levels().then(|| self.forcing.bound(o)),
            limit: o.linear_iterations.unwrap_or(default),
            watch: &self.watch,
        }
    }

    /// Decrease of E that the linear model predicts for s: -sum (J s)(2 r + J s).
    fn predicted(&self, s: &[f64]) -> f64 {
        let js = self.jacobian.apply(s);
        -js.iter().zip(&self.residuals).map(|(js, r)| js * (2.0 * r + js)).sum::<f64>()
    }
}

/// The steps of a solve on its threads.
struct OnThreads<'s, 'a> {
    threads: &'s Threads,
    state: &'s mut State<'a>,
}

impl Steps for OnThreads<'_, '_> {
    fn energy_at_start(&mut self) -> Energies {
        self.threads.run(|| self.state.energy_at_start())
    }

    fn linearise(&mut self, radius: Option<f64>) -> Linearisation {
        self.threads.run(|| self.state.linearise(radius))
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        self.threads.run(|| self.state.solve_linear(radius))
    }

    fn trial_energy(&mut self) -> Energies {
        self.threads.run(|| self.state.trial_energy())
    }

    fn accept(&mut self) -> Option<Energies> {
        self.threads.run(|| self.state.accept())
    }

    fn reject(&mut self) {
        self.state.reject();
    }
}

impl Steps for State<'_> {
    fn energy_at_start(&mut self) -> Energies {
        let energies = self.problem.energies(&self.x);
        self.forcing.at_x(energies.total);
        energies
    }

    fn linearise(&mut self, _: Option<f64>) -> Linearisation {
        let first_order = self.problem.linearise_into(&self.x, &mut self.residuals, &mut self.jacobian);
        self.gradient = self.jacobian.apply_transpose(&self.residuals);
        self.diag = self.jacobian.diag();
        self.first_order = first_order.unwrap_or_else(|| self.diag.clone());
        self.scale();
        self.unconstrained = self.diag.iter().filter(|&&d| d == 0.0).count();
        let gradient_scaled = self.scaled_gradient();
        Linearisation { gradient_max_norm: self.hold(), gradient_scaled }
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        let solution = self.direction(&self.damping(radius));
        let mut s = self.propose(&solution.d);
        let mut predicted = self.predicted(&s);
        if self.bounds.is_some() && solution.usable && predicted <= 0.0 {
            (s, predicted) = self.descend();
        }
        self.forcing.proposed(predicted);
        let x = self.problem.gather(&self.x);
        LinearResult {
            iterations: solution.iterations,
            stop: solution.stop,
            residual: solution.residual,
            usable: solution.usable,
            predicted,
            step_norm: dot(&s, &s).sqrt(),
            x_norm: dot(&x, &x).sqrt(),
        }
    }

    fn trial_energy(&mut self) -> Energies {
        let energies = self.problem.energies(&self.trial);
        self.forcing.tried(energies.total);
        energies
    }

    fn accept(&mut self) -> Option<Energies> {
        self.forcing.accepted();
        std::mem::swap(&mut self.x, &mut self.trial);
        if !self.problem.energy.has_views() {
            return None;
        }
        self.problem.refresh_views(&self.x);
        let energies = self.problem.energies(&self.x);
        self.forcing.at_x(energies.total);
        Some(energies)
    }

    fn reject(&mut self) {
        self.forcing.rejected();
    }
}

/// max|v_i|; NaN if any entry is.
fn max_norm(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m: f64, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x.abs()) })
}
