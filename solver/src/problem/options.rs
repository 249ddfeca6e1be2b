//! Options: [`CompileOptions`] are fixed with the machine code, [`SolveOptions`] are those of each solve. Both are checked where they are
//! used, by [`Solver::compile`](crate::Solver::compile) and by whatever starts a solve.

use crate::problem::cancel::Cancel;
use crate::problem::memory::MemoryLimit;
use crate::problem::overrides::{ChoiceError, Overrides};
use std::time::Duration;
use sumsq_codegen::Level;
use sumsq_codegen::limits::Effort;
use sumsq_energy::derive::Passes;
use sumsq_energy::model::{Domain, Energy};
use thiserror::Error;

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
    /// None if the energy says so, else block Jacobi where an element has several unknowns, else Jacobi; then one with levels where that pays.
    #[default]
    Auto,
    /// M = I on free, constrained unknowns.
    None,
    /// The diagonal of A.
    Jacobi,
    /// The diagonal blocks of A, one per element.
    BlockJacobi,
    /// Coarser and coarser grids, for index spaces whose unknowns residuals read at several offsets.
    Multigrid,
    /// Aggregates of elements, for index spaces that have an unknown which some residual reads at two elements.
    Aggregation,
}

impl Preconditioner {
    /// Every choice and its name in options and reports, in the order of their numbers in `sumsq.h`.
    pub const ALL: &[(Preconditioner, &str)] = &[
        (Preconditioner::Auto, "auto"),
        (Preconditioner::None, "none"),
        (Preconditioner::Jacobi, "jacobi"),
        (Preconditioner::BlockJacobi, "block_jacobi"),
        (Preconditioner::Multigrid, "multigrid"),
        (Preconditioner::Aggregation, "aggregation"),
    ];

    /// The choice of this name.
    pub fn named(name: &str) -> Option<Preconditioner> {
        Preconditioner::ALL.iter().find(|(_, n)| *n == name).map(|(choice, _)| *choice)
    }

    /// True of kinds with coarser levels.
    pub fn has_levels(self) -> bool {
        matches!(self, Preconditioner::Multigrid | Preconditioner::Aggregation)
    }

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        Preconditioner::ALL[self as usize].1
    }
}

/// Share of a robust loss that J^T J holds.
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

/// Machine that the generated code runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// A CUDA device where there is one and the work pays for starting it, else the CPU: the report says why. Sizes have to be known.
    #[default]
    Auto,
    /// This machine's cores.
    Cpu,
    /// A CUDA device.
    Cuda,
}

/// Most worker threads that can be asked for.
pub const MAX_THREADS: usize = 1024;

/// Options that are fixed when an energy is compiled; the defaults are those of the command line.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CompileOptions {
    /// Arithmetic.
    pub precision: Precision,
    /// M.
    pub preconditioner: Preconditioner,
    /// Machine to run on.
    pub backend: Backend,
    /// Instructions that generated code may use, on a CPU.
    pub target: Level,
    /// Number of the CUDA device.
    pub device: usize,
    /// Compute capability that code for a GPU is made for, 90 for 9.0; `None`: the device's own. Where code is only shown, there need be no
    /// device: then 75.
    pub capability: Option<u32>,
    /// Worker threads, from one to [`MAX_THREADS`]; `None`: all cores.
    pub threads: Option<usize>,
    /// Memory that the numbers of a problem and the buffers of its plan may take; `None`: as much as there is.
    pub max_memory: Option<MemoryLimit>,
    /// Share of robust losses that J^T J holds.
    pub losses: LossOrder,
    /// Passes over the routines: fewer than all for measurements only.
    pub passes: Passes,
    /// Choices of storage in place of those that would be made.
    pub choices: Overrides,
    /// The sizes of the energy's dims, in the order of their declaration, if they are known: some choices depend on them. The code is right
    /// for any others, too.
    pub sizes: Option<Vec<usize>>,
    /// Most that compilation may take.
    pub limits: CompileLimits,
}

/// Most that the compilation of an energy may take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompileLimits {
    /// LLVM instructions of a pipeline, before optimisation; a block without branches may have a twelfth of them. LLVM's time grows with
    /// the square of a block's length, so a long one is refused before LLVM takes hours for it.
    pub instructions: u64,
    /// Seconds for derivation and compilation, which are looked at between passes.
    pub seconds: f64,
    /// The work that LLVM spends on the code of a processor.
    pub effort: Effort,
}

impl Default for CompileLimits {
    fn default() -> CompileLimits {
        CompileLimits { instructions: 400_000, seconds: 60.0, effort: Effort::Full }
    }
}

