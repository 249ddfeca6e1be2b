//! Smaller variants of an expression, for shrinking.

use sumsq_codegen::expr::walk::{Memo, nodes, rewrite};
use sumsq_codegen::{Expr, ExprKind};

/// The expression with one node replaced by an operand of its type, or by 1; the largest steps first.
pub fn smaller(e: &Expr) -> Vec<Expr> {
    let mut all = nodes([e]);
    // The root first, and what is near it.
    all.truncate(60);
    let mut out = vec![];
    for n in all {
        if n.as_int().is_some() || n.as_float().is_some() || matches!(n.kind(), ExprKind::Var(_)) {
            continue;
        }
        let mut by = vec![];
        if !matches!(n.kind(), ExprKind::Call { .. }) {
            n.for_each_child(|c| {
                if c.ty() == n.ty() {
                    by.push(c.clone());
                }
            });
        }
        if n.ty().lanes == 1 {
            by.push(Expr::whole(n.ty(), 1));
        }
        for b in by {
            let mut swap = |old: &Expr, new: Expr| if old.id() == n.id() { b.clone() } else { new };
            out.push(rewrite(e, &mut Memo::default(), &mut swap));
        }
    }
    out
}
