//! Coordinates cut into pieces without minima, maxima and selections.
//!
//! `clamp(x, 0, n - 1)` is 0 where x < 0, x from 0 to n - 1, and n - 1 beyond: of these the second is solved for x, while the others add up
//! over the border that they come from. So no boundary condition scatters.

use crate::analysis::algebra::{Facts, is_index};
use crate::expr::walk::{Memo, any, postorder, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::gradient::tidy::tidy;

/// Most pieces of one access; coordinates with more stay as they are.
const MOST: usize = 96;

/// Coordinates, and the conditions under which they are these.
#[derive(Clone)]
pub(super) struct Piece {
    /// One per dimension.
    pub args: Vec<Expr>,
    /// Comparisons of indices.
    pub conds: Vec<Expr>,
}

/// The pieces of `args`: disjoint, together everything. Cuts where `cut` says so; pieces that `facts` exclude are left out.
pub(super) fn pieces(args: &[Expr], cut: &impl Fn(&Expr) -> bool, facts: &Facts) -> Vec<Piece> {
    let mut done = vec![];
    let mut open = vec![Piece { args: args.to_vec(), conds: vec![] }];
    while let Some(piece) = open.pop() {
        let Some((node, [(c, a), (d, b)])) = next(&piece.args, cut, facts) else {
            done.push(piece);
            continue;
        };
        if done.len() + open.len() > MOST {
            return vec![Piece { args: args.to_vec(), conds: vec![] }];
        }
        for (cond, arm) in [(d, b), (c, a)] {
            let mut next = piece.clone();
            next.args.iter_mut().for_each(|e| *e = replaced(e, &node, &arm));
            next.conds.push(cond);
            if is_possible(&next.conds, facts) {
                open.push(next);
            }
        }
    }
    done
}

/// The node to cut next, and its two ways: selections from the outermost in, so that what an arm does not need is gone; then the
/// innermost of the others, so that conditions are without any.
fn next(args: &[Expr], cut: &impl Fn(&Expr) -> bool, facts: &Facts) -> Option<(Expr, [(Expr, Expr); 2])> {
    let roots: Vec<&Expr> = args.iter().collect();
    let order = postorder(&roots);
    let selections = order.iter().rev().filter(|e| matches!(e.kind(), ExprKind::Select(..)));
    let others = order.iter().filter(|e| !matches!(e.kind(), ExprKind::Select(..)));
    let mut all = selections.chain(others).filter(|e| is_index(e.ty()) && cut(e));
    all.find_map(|e| Some(((*e).clone(), choice(e, facts)?)))
}

fn choice(e: &Expr, facts: &Facts) -> Option<[(Expr, Expr); 2]> {
    match e.kind() {
        // The remainder by 0 is 0.
        ExprKind::Binary(BinaryOp::Mod, a, b) if facts.lower(b) == Some(0) => {
            let one = Expr::int(b.ty(), 1);
            Some([(one.le(b), a.modulo(b.max(&one))), (one.le(b).not_(), Expr::int(e.ty(), 0))])
        }
        ExprKind::Binary(BinaryOp::Min, a, b) => Some([(a.le(b), a.clone()), (b.lt(a), b.clone())]),
        ExprKind::Binary(BinaryOp::Max, a, b) => Some([(b.le(a), a.clone()), (a.lt(b), b.clone())]),
        ExprKind::Select(c, a, b) => {
            let c = bare(c);
            Some([(c.clone(), a.clone()), (c.not_(), b.clone())])
        }
        _ => None,
    }
}

/// A condition without marks.
pub(super) fn bare(cond: &Expr) -> Expr {
    rewrite(cond, &mut Memo::default(), &mut |_, e| match e.kind() {
        ExprKind::Likely(c) => c.clone(),
        _ => e,
    })
}

fn replaced(e: &Expr, node: &Expr, by: &Expr) -> Expr {
    if !any(e, |n| n == node) {
        return e.clone();
    }
    let cut = rewrite(e, &mut Memo::default(), &mut |old, new| if old == node { by.clone() } else { new });
    tidy(&cut)
}

/// Could all of these hold at once?
pub(super) fn is_possible(conds: &[Expr], facts: &Facts) -> bool {
    let mut facts = facts.clone();
    conds.iter().all(|c| {
        let possible = facts.decide(c) != Some(false);
        facts.assume(c);
        possible
    })
}
