//! Masked rows instead of clamped gathers.
//!
//! Before: vectors, both bodies of loops. What is a constant beyond a picture is `select(inside, picture[clamped], constant)`: where lanes
//! run along the clamped coordinate, they gather. After: a load below a select whose condition keeps these lanes within the clamp's bounds
//! has that condition as its mask, and the coordinate as it was. Lanes that are inside read what they read before, the others nothing.
//! Loads that have a mask already, as those of a tail, stay as they are. Not in a GPU's kernels, whose lanes are threads. Follows
//! partitioning, which looks for conditions; precedes a simplification, which finds that the index is a ramp.

use super::partition::conjuncts;
use crate::analysis::algebra::Facts;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;

/// See the module's description.
pub(crate) fn masks(s: &Stmt) -> Stmt {
    match s {
        Stmt::For { kind: ForKind::GpuBlock, .. } => s.clone(),
        s => map_children(s, &mut masked, &mut masks),
    }
}

fn masked(e: &Expr) -> Expr {
    rewrite(e, &mut Memo::default(), &mut |_, new| match new.kind() {
        ExprKind::Select(c, t, f) if c.ty().lanes > 1 => match t.kind() {
            ExprKind::Load { buffer, index, predicate: None } => {
                let mut conditions = vec![];
                conjuncts(c, &mut conditions);
                let free = unclamped(index, &conditions);
                if free == *index {
                    return new;
                }
                let kind = ExprKind::Load { buffer: buffer.clone(), index: free, predicate: Some(c.clone()) };
                Expr::select(c, Expr::new(kind, t.ty()), f)
            }
            _ => new,
        },
        _ => new,
    })
}

/// `index` without the bounds of lanes that hold where all `conditions` do.
fn unclamped(index: &Expr, conditions: &[Expr]) -> Expr {
    let keeps = |op, a: &Expr, bound: &Expr| {
        conditions.iter().any(|c| match c.kind() {
            // The outer bound's operand has lost the inner one when it is looked at.
            ExprKind::Binary(BinaryOp::Le, low, x) => op == BinaryOp::Max && x == a && at_most(bound, low, 0),
            ExprKind::Binary(BinaryOp::Lt, x, high) => {
                op == BinaryOp::Min && x == a && at_most(high, bound, 1)
            }
            _ => false,
        })
    };
    rewrite(index, &mut Memo::default(), &mut |_, new| match new.kind() {
        ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) if new.ty().lanes > 1 => {
            [(a, b), (b, a)]
                .into_iter()
                .find(|(x, b)| keeps(*op, x, b))
                .map_or(new.clone(), |(x, _)| x.clone())
        }
        _ => new,
    })
}

/// Is `a <= b + offset`, of what all lanes share?
fn at_most(a: &Expr, b: &Expr, offset: i32) -> bool {
    let (ExprKind::Broadcast(a), ExprKind::Broadcast(b)) = (a.kind(), b.kind()) else { return false };
    Facts::new().proves_le(a, &(b + offset))
}
