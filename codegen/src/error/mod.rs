//! Mistakes of users of the engine, and failures of devices, as types whose text says what to do.

mod cuda;

pub use cuda::{CudaError, Fault, PointerError, Unavailable, Version};

use crate::expr::Name;
use thiserror::Error;

/// An error of building, scheduling, compiling or running a pipeline.
#[derive(Error, Debug, Clone, PartialEq)]
pub enum Error {
    /// The algorithm itself is wrong.
    #[error("pipeline {pipeline}: {message}")]
    Pipeline {
        /// The pipeline.
        pipeline: String,
        /// Words on what is wrong and what to do.
        message: String,
    },
    /// A directive is illegal.
    #[error("{func}: {directive}: {rule}")]
    Schedule {
        /// The Func (or `f.update(k)`).
        func: String,
        /// The directive as text.
        directive: String,
        /// The rule it breaks.
        rule: String,
    },
    /// Compilation takes more than its limits.
    #[error("pipeline {pipeline}: {message}")]
    Limit {
        /// The pipeline.
        pipeline: String,
        /// The figure and the limit.
        message: String,
    },
    /// LLVM refused the module, or code could not be loaded.
    #[error("{pipeline}: back end: {message}")]
    Backend {
        /// The pipeline.
        pipeline: String,
        /// LLVM's words.
        message: String,
    },
    /// A buffer or parameter given at run time does not fit.
    #[error("{pipeline}: {name}: {message}")]
    Bind {
        /// The pipeline.
        pipeline: String,
        /// The buffer or parameter.
        name: Name,
        /// Expected and came.
        message: String,
    },
    /// An assertion of the compiled code failed.
    #[error("{pipeline}: {message}")]
    Run {
        /// The pipeline.
        pipeline: String,
        /// The assertion's text with its values.
        message: String,
    },
    /// A device is not there, or failed.
    #[error("{pipeline}: {error}")]
    Device {
        /// The pipeline.
        pipeline: String,
        /// The device's failure.
        error: CudaError,
    },
}

/// The error of a buffer or parameter of a pipeline.
pub(crate) fn bind_error(pipeline: &str, name: impl Into<Name>, message: impl Into<String>) -> Error {
    Error::Bind { pipeline: pipeline.into(), name: name.into(), message: message.into() }
}
