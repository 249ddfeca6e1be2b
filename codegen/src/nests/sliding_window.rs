//! Computes each value of a sliding region once.
//!
//! A Func stored outside of serial loops and computed inside them, whose region moves monotonically with one of these loops
//! in a dimension, computes only what the iteration before did not leave: of a region that rises the first value becomes
//! `select(first iteration, min, previous max + 1)`, of one that falls the last value
//! `select(first iteration, max, previous min - 1)`. In a loop that begins early ([`crate::nests::run_up`]) no iteration is the first: what is
//! new, from the start of what is needed on. Needs the region (bounds inference), precedes the sizing of
//! storage, which is that of all loops.
//!
//! A dimension slides over the innermost loop that it moves with. What an iteration of that needs beside the new values, another one before it has
//! computed: the one with the same values of all loops inside and outside. It was there, since bounds of loops inside do not depend on the one that
//! slides; it needed the same along all other dimensions, since none of them moves with that loop; and the values are there still, unless
//! they lie along a dimension that is folded and that loops inside move.
//!
//! Where several loops lie between, a dimension along which the Func runs as lanes does not slide: what is new is no whole number of vectors.
//! Nor does one along which iterations have nothing in common, as tiles have not. Of a Func with updates all definitions compute what is new; so
//! they must keep to one coordinate along the dimension.

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::{max, min, offset};
use crate::error::Error;
use crate::expr::walk::{substitute, variables};
use crate::expr::{Expr, ExprKind, Name};
use crate::nests::regions::{Regions, RunUp};
use crate::nests::scope::{Around, Scope};
use crate::plan::extents::round_up_unit;
use crate::plan::plans::{FuncPlan, Level, illegal, is_joint, own_var, shown};
use crate::schedule::{ForKind, LoopLevel};
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Formatter};

/// Movement of a region from one iteration to the next.
pub(super) struct Slide {
    /// The dimension that moves.
    pub dim: usize,
    /// The loop, by its place among those between storage and computation, and as the schedule calls it.
    pub depth: usize,
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
    /// Along these dimensions over these loops.
    Along(Vec<[Name; 2]>),
    /// All of it is computed in every iteration, for this reason.
    Not(Still),
}

/// The reason why a region does not slide.
#[derive(Clone, Debug)]
pub enum Still {
    /// Updates read or write at other coordinates of this dimension, or it is split in a definition.
    Updates(Name),
    /// There is no loop of several iterations between storage and computation.
    NoLoop,
    /// This loop runs in another way than one iteration after the other.
    NotSerial(Name),
    /// Iterations of this loop differ in the range of one inside, or in a condition.
    Ranges(Name),
    /// Along this dimension it runs as lanes, and several loops lie between.
    Lanes(Name),
    /// Iterations of a loop have nothing in common along a dimension.
    Apart(Name, Name),
    /// Along this dimension, which moves with a loop inside, it is folded.
    Folded(Name),
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
            Sliding::Along(all) => {
                let all = all.iter().map(|[dim, var]| format!("along {dim} over {var}"));
                return write!(f, "slides {}", all.collect::<Vec<_>>().join(", "));
            }
            Sliding::Not(still) => still,
        };
        f.write_str("does not slide: ")?;
        match still {
            Still::Updates(dim) => write!(f, "updates do not keep to one {dim}"),
            Still::NoLoop => f.write_str("no loop lies between"),
            Still::NotSerial(var) => write!(f, "loop {var} is not serial"),
            Still::Ranges(var) => write!(f, "iterations of {var} differ in ranges inside"),
            Still::Lanes(dim) => write!(f, "several loops lie between, and {dim} runs as lanes"),
            Still::Apart(var, dim) => write!(f, "iterations of {var} have nothing in common along {dim}"),
            Still::Folded(dim) => write!(f, "{dim}, which loops inside move, is folded"),
            Still::Condition => f.write_str("a condition lies between"),
            Still::Same(var) => write!(f, "all iterations of {var} need the same"),
            Still::Dimensions(a, b) => write!(f, "what is needed moves along {a} and {b}"),
            Still::Direction(dim) => write!(f, "what is needed moves along {dim} in no one direction"),
            Still::Blocks(dim) => write!(f, "whole blocks are computed along {dim}"),
        }
    }
}

