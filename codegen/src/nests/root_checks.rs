//! Tests that a run makes before it begins.

use crate::analysis::algebra::build::offset;
use crate::analysis::algebra::{Facts, Interval, build};
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::ir::stmt::Stmt;
use crate::nests::bounds_inference::{ranges_in, ranges_of, region, unbounded};
use crate::nests::checks::{assertion, points_check};
use crate::nests::float_checks::float_checks;
use crate::nests::found::Found;
use crate::nests::param_ranges::param_checks;
use crate::nests::ranges::cover;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::nests::sinks::sink_checks;
use crate::plan::plans::{Change, FuncPlan, Fuse, Level, MAX_FACTOR, Split, Stage};

/// The assertions at root, which is being opened: ranges of parameters, buffers, loops, sinks and regions that the schedule says.
pub(super) fn root_checks(
    scope: &mut Scope,
    regions: &mut Regions,
    found: &mut Found,
) -> Result<Vec<Stmt>, Error> {
    let mut checks = param_checks(&scope.plan.pipeline);
    checks.extend(float_checks(&scope.plan.pipeline));
    checks.extend(buffer_checks(scope, regions, found)?);
    checks.extend(loop_checks(scope, regions)?);
    checks.extend(sink_checks(scope, regions)?);
    checks.extend(bound_checks(scope, regions)?);
    Ok(checks)
}

/// No buffer is empty, and what the pipeline reads lies inside.
fn buffer_checks(scope: &mut Scope, regions: &mut Regions, found: &mut Found) -> Result<Vec<Stmt>, Error> {
    let p = &scope.plan.pipeline;
    let inputs = p.inputs.values().map(|i| (&i.name, &i.halo));
    let outputs = p.outputs.iter().map(|o| (&o.func, &o.halo));
    let mut checks = vec![];
    for (name, halo) in inputs.chain(outputs) {
        for d in 0..halo.len() {
            let extent = p.shape(name).extent(d);
            let message = format!("{name}: extent of dimension {d} must be at least 1, it is");
            checks.extend(assertion(&scope.facts, &[Expr::from(1).le(&extent)], message, &[extent]));
        }
        checks.extend(region_checks(scope, regions, found, name, halo)?);
    }
    Ok(checks)
}

/// Numbers behind a message that a buffer is too small.
const BEYOND: &str = "from, to, first readable, last readable, missing before, missing behind";

/// The reads of one buffer stay in its domain and halo.
fn region_checks(
    scope: &mut Scope,
    regions: &mut Regions,
    found: &mut Found,
    name: &Name,
    halo: &[u32],
) -> Result<Vec<Stmt>, Error> {
    let plan = scope.plan;
    let input = plan.pipeline.inputs.get(name);
    if input.is_some_and(|i| i.trusted) {
        return Ok(vec![]);
    }
    let mut dims: Vec<Option<Interval>> = vec![None; halo.len()];
    for (stage, calls) in scope.callers(name) {
        if plan.funcs.contains_key(name) && !scope.reads_output(name, stage) {
            continue;
        }
        let ranges = ranges_of(scope, regions, stage, &Level::Root)?;
        cover(plan, &ranges, calls, &mut dims).map_err(|(d, why)| unbounded(scope, name, stage, d, &why))?;
    }
    if input.is_some()
        && let Some(region) = dims.iter().cloned().map(|i| i.map(|i| (i.min, i.max))).collect()
    {
        found.inputs.push((name.clone(), region));
    }
    let readers = readers(scope, name);
    let mut checks = vec![];
    for (d, i) in dims.into_iter().enumerate() {
        let Some(i) = i else { continue };
        let domain = scope.domain(name, d);
        let (first, last) = (offset(&domain.min, -(halo[d] as i64)), offset(&domain.max, halo[d] as i64));
        let conds = [build::le(&first, &i.min), build::le(&i.max, &last)];
        let message = format!("{name} is read beyond dimension {d} by {readers}: {BEYOND}");
        let missing = |a, b| build::max(&build::sub(a, b), &Expr::from(0));
        let (before, behind) = (missing(&first, &i.min), missing(&i.max, &last));
        checks.extend(assertion(&scope.facts, &conds, message, &[i.min, i.max, first, last, before, behind]));
    }
    Ok(checks)
}

/// The Funcs that read a buffer, by name.
fn readers(scope: &Scope, name: &Name) -> String {
    let mut all: Vec<&Name> = scope.callers(name).iter().map(|(stage, _)| &stage.func).collect();
    all.dedup();
    all.iter().map(|f| &***f).collect::<Vec<_>>().join(", ")
}

/// Factors are what they may be, and fused loops are counted by an i32. Further in, their points are those of a tile, which is
/// checked there.
fn loop_checks(scope: &mut Scope, regions: &mut Regions) -> Result<Vec<Stmt>, Error> {
    let mut checks = vec![];
    let stages = scope.plan.funcs.values().flat_map(|f| f.stages.iter().map(move |s| (f, s)));
    for (f, s) in stages.flat_map(|(f, s)| s.versions().into_iter().map(move |s| (f, s))) {
        for c in &s.changes {
            match c {
                Change::Split(t) => checks.extend(factor_checks(&scope.facts, f, t)),
                Change::Fuse(t) if f.compute == Level::Root => {
                    checks.extend(points_at_root(scope, regions, s, t)?);
                }
                Change::Fuse(_) | Change::Rename { .. } => {}
            }
        }
    }
    Ok(checks)
}

/// A factor that is known at run time is one that a constant may be.
fn factor_checks(facts: &Facts, f: &FuncPlan, t: &Split) -> Vec<Stmt> {
    let (one, most) = (Expr::from(1), Expr::from(MAX_FACTOR as i32));
    let check = |cond: Expr, what: &str| {
        let message = format!("{}: split factor of {} must be at {what}, it is", f.func.name, t.old);
        assertion(facts, &[cond], message, std::slice::from_ref(&t.factor))
    };
    match t.factor.as_int() {
        Some(_) => vec![],
        None => {
            let checks = [check(one.le(&t.factor), "least 1"), check(t.factor.le(&most), "most 2^26")];
            checks.into_iter().flatten().collect()
        }
    }
}

/// The points of two fused loops of a Func at root.
fn points_at_root(
    scope: &mut Scope,
    regions: &mut Regions,
    s: &Stage,
    t: &Fuse,
) -> Result<Option<Stmt>, Error> {
    let ranges = ranges_in(scope, regions, s, &Level::Root)?;
    let (Some(inner), Some(outer)) = (ranges.get(&t.inner), ranges.get(&t.outer)) else { return Ok(None) };
    Ok(points_check(&scope.facts, &s.id, &[inner.extent(), outer.extent()], &t.fused))
}

/// Regions that the schedule says hold what was required so far, and of Funcs computed further in.
fn bound_checks(scope: &mut Scope, regions: &mut Regions) -> Result<Vec<Stmt>, Error> {
    for f in scope.plan.funcs.values() {
        if f.compute != Level::Root && f.bound.iter().flatten().any(|b| b.min.is_some()) {
            region(scope, regions, &f.func.name, &Level::Root)?;
        }
    }
    Ok(std::mem::take(&mut regions.checks))
}
