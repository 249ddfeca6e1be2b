//! Stages whose loops run together (compute_with): which may, and in which order everything then comes.

use super::loops::find_dim;
use crate::error::Error;
use crate::expr::Name;
use crate::func::Pipeline;
use crate::lower::plans::{Dim, FuncPlan, Level, Stage, Together, illegal};
use crate::lower::realization_order::callees;
use crate::schedule::{Directive, ForKind, LoopLevel, StageId};
use indexmap::{IndexMap, IndexSet};

/// Funcs and, of each, what it depends on.
type Callees = IndexMap<Name, IndexSet<Name>>;

/// Groups of Funcs that have stages which run together, in the order of `plans`, which this makes one in which the Funcs of
/// a group follow each other. `p` holds the definitions of `plans`.
pub fn together(p: &Pipeline, plans: &mut IndexMap<Name, FuncPlan>) -> Result<Vec<Together>, Error> {
    let joints: Vec<(StageId, LoopLevel)> = plans
        .values()
        .flat_map(|f| &f.stages)
        .filter_map(|s| Some((s.id.clone(), s.with.clone()?)))
        .collect();
    if joints.is_empty() {
        return Ok(vec![]);
    }
    let callees: Callees = p.funcs.iter().map(|(n, f)| (n.clone(), callees(p, f))).collect();
    for (id, level) in &joints {
        check(plans, &callees, id, level).map_err(|rule| illegal(id, text(level), rule))?;
    }
    let crossing = |(id, level): &(StageId, LoopLevel)| {
        let rule = "crosses another compute_with: each of the nests would have to come before the other";
        illegal(id, text(level), rule)
    };
    let mut groups: Vec<IndexSet<Name>> = plans.keys().map(|n| IndexSet::from_iter([n.clone()])).collect();
    for (id, level) in &joints {
        let at = |n: &Name, groups: &[IndexSet<Name>]| groups.iter().position(|g| g.contains(n));
        let (Some(a), Some(b)) = (at(&level.stage.func, &groups), at(&id.func, &groups)) else { continue };
        if a != b {
            let moved = groups.remove(a.max(b));
            groups[a.min(b)].extend(moved);
        }
    }
    let order = ordered(groups, &callees).ok_or_else(|| crossing(&joints[joints.len() - 1]))?;
    let names: Vec<Name> = order.iter().flatten().cloned().collect();
    let place = |n: &Name| names.iter().position(|m| m == n);
    plans.sort_by(|a, _, b, _| place(a).cmp(&place(b)));
    let mut out = vec![];
    for funcs in order.into_iter().filter(|g| g.len() > 1) {
        let own: Vec<_> = joints.iter().filter(|j| funcs.contains(&j.0.func)).collect();
        let steps = steps(plans, &funcs, &own, &callees).ok_or_else(|| crossing(own[own.len() - 1]))?;
        out.push(Together { funcs: funcs.into_iter().collect(), steps });
    }
    Ok(out)
}

fn text(level: &LoopLevel) -> String {
    Directive::ComputeWith(level.clone()).to_string()
}

/// The rule that stage `id` breaks if it runs with the loops of another stage down to `level`.
fn check(
    plans: &IndexMap<Name, FuncPlan>,
    callees: &Callees,
    id: &StageId,
    level: &LoopLevel,
) -> Result<(), String> {
    let with = &level.stage;
    let other = plans.get(&with.func).and_then(|f| Some((f, f.stages.get(with.stage)?)));
    let (Some((other_func, other)), f) = (other, &plans[&id.func]) else {
        return Err("there is no such stage, or it is inlined".into());
    };
    let stage = &f.stages[id.stage];
    if with.func == id.func {
        return Err("the stages of one Func come one after the other".into());
    }
    if let Some(l) = &other.with {
        return Err(format!("{with} itself runs with {}: name that stage", l.stage));
    }
    if f.compute != other_func.compute {
        return Err(format!("{} and {} are computed at different levels", id.func, with.func));
    }
    if !stage.special.is_empty() || !other.special.is_empty() {
        return Err("a specialized stage runs by itself".into());
    }
    let name = |e: Error| match e {
        Error::Schedule { rule, .. } => rule,
        e => e.to_string(),
    };
    let i = find_dim(other, &level.var, "").map_err(name)?;
    same_loops(&other.dims[i..], stage)?;
    let (inside, other_inside) = (nest(plans, &id.func), nest(plans, &with.func));
    for (of, needs, inside) in [(&id.func, &with.func, &other_inside), (&with.func, &id.func, &inside)] {
        if let Some(n) = inside.iter().find(|n| depends(callees, of, n)) {
            let whose = if *n == needs {
                String::new()
            } else {
                format!(", which is computed in the nest of {needs}")
            };
            return Err(format!("{of} needs the values of {n}{whose}"));
        }
    }
    Ok(())
}

