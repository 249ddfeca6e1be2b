//! Assertions, their order in a run, and that of the names that they use.

use crate::analysis::algebra::{Facts, build};
use crate::expr::walk::{any, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::bind;
use crate::ir::stmt::Stmt;
use crate::schedule::StageId;
use crate::types::ScalarType;
use rustc_hash::FxHashSet;

/// An assertion, unless it is known to hold.
pub(super) fn assertion(facts: &Facts, conds: &[Expr], message: String, args: &[Expr]) -> Option<Stmt> {
    let proved = |c: &Expr| match c.kind() {
        ExprKind::Binary(BinaryOp::Le, a, b) => {
            facts.proves_le(a, b) && !matches!(b.kind(), ExprKind::Param(_))
        }
        _ => c.as_int() == Some(1),
    };
    let open: Vec<&Expr> = conds.iter().filter(|c| !proved(c)).collect();
    let cond = open.iter().fold(Expr::bool(true), |a, c| build::and(&a, c));
    let args = args.iter().map(|a| a.cast(ScalarType::I64)).collect();
    (!open.is_empty()).then_some(Stmt::Assert { cond, message, args })
}

/// An assertion that the points of two fused loops of these extents are counted by an i32.
pub(super) fn points_check(facts: &Facts, id: &StageId, extents: &[Expr; 2], fused: &Name) -> Option<Stmt> {
    let most = extents.each_ref().map(|e| facts.upper(e));
    if let [Some(a), Some(b)] = most
        && a.max(0).checked_mul(b.max(0)).is_some_and(|n| n <= i32::MAX as i64)
    {
        return None;
    }
    let [a, b] = extents.each_ref().map(|e| e.cast(ScalarType::I64));
    let message = format!("{id}: fused loop {fused} has more than 2^31 - 1 points: of");
    let cond = build::le(&(a * b), &Expr::int(ScalarType::I64, i32::MAX as i64));
    assertion(facts, &[cond], message, extents)
}

/// `lets` and `checks` around `body`. Names whose values memory decides come last, each behind all checks that need none of
/// those after it: memory is read where it is known to be there.
pub(super) fn guarded(lets: &[(Name, Expr)], mut checks: Vec<Stmt>, body: Stmt) -> Stmt {
    let mut late: FxHashSet<Name> = FxHashSet::default();
    let (mut early, mut order) = (vec![], vec![]);
    for l in lets {
        let reads = any(&l.1, |e| matches!(e.kind(), ExprKind::Call { .. }));
        if reads || !late.is_empty() && variables(&l.1).iter().any(|v| late.contains(v)) {
            late.insert(l.0.clone());
            order.push(l);
        } else {
            early.push(l);
        }
    }
    // Each late name with the checks before it.
    let mut steps = vec![];
    for l in order {
        let (ready, rest) = checks.into_iter().partition(|c| !names(c).any(|n| late.contains(&n)));
        checks = rest;
        late.remove(&l.0);
        steps.push((ready, l));
    }
    let inner = steps
        .into_iter()
        .rev()
        .fold(behind(checks, body), |body, (ready, (n, v))| behind(ready, bind(n.clone(), v.clone(), body)));
    early.into_iter().rev().fold(inner, |body, (n, v)| bind(n.clone(), v.clone(), body))
}

/// `body` behind `checks`.
fn behind(mut checks: Vec<Stmt>, body: Stmt) -> Stmt {
    if checks.is_empty() {
        return body;
    }
    checks.push(body);
    Stmt::Block(checks)
}

/// The variables of a check.
fn names(check: &Stmt) -> impl Iterator<Item = Name> {
    let exprs: Vec<Expr> = match check {
        Stmt::Assert { cond, args, .. } => std::iter::once(cond).chain(args).cloned().collect(),
        _ => vec![],
    };
    exprs.into_iter().flat_map(|e| variables(&e))
}
