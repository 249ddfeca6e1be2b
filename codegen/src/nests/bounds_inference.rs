//! Gives every produced region its bounds.
//!
//! The region of a Func at a level is the union, over all stages that call it, of the interval of each coordinate
//! while the loops around the level are fixed and all others range over their own bounds. At its compute level it is
//! let-bound as `f.<dim>.min/.max`, at its store level as `f.store.<dim>.min/.max`, at any other level where a
//! producer further out needs it as `f.in.<level>.<dim>.min/.max`. A consumer's coordinates range over *names*
//! of its region, never over what these stand for.
//!
//! Works level by level from outside in, during the walk of [`crate::nests`]: a level's lets come before
//! everything that is stored or computed there, consumers first.

use crate::analysis::algebra::build::{add, mul, offset};
use crate::analysis::algebra::{Interval, build};
use crate::analysis::intervals::Intervals;
use crate::error::Error;
use crate::expr::walk::variables;
use crate::expr::{Expr, Name};
use crate::nests::bound::bound;
use crate::nests::checks::assertion;
use crate::nests::joint_regions::keep_within;
use crate::nests::ranges::{self, cover};
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::extents::{blocks, is_rounded, round_up_unit};
use crate::plan::plans::{FuncPlan, Level, Stage, illegal};
use crate::plan::validate::{error, is_var};
use crate::schedule::StageId;
use rustc_hash::FxHashMap;

/// The region of `func` at `level`, which is the level being opened or one that was opened before.
pub(super) fn region(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
) -> Result<Vec<Interval>, Error> {
    let key = (func.clone(), level.clone());
    if let Some(r) = regions.at.get(&key) {
        return Ok(r.clone());
    }
    let mut dims = required(scope, regions, func, level)?;
    regions.at.insert(key.clone(), dims.clone());
    let asked = dims.clone();
    cover_updates(scope, regions, func, level, &mut dims)?;
    keep_within(scope, regions, func, level, &mut dims);
    let f = &scope.plan.funcs[func];
    let prefix = match level {
        l if *l == f.compute => format!("{func}"),
        l if *l == f.store => format!("{func}.store"),
        Level::Root => format!("{func}.in"),
        Level::At(l) => format!("{func}.in.{}.s{}.{}", l.stage.func, l.stage.stage, l.var),
    };
    let prefix = |d: usize| format!("{prefix}.{}", f.func.vars[d].name());
    for (d, i) in dims.iter_mut().enumerate() {
        bound(scope, regions, (func, d), level, i, &prefix(d))?;
        round(scope, regions, (func, d), level, i, &prefix(d))?;
    }
    follow_pure_variables(scope, regions, (func, level), &asked, &mut dims)?;
    for (d, i) in dims.iter_mut().enumerate().filter(|(d, _)| !is_rounded(f, *d)) {
        *i = regions.bind_ends(&mut scope.facts, &prefix(d), i);
    }
    regions.at.insert(key, dims.clone());
    Ok(dims)
}

/// Returns what the callers of `func`, and the output buffer, need.
fn required(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
) -> Result<Vec<Interval>, Error> {
    let f = &scope.plan.funcs[func];
    let mut dims: Vec<Option<Interval>> = vec![None; f.func.vars.len()];
    if f.output.is_some() && !f.sink {
        dims = (0..dims.len()).map(|d| Some(scope.domain(func, d))).collect();
    }
    check_readers(scope, func, level)?;
    for (stage, calls) in scope.callers(func) {
        if stage.func == *func || scope.reads_output(func, stage) {
            continue;
        }
        let ranges = ranges_of(scope, regions, stage, level)?;
        cover(scope.plan, &ranges, calls, &mut dims)
            .map_err(|(d, why)| unbounded(scope, func, stage, d, &why))?;
    }
    let empty = || Interval { min: Expr::from(0), max: Expr::from(-1) };
    Ok(dims.into_iter().map(|d| d.unwrap_or_else(empty)).collect())
}

/// Everything that updates write and read of the Func itself.
fn cover_updates(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
    dims: &mut [Interval],
) -> Result<(), Error> {
    let f = &scope.plan.funcs[func];
    for s in &f.stages[1..] {
        let ranges = ranges_in(scope, regions, s, level)?;
        let mut intervals = Intervals::new(scope.plan, &ranges);
        for args in scope.calls_in(&s.id, func).iter().chain([&s.args]) {
            for (d, a) in args.iter().enumerate().filter(|(d, a)| !is_var(a, f.func.vars[*d].name())) {
                let i = intervals.of(a).map_err(|why| unbounded(scope, func, &s.id, d, &why))?;
                dims[d] = dims[d].union(&i);
            }
        }
    }
    Ok(())
}

