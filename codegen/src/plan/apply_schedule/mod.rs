//! Loop structure of each stage, and placement of each Func, from the directives.
//!
//! Before: a validated pipeline without inlined Funcs. After: a [`Plan`]: one [`FuncPlan`] per Func that is computed,
//! in realization order, including the intermediates that rfactor makes. Directives are applied in order; one
//! that is illegal by itself is refused here, one that depends on regions later.

mod defaults;
pub(crate) mod expressions;
mod loops;
mod names;
mod placement;
mod races;
mod shared;
mod special;
mod tails;
mod together;

pub(crate) use crate::plan::apply_schedule::defaults::pure_stage;

use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Func, Pipeline, RDom, RVar, Update};
use crate::plan::apply_schedule::defaults::plan_func;
use crate::plan::apply_schedule::loops::{find_dim, fuse, gather, rename, reorder_dims, split};
use crate::plan::apply_schedule::placement::{check_levels, default_placement, place};
use crate::plan::apply_schedule::races::check_loops;
use crate::plan::plans::{FuncPlan, Fuse, Plan, Split, Stage, illegal};
use crate::plan::realization_order::realization_order;
use crate::plan::rfactor;
use crate::plan::validate::part_of;
use crate::schedule::{Directive, Partition, Schedule, StageId};
use crate::types::Type;
use indexmap::IndexMap;

/// Funcs that are substituted into their consumers: those that say so, and by default intermediates without updates.
pub(crate) fn inlined(p: &Pipeline, schedule: &Schedule, name: &Name) -> Result<bool, Error> {
    let id = StageId { func: name.clone(), stage: 0 };
    let f = &p.funcs[name];
    let given: &[Directive] = schedule.stages.get(&id).map_or(&[], |d| d);
    let placed = given
        .iter()
        .rfind(|d| matches!(d, Directive::Inline | Directive::ComputeRoot | Directive::ComputeAt(_)));
    let output = p.outputs.iter().any(|o| o.func == *name);
    match placed {
        Some(Directive::Inline) if output => Err(illegal(&id, "inline", "an output must be computed")),
        Some(Directive::Inline) if !f.updates.is_empty() => {
            Err(illegal(&id, "inline", "a Func with update definitions cannot be substituted"))
        }
        Some(Directive::Inline) => no_loops(schedule, name, given).map(|()| true),
        Some(_) => Ok(false),
        None if output || !f.updates.is_empty() || p.stored.contains(name) => Ok(false),
        None => no_loops(schedule, name, given).map(|()| true),
    }
}

/// An inlined Func has neither loops nor storage of its own, which directives could be about.
fn no_loops(schedule: &Schedule, name: &Name, given: &[Directive]) -> Result<(), Error> {
    let harmless = |d: &&Directive| {
        matches!(
            d,
            Directive::Inline
                | Directive::ComputeRoot
                | Directive::ComputeAt(_)
                | Directive::In { .. }
                | Directive::CloneIn { .. }
                | Directive::Estimate { .. }
        )
    };
    if let Some(d) = given.iter().find(|d| !harmless(d)) {
        let rule = "it is inlined: say where it is computed, or leave this out";
        return Err(illegal(&StageId { func: name.clone(), stage: 0 }, d.to_string(), rule));
    }
    match schedule.stages.iter().find(|(id, d)| id.func == *name && id.stage > 0 && !d.is_empty()) {
        Some((id, _)) => Err(illegal(id, "directives", "there is no such update definition")),
        None => Ok(()),
    }
}

/// Applies `schedule` to `p`, from which inlined Funcs are gone (`gone` names them, for error messages).
pub(crate) fn apply_schedule(
    p: &Pipeline,
    schedule: &Schedule,
    gone: &dyn Fn(&Name) -> bool,
) -> Result<Plan, Error> {
    let mut work: Vec<FuncPlan> = p.funcs.values().rev().map(|f| plan_func(p, f)).collect();
    let mut done: IndexMap<Name, FuncPlan> = IndexMap::new();
    while let Some(mut plan) = work.pop() {
        let mut made = vec![];
        for k in 0..plan.stages.len() {
            let id = StageId { func: plan.func.name.clone(), stage: k };
            for d in schedule.stages.get(&id).into_iter().flatten() {
                made.extend(apply(p, &mut plan, k, d)?);
            }
            plan.stages[k].number_versions(0);
            for s in plan.stages[k].versions() {
                check_loops(s, &plan.func.types())?;
            }
        }
        default_placement(&mut plan)?;
        for m in &made {
            let name = &m.func.name;
            let taken =
                |n: &Name| p.funcs.contains_key(n) || p.inputs.contains_key(n) || done.contains_key(n);
            if taken(name) || work.iter().any(|w| w.func.name == *name) {
                let id = StageId { func: plan.func.name.clone(), stage: 0 };
                return Err(illegal(&id, format!("rfactor into {name}"), "the name is taken"));
            }
            if let Some(whole) = part_of(p, name) {
                let id = StageId { func: plan.func.name.clone(), stage: 0 };
                let rule = format!("the name is one of those for parts of {whole}");
                return Err(illegal(&id, format!("rfactor into {name}"), rule));
            }
        }
        done.insert(plan.func.name.clone(), plan);
        work.extend(made);
    }
    for id in schedule.stages.keys().filter(|id| !schedule.stages[*id].is_empty()) {
        let rule = match done.get(&id.func) {
            Some(f) if id.stage < f.stages.len() => continue,
            Some(_) => "there is no such update definition",
            None if gone(&id.func) => continue,
            None => "there is no such Func",
        };
        return Err(illegal(id, "directives", rule));
    }
    names::unify(&mut done);
    check_levels(&done)?;
    tails::resolve(&mut done)?;
    reorder(p, done)
}

