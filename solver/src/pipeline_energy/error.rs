//! Reasons why a pipeline energy is not compiled or not solved, in sentences.

use crate::assembled::ExplicitError;
use crate::problem::memory::Bytes;
use crate::problem::options::OptionError;
use sumsq_codegen::runtime::BufferError;
use thiserror::Error;

/// A pipeline energy that cannot be compiled, or a solve that could not be started or finished. The caller's numbers are as they were.
#[derive(Error, Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum PipelineEnergyError {
    /// The engine refused a pipeline, or generated code stopped.
    #[error(transparent)]
    Engine(#[from] sumsq_codegen::Error),
    /// An option out of its range.
    #[error(transparent)]
    Option(#[from] OptionError),
    #[error("a pipeline energy runs on the CPU alone: leave the back end to `auto`")]
    Backend,
    #[error(
        "a pipeline energy has no stencils to make grids of: instead of {name} take auto, block_jacobi, jacobi or none"
    )]
    Preconditioner { name: &'static str },
    #[error("the energy has no unknown: name an input or a parameter")]
    NoUnknown,
    #[error("the energy has no residual: name a Func")]
    NoResidual,
    #[error("the pipeline has no input and no parameter `{name}` to solve for")]
    NoSuchUnknown { name: String },
    #[error("the unknown `{name}` is of integers: it must be of floats")]
    IntegerUnknown { name: String },
    #[error("`{name}` is an unknown twice")]
    Twice { name: String },
    #[error("the pipeline has no Func `{name}` to be a residual")]
    NoSuchResidual { name: String },
    #[error("the pipeline has no Func `{name}` to keep or to recompute")]
    NoSuchFunc { name: String },
    #[error("`{name}` has updates and must be stored: it cannot be recomputed where it is read")]
    Recompute { name: String },
    #[error("the residual `{name}` is of integers: it must have floats")]
    IntegerResidual { name: String },
    #[error(
        "the residual `{name}` has no domain in dimension {dimension}: give it one (`residual_over`), or fix the extent of its output"
    )]
    NoDomain { name: String, dimension: usize },
    #[error("the residual `{name}` has {dims} dimensions, its domain {came}")]
    Domain { name: String, dims: usize, came: usize },
    #[error("the scale of the loss of `{name}` is {scale}: it must be finite and above 0")]
    Scale { name: String, scale: f64 },
    #[error("the bounds of `{name}` are {lower} and {upper}: expected lower <= upper")]
    Bounds { name: String, lower: f64, upper: f64 },
    #[error("nothing is given for the unknown `{name}`: it needs a start")]
    NotGiven { name: String },
    #[error("{name}: {source}")]
    Buffer { name: String, source: BufferError },
    #[error("E is {energy} at the start: {} is not finite", residuals.join(", "))]
    InitialNotFinite { energy: f64, residuals: Vec<String> },
    #[error("the gradient is not finite at the start, with respect to {}", unknowns.join(", "))]
    GradientNotFinite { unknowns: Vec<String> },
    #[error("the solve needs {} of memory, {} are available: solve a smaller problem, or raise the limit (max_memory)", Bytes(*needed), Bytes(*limit))]
    Memory { needed: u64, limit: u64 },
    #[error("the adjoint of `{name}` has {came} values: the unknown has {wanted}")]
    Adjoint { name: String, wanted: usize, came: usize },
    #[error("the derivative with respect to `{name}` has no buffer to go to")]
    NoResult { name: String },
    #[error(
        "the unknowns are no minimum: E curves downwards, or not at all, so that the solution has no derivative"
    )]
    Indefinite,
    #[error("the unknowns are no minimum: one is about {:.1} % of |x| away; solve to a smaller tolerance first", 100.0 * distance)]
    NoMinimum { distance: f64 },
    #[error("the energy beside has the unknown `{name}`, which the pipeline energy does not solve for")]
    BesideUnknown { name: String },
    #[error(
        "the unknown `{name}` has {wanted} scalars in the pipeline energy, {came} in the energy beside it"
    )]
    BesideSize { name: String, wanted: usize, came: usize },
    #[error("the energy beside: {0}")]
    Beside(ExplicitError),
    #[error("a first-order method wants {expected}")]
    FirstOrder { expected: &'static str },
    #[error("{asked} threads were asked for, the system started {started}: ask for fewer")]
    Threads { asked: usize, started: usize },
}
