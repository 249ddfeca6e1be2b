//! Index arithmetic of generated definitions in its shortest form, for people who read them and for the passes behind.

use crate::analysis::algebra::build::{self, normal};
use crate::analysis::algebra::is_index;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::Type;

/// The same expression with sums of indices in normal form, extrema without arms that others decide, and conditions on constants gone.
pub(super) fn tidy(e: &Expr) -> Expr {
    let whole =
        rewrite(e, &mut Memo::default(), &mut |_, e| if is_sum(&e) { e } else { tidy_node(&operands(&e)) });
    normal_sum(&whole)
}

/// A sum is brought to normal form once, where it ends.
fn is_sum(e: &Expr) -> bool {
    use BinaryOp::{Add, Mul, Sub};
    let is = matches!(e.kind(), ExprKind::Binary(Add | Sub | Mul, ..) | ExprKind::Unary(UnaryOp::Neg, _));
    is && is_index(e.ty())
}

fn normal_sum(e: &Expr) -> Expr {
    if is_sum(e) { normal(e) } else { e.clone() }
}

fn operands(e: &Expr) -> Expr {
    let mut all = vec![];
    e.for_each_child(|c| all.push(normal_sum(c)));
    e.with_children(all)
}

fn tidy_node(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Binary(BinaryOp::Min, a, b) if is_index(e.ty()) => build::min(a, b),
        ExprKind::Binary(BinaryOp::Max, a, b) if is_index(e.ty()) => build::max(a, b),
        ExprKind::Binary(BinaryOp::Le, a, b) if is_index(a.ty()) => build::le(a, b),
        ExprKind::Binary(BinaryOp::And, a, b) if e.ty() == Type::BOOL => build::and(a, b),
        ExprKind::Binary(BinaryOp::Div | BinaryOp::Mod, ..) => normal(e),
        ExprKind::Binary(BinaryOp::Eq, a, b) if is_index(a.ty()) => match (a.as_int(), b.as_int()) {
            (Some(a), Some(b)) => Expr::bool(a == b),
            _ => e.clone(),
        },
        ExprKind::Unary(UnaryOp::Not, a) if a.as_int().is_some() && a.ty() == Type::BOOL => {
            Expr::bool(a.as_int() == Some(0))
        }
        ExprKind::Select(c, a, b) => match c.as_int() {
            Some(0) => b.clone(),
            Some(_) => a.clone(),
            None => e.clone(),
        },
        _ => e.clone(),
    }
}