/// Realization order including the intermediates of rfactor.
fn reorder(p: &Pipeline, mut plans: IndexMap<Name, FuncPlan>) -> Result<Plan, Error> {
    let mut all = p.clone();
    all.funcs = plans.iter().map(|(n, f)| (n.clone(), as_func(f))).collect();
    let order = realization_order(&all)?;
    let mut funcs = order.iter().filter_map(|n| plans.swap_remove_entry(n)).collect();
    let together = together::together(&all, &mut funcs)?;
    Ok(Plan { pipeline: p.clone(), funcs, together })
}

/// The definitions of a plan as a Func, for finding who calls whom.
fn as_func(f: &FuncPlan) -> Func {
    let update = |s: &Stage| Update {
        args: s.args.clone(),
        values: s.values.clone(),
        rdom: RDom {
            vars: s
                .rvars
                .iter()
                .map(|r| RVar { name: r.name.clone(), min: r.min.clone(), extent: r.max.clone() })
                .collect(),
            predicate: s.predicate.clone(),
        },
    };
    Func { updates: f.stages[1..].iter().map(update).collect(), ..f.func.clone() }
}

/// Applies one directive to stage `k`; returns the intermediate if it is an rfactor.
fn apply(p: &Pipeline, plan: &mut FuncPlan, k: usize, d: &Directive) -> Result<Option<FuncPlan>, Error> {
    let id = plan.stages[k].id.clone();
    let text = d.to_string();
    let d = &names::resolved(&mut plan.stages[k], d);
    let d = &*expressions::named(p, plan, &plan.stages[k], d);
    let d = &expressions::typed(p, d);
    expressions::check(p, plan, &plan.stages[k], d)?;
    match d {
        Directive::Split { old, outer, inner, factor, tail } => {
            let s = Split {
                old: old.clone(),
                outer: outer.clone(),
                inner: inner.clone(),
                factor: factor.clone(),
                tail: *tail,
            };
            split(plan, k, s, &text)?;
        }
        Directive::Fuse { inner, outer, fused } => {
            let t = Fuse { inner: inner.clone(), outer: outer.clone(), fused: fused.clone() };
            fuse(&plan.func, &mut plan.stages[k], t, &text)?;
        }
        Directive::Rename { old, new } => rename(&plan.func, &mut plan.stages[k], old, new, &text)?,
        Directive::Reorder(names) => reorder_dims(&mut plan.stages[k], names, &text)?,
        Directive::Kind { var, kind } => {
            let i = find_dim(&plan.stages[k], var, &text)?;
            plan.stages[k].dims[i].kind = *kind;
        }
        Directive::Rfactor { keep, into } => return rfactor::rfactor(plan, k, keep, into, &text).map(Some),
        Directive::SkipUnless { var, cond } => {
            find_dim(&plan.stages[k], var, &text)?;
            let zero = Expr::int(cond.ty(), 0);
            let cond = if cond.ty() == Type::BOOL { cond.clone() } else { cond.ne_(zero) };
            plan.stages[k].skips.push((var.clone(), cond));
        }
        Directive::ComputeWith(level) => plan.stages[k].with = Some(level.clone()),
        Directive::Gather(var) => gather(&plan.func, &mut plan.stages[k], var, &text)?,
        Directive::Atomic if k == 0 => {
            return Err(illegal(&id, "atomic", "a pure definition has nothing to update"));
        }
        Directive::Atomic => plan.stages[k].atomic = true,
        Directive::GpuSingle => plan.stages[k].single = true,
        Directive::Specialize { cond, directives } => special::specialize(p, plan, k, cond, directives)?,
        Directive::Partition { var, policy } => {
            find_dim(&plan.stages[k], var, &text)?;
            let list = &mut plan.stages[k].partition;
            list.retain(|(v, _)| v != var);
            if *policy != Partition::Auto {
                list.push((var.clone(), *policy));
            }
        }
        Directive::Prefetch { name, var, ahead } => {
            find_dim(&plan.stages[k], var, &text)?;
            plan.stages[k].prefetches.push((name.clone(), var.clone(), *ahead));
        }
        Directive::In { .. } | Directive::CloneIn { .. } => {}
        Directive::Relaxed => plan.stages[k].relaxed = true,
        Directive::Reciprocals => plan.stages[k].reciprocals = true,
        _ if k > 0 => {
            return Err(illegal(&id, text, "placement and storage are directives of the pure definition"));
        }
        d => place(plan, d, &id)?,
    }
    Ok(None)
}
