//! First-order methods over the gradient of a pipeline energy, for comparison and for energies that change from step to step: gradient
//! descent with momentum, Adam, L-BFGS.
//!
//! The slope is that of E, 2 J^T r. Each method passes over x once a step; L-BFGS also over its history. Bounds hold after each step.

use crate::outer::host::Model;
use crate::outer::pcg::dot;
use crate::pipeline_energy::PipelineSolver;
use crate::pipeline_energy::compiled::Numbers;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::model::PipelineModel;
use crate::problem::bounds::clamp;
use crate::problem::cancel::{Cancel, Watch};
use std::collections::VecDeque;
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
        let (mut rates, mut bounds) = (vec![1.0; x.len()], vec![]);
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            let scale = options.scales.iter().find(|(n, _)| **n == *u.name).map_or(1.0, |(_, s)| *s);
            rates[range.clone()].fill(scale);
            bounds.push((range, u.lower, u.upper));
        }
        let project = |x: &mut [f64]| {
            for (range, lower, upper) in &bounds {
                x[range.clone()].iter_mut().for_each(|v| *v = clamp(*v, *lower, *upper));
            }
        };
        project(&mut x);
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
        let mut state = State::new(options.method, rates);
        for step in 1..=options.iterations {
            if watch.is_over() {
                break;
            }
            let energy = course.energies[course.energies.len() - 1];
            let next = state.step(&mut model, step, &x, energy, &project);
            if let Some(failure) = model.failure.take() {
                return Err(failure);
            }
            let Some((next, energy)) = next else { break };
            x = next;
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

/// The state of a method between steps.
struct State {
    method: FirstOrder,
    /// Factors of the rate, per scalar.
    rates: Vec<f64>,
    /// The velocity, or the mean of slopes.
    first: Vec<f64>,
    /// The mean of their squares.
    second: Vec<f64>,
    /// Steps and changes of the slope, the latest last.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
    /// The slope at x, where it is known.
    slope: Option<Vec<f64>>,
}

/// Keeps x within its bounds.
type Project<'p> = &'p dyn Fn(&mut [f64]);

impl State {
    fn new(method: FirstOrder, rates: Vec<f64>) -> State {
        let n = rates.len();
        let zeros = || vec![0.0; n];
        State { method, rates, first: zeros(), second: zeros(), pairs: VecDeque::new(), slope: None }
    }

    /// The next point and E there; none where there is none that is finite, or, of L-BFGS, that is lower.
    fn step(
        &mut self,
        model: &mut PipelineModel<'_>,
        number: usize,
        x: &[f64],
        energy: f64,
        project: Project<'_>,
    ) -> Option<(Vec<f64>, f64)> {
        if let FirstOrder::Lbfgs { history } = self.method {
            return self.lbfgs(model, x, energy, project, history);
        }
        let slope = model.slope(x);
        let mut next = x.to_vec();
        match self.method {
            FirstOrder::Descent { rate, momentum } => {
                for (i, next) in next.iter_mut().enumerate() {
                    self.first[i] = momentum * self.first[i] - rate * self.rates[i] * slope[i];
                    *next += self.first[i];
                }
            }
            FirstOrder::Adam { rate, beta1, beta2, epsilon } => {
                let power = i32::try_from(number).unwrap_or(i32::MAX);
                let (c1, c2) = (1.0 - beta1.powi(power), 1.0 - beta2.powi(power));
                for (i, next) in next.iter_mut().enumerate() {
                    self.first[i] = beta1 * self.first[i] + (1.0 - beta1) * slope[i];
                    self.second[i] = beta2 * self.second[i] + (1.0 - beta2) * slope[i] * slope[i];
                    let root = (self.second[i] / c2).sqrt() + epsilon;
                    *next -= rate * self.rates[i] * (self.first[i] / c1) / root;
                }
            }
            FirstOrder::Lbfgs { .. } => {}
        }
        project(&mut next);
        let energy = model.energies(&next).total;
        energy.is_finite().then_some((next, energy))
    }

    fn lbfgs(
        &mut self,
        model: &mut PipelineModel<'_>,
        x: &[f64],
        energy: f64,
        project: Project<'_>,
        history: usize,
    ) -> Option<(Vec<f64>, f64)> {
        let slope = self.slope.take().unwrap_or_else(|| model.slope(x));
        let direction = self.direction(&slope);
        let promised = dot(&slope, &direction);
        let falls = promised < 0.0;
        if !falls {
            return None;
        }
        // Without a history nothing is known of lengths: the first step is no longer than 1.
        let mut t = if self.pairs.is_empty() { 1.0 / dot(&slope, &slope).sqrt().max(1.0) } else { 1.0 };
        for _ in 0..HALVINGS {
            let mut next: Vec<f64> = x.iter().zip(&direction).map(|(x, d)| x + t * d).collect();
            project(&mut next);
            let there = model.energies(&next).total;
            if there <= energy + SUFFICIENT * t * promised {
                let behind = model.slope(&next);
                let difference =
                    |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
                let (s, y) = (difference(&next, x), difference(&behind, &slope));
                if dot(&s, &y) > 0.0 {
                    self.pairs.push_back((s, y));
                    self.pairs.drain(..self.pairs.len().saturating_sub(history));
                }
                self.slope = Some(behind);
                return Some((next, there));
            }
            t *= 0.5;
        }
        None
    }

    /// Minus the slope times the matrix that the pairs make of the inverse Hessian: the two-loop recursion.
    fn direction(&self, slope: &[f64]) -> Vec<f64> {
        let mut q: Vec<f64> = slope.iter().map(|g| -g).collect();
        let mut shares = vec![];
        for (s, y) in self.pairs.iter().rev() {
            let share = dot(s, &q) / dot(s, y);
            q.iter_mut().zip(y).for_each(|(q, y)| *q -= share * y);
            shares.push(share);
        }
        if let Some((s, y)) = self.pairs.back() {
            let size = dot(s, y) / dot(y, y);
            q.iter_mut().for_each(|q| *q *= size);
        }
        for ((s, y), share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let back = dot(y, &q) / dot(s, y);
            q.iter_mut().zip(s).for_each(|(q, s)| *q += (share - back) * s);
        }
        q
    }
}
