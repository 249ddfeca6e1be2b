//! Regions that the schedule says ([`crate::Directive::Bound`]).
//!
//! The region takes the place of the required one, which must lie inside: asserted at run time at root, where all that
//! the pipeline needs of the Func is known; proved at the compute level for an extent without a minimum.

use crate::analysis::algebra::build::{add, mul, offset, sub};
use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::walk::variables;
use crate::expr::{Expr, ExprKind, Name};
use crate::nests::checks::assertion;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{Change, Level, Split, Stage, illegal};
use crate::schedule::{Directive, StageId, Tail};

/// Replaces the interval that a Func needs in a dimension at `level` by the one that the schedule says, if it says one.
pub(super) fn bound(
    scope: &mut Scope,
    regions: &mut Regions,
    (func, d): (&Name, usize),
    level: &Level,
    i: &mut Interval,
    prefix: &str,
) -> Result<(), Error> {
    let f = &scope.plan.funcs[func];
    let Some(b) = &f.bound[d] else { return Ok(()) };
    let var = f.func.vars[d].name().clone();
    let text = Directive::Bound { var, min: b.min.clone(), extent: b.extent.clone() }.to_string();
    let min = match &b.min {
        Some(min) => min.clone(),
        None if *level == f.compute => regions.bind(&mut scope.facts, format!("{prefix}.min"), &i.min),
        None => {
            i.max = match blocks(scope, func, d, &b.extent) {
                Blocks::Inside => build::max(&i.max, &offset(&add(&i.min, &b.extent), -1)),
                Blocks::FromStart(run) => {
                    let n = build::div(&offset(&add(&i.extent(), &run), -1), &run);
                    let n = regions.bind(&mut scope.facts, format!("{prefix}.runs"), &n);
                    offset(&add(&i.min, &mul(&n, &run)), -1)
                }
                Blocks::Anywhere | Blocks::Beyond => build::max(&i.max, &offset(&add(&i.max, &b.extent), -1)),
            };
            return Ok(());
        }
    };
    if b.min.is_none() && *level != Level::Root && !scope.facts.proves_le(&i.min, &i.max) {
        // A block of which a guard leaves nothing may begin behind everything that is needed.
        let rule = match blocks(scope, func, d, &b.extent) {
            Blocks::Inside => None,
            _ if *level != f.store => Some("its storage is further out"),
            Blocks::Beyond => Some("its block would begin behind what there is to read"),
            _ => None,
        };
        if let Some(rule) = rule {
            let rule = format!("an iteration of {level} may need no coordinate, and {rule}");
            return Err(illegal(&f.stages[0].id, text, rule));
        }
    }
    let given = Interval { max: offset(&add(&min, &b.extent), -1), min };
    if *level == Level::Root {
        let message = format!("{func}: {text}: needed from, to, given from, to");
        require_inside(scope, regions, message, i, &given);
        require_domain(scope, regions, (func, d), i, &given, &text);
    } else if b.min.is_none() && !scope.facts.proves_le(&i.max, &given.max) {
        let most = scope.facts.upper(&i.extent()).map_or("any number of".into(), |n| n.to_string());
        let rule = format!("{most} coordinates may be needed at {level}");
        return Err(illegal(&f.stages[0].id, text, rule));
    }
    *i = given;
    Ok(())
}

/// Places in a whole region of the blocks that iterations of the compute level need.
#[derive(Clone, PartialEq)]
enum Blocks {
    /// All of them inside; one that would end outside moves back.
    Inside,
    /// One behind the other from the first coordinate on, in whole runs of so many coordinates: the last ones may lie outside.
    FromStart(Expr),
    /// They begin anywhere in it.
    Anywhere,
    /// Some of which a guard leaves nothing begin behind it.
    Beyond,
}