/// Storage outside of a loop whose iterations run at the same time must not be written inside it.
pub(super) fn check_store_races(scope: &Scope, f: &FuncPlan) -> Result<(), Error> {
    let at_once = scope.since_store(f).iter().find_map(|a| match a {
        Around::Loop(l, _, kind) if kind.is_parallel() => Some(("parallel", own_var(l))),
        Around::Loop(l, _, kind) if kind.is_vector() => Some(("vectorised", own_var(l))),
        _ => None,
    });
    match at_once {
        Some((kind, v)) => {
            let rule = format!("iterations of the {kind} loop {v} would share the storage");
            Err(illegal(&f.stages[0].id, "store_at", rule))
        }
        None => Ok(()),
    }
}

/// Records what the loops of `f` have to cover, given the region `required` at its compute level; tells how it slides.
pub(super) fn slide(
    scope: &mut Scope,
    regions: &mut Regions,
    f: &FuncPlan,
    required: &[Interval],
) -> Result<Vec<Slide>, Still> {
    let mut produced = required.to_vec();
    let found = find_slides(scope, regions, f, required);
    for Slide { dim: d, first, up, last_before, .. } in found.iter().flatten() {
        let (d, end) = (*d, if *up { "min" } else { "max" });
        let name: Name = format!("{}.s0.{}.{end}", f.func.name, f.func.vars[d].name()).into();
        let Interval { min: lowest, max: highest } = &required[d];
        let (whole, next) = match up {
            true => (lowest, offset(last_before, 1)),
            false => (highest, offset(last_before, -1)),
        };
        // Where the region jumps, nothing before its start is needed.
        let next = match up {
            true if scope.facts.proves_le(lowest, &next) => next,
            true => max(&next, lowest),
            false if scope.facts.proves_le(&next, highest) => next,
            false => min(&next, highest),
        };
        let slid = match start(scope, regions, f, whole) {
            Some(start) if scope.facts.proves_le(&start, &next) => next,
            Some(start) => {
                regions.steady.insert(name.clone(), next.clone());
                max(&next, &start)
            }
            None => Expr::select(first.clone(), whole, next),
        };
        let slid = regions.bind(&mut scope.facts, name.to_string(), &slid);
        regions.unslid.insert(name, whole.clone());
        if *up {
            produced[d].min = slid;
        } else {
            produced[d].max = slid;
        }
    }
    regions.produced.insert(f.func.name.clone(), produced);
    found
}

/// The same, for people.
pub(super) fn told(f: &FuncPlan, found: Result<Vec<Slide>, Still>) -> Sliding {
    let along = |s: Slide| [f.func.vars[s.dim].name().clone(), s.over];
    match found {
        Ok(all) => Sliding::Along(all.into_iter().map(along).collect()),
        Err(still) => Sliding::Not(still),
    }
}

/// Returns the start of what is needed, if the loop around began early.
pub(super) fn start(scope: &Scope, regions: &Regions, f: &FuncPlan, lowest: &Expr) -> Option<Expr> {
    let RunUp { var, first, .. } = regions.run_ups.get(&f.compute)?.as_ref()?;
    let lowest = scope.facts.expand(lowest, var, &regions.unslid);
    Some(substitute(&lowest, &FxHashMap::from_iter([(var.clone(), first.clone())])))
}

