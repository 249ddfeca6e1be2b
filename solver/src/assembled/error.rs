//! Limits of the assembled path.

use crate::problem::bounds::BoundsError;
use sumsq_energy::losses::LossKind;
use thiserror::Error;

/// A loss with a scale that is none.
#[derive(Clone, PartialEq, Debug, Error)]
#[error(
    "group `{group}`{}: expected a positive scale of its loss {kind:?}, came {scale}",
    line.map(|l| format!(" (line {l})")).unwrap_or_default()
)]
#[allow(missing_docs)]
pub struct LossScale {
    pub group: String,
    pub line: Option<u32>,
    pub kind: LossKind,
    pub scale: f64,
}

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
    #[error(transparent)]
    LossScale(#[from] LossScale),
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}
