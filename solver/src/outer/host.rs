//! Steps of a problem whose vectors lie in the host's memory, in float64: damping, bounds, PCG and the model's predictions around whatever
//! evaluates E, g and J^T J p.
//!
//! x holds the free scalars alone. A scalar that its bounds hold is no part of the linear system: it has no entry of g and of the diagonal, and
//! no direction moves it.

use crate::outer::forcing::{Forcing, Range};
use crate::outer::lm::{Energies, LinearResult, Linearisation, Steps};
use crate::outer::pcg::{Solution, Stopping};
use crate::outer::vectors::Workers;
use crate::problem::bounds::{HALVINGS, clamp, is_held, projected_gradient};
use crate::problem::cancel::Watch;
use crate::problem::options::SolveOptions;

/// PCG iterations at most where nothing else is said.
const LINEAR_ITERATIONS: usize = 500;

/// Derivatives at some x.
#[derive(Clone, Debug, Default)]
pub(crate) struct Derivatives {
    /// g = J^T r.
    pub gradient: Vec<f64>,
    /// The diagonal of J^T J, or what stands for it.
    pub diagonal: Vec<f64>,
    /// That diagonal to first order in losses, if it is another.
    pub first_order: Option<Vec<f64>>,
}

impl Derivatives {
    /// The diagonal that is damped with.
    fn damped(&self) -> &[f64] {
        self.first_order.as_ref().unwrap_or(&self.diagonal)
    }
}

/// An energy over n scalars. All slices have n entries.
pub(crate) trait Model {
    /// E at x.
    fn energies(&mut self, x: &[f64]) -> Energies;
    /// Sets `at` to the derivatives at x, where all that follows is taken until the next call.
    fn linearise(&mut self, x: &[f64], at: &mut Derivatives);
    /// Takes the scalars that are `held` out of the linear system, until the next linearisation.
    fn hold(&mut self, held: &[bool]);
    /// Sets q to J^T J p, for p = 0 where held; what it is there does not matter.
    fn product(&mut self, p: &[f64], q: &mut [f64]);
    /// Solves (J^T J + diag(damping)) d = b on the scalars that are not held; b is 0 at the others, and so is d.
    fn direction(&mut self, b: &[f64], damping: &[f64], stopping: &Stopping<'_>) -> Solution;
    /// The values of eta, if r.z measures the error of a linear solve, as it does where M is near A (multigrid, aggregation).
    fn eta(&self) -> Option<Range> {
        None
    }
    /// The threads that go over vectors.
    fn workers(&self) -> Workers<'_> {
        Workers::Rayon
    }
    /// Decrease of E that the model without damping predicts for a step s, 0 where held: -(2 g.s + |J s|^2).
    fn predicted(&mut self, gradient: &[f64], s: &[f64]) -> f64 {
        let mut q = vec![0.0; s.len()];
        self.product(s, &mut q);
        -(2.0 * self.workers().dot(s, gradient) + self.workers().dot(s, &q))
    }
    /// Takes notice that x is the new iterate. The energies there, if that has changed them.
    fn accepted(&mut self, _x: &[f64]) -> Option<Energies> {
        None
    }
}

/// x and everything evaluated there.
pub(crate) struct Host<'a, M> {
    pub model: M,
    options: &'a SolveOptions,
    watch: Watch,
    pub x: Vec<f64>,
    trial: Vec<f64>,
    /// The step between them.
    step: Vec<f64>,
    /// -g, and the damping, of the last linear system.
    b: Vec<f64>,
    damping: Vec<f64>,
    /// The x that is set aside, if any is.
    aside: Option<Vec<f64>>,
    at: Derivatives,
    /// Lower and upper bound of each scalar, if there are any.
    bounds: Option<[Vec<f64>; 2]>,
    /// Free scalars that no residual constrains.
    pub unconstrained: usize,
    /// The channel of an unknown that each scalar belongs to, by number.
    component: Vec<usize>,
    /// Per such channel, the largest entry that the diagonal has had.
    largest: Vec<f64>,
    /// The largest value that each entry of the diagonal has had.
    running: Vec<f64>,
    /// eta of models whose M measures the error.
    forcing: Forcing,
}