/// Grows `dims` by the coordinates that updates make of pure variables. These range over all of `dims`, which may be more than `before`,
/// over which they ranged so far.
fn follow_pure_variables(
    scope: &mut Scope,
    regions: &mut Regions,
    (func, level): (&Name, &Level),
    before: &[Interval],
    dims: &mut [Interval],
) -> Result<(), Error> {
    let f = &scope.plan.funcs[func];
    let used = followed(scope, f);
    let mut before = before.to_vec();
    for _ in 0..=dims.len() {
        if used.iter().all(|&d| before[d] == dims[d]) {
            return Ok(());
        }
        regions.at.insert((func.clone(), level.clone()), dims.to_vec());
        let mut more = dims.to_vec();
        cover_updates(scope, regions, func, level, &mut more)?;
        let facts = &scope.facts;
        let within =
            |a: &Interval, b: &Interval| facts.proves_le(&b.min, &a.min) && facts.proves_le(&a.max, &b.max);
        before = dims.to_vec();
        for d in (0..dims.len()).filter(|&d| !within(&more[d], &before[d])) {
            let said = f.bound[d].is_some() || is_rounded(f, d) || regions.whole_nest.contains_key(func);
            if said {
                let var = f.func.vars[d].name();
                let rule = "an update may make coordinates beyond the region that the schedule says of another pure variable";
                return Err(illegal(&f.stages[0].id, format!("the region of {var}"), rule));
            }
            dims[d] = more[d].clone();
        }
    }
    let message =
        format!("{func}: its updates make coordinates of each other's pure variables, which has no end");
    Err(error(&scope.plan.pipeline, message))
}

/// Dimensions of `f` whose pure variables an update uses outside of their own place.
fn followed(scope: &Scope, f: &FuncPlan) -> Vec<usize> {
    let vars = &f.func.vars;
    let mut used = vec![];
    for s in &f.stages[1..] {
        for args in scope.calls_in(&s.id, &f.func.name).iter().chain([&s.args]) {
            for (_, a) in args.iter().enumerate().filter(|(d, a)| !is_var(a, vars[*d].name())) {
                let in_it = variables(a);
                used.extend((0..vars.len()).filter(|&d| in_it.contains(vars[d].name())));
            }
        }
    }
    used
}

/// Returns what the callers and the updates of `func` need, before it is rounded.
pub(super) fn needed(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
) -> Result<Vec<Interval>, Error> {
    let mut dims = required(scope, regions, func, level)?;
    cover_updates(scope, regions, func, level, &mut dims)?;
    Ok(dims)
}

/// Applies align_bounds, and the RoundUp splits of the pure definition, to dimension `d`. The number of blocks is
/// let-bound, so that ends remain visible as multiples.
fn round(
    scope: &mut Scope,
    regions: &mut Regions,
    (func, d): (&Name, usize),
    level: &Level,
    i: &mut Interval,
    prefix: &str,
) -> Result<(), Error> {
    let (f, facts) = (&scope.plan.funcs[func], &mut scope.facts);
    if let Some(m) = f.align[d] {
        let m = Expr::from(m as i32);
        let first = regions.bind(facts, format!("{prefix}.first"), &build::div(&i.min, &m));
        let last = regions.bind(facts, format!("{prefix}.last"), &build::div(&i.max, &m));
        i.min = mul(&first, &m);
        i.max = offset(&add(&mul(&last, &m), &m), -1);
    }
    let Some(unit) = round_up_unit(&f.stages[0], f.func.vars[d].name()) else { return Ok(()) };
    let said = f.bound[d].as_ref().and_then(|b| b.extent.as_int()).zip(unit.as_int());
    if said.is_some_and(|(extent, unit)| extent % unit == 0) && f.align[d].is_none() {
        return Ok(());
    }
    if f.output.is_some() && !f.sink && *level == Level::Root {
        return whole_blocks(scope, regions, (func, d), &unit, i);
    }
    if *level != f.compute {
        // Blocks of an inner region start anywhere: the last one may stick out by all but one element.
        i.max = offset(&add(&i.max, &unit), -1);
        return Ok(());
    }
    if f.align[d].is_none() {
        i.min = regions.bind(facts, format!("{prefix}.min"), &i.min);
    }
    let blocks = regions.bind(facts, format!("{prefix}.blocks"), &blocks(&i.min, &i.max, &unit));
    i.max = offset(&add(&i.min, &mul(&blocks, &unit)), -1);
    Ok(())
}

