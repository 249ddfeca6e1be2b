//! The order of a run's checks and of the names that they use.

use crate::expr::walk::{any, variables};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::stmt::Stmt;
use crate::nests::bind;
use rustc_hash::FxHashSet;

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