/// Are the outermost loops of `stage` of the same names and kinds as `outer`, and such that can run together?
fn same_loops(outer: &[Dim], stage: &Stage) -> Result<(), String> {
    let list = |dims: &[Dim]| {
        let words = dims.iter().rev().map(|d| format!("{}{}", d.kind.prefix(), d.name));
        words.collect::<Vec<_>>().join(", ")
    };
    let own = &stage.dims[stage.dims.len().saturating_sub(outer.len())..];
    let same = |(a, b): (&Dim, &Dim)| a.name == b.name && a.kind == b.kind;
    if own.len() < outer.len() || !own.iter().zip(outer).all(same) {
        return Err(format!("the outer loops differ: {} and {}", list(own), list(outer)));
    }
    match own.iter().find(|d| !matches!(d.kind, ForKind::Serial | ForKind::Parallel)) {
        Some(d) => Err(format!("only serial and parallel loops run together, {} is neither", d.name)),
        None => Ok(()),
    }
}

/// A Func and those computed inside of its loops.
fn nest<'a>(plans: &'a IndexMap<Name, FuncPlan>, func: &'a Name) -> Vec<&'a Name> {
    let below = |mut f: &'a FuncPlan| loop {
        match &f.compute {
            Level::At(l) if l.stage.func == *func => return true,
            Level::At(l) => f = &plans[&l.stage.func],
            Level::Root => return false,
        }
    };
    let inner = plans.values().filter(|f| below(f)).map(|f| &f.func.name);
    std::iter::once(func).chain(inner).collect()
}

/// Does `f` call `on`, or something that does?
fn depends(callees: &Callees, f: &Name, on: &Name) -> bool {
    let (mut seen, mut stack) = (IndexSet::new(), vec![f]);
    while let Some(n) = stack.pop() {
        if n == on && n != f {
            return true;
        }
        if seen.insert(n) {
            stack.extend(callees.get(n).into_iter().flatten());
        }
    }
    false
}

/// The groups in an order in which each comes after those it depends on; none if there is none.
fn ordered(mut groups: Vec<IndexSet<Name>>, callees: &Callees) -> Option<Vec<IndexSet<Name>>> {
    let mut out: Vec<IndexSet<Name>> = vec![];
    while !groups.is_empty() {
        let done = |n: &Name| out.iter().any(|g| g.contains(n));
        let ready = |g: &IndexSet<Name>| {
            g.iter().flat_map(|f| &callees[f]).all(|n| g.contains(n) || done(n) || !callees.contains_key(n))
        };
        let next = groups.iter().position(ready)?;
        out.push(groups.remove(next));
    }
    Some(out)
}

/// What runs one after the other: single stages, and those that run together, the one named by the others first. None if
/// there is no order in which the stages of each Func keep theirs.
fn steps(
    plans: &IndexMap<Name, FuncPlan>,
    funcs: &IndexSet<Name>,
    joints: &[&(StageId, LoopLevel)],
    callees: &Callees,
) -> Option<Vec<Vec<StageId>>> {
    let mut next: IndexMap<&Name, usize> = funcs.iter().map(|f| (f, 0)).collect();
    let mut out = vec![];
    let all: usize = funcs.iter().map(|f| plans[f].stages.len()).sum();
    while out.iter().map(Vec::len).sum::<usize>() < all {
        let step = |f: &Name, k: usize| -> Vec<StageId> {
            let id = StageId { func: f.clone(), stage: k };
            let first = joints.iter().find(|j| j.0 == id).map_or(id, |j| j.1.stage.clone());
            let others =
                joints.iter().filter(|j| j.1.stage == first).map(|j| j.0.clone()).collect::<Vec<_>>();
            std::iter::once(first).chain(others).collect()
        };
        let open = next.iter().filter(|(f, k)| **k < plans[**f].stages.len());
        // What a stage needs of the group is complete.
        let complete =
            |f: &Name| next.iter().all(|(n, k)| *k == plans[*n].stages.len() || !depends(callees, f, n));
        let ready =
            |ids: &Vec<StageId>| ids.iter().all(|i| next.get(&i.func) == Some(&i.stage) && complete(&i.func));
        let ids = open.map(|(f, k)| step(f, *k)).find(ready)?;
        for id in &ids {
            *next.get_mut(&id.func)? += 1;
        }
        out.push(ids);
    }
    Some(out)
}