/// The blocks of `extent` that iterations of the compute level need of dimension `d`. They are those of readers that have this size of blocks
/// themselves, in loops of their own at root, or that are such blocks and are computed at the same level.
fn blocks(scope: &Scope, func: &Name, d: usize, extent: &Expr) -> Blocks {
    let plan = scope.plan;
    let f = &plan.funcs[func];
    let Level::At(level) = &f.compute else { return Blocks::Anywhere };
    let is_nested = |b: &Blocks| match b {
        Blocks::FromStart(run) => run != extent,
        other => *other == Blocks::Beyond,
    };
    let of_reader = |stage: &StageId, coordinate: &Expr| {
        let (s, g) = (scope.version_of(stage), &plan.funcs[&stage.func]);
        let at = plan.loop_at(&s.id, level).and_then(|v| s.dims.iter().position(|d| *d.name == *v));
        match (coordinate.kind(), at) {
            (ExprKind::Var(v), Some(at)) if g.compute == Level::Root => split_into(s, v, extent, at),
            (ExprKind::Var(v), None) if g.compute == f.compute => {
                let e = g.func.vars.iter().position(|own| own.name() == v);
                let same =
                    |e: &usize| g.bound[*e].as_ref().is_some_and(|b| b.min.is_none() && b.extent == *extent);
                e.filter(same).map_or(Blocks::Anywhere, |e| blocks(scope, &g.func.name, e, extent))
            }
            (_, Some(at)) if g.compute == Level::Root => {
                let mut of_vars = variables(coordinate).into_iter().map(|v| split_into(s, &v, extent, at));
                if of_vars.any(|b| is_nested(&b)) { Blocks::Beyond } else { Blocks::Anywhere }
            }
            _ => Blocks::Anywhere,
        }
    };
    let readers: Vec<_> = scope.callers(func).iter().filter(|(stage, _)| stage.func != *func).collect();
    let of_readers =
        readers.iter().flat_map(|(stage, calls)| calls.iter().map(|args| of_reader(stage, &args[d])));
    let all: Vec<Blocks> = of_readers.collect();
    match all.first() {
        None => Blocks::Inside,
        // Another reader may begin elsewhere.
        Some(first) if all.iter().all(|b| b == first) && (*first == Blocks::Inside || readers.len() == 1) => {
            first.clone()
        }
        _ if all.iter().any(is_nested) => Blocks::Beyond,
        _ => Blocks::Anywhere,
    }
}

/// The blocks of `extent` that variable `v` is split into, once or twice, by loops at position `at` and around it, and loops inside of it.
fn split_into(s: &Stage, v: &Name, extent: &Expr, at: usize) -> Blocks {
    let around = |t: &Split| places(s, &t.outer).iter().all(|&k| k >= at);
    let split = |v: &Name| match s.replaced(v) {
        Some(Change::Split(t)) if around(t) => Some(t),
        _ => None,
    };
    let is_last = |t: &Split| t.factor == *extent && places(s, &t.inner).iter().all(|&k| k < at);
    let guards = |t: &Split| matches!(t.tail, Tail::GuardWithIf | Tail::Predicate);
    let Some(t) = split(v) else { return Blocks::Anywhere };
    match split(&t.inner) {
        _ if is_last(t) && t.tail == Tail::ShiftInwards => Blocks::Inside,
        _ if is_last(t) && guards(t) => Blocks::FromStart(extent.clone()),
        Some(inner) if guards(t) => {
            let whole = |(run, extent): (i64, i64)| extent > 0 && run % extent == 0;
            let fits = t.factor.as_int().zip(extent.as_int()).is_some_and(whole);
            match guards(inner) && is_last(inner) && fits {
                true => Blocks::FromStart(t.factor.clone()),
                false => Blocks::Beyond,
            }
        }
        _ => Blocks::Anywhere,
    }
}

/// The loops that `name` became, as positions.
fn places(s: &Stage, name: &Name) -> Vec<usize> {
    if let Some(k) = s.dims.iter().position(|d| d.name == *name) {
        return vec![k];
    }
    match s.replaced(name) {
        Some(Change::Split(t)) => [places(s, &t.outer), places(s, &t.inner)].concat(),
        Some(Change::Fuse(t)) => places(s, &t.fused),
        Some(Change::Rename { new, .. }) => places(s, new),
        None => vec![],
    }
}

fn require_inside(
    scope: &Scope,
    regions: &mut Regions,
    message: String,
    needed: &Interval,
    given: &Interval,
) {
    let conds = [build::le(&given.min, &needed.min), build::le(&needed.max, &given.max)];
    let args = [&needed.min, &needed.max, &given.min, &given.max].map(Expr::clone);
    regions.checks.extend(assertion(&scope.facts, &conds, message, &args));
}

/// An output's region is its buffer, neither more nor less: known from here on.
fn require_domain(
    scope: &mut Scope,
    regions: &mut Regions,
    (func, d): (&Name, usize),
    domain: &Interval,
    given: &Interval,
    text: &str,
) {
    if scope.plan.funcs[func].output.is_none() {
        return;
    }
    let equal = [build::le(&given.max, &domain.max), build::le(&domain.min, &given.min)];
    let message = format!("{func}: {text}: the extent of dimension {d} of the output differs, it is");
    let extent = offset(&sub(&domain.max, &domain.min), 1);
    regions.checks.extend(assertion(&scope.facts, &equal, message, &[extent]));
    // That nothing else is needed is known, too: all of it goes to the buffer, without storage beside that.
    for (a, b) in [(domain, given), (given, domain)] {
        scope.facts.assume(&a.min.le(&b.min));
        scope.facts.assume(&a.max.le(&b.max));
    }
}
