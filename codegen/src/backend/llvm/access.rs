//! Patterns of access to memory.

use crate::expr::{Expr, ExprKind};

/// Longest stride for which all elements between the lanes are loaded.
pub(super) const MAX_STRIDE: i64 = 4;

/// Rows that a store with this index writes, if it is made of such: their indices, and of which lanes.
pub(super) fn rows(index: &Expr) -> Option<(&[Expr], impl Fn(u16) -> Vec<u16>)> {
    let (rows, step) = match index.kind() {
        ExprKind::Interleave(rows) => (rows, rows.len() as u16),
        ExprKind::Concat(rows) => (rows, 1),
        _ => return None,
    };
    let lanes = rows.first()?.ty().lanes;
    let first = move |row| if step == 1 { row * lanes } else { row };
    Some((rows, move |row| (0..lanes).map(|i| first(row) + i * step).collect()))
}

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