/// Options of a solve; the defaults are those of the command line.
#[derive(Clone, PartialEq, Debug)]
pub struct SolveOptions {
    /// Outer method.
    pub method: Method,
    /// Steps at most, rejected ones included. `None`, here and below: by the energy, see [`SolveOptions::decided_for`].
    pub iterations: Option<usize>,
    /// PCG iterations at most per step; `None`: 500, or ten times the free unknowns if `linear_tolerance` is given.
    pub linear_iterations: Option<usize>,
    /// tau > 0: stop PCG at |r| <= tau |b|.
    pub linear_tolerance: Option<f64>,
    /// zeta >= 0 of the model stopping rule.
    pub forcing: f64,
    /// eta > 0 of the stopping rule sqrt(r.z) <= eta sqrt(r0.z0) of multigrid and aggregation; `None`: as the steps turn out, from 0.1
    /// (multigrid) or 1e-3 (aggregation) to 0.3.
    pub eta: Option<f64>,
    /// First trust-region radius, above 0.
    pub radius: Option<f64>,
    /// A second descent; `None`: there is one where neither `radius` nor `iterations` is given, and all unknowns are globals, or all residuals are
    /// over graphs and no tolerance of linear systems is given.
    pub second: Option<SecondDescent>,
    /// Largest radius, above 0.
    pub max_radius: f64,
    /// The solve ends below this radius.
    pub min_radius: f64,
    /// By what the first of several rejections in a row divides the radius, above 1; each further one doubles the divisor.
    pub radius_decrease_factor: f64,
    /// Least gain ratio of an accepted step.
    pub min_relative_decrease: f64,
    /// Bounds of the diagonal of J^T J that LM damps with, relative to the largest entry that it has had for the same channel of the same
    /// unknown: D = clamp(diag, min largest, max largest) / R.
    pub min_lm_diagonal: f64,
    /// The upper one; it wins over a larger lower one.
    pub max_lm_diagonal: f64,
    /// LM ends when an accepted step changes E by at most this times E; 0 turns it off.
    pub function_tolerance: Option<f64>,
    /// LM damps with the largest value that each entry of that diagonal has had (More), not with the current one.
    pub running_scales: Option<bool>,
    /// LM ends when no single unknown could take more than this share off |r|: |g_i| <= this |column i of J| sqrt(E) for all i.
    pub gradient_tolerance: f64,
    /// LM ends when max|g| is at most this times max|g| at the start.
    pub gradient_rtol: f64,
    /// LM ends when |s| is at most this times both |x| and the longest step so far; 0 turns it off.
    pub step_tolerance: f64,
    /// Wall-clock limit. It is heeded between any two PCG iterations.
    pub max_time: Option<Duration>,
    /// A request that ends the solve, as soon as the time limit would.
    pub cancel: Option<Cancel>,
}

/// LM from the start once more, where the limit of steps has ended it: with as many steps. The lower of the two ends counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SecondDescent {
    /// First trust-region radius, above 0.
    pub radius: f64,
    /// Linear systems are solved nearly exactly, with the levels that `auto` has for them. It then follows only where the first descent was under
    /// way at its limit: of the last tenth of its steps one was rejected, or they took more than a thousandth off E.
    pub exact: bool,
}

/// A first radius for exact steps, which are good however little is damped. Damping holds the smoothest part of a step back most.
pub const EXACT_RADIUS: f64 = 1e8;

impl Default for SolveOptions {
    fn default() -> SolveOptions {
        SolveOptions {
            method: Method::default(),
            iterations: None,
            linear_iterations: None,
            linear_tolerance: None,
            forcing: 1e-2,
            eta: None,
            radius: None,
            second: None,
            max_radius: 1e16,
            min_radius: 1e-32,
            radius_decrease_factor: 2.0,
            min_relative_decrease: 1e-3,
            min_lm_diagonal: 1e-6,
            max_lm_diagonal: 1e32,
            running_scales: None,
            function_tolerance: None,
            gradient_tolerance: 1e-10,
            gradient_rtol: 0.0,
            step_tolerance: 1e-8,
            max_time: None,
            cancel: None,
        }
    }
}

/// Numbers of a solve that its options may leave open.
struct Pace {
    iterations: usize,
    radius: f64,
    function_tolerance: f64,
    running_scales: bool,
}

/// The rule: a step costs much, and the last digits are not worth one.
const BRISK: Pace = Pace { iterations: 50, radius: 1e4, function_tolerance: 1e-6, running_scales: false };

/// For LM on few unknowns: a step costs next to nothing, so it goes on to the last digit, and starts with care. On NIST's problems all
/// radii from 1e-6 to 3e-3 lead to the same answers; from a larger one, some first steps end where the model is flat.
const THOROUGH: Pace = Pace { iterations: 1000, radius: 1e-3, function_tolerance: 0.0, running_scales: true };

