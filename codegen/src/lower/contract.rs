//! Products that are added to something, as one operation that rounds once.
//!
//! Before: the body of a relaxed function. After: every `a * b + c`, `a * b - c` and `c - a * b` of f32 or f64 is an `Fma`. On a GPU this is done
//! here, not by the assembler of the driver: so no version of it changes a bit.

use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::types::ScalarType;

/// See the module's description.
pub(crate) fn contract(s: &Stmt) -> Stmt {
    walk(s, &mut Memo::default())
}

fn walk(s: &Stmt, memo: &mut Memo) -> Stmt {
    let own = map_children(s, &mut |e| rewrite(e, memo, &mut |_, new| fused(new)), &mut Stmt::clone);
    map_children(&own, &mut Expr::clone, &mut |s| walk(s, memo))
}

fn fused(e: Expr) -> Expr {
    let ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) = e.kind() else { return e };
    if !matches!(e.ty().scalar, ScalarType::F32 | ScalarType::F64) {
        return e;
    }
    let minus = |e: &Expr| e.unary(UnaryOp::Neg);
    let fma = |x: &Expr, y: &Expr, z: Expr| Expr::new(ExprKind::Fma(x.clone(), y.clone(), z), e.ty());
    match (op, product(a), product(b)) {
        (BinaryOp::Add, Some((x, y)), _) => fma(x, y, b.clone()),
        (BinaryOp::Add, None, Some((x, y))) => fma(x, y, a.clone()),
        (_, _, Some((x, y))) => fma(&minus(x), y, a.clone()),
        (_, Some((x, y)), None) => fma(x, y, minus(b)),
        (_, None, None) => e,
    }
}

fn product(e: &Expr) -> Option<(&Expr, &Expr)> {
    match e.kind() {
        ExprKind::Binary(BinaryOp::Mul, x, y) => Some((x, y)),
        _ => None,
    }
}
