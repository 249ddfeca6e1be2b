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
use crate::plan::plans::{FuncPlan, illegal, own_var, shown};
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Formatter};

/// Movement of a region from one iteration to the next.
pub(super) struct Slide {
    /// The dimension that moves.
    pub dim: usize,
    /// The loop as the schedule calls it.
    over: Name,
    /// Is this the first iteration?
    first: Expr,
    /// Towards greater coordinates?
    pub up: bool,
    /// The last value of the previous iteration in the direction of movement: what comes behind it is new.
    last_before: Expr,
}

/// The behaviour of a Func that is stored outside of the loops in which it is computed, for people.
#[derive(Clone, Debug)]
pub enum Sliding {
    /// Along this dimension over this loop.
    Along(Name, Name),
    /// All of it is computed in every iteration, for this reason.
    Not(Still),
}

/// The reason why a region does not slide.
#[derive(Clone, Debug)]
pub enum Still {
    /// Later definitions change what is there already.
    Updates,
    /// There is no loop of several iterations between storage and computation.
    NoLoop,
    /// There are these.
    Loops(Vec<Name>),
    /// It runs in another way than one iteration after the other.
    NotSerial(Name),
    /// Some iterations may leave it out.
    Condition,
    /// The region is the same in all iterations of this loop.
    Same(Name),
    /// It moves in these two dimensions.
    Dimensions(Name, Name),
    /// Along this dimension it moves to and fro, or nobody knows.
    Direction(Name),
    /// Along this dimension whole blocks are computed.
    Blocks(Name),
}

impl Display for Sliding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let still = match self {
            Sliding::Along(dim, var) => return write!(f, "slides along {dim} over {var}"),
            Sliding::Not(still) => still,
        };
        f.write_str("does not slide: ")?;
        match still {
            Still::Updates => f.write_str("it has updates"),
            Still::NoLoop => f.write_str("no loop lies between"),
            Still::Loops(all) => write!(f, "several loops lie between, {}", all.join(" ")),
            Still::NotSerial(var) => write!(f, "loop {var} is not serial"),
            Still::Condition => f.write_str("a condition lies between"),
            Still::Same(var) => write!(f, "all iterations of {var} need the same"),
            Still::Dimensions(a, b) => write!(f, "what is needed moves along {a} and {b}"),
            Still::Direction(dim) => write!(f, "what is needed moves along {dim} in no one direction"),
            Still::Blocks(dim) => write!(f, "whole blocks are computed along {dim}"),
        }
    }
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

/// Records what the loops of `f` have to cover, given the region `required` at its compute level; tells whether it slides.
pub(super) fn slide(
    scope: &mut Scope,
    regions: &mut Regions,
    f: &FuncPlan,
    required: &[Interval],
) -> Sliding {
    let mut produced = required.to_vec();
    let found = find_slide(scope, regions, f, required);
    let sliding = match &found {
        Ok(slide) => Sliding::Along(f.func.vars[slide.dim].name().clone(), slide.over.clone()),
        Err(still) => Sliding::Not(still.clone()),
    };
    if let Ok(Slide { dim: d, first, up, last_before, .. }) = found {
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
    sliding
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
) -> Result<Slide, Still> {
    let (v, over) = loop_between(scope, f)?;
    let facts = &scope.facts;
    let raw = |e: &Expr| facts.expand(e, v, &regions.unslid);
    let back: FxHashMap<Name, Expr> = [(v.clone(), Expr::var(v.clone()) - 1)].into_iter().collect();
    let dim_name = |d: usize| f.func.vars[d].name().clone();
    let mut found: Option<Slide> = None;
    for (d, i) in required.iter().enumerate() {
        let (min, max) = (raw(&i.min), raw(&i.max));
        if !variables(&min).contains(v) && !variables(&max).contains(v) {
            continue;
        }
        if let Some(other) = found {
            return Err(Still::Dimensions(dim_name(other.dim), dim_name(d)));
        }
        if round_up_unit(&f.stages[0], f.func.vars[d].name()).is_some() {
            return Err(Still::Blocks(dim_name(d)));
        }
        let (min_before, max_before) = (substitute(&min, &back), substitute(&max, &back));
        let rises = |a: &Expr, b: &Expr| facts.proves_le(a, b);
        let up = rises(&min_before, &min) && rises(&max_before, &max);
        let down = !up && rises(&min, &min_before) && rises(&max, &max_before);
        if !(up || down) {
            return Err(Still::Direction(dim_name(d)));
        }
        let first = facts.first(v).ok_or_else(|| Still::Direction(dim_name(d)))?;
        let first = Expr::var(v.clone()).eq_(first);
        let last_before = if up { max_before } else { min_before };
        found = Some(Slide { dim: d, over: over.clone(), first, up, last_before });
    }
    found.ok_or(Still::Same(over))
}

/// The one serial loop between the storage of `f` and here, where it is computed: its variable, and what the schedule calls it.
fn loop_between<'a>(scope: &'a Scope, f: &FuncPlan) -> Result<(&'a Name, Name), Still> {
    if f.stages.len() > 1 {
        return Err(Still::Updates);
    }
    let name = |l| Name::from(shown(own_var(l)));
    let between = scope.since_store(f).iter().filter(|a| !matches!(a, Around::Once(_)));
    match between.collect::<Vec<_>>()[..] {
        [] => Err(Still::NoLoop),
        [Around::Loop(l, v, ForKind::Serial)] => Ok((v, name(l))),
        [Around::Loop(l, ..)] => Err(Still::NotSerial(name(l))),
        ref all if all.iter().any(|a| matches!(a, Around::Gate)) => Err(Still::Condition),
        ref all => {
            let loops =
                all.iter().filter_map(|a| if let Around::Loop(l, ..) = a { Some(name(l)) } else { None });
            Err(Still::Loops(loops.collect()))
        }
    }
}
