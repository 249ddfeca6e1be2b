//! Stages whose loops run together (compute_with): which may, and in which order everything then comes.

use crate::error::Error;
use crate::expr::Name;
use crate::func::Pipeline;
use crate::plan::apply_schedule::loops::find_dim;
use crate::plan::apply_schedule::shared::{is_at, share};
use crate::plan::plans::{Dim, FuncPlan, JointLoop, Level, Stage, Together, illegal, is_joint};
use crate::schedule::{Directive, LoopLevel, StageId};
use indexmap::{IndexMap, IndexSet};

/// Funcs and, of each, what it depends on.
type Callees = IndexMap<Name, IndexSet<Name>>;

/// A stage, and the stage and loop that it names.
type Joint = (StageId, LoopLevel);

/// Groups of Funcs that have stages which run together, in the order of `plans`, which this makes one in which the Funcs of
/// a group follow each other. What several of the stages read at a joint loop is then computed at the level of that.
/// `p` holds the definitions of `plans`.
pub(super) fn together(p: &Pipeline, plans: &mut IndexMap<Name, FuncPlan>) -> Result<Vec<Together>, Error> {
    let joints: Vec<Joint> = plans
        .values()
        .flat_map(|f| &f.stages)
        .filter_map(|s| Some((s.id.clone(), s.with.clone()?)))
        .collect();
    if joints.is_empty() {
        return Ok(vec![]);
    }
    let refuse = |(id, level): &Joint, rule: String| illegal(id, text(level), rule);
    for j in &joints {
        check(plans, &joints, j).map_err(|rule| refuse(j, rule))?;
    }
    let named = |id: &StageId| joints.iter().any(|j| j.0 == *id);
    let first = joints.iter().map(|j| &j.1.stage).filter(|id| !named(id)).collect::<IndexSet<_>>();
    let steps: Vec<Vec<StageId>> = first.into_iter().map(|id| run_with(&joints, id)).collect();
    let loops = steps.iter().map(|step| joint_loops(plans, &joints, step)).collect::<Vec<_>>().concat();
    let shared = share(plans, &loops);
    let callees: Callees = p.funcs.iter().map(|(n, f)| (n.clone(), f.callees(p))).collect();
    for j in &joints {
        let step = steps.iter().find(|step| step.contains(&j.0)).into_iter().flatten();
        for other in step.take_while(|id| **id != j.0) {
            apart(plans, &callees, &j.0, other).map_err(|rule| refuse(j, rule))?;
        }
    }
    let crossing = |j: &Joint| {
        let rule = "crosses another compute_with: each of the nests would have to come before the other";
        refuse(j, rule.into())
    };
    let order =
        ordered(groups(plans, &steps), &callees).ok_or_else(|| crossing(&joints[joints.len() - 1]))?;
    let names: Vec<Name> = order.iter().flatten().cloned().collect();
    let place = |n: &Name| names.iter().position(|m| m == n);
    plans.sort_by(|a, _, b, _| place(a).cmp(&place(b)));
    let mut out = vec![];
    for funcs in order.into_iter().filter(|g| g.len() > 1) {
        let own: Vec<_> = joints.iter().filter(|j| funcs.contains(&j.0.func)).collect();
        let steps = in_order(plans, &funcs, &steps, &callees).ok_or_else(|| crossing(own[own.len() - 1]))?;
        let of_these = |l: &&JointLoop| funcs.contains(&l.members[0].func);
        let loops: Vec<JointLoop> = loops.iter().filter(of_these).cloned().collect();
        let here = |n: &&Name| loops.iter().any(|l| is_at(&plans[*n], l));
        let shared = shared.iter().filter(here).cloned().collect();
        out.push(Together { funcs: funcs.into_iter().collect(), steps, loops, shared });
    }
    Ok(out)
}

fn text(level: &LoopLevel) -> String {
    Directive::ComputeWith(level.clone()).to_string()
}

/// The stages that run together with `first`, which names no other: each comes after the one that it names.
fn run_with(joints: &[Joint], first: &StageId) -> Vec<StageId> {
    let (mut out, mut stack) = (vec![], vec![first.clone()]);
    while let Some(id) = stack.pop() {
        stack.extend(joints.iter().rev().filter(|j| j.1.stage == id).map(|j| j.0.clone()));
        out.push(id);
    }
    out
}

/// The loops that two or more stages of `step` have, outermost first: at each depth, those of the stages that name each
/// other with more loops than that.
fn joint_loops(plans: &IndexMap<Name, FuncPlan>, joints: &[Joint], step: &[StageId]) -> Vec<JointLoop> {
    let dims = |id: &StageId| &plans[&id.func].stages[id.stage].dims;
    let shares = |l: &LoopLevel| {
        let all = dims(&l.stage);
        all.iter().position(|d| d.name == l.var).map_or(0, |i| all.len() - i)
    };
    let mut loops = vec![];
    for depth in 0.. {
        let mut groups: Vec<Vec<StageId>> = vec![];
        for id in step {
            let with = joints.iter().find(|j| j.0 == *id && shares(&j.1) > depth).map(|j| &j.1.stage);
            match with.and_then(|w| groups.iter_mut().find(|g| g.contains(w))) {
                Some(group) => group.push(id.clone()),
                None => groups.push(vec![id.clone()]),
            }
        }
        groups.retain(|g| g.len() > 1);
        if groups.is_empty() {
            break;
        }
        loops.extend(groups.into_iter().map(|members| {
            let all = dims(&members[0]);
            JointLoop { var: all[all.len() - 1 - depth].name.clone(), members, depth }
        }));
    }
    loops
}

