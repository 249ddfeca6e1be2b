//! Loops whose stores bypass the caches.
//!
//! Before: flat statements; stores to some strided outputs are marked `non_temporal`. After: an innermost loop with such stores is there twice, `if
//! the output lies so that vectors are aligned { as it was } else { without marks }`; no other store to these outputs is marked. Processors have
//! such stores for aligned vectors alone, and a test in front of each vector would keep the back end from moving loads across it. Runs behind
//! `flatten` and before `unroll`, so that both loops are copied, vectorised and cut like any other.

use super::simplify::simplify_index;
use super::vectorize::aligned::divisor;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::substitute;
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::ir::rewrite::{map_children, visit_stmts};
use crate::ir::stmt::Stmt;
use rustc_hash::FxHashMap;

/// See the module's description. `when`: by the name of each of these outputs, the condition on parameters under which its marks may stay.
pub(crate) fn streams(s: &Stmt, when: &FxHashMap<Name, Expr>) -> Stmt {
    let is_loop = |s: &Stmt| matches!(s, Stmt::For { kind, .. } if !kind.is_constant());
    match s {
        Stmt::For { body, .. } if !any(body, &is_loop) => {
            let mut conditions: Vec<&Expr> = vec![];
            visit_stmts(s, &mut |s| {
                conditions.extend(condition(s, when).filter(|c| !conditions.contains(c)));
            });
            let all = conditions.into_iter().cloned().reduce(|a, b| a.and(b));
            let Some(cond) = all else { return s.clone() };
            Stmt::If { cond, then: Box::new(s.clone()), otherwise: Some(Box::new(unmarked(s, when))) }
        }
        Stmt::Store { .. } => unmarked(s, when),
        s => map_children(s, &mut Expr::clone, &mut |s| streams(s, when)),
    }
}

fn any(s: &Stmt, holds: &impl Fn(&Stmt) -> bool) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| found |= holds(s));
    found
}

/// The condition on which the mark of a store hangs.
fn condition<'w>(s: &Stmt, when: &'w FxHashMap<Name, Expr>) -> Option<&'w Expr> {
    match s {
        Stmt::Store { buffer, non_temporal: true, .. } => when.get(&buffer.of),
        _ => None,
    }
}

/// Sets `aligned` for marked stores of vectors, behind [`streams`] and where nothing moves the last vector of a row inwards: in loops that are cut. `values`: of
/// the integers that are bound around.
pub(crate) fn aligned(s: &Stmt, when: &FxHashMap<Name, Expr>, values: &mut FxHashMap<Name, Expr>) -> Stmt {
    let s = match s {
        Stmt::Let { name, value, body } => {
            if value.ty().lanes == 1 && is_index(value.ty()) {
                values.insert(name.clone(), substitute(value, values));
            }
            let body = Box::new(aligned(body, when, values));
            return Stmt::Let { name: name.clone(), value: value.clone(), body };
        }
        s => map_children(s, &mut Expr::clone, &mut |s| aligned(s, when, values)),
    };
    match s {
        Stmt::Store { buffer, index, value, predicate, aligned, non_temporal: true }
            if when.contains_key(&buffer.of) =>
        {
            let line = 64 / value.ty().scalar.bytes() as i64;
            let row = |e: &Expr| match e.kind() {
                ExprKind::Param(Param::Of(of, Part::Step(_))) if *of == buffer.of => line,
                _ => 1,
            };
            let is_multiple = |first: &Expr| {
                let first = Polys::default().of(&simplify_index(&substitute(first, values)));
                divisor(&first, &FxHashMap::default(), row) % line.min(value.ty().lanes.into()) == 0
            };
            let is_dense = |first: &Expr, step: &Expr| step.as_int() == Some(1) && is_multiple(first);
            let found = matches!(index.kind(), ExprKind::Ramp(first, step) if is_dense(first, step));
            Stmt::Store { buffer, index, value, predicate, aligned: aligned || found, non_temporal: true }
        }
        s => s,
    }
}

fn unmarked(s: &Stmt, when: &FxHashMap<Name, Expr>) -> Stmt {
    let mut s = map_children(s, &mut Expr::clone, &mut |s| unmarked(s, when));
    if condition(&s, when).is_some()
        && let Stmt::Store { non_temporal, .. } = &mut s
    {
        *non_temporal = false;
    }
    s
}
