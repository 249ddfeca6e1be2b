//! First-order methods over the gradient of a pipeline energy, for comparison and for energies that change from step to step: gradient
//! descent with momentum, Adam, L-BFGS.
//!
//! The slope is that of E, 2 J^T r. Behind the gradient a step of the first two goes over x and its state once, on all threads; L-BFGS also over
//! its history. Bounds hold after each step.

use crate::outer::host::Model;
use crate::outer::vectors::Workers;
use crate::pipeline_energy::PipelineSolver;
use crate::pipeline_energy::compiled::Numbers;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::model::PipelineModel;
use crate::problem::bounds::clamp;
use crate::problem::cancel::{Cancel, Watch};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};
use sumsq_codegen::runtime::{Buffer, Scalar};

/// Halvings of a step of L-BFGS at most, until E falls.
const HALVINGS: usize = 50;
/// The share of the decrease that the slope promises which a step of L-BFGS must bring (Armijo).
const SUFFICIENT: f64 = 1e-4;

/// A first-order method. Rates are in units of the unknown per unit of slope (Adam: per step).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FirstOrder {
    /// v = momentum v - rate slope; x += v.
    Descent {
        /// Step along the slope.
        rate: f64,
        /// The share of the last step that stays, in [0, 1).
        momentum: f64,
    },
    /// Kingma and Ba, "Adam: a method for stochastic optimization", 2015, algorithm 1.
    Adam {
        /// Length of a step of each scalar, about.
        rate: f64,
        /// Decay of the mean of slopes, in [0, 1): 0.9.
        beta1: f64,
        /// Decay of the mean of their squares, in [0, 1): 0.999.
        beta2: f64,
        /// Addend to the root of that mean: 1e-8.
        epsilon: f64,
    },
    /// Liu and Nocedal, "On the limited memory BFGS method", 1989, with backtracking.
    Lbfgs {
        /// Pairs of steps and changes of slope that are kept; with none of them it is gradient descent with line search.
        history: usize,
    },
}

/// Options of a descent.
#[derive(Clone, PartialEq, Debug)]
pub struct Descent<'a> {
    /// The method.
    pub method: FirstOrder,
    /// Factors of the rate for some unknowns, by name; 1 for others. L-BFGS has no rates.
    pub scales: &'a [(&'a str, f64)],
    /// Steps at most.
    pub iterations: usize,
    /// Wall-clock limit.
    pub max_time: Option<Duration>,
    /// A request that ends it.
    pub cancel: Option<Cancel>,
}

impl Default for Descent<'_> {
    /// Adam at a rate of 1e-2, 300 steps.
    fn default() -> Self {
        let method = FirstOrder::Adam { rate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        Descent { method, scales: &[], iterations: 300, max_time: None, cancel: None }
    }
}

/// The course of a descent.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// E at the start and after each step.
    pub energies: Vec<f64>,
    /// Wall-clock seconds since the start, at each of them.
    pub seconds: Vec<f64>,
}

impl PipelineSolver {
    /// Goes down from the unknowns among `buffers` and `params`, which become the last point whose energy is finite.
    ///
    /// # Errors
    /// As for [`PipelineSolver::solve`]; rates that are not above 0, decays outside of [0, 1).
    pub fn descend(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
        options: &Descent<'_>,
    ) -> Result<Course, PipelineEnergyError> {
        options.method.check()?;
        let numbers = Numbers::new(&self.energy, &self.routines, buffers, params, &self.pool)?;
        let mut x = self.start(&numbers, buffers, params);
        let mut parts = vec![];
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            let scale = options.scales.iter().find(|(n, _)| **n == *u.name).map_or(1.0, |(_, s)| *s);
            parts.push(Part { range, scale, lower: u.lower, upper: u.upper });
        }
        parts.iter().for_each(|part| part.project(Workers::Pool(&self.pool), &mut x));
        let mut model = PipelineModel::new(numbers, &self.routines, self.options.preconditioner)?;
        let started = Instant::now();
        let watch = Watch::new(options.cancel.clone(), options.max_time);
        let energy = model.energies(&x).total;
        if let Some(failure) = model.failure.take() {
            return Err(failure);
        }
        if !energy.is_finite() {
            return Err(self.not_finite(energy, &mut model, &x));
        }
        let mut course = Course { energies: vec![energy], seconds: vec![started.elapsed().as_secs_f64()] };
        let mut state = State::new(options.method, parts, &x);
        for step in 1..=options.iterations {
            if watch.is_over() {
                break;
            }
            let energy = course.energies[course.energies.len() - 1];
            let next = state.step(&mut model, step, &x, energy);
            if let Some(failure) = model.failure.take() {
                return Err(failure);
            }
            let Some(energy) = next else { break };
            std::mem::swap(&mut x, &mut state.next);
            course.energies.push(energy);
            course.seconds.push(started.elapsed().as_secs_f64());
        }
        self.write(&x, &model.numbers, buffers, params)?;
        Ok(course)
    }
}

