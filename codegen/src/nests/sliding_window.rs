//! Computes each value of a sliding region once.
//!
//! A Func stored outside of exactly one serial loop and computed inside it, whose region moves monotonically with that loop
//! in one dimension, computes only what the previous iteration did not leave: of a region that rises the first value becomes
//! `select(first iteration, min, previous max + 1)`, of one that falls the last value
//! `select(first iteration, max, previous min - 1)`. In a loop that begins early ([`crate::nests::run_up`]) no iteration is the first: what is
//! new, from the start of what is needed on. Needs the region (bounds inference), precedes the sizing of
//! storage, which is that of the whole loop.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{max, min, offset};
use crate::error::Error;
use crate::expr::walk::{substitute, variables};
use crate::expr::{Expr, Name};
use crate::nests::regions::{Regions, RunUp};
use crate::nests::scope::{Around, Scope};
use crate::plan::extents::round_up_unit;
use crate::plan::plans::{FuncPlan, illegal, own_var};
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;

/// Movement of a region from one iteration to the next.
pub(super) struct Slide {
    /// The dimension that moves.
    pub dim: usize,
    /// Is this the first iteration?
    first: Expr,
    /// Towards greater coordinates?
    pub up: bool,
    /// The last value of the previous iteration in the direction of movement: what comes behind it is new.
    last_before: Expr,
}

/// Storage outside of a parallel loop must not be written inside it.
pub(super) fn check_store_races(scope: &Scope, f: &FuncPlan) -> Result<(), Error> {
    let parallel = scope.since_store(f).iter().find_map(|a| match a {
        Around::Loop(l, _, kind) if kind.is_parallel() => Some(own_var(l)),
        _ => None,
    });
    match parallel {
        Some(v) => {
            let rule = format!("iterations of the parallel loop {v} would share the storage");
            Err(illegal(&f.stages[0].id, "store_at", rule))
        }
        None => Ok(()),
    }
}

/// Records what the loops of `f` have to cover, given the region `required` at its compute level; true if it slides.
pub(super) fn slide(scope: &mut Scope, regions: &mut Regions, f: &FuncPlan, required: &[Interval]) -> bool {
    let mut produced = required.to_vec();
    let slide = find_slide(scope, regions, f, required);
    let slides = slide.is_some();
    if let Some(Slide { dim: d, first, up, last_before }) = slide {
        let end = if up { "min" } else { "max" };
        let name: Name = format!("{}.s0.{}.{end}", f.func.name, f.func.vars[d].name()).into();
        let Interval { min: lowest, max: highest } = &required[d];
        let (whole, next) = match up {
            true => (lowest, offset(&last_before, 1)),
            false => (highest, offset(&last_before, -1)),
        };
        // Where the region jumps, nothing before its start is needed.
        let next = match up {
            true if scope.facts.proves_le(lowest, &next) => next,
            true => max(&next, lowest),
            false if scope.facts.proves_le(&next, highest) => next,
            false => min(&next, highest),
        };
        let slid = match start(scope, regions, f, whole) {
            Some(start) => max(&next, &start),
            None => Expr::select(first, whole, next),
        };
        let slid = regions.bind(&mut scope.facts, name.to_string(), &slid);
        regions.unslid.insert(name, whole.clone());
        if up {
            produced[d].min = slid;
        } else {
            produced[d].max = slid;
        }
    }
    regions.produced.insert(f.func.name.clone(), produced);
    slides
}

/// Returns the start of what is needed, if the loop around began early.
fn start(scope: &Scope, regions: &Regions, f: &FuncPlan, lowest: &Expr) -> Option<Expr> {
    let RunUp { var, first, .. } = regions.run_ups.get(&f.compute)?.as_ref()?;
    let lowest = scope.facts.expand(lowest, var, &regions.unslid);
    Some(substitute(&lowest, &FxHashMap::from_iter([(var.clone(), first.clone())])))
}

/// The one dimension that moves, if it does so in one direction.
pub(super) fn find_slide(
    scope: &Scope,
    regions: &Regions,
    f: &FuncPlan,
    required: &[Interval],
) -> Option<Slide> {
    if f.store == f.compute || f.stages.len() > 1 {
        return None;
    }
    let facts = &scope.facts;
    let mut loops = scope.since_store(f).iter().filter(|a| !matches!(a, Around::Once(_)));
    let Some(Around::Loop(_, v, ForKind::Serial)) = loops.next() else { return None };
    if loops.next().is_some() {
        return None;
    }
    let raw = |e: &Expr| facts.expand(e, v, &regions.unslid);
    let back: FxHashMap<Name, Expr> = [(v.clone(), Expr::var(v.clone()) - 1)].into_iter().collect();
    let mut found = None;
    for (d, i) in required.iter().enumerate() {
        let (min, max) = (raw(&i.min), raw(&i.max));
        if !variables(&min).contains(v) && !variables(&max).contains(v) {
            continue;
        }
        let (min_before, max_before) = (substitute(&min, &back), substitute(&max, &back));
        let rises = |a: &Expr, b: &Expr| facts.proves_le(a, b);
        let up = rises(&min_before, &min) && rises(&max_before, &max);
        let down = !up && rises(&min, &min_before) && rises(&max, &max_before);
        let rounded = round_up_unit(&f.stages[0], f.func.vars[d].name()).is_some();
        if found.is_some() || !(up || down) || rounded {
            return None;
        }
        let first = Expr::var(v.clone()).eq_(facts.first(v)?);
        found = Some(Slide { dim: d, first, up, last_before: if up { max_before } else { min_before } });
    }
    found
}
