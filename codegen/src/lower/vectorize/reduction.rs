//! Updates that combine all lanes in one element.

use crate::analysis::associative::identity;
use crate::expr::walk::any;
use crate::expr::{BinaryOp, Expr, ExprKind, Flat};
use crate::types::{ScalarType, Type};

/// True if `e` loads from `buffer`.
pub(super) fn reads(e: &Expr, buffer: &Flat) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Load { buffer: b, .. } if b == buffer))
}

/// True if `e` loads from anywhere.
pub(super) fn reads_memory(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Load { .. }))
}

/// The load of the accumulated elements.
pub(super) fn old_value(buffer: &Flat, index: &Expr, ty: Type, predicate: Option<Expr>) -> Expr {
    let (buffer, index, ty) = (buffer.clone(), index.clone(), ty.with_lanes(index.ty().lanes));
    Expr::new(ExprKind::Load { buffer, index, predicate }, ty)
}

/// `value` as `buffer[index] op rest`, where `rest` does not read the buffer.
pub(super) fn accumulation(buffer: &Flat, index: &Expr, value: &Expr) -> Option<(BinaryOp, Expr)> {
    use BinaryOp::*;
    let bool = value.ty().scalar == ScalarType::Bool;
    let op = match root(value) {
        ExprKind::Binary(Sub, ..) if !bool => Add,
        ExprKind::Binary(op @ (Add | Mul | Min | Max), ..) if !bool => *op,
        ExprKind::Binary(op @ (And | Or | Xor), ..) if !value.ty().scalar.is_float() => *op,
        _ => return None,
    };
    let rest = rest(op, buffer, index, value)??;
    (!reads(&rest, buffer)).then_some((op, rest))
}

/// The operator below selects that guard the update.
fn root(value: &Expr) -> &ExprKind {
    match value.kind() {
        ExprKind::Select(_, a, b) => match root(a) {
            k @ ExprKind::Binary(..) => k,
            _ => root(b),
        },
        k => k,
    }
}

/// Returns what is combined with the accumulated element in `e`: none inside if it is the element itself; none if `e` has not
/// this form.
fn rest(op: BinaryOp, buffer: &Flat, index: &Expr, e: &Expr) -> Option<Option<Expr>> {
    match e.kind() {
        ExprKind::Load { buffer: b, index: i, predicate: None } if b == buffer && i == index => Some(None),
        ExprKind::Binary(o, a, b) if *o == op && !reads(b, buffer) => {
            let r = rest(op, buffer, index, a)?;
            Some(Some(r.map_or(b.clone(), |r| Expr::binary(op, r, b))))
        }
        ExprKind::Binary(o, a, b) if *o == op && !reads(a, buffer) => {
            let r = rest(op, buffer, index, b)?;
            Some(Some(r.map_or(a.clone(), |r| Expr::binary(op, a, r))))
        }
        ExprKind::Binary(BinaryOp::Sub, a, b) if op == BinaryOp::Add && !reads(b, buffer) => {
            let r = rest(op, buffer, index, a)?;
            Some(Some(r.map_or_else(|| -b.clone(), |r| r - b.clone())))
        }
        // select(c, f + a, f) = f + select(c, a, 0)
        ExprKind::Select(c, a, b) if !reads(c, buffer) => {
            let (a, b) = (rest(op, buffer, index, a)?, rest(op, buffer, index, b)?);
            let same = || identity(op, e.ty().scalar);
            Some(Some(Expr::select(c, a.unwrap_or_else(same), b.unwrap_or_else(same))))
        }
        _ => None,
    }
}