impl FirstOrder {
    fn check(&self) -> Result<(), PipelineEnergyError> {
        let rate = |rate: f64| rate > 0.0 && rate.is_finite();
        let decay = |decay: f64| (0.0..1.0).contains(&decay);
        let (fits, expected) = match *self {
            FirstOrder::Descent { rate: r, momentum } => {
                (rate(r) && decay(momentum), "a finite rate above 0 and a momentum in [0, 1)")
            }
            FirstOrder::Adam { rate: r, beta1, beta2, epsilon } => (
                rate(r) && decay(beta1) && decay(beta2) && rate(epsilon),
                "a finite rate and epsilon above 0 and decays in [0, 1)",
            ),
            FirstOrder::Lbfgs { .. } => return Ok(()),
        };
        if fits { Ok(()) } else { Err(PipelineEnergyError::FirstOrder { expected }) }
    }
}

/// The scalars of an unknown, what its rates are multiplied by, and its bounds.
struct Part {
    range: Range<usize>,
    scale: f64,
    lower: f64,
    upper: f64,
}

impl Part {
    /// Brings its scalars among those of x into its bounds.
    fn project(&self, workers: Workers<'_>, x: &mut [f64]) {
        let &Part { lower, upper, .. } = self;
        if lower > f64::NEG_INFINITY || upper < f64::INFINITY {
            workers.pass([&mut x[self.range.clone()]], [], |_, [x], []| {
                x.iter_mut().for_each(|x| *x = clamp(*x, lower, upper));
            });
        }
    }
}

/// The state of a method between steps.
struct State {
    method: FirstOrder,
    parts: Vec<Part>,
    /// The velocity, or the mean of slopes.
    first: Vec<f64>,
    /// The mean of their squares.
    second: Vec<f64>,
    /// Steps and changes of the slope, the latest last.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
    /// J^T r, half of the slope of E; at x, or where it was taken last.
    gradient: Vec<f64>,
    is_at_x: bool,
    /// The point that is tried.
    next: Vec<f64>,
}

impl State {
    fn new(method: FirstOrder, parts: Vec<Part>, x: &[f64]) -> State {
        let zeros = |has: bool| if has { vec![0.0; x.len()] } else { vec![] };
        let first = zeros(!matches!(method, FirstOrder::Lbfgs { .. }));
        let second = zeros(matches!(method, FirstOrder::Adam { .. }));
        let (gradient, next, pairs) = (zeros(true), zeros(true), VecDeque::new());
        State { method, parts, first, second, pairs, gradient, is_at_x: false, next }
    }

