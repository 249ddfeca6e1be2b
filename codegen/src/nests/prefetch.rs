//! Fetching ahead.
//!
//! At the start of the body of loop v: what the stage reads of a Func or input while v has a later value, as one prefetch per
//! row and cache line. Coordinates are kept inside of what the stage reads in this run of its nest, which is known to exist.

use crate::analysis::algebra::build::{add, offset};
use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::walk::{substitute, variables};
use crate::expr::{Expr, Name};
use crate::ir::stmt::Stmt;
use crate::nests::names::full_name;
use crate::nests::ranges::{cover, ranges};
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{Level, Plan, Stage, illegal};
use crate::schedule::{Directive, ForKind, LoopLevel};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// The prefetches at loop `var` of `s`.
pub(super) fn prefetches(
    scope: &Scope,
    regions: &Regions,
    s: &Stage,
    var: &Name,
) -> Result<Vec<Stmt>, Error> {
    let mut out = vec![];
    for (name, _, ahead) in s.prefetches.iter().filter(|p| p.1 == *var) {
        let d = Directive::Prefetch { name: name.clone(), var: var.clone(), ahead: *ahead };
        let refuse = |rule: String| Err(illegal(&s.id, d.to_string(), rule));
        let at = s.dims.iter().position(|d| d.name == *var).unwrap_or(0);
        if s.dims[at..].iter().any(|d| d.kind.is_vector()) {
            return refuse("the loop is vectorised".into());
        }
        let Some(ty) = element(scope.plan, name) else {
            return refuse(format!("{name} is inlined, or there is no such Func or input"));
        };
        let level = Level::At(LoopLevel { stage: s.id.clone(), var: var.clone() });
        let nest = &scope.plan.funcs[&s.id.func].compute;
        let (now, all) =
            match (reads(scope, regions, s, name, &level)?, reads(scope, regions, s, name, nest)?) {
                (Ok(now), Ok(all)) if !now.is_empty() => (now, all),
                (Err(why), _) | (_, Err(why)) => {
                    return refuse(format!("what it reads has no bounds because of {why}"));
                }
                _ => return refuse(format!("it does not read {name}")),
            };
        let v = full_name(s, var);
        let later = FxHashMap::from_iter([(v.clone(), Expr::var(v.clone()) + *ahead as i64)]);
        let raw = |e: &Expr| scope.facts.expand(e, &v, &regions.unslid);
        let shift = |e: &Expr| substitute(&raw(e), &later);
        let depends = |e: &Expr| variables(&raw(e)).contains(&v);
        let region = now.iter().zip(&all).map(|(now, all)| {
            let inside = |e: &Expr| build::min(&build::max(e, &all.min), &all.max);
            let later = |e: &Expr| if depends(e) { inside(&shift(e)) } else { e.clone() };
            Interval { min: later(&now.min), max: later(&now.max) }
        });
        out.push(fetch(name, &format!("{v}.{name}"), &region.collect::<Vec<_>>(), ty));
    }
    Ok(out)
}

/// Element type of something that lies in memory.
fn element(plan: &Plan, name: &Name) -> Option<ScalarType> {
    let input = plan.pipeline.inputs.get(name).map(|i| i.types[0]);
    input.or_else(|| plan.funcs.get(name).map(|f| f.func.types()[0]))
}

/// The region of `name` that `s`, whose nest is open, reads while the loops around `level` are fixed; empty if it reads nothing there.
/// The inner error says why there is none.
fn reads(
    scope: &Scope,
    regions: &Regions,
    s: &Stage,
    name: &Name,
    level: &Level,
) -> Result<Result<Vec<Interval>, String>, Error> {
    let calls = scope.calls_in(&s.id, name);
    let ranges = ranges(scope, regions, s, level, &regions.produced[&s.id.func])?;
    let mut dims: Vec<Option<Interval>> = vec![None; calls.first().map_or(0, Vec::len)];
    let covered = cover(scope.plan, &ranges, calls, &mut dims);
    Ok(covered.map(|()| dims.into_iter().flatten().collect()).map_err(|(_, why)| why))
}

/// Loops over the rows of a region, and over the lines of each.
fn fetch(name: &Name, prefix: &str, region: &[Interval], ty: ScalarType) -> Stmt {
    let var = |d: usize| -> Name { format!("{prefix}.{d}").into() };
    let per_line = LINE / ty.bytes() as i64;
    let place = |(d, i): (usize, &Interval)| match d {
        0 => build::min(&add(&i.min, &(Expr::var(var(0)) * per_line)), &i.max),
        _ => Expr::var(var(d)),
    };
    let args = region.iter().enumerate().map(place).collect();
    let mut body = Stmt::Prefetch { name: name.clone(), args };
    for (d, i) in region.iter().enumerate() {
        let (min, extent) = match d {
            // A row that starts inside of a line reaches into one more.
            0 => (
                Expr::from(0),
                offset(&build::div(&offset(&i.extent(), -1), &Expr::from(per_line as i32)), 2),
            ),
            _ => (i.min.clone(), i.extent()),
        };
        body = Stmt::For { var: var(d), min, extent, kind: ForKind::Serial, body: Box::new(body) };
    }
    body
}