/// The region `i` of an output in dimension `d` is that of its buffer, which is whole blocks of `unit`: that is known from here on, since a
/// run with another buffer is refused.
fn whole_blocks(
    scope: &mut Scope,
    regions: &mut Regions,
    (func, d): (&Name, usize),
    unit: &Expr,
    i: &mut Interval,
) -> Result<(), Error> {
    let f = &scope.plan.funcs[func];
    let (var, domain, extent) = (f.func.vars[d].name(), scope.domain(func, d), i.extent());
    let refused = |rule: String| Err(illegal(&f.stages[0].id, format!("round_up of {var}"), rule));
    let facts = &mut scope.facts;
    if !facts.proves_le(&domain.min, &i.min) || !facts.proves_le(&i.max, &domain.max) {
        return refused("more may be computed of this output than its buffer holds; use Predicate".into());
    }
    if let Some((n, unit)) = extent.as_int().zip(unit.as_int()).filter(|(n, unit)| n % unit != 0) {
        return refused(format!("the extent, {n}, is no multiple of {unit}; use Predicate"));
    }
    let whole = mul(&build::div(&extent, unit), unit);
    let message = format!(
        "{func}: extent of dimension {d} must be a multiple of {unit}, as round_up of {var} says, it is"
    );
    regions.checks.extend(assertion(
        facts,
        &[build::le(&extent, &whole)],
        message,
        std::slice::from_ref(&extent),
    ));
    for known in [extent.le(&whole), whole.le(&extent)] {
        facts.assume(&known);
    }
    i.max = offset(&add(&i.min, &whole), -1);
    Ok(())
}

/// `stage` reads `func` at a coordinate without bounds.
pub(super) fn unbounded(scope: &Scope, func: &Name, stage: &StageId, dim: usize, why: &str) -> Error {
    let message = format!(
        "{stage} reads {func} at coordinate {dim}, which has no bounds because of {why}; clamp the coordinate"
    );
    error(&scope.plan.pipeline, message)
}

/// Everything that reads `func`, which is computed or stored at `level`, does so inside of it.
fn check_readers(scope: &Scope, func: &Name, level: &Level) -> Result<(), Error> {
    let inside = |s: &StageId| match level {
        Level::At(l) if scope.plan.stages_at(l).contains(s) => true,
        level => scope.is_inside(&s.func, level),
    };
    let readers = scope.callers(func).iter().map(|u| &u.0);
    let other = readers.filter(|s| s.func != *func && !scope.reads_output(func, s));
    let outside: Vec<String> = other.filter(|s| !inside(s)).map(StageId::to_string).collect();
    if outside.is_empty() {
        return Ok(());
    }
    let f = &scope.plan.funcs[func];
    let what = match level {
        l if *l == f.compute => "compute_at",
        l if *l == f.store => "store_at",
        _ => "hoist_storage",
    };
    let rule = format!("it is read outside that loop, by {}", outside.join(", "));
    Err(illegal(&f.stages[0].id, format!("{what}({level})"), rule))
}

/// Intervals of the local variables of `stage` while the loops around `level` are fixed.
pub(super) fn ranges_of(
    scope: &mut Scope,
    regions: &mut Regions,
    stage: &StageId,
    level: &Level,
) -> Result<FxHashMap<Name, Interval>, Error> {
    let s = scope.version_of(stage);
    ranges_in(scope, regions, s, level)
}

/// As [`ranges_of`], for a version of a stage.
pub(super) fn ranges_in(
    scope: &mut Scope,
    regions: &mut Regions,
    s: &Stage,
    level: &Level,
) -> Result<FxHashMap<Name, Interval>, Error> {
    let pure = pure_region(scope, regions, &s.id.func, level)?;
    ranges::ranges(scope, regions, s, level, &pure)
}

/// Returns what the pure loops of `func` cover, seen from `level`.
fn pure_region(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
) -> Result<Vec<Interval>, Error> {
    let compute = &scope.plan.funcs[func].compute;
    let inside_own_nest = match level {
        Level::At(l) => scope.plan.stages_at(l).iter().any(|s| s.func == *func),
        Level::Root => false,
    };
    if (inside_own_nest || compute == level)
        && let Some(r) = regions.produced.get(func)
    {
        return Ok(r.clone());
    }
    region(scope, regions, func, if inside_own_nest { compute } else { level })
}
