//! Limits of the assembled path.

use crate::problem::bounds::BoundsError;
use crate::problem::data::{DataError, LossError};
use thiserror::Error;

/// Limits of the assembled path.
#[derive(Clone, PartialEq, Debug, Error)]
#[allow(missing_docs)]
pub enum ExplicitError {
    #[error("the explicit path cannot evaluate {what}")]
    Unsupported { what: String },
    #[error(
        "the Jacobian is too large for the explicit path: expected fewer than 2^32 entries, came {entries}"
    )]
    TooLarge { entries: usize },
    #[error(
        "the unknowns are too large for the explicit path: expected fewer than 2^32 scalars, came {scalars}"
    )]
    TooManyScalars { scalars: usize },
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Loss(#[from] LossError),
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}
