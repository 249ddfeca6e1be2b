//! Regions of what several stages read at a loop that they run together in.
//!
//! In each iteration it is the union of what each stage reads there, with its loops where the joint ones are. Where an iteration
//! may be none of some stage, that stage's part lies anywhere: the union is cut down to what the whole nest needs, and to what
//! is stored. Follows and precedes what [`crate::nests::bounds_inference`] does.

use crate::analysis::algebra::{Interval, build};
use crate::expr::Name;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::Level;

/// Binds what all nests at the level being opened need of `func`, which is computed in joint loops there: `needed`.
pub(super) fn note_whole_nest(
    scope: &mut Scope,
    regions: &mut Regions,
    func: &Name,
    mut needed: Vec<Interval>,
) {
    for (i, v) in needed.iter_mut().zip(&scope.plan.funcs[func].func.vars) {
        *i = regions.bind_ends(&mut scope.facts, &format!("{func}.all.{}", v.name()), i);
    }
    regions.whole_nest.insert(func.clone(), needed);
}

/// Cuts the region of `func` at `level`, not rounded yet, down to what some iteration of the whole nest reads.
pub(super) fn keep_within(
    scope: &Scope,
    regions: &mut Regions,
    func: &Name,
    level: &Level,
    dims: &mut [Interval],
) {
    let Some(whole) = regions.whole_nest.get(func) else { return };
    let stored = (func.clone(), scope.plan.funcs[func].store.clone());
    if let Level::At(l) = level
        && regions.differing.contains(l)
    {
        let limits = if stored.1 == *level { None } else { regions.stored.get(&stored) };
        for (d, limit) in dims.iter_mut().zip(limits.unwrap_or(whole)) {
            if !scope.facts.proves_le(&limit.min, &d.min) {
                d.min = build::max(&d.min, &limit.min);
            }
            if !scope.facts.proves_le(&d.max, &limit.max) {
                d.max = build::min(&d.max, &limit.max);
            }
        }
    }
    if stored.1 == *level {
        regions.stored.insert(stored, dims.to_vec());
    }
}
