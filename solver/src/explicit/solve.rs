//! Gauss-Newton and Levenberg-Marquardt over the assembled Jacobian: the baseline in the manner of general solvers.

use super::cholesky::NormalCholesky;
use super::pcg::{Solution, Stopping, pcg};
use super::preconditioner::{self, BlockDiagonal, element_blocks};
use super::{Explicit, ExplicitError, Jacobian, NonFinite};
use crate::data::ProblemData;
use crate::lm::{self, Callback, Control, Energies, LinearResult, Linearisation, Outcome, Steps};
use crate::options::{Method, Options, Precision, Preconditioner};
use crate::report::{LinearStop, Report, Seconds};
use std::time::Instant;
use sumsq_energy::model::Energy;
use thiserror::Error;

/// PCG iterations at most where nothing else is said.
const LINEAR_ITERATIONS: usize = 500;

/// How A d = b is solved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinearSolver {
    /// Conjugate gradients on products with J and J^T.
    Cg,
    /// Sparse Cholesky of J^T J + D.
    Cholesky,
}

/// Why there was no solve. The unknowns have not changed.
#[derive(Clone, PartialEq, Debug, Error)]
#[allow(missing_docs)]
pub enum SolveError {
    #[error(transparent)]
    Explicit(#[from] ExplicitError),
    #[error("the energy is {energy} at the start{}", location.as_ref().map(|l| format!(": {l}")).unwrap_or_default())]
    InitialNotFinite { energy: f64, location: Option<Box<NonFinite>> },
}

/// Minimises `energy` from the unknowns of `data`, which it overwrites. Always in float64, whatever the options say.
pub fn solve(
    energy: &Energy,
    data: &mut ProblemData,
    options: &Options,
    linear: LinearSolver,
) -> Result<Report, SolveError> {
    solve_with(energy, data, options, linear, &mut |_| Control::Continue)
}

/// [`solve`], observed after each step.
pub fn solve_with(
    energy: &Energy,
    data: &mut ProblemData,
    options: &Options,
    linear: LinearSolver,
    callback: Callback<'_>,
) -> Result<Report, SolveError> {
    let started = Instant::now();
    let options = Options { precision: Precision::F64, ..options.clone() };
    let problem = Explicit::new(energy, data)?;
    let free = problem.free();
    let mut state = State::new(problem, &options, linear);
    let planned = started.elapsed().as_secs_f64();
    let outcome = lm::minimise(&mut state, &options, free, callback).map_err(|e| {
        let location = state.problem.locate_non_finite(&state.x).map(Box::new);
        SolveError::InitialNotFinite { energy: e.energy, location }
    })?;
    let seconds = Seconds { compile: 0.0, plan: planned, solve: started.elapsed().as_secs_f64() - planned };
    let report = report(&state, &options, outcome, seconds);
    let mut x = std::mem::take(&mut state.x);
    drop(state);
    for unknown in &mut data.unknowns {
        let rest = x.split_off(unknown.len());
        *unknown = std::mem::replace(&mut x, rest);
    }
    Ok(report)
}

fn report(state: &State<'_>, options: &Options, outcome: Outcome, seconds: Seconds) -> Report {
    let mut warnings = state.problem.data.warnings.clone();
    warnings.extend(state.problem.energy.warnings.iter().cloned());
    if state.problem.free() == 0 {
        warnings.push("every unknown is excluded: nothing to solve".to_string());
    }
    Report {
        non_finite: outcome.non_finite,
        energy_initial: outcome.energy_initial,
        energy_final: outcome.energy_final,
        termination: outcome.termination,
        linear_iterations_total: outcome.iterations.iter().map(|i| i.linear_iterations).sum(),
        iterations: outcome.iterations,
        unknowns: state.problem.free(),
        residuals: state.problem.rows(),
        unconstrained: state.diag.iter().filter(|&&d| d == 0.0).count(),
        method: match options.method {
            Method::LevenbergMarquardt => "lm",
            Method::GaussNewton => "gn",
        },
        preconditioner: match state.preconditioner {
            Preconditioner::None => "none",
            Preconditioner::Jacobi => "jacobi",
            Preconditioner::BlockJacobi | Preconditioner::Auto => "block_jacobi",
        },
        backend: "cpu",
        device: "explicit Jacobian".to_string(),
        precision: "f64",
        threads: rayon::current_num_threads(),
        seconds,
        warnings,
    }
}

/// x and everything evaluated there.
struct State<'a> {
    problem: Explicit<'a>,
    options: &'a Options,
    preconditioner: Preconditioner,
    x: Vec<f64>,
    trial: Vec<f64>,
    residuals: Vec<f64>,
    jacobian: Jacobian,
    gradient: Vec<f64>,
    diag: Vec<f64>,
    /// s_i = 1 / (1 + sqrt(diag_i)) at the first iterate; empty before.
    scale: Vec<f64>,
    linear: Linear,
}