/// The dimensions that slide, with at least one.
pub(super) fn find_slides(
    scope: &Scope,
    regions: &Regions,
    f: &FuncPlan,
    required: &[Interval],
) -> Result<Vec<Slide>, Still> {
    let loops = loops_between(scope, f)?;
    let raw = |e: &Expr| scope.facts.expand(e, loops[0].var, &regions.unslid);
    let moved_by = |ends: &[&Expr]| {
        let of = |e: &&Expr| variables(&raw(e));
        let all: Vec<_> = ends.iter().map(of).collect();
        (0..loops.len()).filter(|&k| all.iter().any(|of| of.contains(loops[k].var))).collect::<Vec<_>>()
    };
    let moves: Vec<Vec<usize>> = required.iter().map(|i| moved_by(&[&i.min, &i.max])).collect();
    let (mut found, mut still) = (vec![], None);
    for (d, own) in moves.iter().enumerate() {
        let Some(&depth) = own.last() else { continue };
        let place = Place { scope, loops: &loops, depth, moves: &moves };
        let slide = place.may_slide(f, d).and_then(|()| {
            // Loops inside, and conditions of which they have no knowledge, are the same in all iterations.
            let varies = |ends: &[Expr]| moved_by(&ends.iter().collect::<Vec<_>>()).contains(&depth);
            if loops[depth..].iter().enumerate().any(|(k, l)| k > 0 && varies(&l.range) || varies(&l.ends)) {
                return Err(Still::Ranges(loops[depth].name.clone()));
            }
            let ends = [raw(&required[d].min), raw(&required[d].max)];
            place.movement(regions, f, d, ends)
        });
        match slide {
            Ok(slide) => found.push(slide),
            Err(reason) => still = still.or(Some(reason)),
        }
    }
    let none = || still.unwrap_or_else(|| Still::Same(loops[loops.len() - 1].name.clone()));
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// A loop between the storage of a Func and the place where it is computed.
struct Between<'a> {
    level: &'a LoopLevel,
    /// Its variable, in full, and what the schedule calls it.
    var: &'a Name,
    name: Name,
    kind: ForKind,
    /// Its first and last value.
    range: Vec<Expr>,
    /// Ends of conditions on the way from it to the next loop.
    ends: Vec<Expr>,
}

/// A loop over which a dimension may slide.
struct Place<'a> {
    scope: &'a Scope<'a>,
    loops: &'a [Between<'a>],
    /// The loop among them.
    depth: usize,
    /// Per dimension, the loops that it moves with.
    moves: &'a [Vec<usize>],
}

impl Place<'_> {
    /// Refuses what no movement could change.
    fn may_slide(&self, f: &FuncPlan, d: usize) -> Result<(), Still> {
        let Place { scope, loops, depth, moves } = self;
        let dim_name = |d: usize| f.func.vars[d].name().clone();
        let others = || (0..moves.len()).filter(|&other| other != d);
        if loops[*depth].kind != ForKind::Serial {
            return Err(Still::NotSerial(loops[*depth].name.clone()));
        }
        if let Some(other) = others().find(|&other| moves[other].contains(depth)) {
            return Err(Still::Dimensions(dim_name(d), dim_name(other)));
        }
        if f.stages.len() > 1 && (f.output.is_some() || !keeps_to(scope, f, d)) {
            return Err(Still::Updates(dim_name(d)));
        }
        if round_up_unit(&f.stages[0], f.func.vars[d].name()).is_some() {
            return Err(Still::Blocks(dim_name(d)));
        }
        if loops.len() > 1 && runs_as_lanes(f, d) {
            return Err(Still::Lanes(dim_name(d)));
        }
        let moves_inside = |other: &usize| moves[*other].last().is_some_and(|inner| inner > depth);
        match others().find(|other| f.fold[*other].is_some() && moves_inside(other)) {
            Some(other) => Err(Still::Folded(dim_name(other))),
            None => Ok(()),
        }
    }

    /// The movement of a dimension with these ends.
    fn movement(
        &self,
        regions: &Regions,
        f: &FuncPlan,
        d: usize,
        [min, max]: [Expr; 2],
    ) -> Result<Slide, Still> {
        let (facts, Between { level, var, name, .. }) = (&self.scope.facts, &self.loops[self.depth]);
        let dim_name = || f.func.vars[d].name().clone();
        let direction = || Still::Direction(dim_name());
        let back: FxHashMap<Name, Expr> =
            [((*var).clone(), Expr::var((*var).clone()) - 1)].into_iter().collect();
        let (min_before, max_before) = (substitute(&min, &back), substitute(&max, &back));
        let rises = |a: &Expr, b: &Expr| facts.proves_le(a, b);
        let up = rises(&min_before, &min) && rises(&max_before, &max);
        let down = !up && rises(&min, &min_before) && rises(&max, &max_before);
        if !(up || down) {
            return Err(direction());
        }
        let apart = if up { (&max_before, &min) } else { (&max, &min_before) };
        if self.loops.len() > 1 && rises(&offset(apart.0, 1), apart.1) {
            return Err(Still::Apart(name.clone(), dim_name()));
        }
        // Where the loop begins early, all that is placed further inside runs from here on.
        let early = regions.run_ups.get(&Level::At((*level).clone())).and_then(Option::as_ref);
        let first = early.map(|r| &r.first).or(facts.first(var)).ok_or_else(direction)?;
        let first = Expr::var((*var).clone()).eq_(first);
        let last_before = if up { max_before } else { min_before };
        Ok(Slide { dim: d, depth: self.depth, over: name.clone(), first, up, last_before })
    }
}