/// The rule that a stage breaks if it runs with the loops of another stage down to a level, whatever their values.
fn check(plans: &IndexMap<Name, FuncPlan>, joints: &[Joint], (id, level): &Joint) -> Result<(), String> {
    let with = &level.stage;
    let other = plans.get(&with.func).and_then(|f| Some((f, f.stages.get(with.stage)?)));
    let (Some((other_func, other)), f) = (other, &plans[&id.func]) else {
        return Err("there is no such stage, or it is inlined".into());
    };
    let stage = &f.stages[id.stage];
    if with.func == id.func {
        return Err("the stages of one Func come one after the other".into());
    }
    if let Some(circle) = circle(joints, id) {
        return Err(format!("a stage cannot run with itself: {circle}"));
    }
    if f.compute != other_func.compute {
        return Err(format!("{} and {} are computed at different levels", id.func, with.func));
    }
    let name = |e: Error| match e {
        Error::Schedule { rule, .. } => rule,
        e => e.to_string(),
    };
    let i = find_dim(other, &level.var, "").map_err(name)?;
    let outer = &other.dims[i..];
    same_loops(outer, stage)?;
    [other, stage].into_iter().flat_map(|s| &s.special).try_for_each(|(cond, s)| {
        let all = s.versions().into_iter().try_for_each(|s| same_loops(outer, s));
        all.map_err(|rule| format!("in the version for {cond}: {rule}"))
    })
}

/// `f with g with f`, if a stage that is named on and on comes to be itself.
fn circle(joints: &[Joint], id: &StageId) -> Option<String> {
    let (mut at, mut path) = (id, id.to_string());
    for _ in joints {
        at = joints.iter().find(|j| j.0 == *at).map(|j| &j.1.stage)?;
        path += &format!(" with {at}");
        if at == id {
            return Some(path);
        }
    }
    None
}

/// The rule that two stages break if they run together, because of what they compute.
fn apart(
    plans: &IndexMap<Name, FuncPlan>,
    callees: &Callees,
    a: &StageId,
    b: &StageId,
) -> Result<(), String> {
    if a.func == b.func {
        return Err("the stages of one Func come one after the other".into());
    }
    for (of, needs) in [(&a.func, &b.func), (&b.func, &a.func)] {
        if let Some(n) = nest(plans, needs).into_iter().find(|n| depends(callees, of, n)) {
            let whose = match n == needs {
                true => String::new(),
                false => format!(", which is computed in the nest of {needs}"),
            };
            return Err(format!("{of} needs the values of {n}{whose}"));
        }
    }
    Ok(())
}

/// Funcs as they have to follow each other: those of stages that run together.
fn groups(plans: &IndexMap<Name, FuncPlan>, steps: &[Vec<StageId>]) -> Vec<IndexSet<Name>> {
    let mut groups: Vec<IndexSet<Name>> = plans.keys().map(|n| IndexSet::from_iter([n.clone()])).collect();
    let at = |n: &Name, groups: &[IndexSet<Name>]| groups.iter().position(|g| g.contains(n));
    for (first, id) in steps.iter().flat_map(|step| step[1..].iter().map(|id| (&step[0], id))) {
        let (Some(a), Some(b)) = (at(&first.func, &groups), at(&id.func, &groups)) else { continue };
        if a != b {
            let moved = groups.remove(a.max(b));
            groups[a.min(b)].extend(moved);
        }
    }
    groups
}

/// Are the outermost loops of `stage` of the same names and kinds as `outer`?
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
    Ok(())
}

/// A Func and those computed inside of its loops, less what is computed there for other stages as well.
fn nest<'a>(plans: &'a IndexMap<Name, FuncPlan>, func: &'a Name) -> Vec<&'a Name> {
    let below = |mut f: &'a FuncPlan| loop {
        match &f.compute {
            Level::At(l) if is_joint(l) => return false,
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

/// Returns what runs one after the other: single stages, and `joint` ones. None if there is no order in which the stages of each Func
/// keep theirs.
fn in_order(
    plans: &IndexMap<Name, FuncPlan>,
    funcs: &IndexSet<Name>,
    joint: &[Vec<StageId>],
    callees: &Callees,
) -> Option<Vec<Vec<StageId>>> {
    let mut next: IndexMap<&Name, usize> = funcs.iter().map(|f| (f, 0)).collect();
    let mut out = vec![];
    let all: usize = funcs.iter().map(|f| plans[f].stages.len()).sum();
    while out.iter().map(Vec::len).sum::<usize>() < all {
        let step = |f: &Name, k: usize| -> Vec<StageId> {
            let id = StageId { func: f.clone(), stage: k };
            joint.iter().find(|step| step.contains(&id)).cloned().unwrap_or(vec![id])
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
