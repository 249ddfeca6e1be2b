//! Iterations in which no term counts: bounds of its place say so.
//!
//! Where a condition of a reduction domain compares what an iteration computes with a pure variable, as `gather` makes it, the bounds of both in one
//! iteration of the outermost reduction loop must meet. That is tested there: a block of the variable's values costs no sweep over the whole domain, but
//! over the rows that reach it. Bounds that read memory are left out: they cost as much as what they save.

use crate::analysis::intervals::{Intervals, unfolded};
use crate::expr::walk::any;
use crate::expr::{BinaryOp, Expr, ExprKind};
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
