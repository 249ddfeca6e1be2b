//! What can go wrong in a solve, as types whose text says what to do.

use thiserror::Error;

/// A solve that could not be started or finished. The caller's data are as they were.
#[derive(Error, Debug)]
pub enum SolveError {
    /// The engine refused a pipeline, or generated code stopped.
    #[error(transparent)]
    Engine(#[from] sumsq_codegen::Error),
    /// The requested back end is not there.
    #[error("the back end `{0}` is not available in this build; use --backend cpu")]
    Backend(&'static str),
    /// E at the start is inf or NaN.
    #[error("the energy is not finite at the start ({energy}): {place}")]
    InitialNotFinite {
        /// E.
        energy: f64,
        /// The residual, the element and the values read there.
        place: String,
    },
    /// The problem's numbers do not fit the energy.
    #[error("{0}")]
    Data(String),
    /// Lower bounds above upper ones.
    #[error(transparent)]
    Bounds(#[from] crate::problem::bounds::BoundsError),
    /// An option that this energy cannot honour.
    #[error("{0}")]
    Option(String),
}