impl<'a, M: Model> Host<'a, M> {
    /// Starts at `x`, which lies in its bounds.
    pub fn new(
        model: M,
        x: Vec<f64>,
        bounds: Option<[Vec<f64>; 2]>,
        component: Vec<usize>,
        options: &'a SolveOptions,
    ) -> Host<'a, M> {
        Host {
            model,
            options,
            watch: Watch::new(options.cancel.clone(), options.max_time),
            trial: x.clone(),
            step: vec![0.0; x.len()],
            b: vec![0.0; x.len()],
            damping: vec![0.0; x.len()],
            aside: None,
            at: Derivatives::default(),
            bounds,
            unconstrained: 0,
            largest: vec![0.0; component.iter().max().map_or(0, |c| c + 1)],
            component,
            running: vec![0.0; x.len()],
            x,
            forcing: Forcing::new(options),
        }
    }

    /// g at x, 0 where held.
    pub fn gradient(&self) -> &[f64] {
        &self.at.gradient
    }

    /// D_i = clamp(diag_i, min, max) / R, with bounds relative to the largest entry of the channel; 0 for Gauss-Newton.
    fn damp(&mut self, radius: Option<f64>) {
        let Some(radius) = radius else { return self.damping.fill(0.0) };
        let SolveOptions { min_lm_diagonal: min, max_lm_diagonal: max, .. } = *self.options;
        let diagonal = if self.options.running_scales() { &self.running } else { self.at.damped() };
        let (largest, component) = (&self.largest, &self.component);
        self.model.workers().pass([&mut self.damping], [diagonal], |start, [d], [diagonal]| {
            for ((d, diag), &c) in d.iter_mut().zip(diagonal).zip(&component[start..]) {
                *d = diag.max(min * largest[c]).min(max * largest[c]) / radius;
            }
        });
    }

    /// Takes the diagonal at a new x into the largest values so far.
    fn scale(&mut self) {
        let (component, channels) = (&self.component, self.largest.len());
        let of_piece = |start: usize, [running]: [&mut [f64]; 1], [diagonal]: [&[f64]; 1]| {
            let mut largest = vec![0.0f64; channels];
            for ((running, &diag), &c) in running.iter_mut().zip(diagonal).zip(&component[start..]) {
                *running = running.max(diag);
                largest[c] = largest[c].max(diag);
            }
            largest
        };
        for piece in self.model.workers().pass([&mut self.running], [self.at.damped()], of_piece) {
            self.largest.iter_mut().zip(piece).for_each(|(before, now)| *before = before.max(now));
        }
    }

    /// max|g_i| / |column i of J|, each within its bounds; infinite for NaN.
    fn scaled_gradient(&self) -> f64 {
        let (workers, g, diagonal) = (self.model.workers(), &self.at.gradient[..], &self.at.diagonal[..]);
        let scaled = |g: f64, diag: f64, step: f64| match diag {
            _ if g.is_nan() => f64::INFINITY,
            _ if diag <= 0.0 => 0.0,
            _ => step,
        };
        match &self.bounds {
            Some([lower, upper]) => {
                workers.largest([g, diagonal, &self.x, lower, upper], |[g, diag, x, lower, upper], i| {
                    let step = projected_gradient(x[i], g[i] / diag[i], lower[i], upper[i]);
                    scaled(g[i], diag[i], step * diag[i].sqrt())
                })
            }
            None => {
                workers.largest([g, diagonal], |[g, diag], i| scaled(g[i], diag[i], g[i] / diag[i].sqrt()))
            }
        }
    }

    /// Holds the scalars at bounds that -g points out of: they leave the linear system. Returns max|P(x - g) - x|.
    fn hold(&mut self) -> f64 {
        let (x, g) = (&self.x, &self.at.gradient);
        let workers = self.model.workers();
        let Some([lower, upper]) = &self.bounds else { return workers.largest([g], |[g], i| g[i]) };
        let norm = workers.largest([x, g, lower, upper], |[x, g, lower, upper], i| {
            projected_gradient(x[i], g[i], lower[i], upper[i])
        });
        let held: Vec<bool> = (0..x.len()).map(|i| is_held(x[i], g[i], lower[i], upper[i])).collect();
        for i in (0..x.len()).filter(|&i| held[i]) {
            (self.at.gradient[i], self.at.diagonal[i]) = (0.0, 0.0);
        }
        self.model.hold(&held);
        norm
    }

    /// Sets the trial point to P(x + d), and the step to what x can hold, not what was asked for.
    fn propose(&mut self, d: &[f64]) {
        let (workers, trial, x) = (self.model.workers(), &mut self.trial, &self.x);
        match &self.bounds {
            Some([lower, upper]) => {
                workers.pass([trial], [x, d, lower, upper], |_, [trial], [x, d, lower, upper]| {
                    for (i, trial) in trial.iter_mut().enumerate() {
                        *trial = if d[i] == 0.0 { x[i] } else { clamp(x[i] + d[i], lower[i], upper[i]) };
                    }
                });
            }
            None => workers.zip(trial, [x, d], |x, d| if d == 0.0 { x } else { x + d }),
        }
        workers.zip(&mut self.step, [&self.trial, &self.x], |trial, x| trial - x);
    }

    /// The projected gradient step P(x - t g) - x with t = |g|^2 / |J g|^2, halved until the model falls, and by how much it
    /// does.
    fn descend(&mut self) -> f64 {
        let g = self.at.gradient.clone();
        let mut d = vec![0.0; g.len()];
        self.model.product(&g, &mut d);
        let workers = self.model.workers();
        let mut t = workers.dot(&g, &g) / workers.dot(&g, &d);
        let mut halvings = 0;
        loop {
            self.model.workers().map(&mut d, &g, |g| -t * g);
            self.propose(&d);
            let predicted = self.model.predicted(&g, &self.step);
            if predicted > 0.0 || halvings == HALVINGS {
                return predicted;
            }
            t *= 0.5;
            halvings += 1;
        }
    }
}

