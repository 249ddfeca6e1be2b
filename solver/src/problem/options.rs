//! What a solve may be told.

use std::time::Duration;
use sumsq_energy::derive::{Materialize, Passes};
use sumsq_energy::model::Energy;

/// Outer method.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Method {
    /// Levenberg-Marquardt with a trust-region radius.
    #[default]
    LevenbergMarquardt,
    /// Gauss-Newton: every finite step is taken.
    GaussNewton,
}

/// Arithmetic of the solve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// float64 master copy, energy and gradient; float32 PCG.
    #[default]
    Mixed,
    /// float32, sums in float64.
    F32,
    /// float64.
    F64,
}

/// M in PCG.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preconditioner {
    /// None if the energy says so, else block Jacobi where an element has several unknowns, else Jacobi.
    #[default]
    Auto,
    /// M = I on free, constrained unknowns.
    None,
    /// The diagonal of A.
    Jacobi,
    /// The diagonal blocks of A, one per element.
    BlockJacobi,
}

/// How much of a robust loss J^T J holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LossOrder {
    /// As the energy says of each loss.
    #[default]
    Declared,
    /// The slope of every loss: its residuals are re-weighted.
    First,
    /// Also its curvature, by Triggs' correction.
    Second,
}

impl LossOrder {
    /// The energy with its losses so.
    pub fn apply(self, mut energy: Energy) -> Energy {
        if self != LossOrder::Declared {
            energy.blocks.iter_mut().for_each(|b| b.second_order = self == LossOrder::Second);
        }
        energy
    }
}

/// Where the generated code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// CUDA where there is one, else CPU.
    #[default]
    Auto,
    /// This machine's cores.
    Cpu,
    /// A CUDA device.
    Cuda,
}

/// Options of a solve; the defaults are those of the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// Outer method.
    pub method: Method,
    /// Steps at most, rejected ones included.
    pub iterations: usize,
    /// PCG iterations at most per step; `None`: 500, or ten times the free unknowns if `linear_tolerance` is given.
    pub linear_iterations: Option<usize>,
    /// tau: stop PCG at |r| <= tau |b|.
    pub linear_tolerance: Option<f64>,
    /// zeta of the model stopping rule.
    pub forcing: f64,
    /// First trust-region radius.
    pub radius: f64,
    /// Largest radius.
    pub max_radius: f64,
    /// The solve ends below this radius.
    pub min_radius: f64,
    /// By what the first of several rejections in a row divides the radius; each further one doubles the divisor.
    pub radius_decrease_factor: f64,
    /// Least gain ratio of an accepted step.
    pub min_relative_decrease: f64,
    /// Bounds of the scaled diagonal of J^T J that LM damps with: D = clamp(s^2 diag, min, max) / (s^2 R).
    pub min_lm_diagonal: f64,
    /// The upper one; it wins over a larger lower one.
    pub max_lm_diagonal: f64,
    /// LM ends when an accepted step changes E by at most this times E; 0 turns it off.
    pub function_tolerance: f64,
    /// LM ends when max|g| is at most this.
    pub gradient_tolerance: f64,
    /// LM ends when max|g| is at most this times max|g| at the start.
    pub gradient_rtol: f64,
    /// Wall-clock limit.
    pub max_time: Option<Duration>,
    /// Arithmetic.
    pub precision: Precision,
    /// M.
    pub preconditioner: Preconditioner,
    /// Where to run.
    pub backend: Backend,
    /// Worker threads; `None`: all cores.
    pub threads: Option<usize>,
    /// How much of robust losses J^T J holds.
    pub losses: LossOrder,
    /// Passes over the routines: fewer than all for measurements only.
    pub passes: Passes,
    /// What is stored instead of computed where it is needed.
    pub materialize: Materialize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            method: Method::default(),
            iterations: 50,
            linear_iterations: None,
            linear_tolerance: None,
            forcing: 1e-2,
            radius: 1e4,
            max_radius: 1e16,
            min_radius: 1e-32,
            radius_decrease_factor: 2.0,
            min_relative_decrease: 1e-3,
            min_lm_diagonal: 1e-6,
            max_lm_diagonal: 1e32,
            function_tolerance: 1e-6,
            gradient_tolerance: 1e-10,
            gradient_rtol: 0.0,
            max_time: None,
            precision: Precision::default(),
            preconditioner: Preconditioner::default(),
            backend: Backend::default(),
            threads: None,
            losses: LossOrder::default(),
            passes: Passes::ALL,
            materialize: Materialize::default(),
        }
    }
}