impl SolveOptions {
    /// The options with nothing left open. Of LM where all unknowns are globals ([`Energy::only_globals`]): 1000 iterations, a first radius
    /// of 1e-3 and a second descent, a function tolerance of 0, running scales. Of any other solve: 50, 1e4, 1e-6, none, and where all residuals are
    /// over graphs a second descent by exact steps.
    pub fn decided_for(&self, energy: &Energy) -> SolveOptions {
        let thorough = self.method == Method::LevenbergMarquardt && energy.only_globals();
        let pace = if thorough { THOROUGH } else { BRISK };
        let left_open = self.radius.is_none() && self.iterations.is_none();
        let second = SecondDescent { radius: self.max_radius, exact: false };
        let second = if thorough { Some(second) } else { self.exact_steps(energy) };
        SolveOptions {
            iterations: self.iterations.or(Some(pace.iterations)),
            radius: self.radius.or(Some(pace.radius)),
            second: self.second.or(second.filter(|_| left_open)),
            function_tolerance: self.function_tolerance.or(Some(pace.function_tolerance)),
            running_scales: self.running_scales.or(Some(pace.running_scales)),
            ..self.clone()
        }
    }

    /// The descent by exact steps for an energy over graphs alone, if linear systems are not given otherwise. Errors add up along chains of
    /// hyperedges. Where residuals of single elements hold these in place they do not: then such a descent would cost more than it gains.
    fn exact_steps(&self, energy: &Energy) -> Option<SecondDescent> {
        let over_graphs = energy.residuals.iter().all(|r| matches!(r.domain, Domain::Graph(_)));
        let given = self.linear_tolerance.is_some() || self.eta.is_some();
        let wanted = over_graphs && !given && self.method == Method::LevenbergMarquardt;
        wanted.then_some(SecondDescent { radius: EXACT_RADIUS, exact: true })
    }

    /// Steps at most; of what is left open, here and below, the value for any energy.
    pub fn iterations(&self) -> usize {
        self.iterations.unwrap_or(BRISK.iterations)
    }

    /// First trust-region radius.
    pub fn radius(&self) -> f64 {
        self.radius.unwrap_or(BRISK.radius)
    }

    /// The relative decrease of E that ends LM, 0 if none does.
    pub fn function_tolerance(&self) -> f64 {
        self.function_tolerance.unwrap_or(BRISK.function_tolerance)
    }

    /// Tells whether damping goes by running scales.
    pub fn running_scales(&self) -> bool {
        self.running_scales.unwrap_or(BRISK.running_scales)
    }
}

/// Both, for whoever hands them on together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// Fixed with the machine code.
    pub compile: CompileOptions,
    /// Of each solve.
    pub solve: SolveOptions,
}

impl Options {
    /// Checks every number.
    ///
    /// # Errors
    /// The first one that is out of range.
    pub fn check(&self) -> Result<(), OptionError> {
        self.compile.check()?;
        self.solve.check()
    }
}

/// An option that is out of range, or that an energy cannot honour.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum OptionError {
    /// A number out of its range, or NaN.
    #[error("option {name}: expected {expected}, came {came}")]
    Number {
        /// The field of the options.
        name: &'static str,
        /// The range, in words.
        expected: &'static str,
        /// The value that was given.
        came: f64,
    },
    /// A count of 0.
    #[error("option {name}: expected at least 1, came 0")]
    Zero {
        /// The field of the options.
        name: &'static str,
    },
    /// A count that is too large.
    #[error("option {name}: expected at most {most}, came {came}")]
    TooMany {
        /// The field of the options.
        name: &'static str,
        /// The largest.
        most: usize,
        /// The value that was given.
        came: usize,
    },
    /// Elements of every index space that could be served have too many unknown scalars.
    #[error("{kind} takes at most {most} unknowns per element, this energy has {came}: use {instead}")]
    WideElements {
        /// The preconditioner.
        kind: &'static str,
        /// Unknowns per element at most.
        most: usize,
        /// The energy's.
        came: usize,
        /// A preconditioner that it can have.
        instead: &'static str,
    },
    /// There is no grid to make coarser.
    #[error(
        "multigrid needs an index space whose unknowns some residual reads at several offsets, this energy has none: use {instead}"
    )]
    NoGrid {
        /// A preconditioner that the energy can have.
        instead: &'static str,
    },
    /// There are no elements to aggregate.
    #[error(
        "aggregation needs an unknown that some residual reads at two elements, this energy has none: use {instead}"
    )]
    NoAggregates {
        /// A preconditioner that the energy can have.
        instead: &'static str,
    },
    /// The entries of A on coarser levels would make too much code, in every index space that has a grid.
    #[error(
        "multigrid takes at most {most} unknowns per element of an index space of {dims} dims, this energy has {came}: use {instead}"
    )]
    WideGrid {
        /// Dims of the index space.
        dims: usize,
        /// Unknowns per element at most.
        most: usize,
        /// The energy's.
        came: usize,
        /// A preconditioner that it can have.
        instead: &'static str,
    },
    /// A choice that cannot be.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// A certificate was asked of a solver in a narrower precision.
    #[error("the certificate needs a solver compiled with float64 precision")]
    CertificatePrecision,
}

