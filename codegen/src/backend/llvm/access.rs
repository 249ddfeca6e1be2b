//! Patterns of access to memory.

use crate::expr::{Expr, ExprKind};

/// Longest stride for which all elements between the lanes are loaded.
pub(super) const MAX_STRIDE: i64 = 4;

/// Pattern of the lanes of an index.
pub(super) enum Access<'f> {
    /// One element.
    Scalar(&'f Expr),
    /// Consecutive elements from this one.
    Dense(&'f Expr),
    /// Elements a constant number apart, from this one.
    Strided(&'f Expr, i64),
    /// Any elements.
    Gather(&'f Expr),
}

impl<'f> Access<'f> {
    /// Classifies an index.
    pub(super) fn of(index: &'f Expr) -> Access<'f> {
        if index.ty().lanes == 1 {
            return Access::Scalar(index);
        }
        match index.kind() {
            ExprKind::Ramp(base, stride) => match stride.as_int() {
                Some(1) => Access::Dense(base),
                Some(s) => Access::Strided(base, s),
                None => Access::Gather(index),
            },
            _ => Access::Gather(index),
        }
    }

    /// The expression whose value the access needs: the first lane's index, or all.
    pub(super) fn operand(&self) -> &'f Expr {
        match self {
            Access::Scalar(e) | Access::Dense(e) | Access::Strided(e, _) | Access::Gather(e) => e,
        }
    }
}
