//! Masked rows instead of clamped gathers.
//!
//! Before: vectors, both bodies of loops. What is a constant beyond a picture is `select(inside, picture[clamped], constant)`: where lanes
//! run along the clamped coordinate, they gather. After: a load below a select whose condition keeps these lanes within the clamp's bounds
//! has that condition as its mask, beside that of a tail, and the coordinate as it was. Lanes that are inside read what they read before,
//! the others nothing. Not in a GPU's kernels, whose lanes are threads. Follows partitioning, which looks for conditions; precedes a
//! simplification, which finds that the index is a ramp.

use super::partition::conjuncts;
use crate::analysis::algebra::Facts;
use crate::expr::walk::{Memo, any, rewrite};
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
        ExprKind::Select(c, t, f) if c.ty().lanes > 1 => Expr::select(c, below(c, t), f),
        _ => new,
    })
}

/// The value that is taken where `condition` holds, without clamps that it makes unnecessary.
fn below(condition: &Expr, taken: &Expr) -> Expr {
    let mut conditions = vec![];
    conjuncts(condition, &mut conditions);
    rewrite(taken, &mut Memo::default(), &mut |old, new| match (old.kind(), new.kind()) {
        // A coordinate that is read stays in its range, in lanes that are masked too.
        (ExprKind::Load { index, .. }, _) if reads(index) => old.clone(),
        (_, ExprKind::Load { buffer, index, predicate }) if new.ty().lanes > 1 => {
            let free = unclamped(index, &conditions);
            if free == *index {
                return new;
            }
            let mask = predicate.as_ref().map_or(condition.clone(), |p| p.clone().and(condition.clone()));
            Expr::new(ExprKind::Load { buffer: buffer.clone(), index: free, predicate: Some(mask) }, new.ty())
        }
        _ => new,
    })
}

fn reads(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Load { .. }))
}

/// `index` without the bounds of lanes that hold where all `conditions` do.
fn unclamped(index: &Expr, conditions: &[Expr]) -> Expr {
    let keeps = |op, x: &Expr, bound: &Expr| {
        let (low, high) = if op == BinaryOp::Max { (bound, x) } else { (x, bound) };
        conditions.iter().any(|c| implies(c, low, high))
    };
    rewrite(index, &mut Memo::default(), &mut |_, new| match new.kind() {
        ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) if new.ty().lanes > 1 => {
            // The outer bound's operand has lost the inner one when it is looked at.
            [(a, b), (b, a)]
                .into_iter()
                .find(|(x, b)| matches!(b.kind(), ExprKind::Broadcast(_)) && keeps(*op, x, b))
                .map_or(new.clone(), |(x, _)| x.clone())
        }
        _ => new,
    })
}

/// Does a condition `a <= b` or `a < b` say in plain sight that `low <= high`, as `0 <= x` does of `-1 <= x`?
fn implies(condition: &Expr, low: &Expr, high: &Expr) -> bool {
    let (a, b, apart) = match condition.kind() {
        ExprKind::Binary(BinaryOp::Le, a, b) => (a, b, 0),
        ExprKind::Binary(BinaryOp::Lt, a, b) => (a, b, 1),
        _ => return false,
    };
    let difference = |a: &Expr, b: &Expr| a.clone() - b.clone();
    let more = || Facts::new().upper_of_difference(&difference(low, high), &difference(a, b));
    a.ty() == low.ty() && more().is_some_and(|more| more <= apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::partition::tests::{for_, load, store, v};
    use crate::lower::simplify::simplify;
    use crate::lower::vectorize::vectorize;
    use crate::types::ScalarType;

    /// Eight pixels, each `k[0]` times one beside it, and `k[0]` times a pixel that another names, where those are in the picture.
    fn borders() -> Stmt {
        let x = v("base") + v("lane");
        let beside = x.clone() - 1;
        let inside = Expr::from(0).le(beside.clone()).and(x.clone().le(v("w")));
        let clamp = |e: Expr| e.max(Expr::from(0)).min(v("w") - 1);
        let named = load(clamp(beside.clone())).cast(ScalarType::I32);
        let sum = load(clamp(beside)) * load(Expr::from(0)) + load(named);
        let value = Expr::select(inside, sum, Expr::from(0.0f32));
        simplify(&vectorize(&for_("lane", Expr::from(8), ForKind::Vectorized, store(x, value))).unwrap())
    }

    #[test]
    fn a_factor_beyond_the_border_is_a_masked_row() {
        let text = simplify(&masks(&borders())).to_string();
        let row = "f.0[ramp(i64(base) - 1:i64, 1:i64, 8) if x8(0) <= ramp(base - 1, 1, 8) && ramp(base, 1, 8) <= x8(w)] * x8(f.0[0:i64])";
        assert!(text.contains(row), "{text}");
        // What says where another is read is read in its range.
        assert!(
            text.contains("f.0[i64(i32(f.0[i64(min(max(ramp(base - 1, 1, 8), x8(0)), x8(w - 1)))]))]"),
            "{text}"
        );
    }
}