    /// Sets `next` to the next point and returns E there; none where there is none that is finite, or, of L-BFGS, that is lower.
    fn step(&mut self, model: &mut PipelineModel<'_>, number: usize, x: &[f64], energy: f64) -> Option<f64> {
        if let FirstOrder::Lbfgs { history } = self.method {
            return self.lbfgs(model, x, energy, history);
        }
        model.gradient(x, &mut self.gradient);
        let workers = model.workers();
        for part in &self.parts {
            let range = part.range.clone();
            let [next, first] = [&mut self.next, &mut self.first].map(|v| &mut v[range.clone()]);
            let read = [&x[range.clone()], &self.gradient[range.clone()]];
            match self.method {
                FirstOrder::Descent { rate, momentum } => {
                    let rate = 2.0 * rate * part.scale;
                    workers.pass([next, first], read, |_, [next, first], [x, g]| {
                        let n = x.len();
                        let (next, first, g) = (&mut next[..n], &mut first[..n], &g[..n]);
                        for i in 0..n {
                            first[i] = momentum * first[i] - rate * g[i];
                            next[i] = x[i] + first[i];
                        }
                    });
                }
                FirstOrder::Adam { rate, beta1, beta2, epsilon } => {
                    let power = i32::try_from(number).unwrap_or(i32::MAX);
                    let (c1, c2) = (1.0 - beta1.powi(power), 1.0 - beta2.powi(power));
                    let rate = rate * part.scale;
                    let second = &mut self.second[range];
                    workers.pass([next, first, second], read, |_, [next, first, second], [x, g]| {
                        let n = x.len();
                        let (next, first, second) = (&mut next[..n], &mut first[..n], &mut second[..n]);
                        let g = &g[..n];
                        for i in 0..n {
                            let slope = 2.0 * g[i];
                            first[i] = beta1 * first[i] + (1.0 - beta1) * slope;
                            second[i] = beta2 * second[i] + (1.0 - beta2) * slope * slope;
                            let root = (second[i] / c2).sqrt() + epsilon;
                            next[i] = x[i] - rate * (first[i] / c1) / root;
                        }
                    });
                }
                FirstOrder::Lbfgs { .. } => {}
            }
            part.project(workers, &mut self.next);
        }
        let energy = model.energies(&self.next).total;
        energy.is_finite().then_some(energy)
    }

    fn lbfgs(
        &mut self,
        model: &mut PipelineModel<'_>,
        x: &[f64],
        energy: f64,
        history: usize,
    ) -> Option<f64> {
        if !self.is_at_x {
            model.gradient(x, &mut self.gradient);
        }
        let direction = self.direction(model.workers());
        let promised = 2.0 * model.workers().dot(&self.gradient, &direction);
        let falls = promised < 0.0;
        if !falls {
            return None;
        }
        // Without a history nothing is known of lengths: the first step is no longer than 1.
        let size = 2.0 * model.workers().dot(&self.gradient, &self.gradient).sqrt();
        let mut t = if self.pairs.is_empty() { 1.0 / size.max(1.0) } else { 1.0 };
        for _ in 0..HALVINGS {
            let workers = model.workers();
            workers.zip(&mut self.next, [x, &direction], |x, d| x + t * d);
            self.parts.iter().for_each(|part| part.project(workers, &mut self.next));
            let there = model.energies(&self.next).total;
            if there <= energy + SUFFICIENT * t * promised {
                self.remember(model, x, history);
                return Some(there);
            }
            t *= 0.5;
        }
        None
    }

    /// Takes the step from x to `next` and the change of the slope along it into the history.
    fn remember(&mut self, model: &mut PipelineModel<'_>, x: &[f64], history: usize) {
        let mut behind = vec![0.0; x.len()];
        model.gradient(&self.next, &mut behind);
        let workers = model.workers();
        let [mut s, mut y] = [(); 2].map(|()| vec![0.0; x.len()]);
        workers.zip(&mut s, [&self.next, x], |next, x| next - x);
        workers.zip(&mut y, [&behind, &self.gradient], |behind, g| 2.0 * (behind - g));
        if workers.dot(&s, &y) > 0.0 {
            self.pairs.push_back((s, y));
            self.pairs.drain(..self.pairs.len().saturating_sub(history));
        }
        (self.gradient, self.is_at_x) = (behind, true);
    }

    /// Minus the slope times the matrix that the pairs make of the inverse Hessian: the two-loop recursion.
    fn direction(&self, workers: Workers<'_>) -> Vec<f64> {
        let add = |q: &mut [f64], share: f64, v: &[f64]| {
            workers.pass([q], [v], |_, [q], [v]| q.iter_mut().zip(v).for_each(|(q, v)| *q += share * v));
        };
        let mut q = vec![0.0; self.gradient.len()];
        add(&mut q, -2.0, &self.gradient);
        let mut shares = vec![];
        for (s, y) in self.pairs.iter().rev() {
            let share = workers.dot(s, &q) / workers.dot(s, y);
            add(&mut q, -share, y);
            shares.push(share);
        }
        if let Some((s, y)) = self.pairs.back() {
            let size = workers.dot(s, y) / workers.dot(y, y);
            workers.pass([&mut q], [], |_, [q], []| q.iter_mut().for_each(|q| *q *= size));
        }
        for ((s, y), share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let back = workers.dot(y, &q) / workers.dot(s, y);
            add(&mut q, share - back, s);
        }
        q
    }
}