/// What a linear solver keeps from step to step.
enum Linear {
    /// The columns of each element.
    Cg(Vec<Vec<u32>>),
    Cholesky(NormalCholesky),
}

impl<'a> State<'a> {
    fn new(problem: Explicit<'a>, options: &'a Options, linear: LinearSolver) -> State<'a> {
        let x = problem.initial();
        let preconditioner = preconditioner::resolve(options.preconditioner, &problem.energy);
        let linear = match linear {
            LinearSolver::Cg if preconditioner == Preconditioner::BlockJacobi => {
                Linear::Cg(element_blocks(&problem))
            }
            LinearSolver::Cg => Linear::Cg(Vec::new()),
            LinearSolver::Cholesky => Linear::Cholesky(NormalCholesky::new(&problem.pattern)),
        };
        State {
            trial: x.clone(),
            x,
            residuals: vec![0.0; problem.rows()],
            jacobian: problem.pattern.clone(),
            gradient: vec![0.0; problem.free()],
            diag: vec![0.0; problem.free()],
            scale: Vec::new(),
            problem,
            options,
            preconditioner,
            linear,
        }
    }

    /// D_i = clamp(s_i^2 diag_i, 1e-6, 1e32) / (s_i^2 R); 0 for Gauss-Newton.
    fn damping(&self, radius: Option<f64>) -> Vec<f64> {
        let Some(radius) = radius else { return vec![0.0; self.diag.len()] };
        let damp = |(&diag, &s): (&f64, &f64)| (s * s * diag).clamp(1e-6, 1e32) / (s * s * radius);
        self.diag.iter().zip(&self.scale).map(damp).collect()
    }

    /// Solves (J^T J + D) d = -g.
    fn direction(&self, damping: &[f64]) -> Solution {
        let b: Vec<f64> = self.gradient.iter().map(|g| -g).collect();
        match &self.linear {
            Linear::Cg(blocks) => {
                let m = BlockDiagonal::new(self.preconditioner, &self.jacobian, &self.diag, damping, blocks);
                pcg(&|p| self.apply(p, damping), &b, &m, &self.stopping())
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

    fn stopping(&self) -> Stopping {
        let o = self.options;
        let default = if o.linear_tolerance.is_some() { 10 * self.problem.free() } else { LINEAR_ITERATIONS };
        Stopping {
            tolerance: o.linear_tolerance,
            forcing: o.forcing,
            limit: o.linear_iterations.unwrap_or(default),
        }
    }

    /// Decrease of E that the linear model predicts for s: -sum (J s)(2 r + J s).
    fn predicted(&self, s: &[f64]) -> f64 {
        let js = self.jacobian.apply(s);
        -js.iter().zip(&self.residuals).map(|(js, r)| js * (2.0 * r + js)).sum::<f64>()
    }
}

impl Steps for State<'_> {
    fn energy_at_start(&mut self) -> Energies {
        self.problem.energies(&self.x)
    }

    fn linearise(&mut self) -> Linearisation {
        self.problem.linearise_into(&self.x, &mut self.residuals, &mut self.jacobian);
        self.gradient = self.jacobian.apply_transpose(&self.residuals);
        self.diag = self.jacobian.diag();
        if self.scale.is_empty() {
            self.scale = self.diag.iter().map(|d| 1.0 / (1.0 + d.sqrt())).collect();
        }
        Linearisation { gradient_max_norm: max_norm(&self.gradient) }
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        let solution = self.direction(&self.damping(radius));
        let free = self.problem.free_scalars();
        self.trial.copy_from_slice(&self.x);
        for (&scalar, d) in free.iter().zip(&solution.d) {
            self.trial[scalar as usize] += d;
        }
        // The step that x can hold, not the one that was asked for.
        let moved = |&scalar: &u32| self.trial[scalar as usize] - self.x[scalar as usize];
        let s: Vec<f64> = free.iter().map(moved).collect();
        let x = self.problem.gather(&self.x);
        LinearResult {
            iterations: solution.iterations,
            stop: solution.stop,
            residual: solution.residual,
            usable: solution.usable,
            predicted: self.predicted(&s),
            step_norm: dot(&s, &s).sqrt(),
            x_norm: dot(&x, &x).sqrt(),
        }
    }

    fn trial_energy(&mut self) -> Energies {
        self.problem.energies(&self.trial)
    }

    fn accept(&mut self) -> Option<Energies> {
        std::mem::swap(&mut self.x, &mut self.trial);
        if !self.problem.energy.has_views() {
            return None;
        }
        self.problem.refresh_views(&self.x);
        Some(self.problem.energies(&self.x))
    }

    fn reject(&mut self) {}
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// max|v_i|; NaN if any entry is.
fn max_norm(v: &[f64]) -> f64 {
    v.iter().fold(0.0, |m: f64, x| if x.is_nan() || m.is_nan() { f64::NAN } else { m.max(x.abs()) })
}