/// Does the pure definition of `f` run as lanes along dimension `d`?
fn runs_as_lanes(f: &FuncPlan, d: usize) -> bool {
    let own = f.func.vars[d].name();
    f.stages[0]
        .versions()
        .into_iter()
        .any(|s| s.dims.iter().any(|dim| dim.kind.is_vector() && s.origins(&dim.name).contains(own)))
}

/// Do all definitions of `f` stay at one coordinate of dimension `d`, each of them in a loop over just that?
fn keeps_to(scope: &Scope, f: &FuncPlan, d: usize) -> bool {
    let own = f.func.vars[d].name();
    let is_own = |e: &Expr| matches!(e.kind(), ExprKind::Var(v) if v == own);
    f.stages.iter().all(|s| {
        let mut reads = scope.calls_in(&s.id, &f.func.name).iter();
        is_own(&s.args[d])
            && reads.all(|at| is_own(&at[d]))
            && s.versions().into_iter().all(|v| v.replaced(own).is_none())
    })
}

/// The loops between the storage of `f` and here, where it is computed, with one that runs one iteration after the other.
fn loops_between<'a>(scope: &'a Scope, f: &FuncPlan) -> Result<Vec<Between<'a>>, Still> {
    let mut all: Vec<Between> = vec![];
    for around in scope.since_store(f) {
        match around {
            Around::Once(_) => {}
            Around::Gate => return Err(Still::Condition),
            Around::Tail(end) => all.last_mut().into_iter().for_each(|l| l.ends.push(end.clone())),
            Around::Loop(level, var, kind) => {
                let range = scope.facts.range(var).ok_or(Still::Condition)?.to_vec();
                let name = Name::from(shown(own_var(level)));
                all.push(Between { level, var, name, kind: *kind, range, ends: vec![] });
            }
        }
    }
    let part_of_several = |l: &Between| {
        let of = scope.plan.funcs.get(&l.level.stage.func);
        is_joint(l.level) || of.is_none_or(|f| f.sink)
    };
    let in_order = |l: &&Between| !matches!(l.kind, ForKind::Serial | ForKind::Unrolled);
    match &all[..] {
        [] => Err(Still::NoLoop),
        [_] => Ok(all),
        several => match several.iter().find(in_order) {
            Some(l) => Err(Still::NotSerial(l.name.clone())),
            None if several.iter().any(part_of_several) => Err(Still::Condition),
            None => Ok(all),
        },
    }
}