impl<M: Model> Steps for Host<'_, M> {
    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn energy_at_start(&mut self) -> Energies {
        let energies = self.model.energies(&self.x);
        self.forcing.at_x(energies.total);
        energies
    }

    fn linearise(&mut self, _: Option<f64>) -> Linearisation {
        self.model.linearise(&self.x, &mut self.at);
        self.scale();
        self.unconstrained = self.at.diagonal.iter().filter(|&&d| d == 0.0).count();
        let gradient_scaled = self.scaled_gradient();
        Linearisation { gradient_max_norm: self.hold(), gradient_scaled }
    }

    fn solve_linear(&mut self, radius: Option<f64>) -> LinearResult {
        self.model.workers().map(&mut self.b, &self.at.gradient, |g| -g);
        self.damp(radius);
        let o = self.options;
        let default = if o.linear_tolerance.is_some() { 10 * self.x.len() } else { LINEAR_ITERATIONS };
        let limit = o.linear_iterations.unwrap_or(default);
        let stopping = Stopping {
            tolerance: o.linear_tolerance,
            forcing: o.forcing,
            eta: self.model.eta().map(|range| self.forcing.bound(range, o)),
            limit,
            watch: &self.watch,
        };
        let solution = self.model.direction(&self.b, &self.damping, &stopping);
        self.propose(&solution.d);
        let mut predicted = self.model.predicted(&self.at.gradient, &self.step);
        if self.bounds.is_some() && solution.usable && predicted <= 0.0 {
            predicted = self.descend();
        }
        self.forcing.proposed(predicted, self.model.eta());
        let workers = self.model.workers();
        LinearResult {
            iterations: solution.iterations,
            stop: solution.stop,
            residual: solution.residual,
            usable: solution.usable,
            predicted,
            step_norm: workers.dot(&self.step, &self.step).sqrt(),
            x_norm: workers.dot(&self.x, &self.x).sqrt(),
        }
    }

    fn trial_energy(&mut self) -> Energies {
        let energies = self.model.energies(&self.trial);
        self.forcing.tried(energies.total);
        energies
    }

    fn accept(&mut self) -> Option<Energies> {
        self.forcing.accepted();
        std::mem::swap(&mut self.x, &mut self.trial);
        let energies = self.model.accepted(&self.x)?;
        self.forcing.at_x(energies.total);
        Some(energies)
    }

    fn reject(&mut self) {
        self.forcing.rejected();
    }

    fn set_aside(&mut self) -> bool {
        let Some(aside) = self.aside.replace(self.x.clone()) else { return true };
        self.x = aside;
        self.largest.fill(0.0);
        self.running.fill(0.0);
        self.forcing = Forcing::new(self.options);
        self.model.accepted(&self.x);
        true
    }
}
