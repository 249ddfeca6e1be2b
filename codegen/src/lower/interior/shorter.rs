//! Statements without borders in fewer words.

use crate::analysis::algebra::Facts;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::is_index;
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{Memo, loads, rewrite, substitute, visit};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{block, map_children};
use crate::ir::stmt::Stmt;
use crate::lower::partition::{has_loop, nodes};
use crate::schedule::ForKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// Iterations of a loop that is written out, and nodes of all copies.
const COPIES: i64 = 4;
const FEW_NODES: i64 = 400;

/// The statement with what names stand for in their places, where an index or the number of a loop's iterations depends on fewer then.
pub(super) fn in_place(s: &Stmt) -> Stmt {
    with(s, &FxHashMap::default())
}

fn with(s: &Stmt, values: &FxHashMap<Name, Expr>) -> Stmt {
    let mut polys = Polys::default();
    let mut shorter = |e: &Expr| {
        let new = rebuild(&polys.of(&substitute(e, values)), e.ty());
        if depends(&new) < depends(e) { new } else { e.clone() }
    };
    let own = match s {
        Stmt::Let { name, value, body } => {
            let (mut inner, value) = (values.clone(), in_indices(value, &mut shorter));
            if is_index(value.ty()) && value.ty().lanes == 1 && !loads(&value) {
                inner.insert(name.clone(), substitute(&value, values));
            }
            return Stmt::Let { name: name.clone(), value, body: Box::new(with(body, &inner)) };
        }
        Stmt::For { var, min, extent, kind, body } => {
            let (min, extent) = (min.clone(), shorter(extent));
            Stmt::For { var: var.clone(), min, extent, kind: *kind, body: body.clone() }
        }
        Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } => Stmt::Store {
            buffer: buffer.clone(),
            index: shorter(index),
            value: in_indices(value, &mut shorter),
            predicate: predicate.clone(),
            aligned: *aligned,
            non_temporal: *non_temporal,
        },
        s => s.clone(),
    };
    map_children(&own, &mut Expr::clone, &mut |s| with(s, values))
}

/// The statement with its short loops inside of threads written out: most of the conditions that are left are those of one iteration.
pub(super) fn written_out(s: &Stmt, facts: &Facts) -> Stmt {
    let mut inner = facts.clone();
    match s {
        Stmt::Let { name, value, .. } => inner.enter_let(name, value),
        Stmt::For { var, min, extent, kind, body } => {
            let most = facts.upper(extent).filter(|n| (1..=COPIES).contains(n));
            if let (ForKind::Serial, Some(most)) = (*kind, most)
                && !has_loop(body)
                && nodes(body) as i64 * most <= FEW_NODES
            {
                let least = facts.lower(extent).unwrap_or(0);
                return block((0..most).map(|k| iteration(s, k, k < least)).collect());
            }
            inner.enter_for(var, min, extent);
        }
        _ => {}
    }
    map_children(s, &mut Expr::clone, &mut |s| written_out(s, &inner))
}

/// Iteration `k` of a loop, under a condition where there may be none.
fn iteration(s: &Stmt, k: i64, always: bool) -> Stmt {
    let Stmt::For { var, min, extent, body, .. } = s else { return s.clone() };
    let number = Expr::int(min.ty(), k);
    let (name, value, body) = (var.clone(), min.clone() + number.clone(), body.clone());
    let one = Stmt::Let { name, value, body };
    match always {
        true => one,
        false => Stmt::If { cond: number.lt(extent.clone()), then: Box::new(one), otherwise: None },
    }
}

/// The number of names and parameters in an expression.
fn depends(e: &Expr) -> usize {
    let mut all = FxHashSet::default();
    visit(e, &mut |n| {
        if matches!(n.kind(), ExprKind::Var(_) | ExprKind::Param(_)) {
            all.insert(n.clone());
        }
        true
    });
    all.len()
}

/// An expression with indices of loads changed.
fn in_indices(e: &Expr, of: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
    rewrite(e, &mut Memo::default(), &mut |_, new| match new.kind() {
        ExprKind::Load { buffer, index, predicate } => {
            let (buffer, predicate) = (buffer.clone(), predicate.clone());
            Expr::new(ExprKind::Load { buffer, index: of(index), predicate }, new.ty())
        }
        _ => new,
    })
}
