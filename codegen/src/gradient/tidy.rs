//! Index arithmetic of generated definitions in its shortest form, for people who read them and for the passes behind.

use crate::analysis::algebra::build::{self, normal};
use crate::analysis::algebra::is_index;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

/// The same expression with sums of indices in normal form, extrema without arms that others decide, and conditions on constants gone.
pub(super) fn tidy(e: &Expr) -> Expr {
    rewrite(e, &mut Memo::default(), &mut |_, e| match e.kind() {
        ExprKind::Binary(BinaryOp::Min, a, b) if is_index(e.ty()) => build::min(a, b),
        ExprKind::Binary(BinaryOp::Max, a, b) if is_index(e.ty()) => build::max(a, b),
        ExprKind::Binary(BinaryOp::Le, a, b) if is_index(a.ty()) => build::le(a, b),
        ExprKind::Binary(BinaryOp::And, a, b) if e.ty().scalar == crate::ScalarType::Bool => build::and(a, b),
        ExprKind::Unary(UnaryOp::Not, a) if a.as_int().is_some() && a.ty() == crate::Type::BOOL => {
            Expr::bool(a.as_int() == Some(0))
        }
        ExprKind::Select(c, a, b) => match c.as_int() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None => e,
        },
        _ => normal(&e),
    })
}
