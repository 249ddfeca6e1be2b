//! Funcs that several stages read at a loop that they run together in.
//!
//! A Func that is computed or stored at a joint loop of one stage and is read in the nests of others, too, is moved to the
//! level of the joint loop: there it is computed once per iteration for all of them. With it go Funcs at that loop which
//! it reads, and those whose stages run with its own.

use crate::expr::Name;
use crate::plan::plans::{FuncPlan, JointLoop, Level, is_joint};
use crate::plan::uses::{Uses, uses};
use crate::schedule::{LoopLevel, StageId};
use indexmap::IndexMap;

type Plans = IndexMap<Name, FuncPlan>;

/// Moves levels to those of joint loops, where they have to be; returns the Funcs that are computed there.
pub(super) fn share(plans: &mut Plans, loops: &[JointLoop]) -> Vec<Name> {
    let uses = uses(plans.values().flat_map(|f| &f.stages));
    while let Some((func, from, to)) = plans.values().find_map(|f| to_move(plans, &uses, loops, f)) {
        for level in plans.get_mut(&func).into_iter().flat_map(|f| [&mut f.compute, &mut f.store]) {
            if *level == from {
                *level = to.clone();
            }
        }
    }
    for hoist in plans.values_mut().filter_map(|f| f.hoist.as_mut()) {
        if let Level::At(l) = hoist
            && let Some(joint) = loops.iter().find(|j| j.members.contains(&l.stage) && j.var == l.var)
        {
            *hoist = Level::At(joint.level());
        }
    }
    let joint = |f: &&FuncPlan| matches!(&f.compute, Level::At(l) if is_joint(l));
    plans.values().filter(joint).map(|f| f.func.name.clone()).collect()
}

/// Is the Func computed at this joint loop?
pub(super) fn is_at(f: &FuncPlan, joint: &JointLoop) -> bool {
    f.compute == Level::At(joint.level())
}

/// The Func, its level, and the level in place of that, if it has to be another one.
fn to_move(plans: &Plans, uses: &Uses, loops: &[JointLoop], f: &FuncPlan) -> Option<(Name, Level, Level)> {
    if f.sink {
        return None;
    }
    let readers = || uses.get(&f.func.name).into_iter().flatten().map(|u| &u.0);
    for level in [&f.compute, &f.store] {
        let Level::At(l) = level else { continue };
        let Some(joint) = loops.iter().find(|j| j.members.contains(&l.stage) && j.var == l.var) else {
            continue;
        };
        let other = |s: &StageId| s.func != f.func.name && !is_own(plans, s, l) && is_inside(plans, s, joint);
        let partner = |id: &StageId| id.func != f.func.name && is_at(&plans[&id.func], joint);
        let with_own = |j: &&JointLoop| j.members.iter().any(|id| id.func == f.func.name);
        let mut partners = loops.iter().filter(with_own).flat_map(|j| &j.members);
        if readers().any(other) || *level == f.compute && partners.any(partner) {
            return Some((f.func.name.clone(), level.clone(), Level::At(joint.level())));
        }
    }
    None
}

/// The stages in whose loops the Func of `s` is computed, `s` first, and the level by which each was come to.
fn outward<'a>(
    plans: &'a Plans,
    s: &'a StageId,
) -> impl Iterator<Item = (&'a StageId, Option<&'a LoopLevel>)> {
    let further = |(s, _): &(&'a StageId, Option<&'a LoopLevel>)| match &plans[&s.func].compute {
        Level::At(l) => Some((&l.stage, Some(l))),
        Level::Root => None,
    };
    std::iter::successors(Some((s, None)), further)
}

/// Does `s` run in what the stage of `level` does by itself?
fn is_own(plans: &Plans, s: &StageId, level: &LoopLevel) -> bool {
    let own = |l: &Option<&LoopLevel>| !l.is_some_and(is_joint);
    outward(plans, s).take_while(|(_, l)| own(l)).any(|(s, _)| *s == level.stage)
}

/// Does `s` run in a stage of the joint loop?
fn is_inside(plans: &Plans, s: &StageId, joint: &JointLoop) -> bool {
    outward(plans, s).any(|(s, _)| joint.members.contains(s))
}
