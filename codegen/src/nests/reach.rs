//! Iterations in which no term counts.
//!
//! A condition of a reduction domain may say that a pure variable equals what an iteration computes, as `gather` makes it:
//! - The bounds of both in one iteration of the outermost reduction loop must meet, which is tested there. So a block of the variable's values costs no
//!   sweep over the whole domain, but over the rows that reach it. Bounds that read memory are left out: they cost as much as what they save.
//! - A serial loop over the variable has one iteration at most, and is none: the variable is bound to that value, if it is one of the loop's. Around
//!   it no loop of the domain may be one of lanes, which would each have a value.

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Mono, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::analysis::intervals::{Intervals, unfolded};
use crate::expr::walk::{any, substitute, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::Stmt;
use crate::nests::place::conjuncts;
use crate::nests::ranges::ranges;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{Level, Stage};
use crate::plan::validate::is_var;

/// The condition without which nothing counts inside of loop `j` of `s`, counted from outside; none where there is none.
pub(super) fn reaches(scope: &Scope, regions: &Regions, s: &Stage, j: usize, level: &Level) -> Option<Expr> {
    let is_outermost = s.dims.iter().rev().position(|d| d.reduction) == Some(j);
    let is_only = s.dims.iter().filter(|d| d.reduction).count() < 2;
    let vars = &scope.plan.funcs[&s.id.func].func.vars;
    let gathered = s.predicate.iter().flat_map(conjuncts).filter_map(|c| match c.kind() {
        ExprKind::Binary(BinaryOp::Eq, a, b) if vars.iter().any(|v| is_var(b, v.name())) => {
            Some([a.clone(), b.clone()])
        }
        _ => None,
    });
    let gathered: Vec<[Expr; 2]> = gathered.collect();
    if !is_outermost || is_only || gathered.is_empty() {
        return None;
    }
    let ranges = ranges(scope, regions, s, level, &regions.produced[&s.id.func]).ok()?;
    let mut intervals = Intervals::new(scope.plan, &ranges);
    let reads = |n: &Expr| matches!(n.kind(), ExprKind::Call { .. } | ExprKind::Load { .. });
    let meet = gathered.iter().filter_map(|[a, b]| {
        let (a, b) = (intervals.of(&unfolded(scope.plan, a)).ok()?, intervals.of(b).ok()?);
        let cond = a.min.le(&b.max).and(b.min.le(&a.max));
        (!any(&cond, reads)).then_some(cond)
    });
    meet.reduce(|a, b| a.and(b))
}

/// The only value of serial loop variable `var` for which `body` does something, and what is left of that; none if there may be more. What the
/// value reads, the loop does not store, and nothing but the end of a block decides whether it is read.
pub(super) fn only_value(var: &Name, body: &Stmt) -> Option<(Expr, Stmt)> {
    match body {
        Stmt::Let { name, value, body } => {
            let (only, body) = only_value(var, body)?;
            let only = substitute(&only, &[(name.clone(), value.clone())].into_iter().collect());
            let body = Box::new(body);
            (!uses_var(&only, var))
                .then(|| (only, Stmt::Let { name: name.clone(), value: value.clone(), body }))
        }
        Stmt::If { cond, then, otherwise: None } => match cond.kind() {
            ExprKind::Likely(_) => {
                let (only, then) = only_value(var, then)?;
                Some((only, Stmt::If { cond: cond.clone(), then: Box::new(then), otherwise: None }))
            }
            ExprKind::Binary(BinaryOp::Eq, a, b) if is_index(a.ty()) => {
                let only = solved(var, a, b)?;
                let mut is_stored = false;
                visit_stmts(then, &mut |s| {
                    let stores = |n: &Expr| match (s, n.kind()) {
                        (Stmt::Provide { func, .. }, ExprKind::Call { name, .. }) => func == name,
                        _ => false,
                    };
                    is_stored |= any(&only, stores);
                });
                (!is_stored).then(|| (only, Stmt::clone(then)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The value of `var` with which `a = b`, if it is a term of their difference.
fn solved(var: &Name, a: &Expr, b: &Expr) -> Option<Expr> {
    let mut polys = Polys::default();
    let e = polys.of(a).plus(&polys.of(b), -1)?;
    let own = Mono::Atom(Expr::var(var.clone()));
    let k = e.coef(&own);
    let value = rebuild(&e.without(&own).scaled(k.checked_neg()?)?, a.ty());
    (k.abs() == 1 && !uses_var(&value, var)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScalarType::I32;
    use crate::ir::stmt::Target;

    #[test]
    fn one_value_counts() {
        let v = Expr::var;
        let if_ = |cond: Expr, then: Stmt| Stmt::If { cond, then: Box::new(then), otherwise: None };
        let store =
            || Stmt::Provide { func: "f".into(), args: vec![], values: vec![v("v")], to: Target::Output };
        let call = |f: &str| Expr::call(f, I32, vec![v("x")], 0);
        let only = |s: &Stmt| only_value(&"v".into(), s).map(|(e, s)| (e.to_string(), s.to_string()));
        let read = if_(call("g").eq_(v("v") + v("base")), store());
        let tail = if_((v("v") + v("base")).le(v("m")).likely(), read.clone());
        let (value, rest) = only(&tail).unwrap();
        assert_eq!((&*value, rest.contains("g(x)"), rest.contains("<= m")), ("g(x) - base", false, true));
        let bound = |e: Expr| Stmt::Let { name: "base".into(), value: e, body: Box::new(read.clone()) };
        assert_eq!(only(&bound(v("y") * 4)).unwrap().0, "g(x) - y * 4");
        // It is stored; a condition decides whether it is read; twice the variable; a value of itself; not all there is.
        for body in [
            if_(call("f").eq_(v("v")), store()),
            if_(v("v").modulo(3).eq_(0), read.clone()),
            if_(call("g").eq_(v("v") * 2), store()),
            if_(v("v").eq_(v("v") / 2 + 1), store()),
            bound(v("v") / 2),
            Stmt::Block(vec![read.clone(), store()]),
        ] {
            assert_eq!(only(&body), None, "{body}");
        }
    }
}
