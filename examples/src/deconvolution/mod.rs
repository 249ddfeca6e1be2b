//! Deconvolution by a known kernel, with priors that are trained (Li et al., "Differentiable programming for image processing and deep
//! learning in Halide", 2018, section 5.2.2, after Fortunato and Oliveira, "Fast high-quality non-blind deconvolution using sparse adaptive priors", 2014).
//!
//! ```text
//! stage 1    x = argmin |K x - b|^2 + sum over filters f of |w_f f(x)|^2
//! stage k    t_f = the large ones of f(x smoothed by a bilateral grid)
//!            x = argmin |K x - b|^2 + sum over filters f of |w_f (f(x) - t_f)|^2
//! ```
//! A stage is an energy over a pipeline, and its targets are a pipeline (`pipelines`). What the numbers of a deconvolution, weights, thresholds, ranges,
//! change of the result is had in two ways: a solve's own derivative, stage by stage from the last (`chain`), and the conjugate
//! gradients of all stages as one program run backwards (`unrolled`).

mod application;
mod blur;
mod chain;
mod parameters;
mod pipelines;
mod training;
mod unrolled;

pub(crate) use application::APPLICATION;
pub use blur::{Blurred, NOISE, Plane, SIDE, motion};
pub use chain::{Deconvolver, Derivative, Solution};
pub use parameters::{Parameters, Stage, Weights};
pub use training::Training;
pub use unrolled::Unrolled;

use sumsq::codegen::runtime::{Buffer, BufferError, BufferSpec};
use sumsq::codegen::{Error, Layout, ScalarType};
use sumsq::pipeline_energy::PipelineEnergyError;

/// Reasons why nothing is deconvolved.
#[derive(Debug, thiserror::Error)]
pub enum DeconvolutionError {
    /// Memory.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The solver.
    #[error(transparent)]
    Energy(#[from] PipelineEnergyError),
    /// Something else, in words.
    #[error("{0}")]
    Given(String),
}

type Result<T> = std::result::Result<T, DeconvolutionError>;

/// A buffer of floats, the first dimension the fastest.
fn buffer(ty: ScalarType, extents: &[usize]) -> Result<Buffer> {
    let extents: Vec<i32> = extents.iter().map(|&n| n as i32).collect();
    Ok(Buffer::new(BufferSpec::new(ty, &extents).layout(Layout::Strided))?)
}

/// The same with these numbers.
fn filled(ty: ScalarType, extents: &[usize], numbers: &[f64]) -> Result<Buffer> {
    let made = buffer(ty, extents)?;
    made.copy_from(numbers)?;
    Ok(made)
}

/// The same with the values of a plane.
fn of_plane(ty: ScalarType, plane: &Plane) -> Result<Buffer> {
    let made = buffer(ty, &[plane.width, plane.height])?;
    made.copy_from(&plane.values)?;
    Ok(made)
}