impl CompileOptions {
    /// Checks every number.
    ///
    /// # Errors
    /// The first one that is out of range.
    pub fn check(&self) -> Result<(), OptionError> {
        match self.threads {
            Some(0) => Err(OptionError::Zero { name: "threads" }),
            Some(came) if came > MAX_THREADS => {
                Err(OptionError::TooMany { name: "threads", most: MAX_THREADS, came })
            }
            _ => Ok(()),
        }
    }
}

impl SolveOptions {
    /// Checks every number.
    ///
    /// # Errors
    /// The first one that is out of range.
    pub fn check(&self) -> Result<(), OptionError> {
        let above_zero = [
            ("linear_tolerance", self.linear_tolerance.unwrap_or(1.0)),
            ("eta", self.eta.unwrap_or(1.0)),
            ("radius", self.radius()),
            ("second radius", self.second.map_or(1.0, |second| second.radius)),
            ("max_radius", self.max_radius),
            ("min_lm_diagonal", self.min_lm_diagonal),
            ("max_lm_diagonal", self.max_lm_diagonal),
        ];
        let not_negative = [
            ("forcing", self.forcing),
            ("min_radius", self.min_radius),
            ("min_relative_decrease", self.min_relative_decrease),
            ("function_tolerance", self.function_tolerance()),
            ("gradient_tolerance", self.gradient_tolerance),
            ("gradient_rtol", self.gradient_rtol),
            ("step_tolerance", self.step_tolerance),
        ];
        let all = |list: &[(&'static str, f64)], expected, fits: fn(f64) -> bool| match list
            .iter()
            .find(|(_, v)| !(v.is_finite() && fits(*v)))
        {
            Some(&(name, came)) => Err(OptionError::Number { name, expected, came }),
            None => Ok(()),
        };
        all(&above_zero, "a finite number above 0", |v| v > 0.0)?;
        all(&not_negative, "a finite number of at least 0", |v| v >= 0.0)?;
        let factor = [("radius_decrease_factor", self.radius_decrease_factor)];
        all(&factor, "a finite number above 1", |v| v > 1.0)
    }
}

impl Precision {
    /// The name in reports: `mixed`, `f32` or `f64`.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Mixed => "mixed",
            Precision::F32 => "f32",
            Precision::F64 => "f64",
        }
    }
}

impl Method {
    /// The name in reports: `lm` or `gn`.
    pub fn name(self) -> &'static str {
        match self {
            Method::LevenbergMarquardt => "lm",
            Method::GaussNewton => "gn",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_checked() {
        let d = SolveOptions::default;
        assert_eq!(d().check(), Ok(()));
        type Set = fn(&mut SolveOptions, f64);
        let bad: [(&str, Set); 14] = [
            ("linear_tolerance", |o, v| o.linear_tolerance = Some(v)),
            ("eta", |o, v| o.eta = Some(v)),
            ("forcing", |o, v| o.forcing = v),
            ("radius", |o, v| o.radius = Some(v)),
            ("max_radius", |o, v| o.max_radius = v),
            ("min_radius", |o, v| o.min_radius = v),
            ("radius_decrease_factor", |o, v| o.radius_decrease_factor = v),
            ("min_relative_decrease", |o, v| o.min_relative_decrease = v),
            ("min_lm_diagonal", |o, v| o.min_lm_diagonal = v),
            ("max_lm_diagonal", |o, v| o.max_lm_diagonal = v),
            ("function_tolerance", |o, v| o.function_tolerance = Some(v)),
            ("gradient_tolerance", |o, v| o.gradient_tolerance = v),
            ("gradient_rtol", |o, v| o.gradient_rtol = v),
            ("step_tolerance", |o, v| o.step_tolerance = v),
        ];
        for (name, set) in bad {
            for value in [f64::NAN, f64::INFINITY, -1.0] {
                let mut options = d();
                set(&mut options, value);
                let said = options.check().unwrap_err().to_string();
                assert!(said.contains(name) && said.contains("finite"), "{said}");
            }
        }
        let threads = |n| CompileOptions { threads: Some(n), ..CompileOptions::default() }.check();
        assert_eq!((threads(1), threads(0)), (Ok(()), Err(OptionError::Zero { name: "threads" })));
        let too_many = OptionError::TooMany { name: "threads", most: 1024, came: 1025 };
        assert_eq!((threads(1024), threads(1025)), (Ok(()), Err(too_many)));
    }
}
