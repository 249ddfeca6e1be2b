//! Names of loops that are used again: `split(y, y, yi, 8)` calls the outer loop as the one that it replaces.
//!
//! Inside of a plan every variable of a stage, loop or not, has a name of its own: a loop that takes over the name of one that it
//! replaces is `y~` there, the next one `y~~`. Directives that follow mean the loop ([`resolved`]), and so does every level of
//! another stage ([`unify`]). Messages and printed loop nests leave the marks out
//! ([`crate::plan::plans::shown`]).

use crate::expr::walk::{Substitution, variables};
use crate::expr::{Expr, Name};
use crate::plan::plans::{Change, FuncPlan, Level, Stage};
use crate::schedule::{Directive, LoopLevel, StageId};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;

/// `d`, a directive of stage `s`, with the names that the plan has for its loops. Where it calls a loop as one that it replaces, the stage
/// knows the new loop by that name from here on.
pub(super) fn resolved(s: &mut Stage, d: &Directive) -> Directive {
    let mut d = d.clone();
    let current = |n: &mut Name| {
        if let Some(name) = s.taken.get(n) {
            *n = name.clone();
        }
    };
    let mut reused: Vec<&mut Name> = vec![];
    match &mut d {
        Directive::Split { old, outer, inner, .. } => {
            reused.extend([outer, inner].into_iter().filter(|n| **n == *old));
            current(old);
        }
        Directive::Fuse { inner, outer, fused } => {
            reused.extend([fused].into_iter().filter(|n| **n == *inner || **n == *outer));
            current(inner);
            current(outer);
        }
        Directive::Rename { old: var, .. }
        | Directive::Kind { var, .. }
        | Directive::Partition { var, .. }
        | Directive::Prefetch { var, .. } => current(var),
        Directive::Reorder(vars) => vars.iter_mut().for_each(current),
        Directive::Rfactor { keep, .. } => keep.iter_mut().for_each(|(r, _)| current(r)),
        Directive::SkipUnless { var, cond } => {
            current(var);
            let by = s.taken.iter().filter(|(n, _)| variables(cond).contains(*n));
            let by: FxHashMap<Name, Expr> =
                by.map(|(n, name)| (n.clone(), Expr::var(name.clone()))).collect();
            *cond = Substitution::new(&by).apply(cond);
        }
        _ => {}
    }
    let taken: Vec<(Name, Name)> = reused
        .into_iter()
        .map(|n| {
            let name = unused(s, n);
            (std::mem::replace(n, name.clone()), name)
        })
        .collect();
    s.taken.extend(taken);
    d
}

/// A name for the loop that takes over the name `n`.
fn unused(s: &Stage, n: &Name) -> Name {
    let known = s.taken.get(n).unwrap_or(n);
    let mut name = format!("{known}~");
    while is_variable(s, &name.as_str().into()) {
        name.push('~');
    }
    name.into()
}

/// Is it a loop of the stage, or was it one?
fn is_variable(s: &Stage, name: &Name) -> bool {
    s.dims.iter().any(|d| d.name == *name) || s.replaced(name).is_some()
}

/// Names that loops took over, with the names that the loops have.
type Taken = FxHashMap<Name, Name>;

/// Gives loops that the schedule calls alike one name in all versions of a stage and in the stages that it runs together with, so that
/// levels and joint loops find them, and levels that name.
pub(super) fn unify(plans: &mut IndexMap<Name, FuncPlan>) {
    let mut names: FxHashMap<StageId, Taken> = FxHashMap::default();
    for group in groups(plans) {
        let mut longest = Taken::default();
        let stages = group.iter().map(|id| &plans[&id.func].stages[id.stage]);
        let stages: Vec<&Stage> = stages.flat_map(Stage::versions).collect();
        for s in &stages {
            for (n, name) in s.taken.iter().filter(|(_, name)| s.dims.iter().any(|d| d.name == **name)) {
                let known = longest.entry(n.clone()).or_insert_with(|| name.clone());
                if name.len() > known.len() {
                    *known = name.clone();
                }
            }
        }
        for (n, name) in &mut longest {
            // A variable of the definitions may be called so, too.
            while stages.iter().any(|s| is_variable(s, name) && s.taken.get(n) != Some(name)) {
                *name = format!("{name}~").into();
            }
        }
        if !longest.is_empty() {
            names.extend(group.into_iter().map(|id| (id, longest.clone())));
        }
    }
    let level = |l: &mut LoopLevel| {
        if let Some(name) = names.get(&l.stage).and_then(|taken| taken.get(&l.var)) {
            l.var = name.clone();
        }
    };
    for f in plans.values_mut() {
        for s in &mut f.stages {
            if let Some(taken) = names.get(&s.id) {
                call_alike(s, taken);
            }
            s.with.iter_mut().for_each(level);
        }
        for at in [&mut f.compute, &mut f.store].into_iter().chain(&mut f.hoist) {
            if let Level::At(l) = at {
                level(l);
            }
        }
    }
}

/// Stages that run together, as far as they exist; each of the others by itself.
fn groups(plans: &IndexMap<Name, FuncPlan>) -> Vec<Vec<StageId>> {
    let stages = || plans.values().flat_map(|f| &f.stages);
    let mut groups: Vec<Vec<StageId>> = stages().map(|s| vec![s.id.clone()]).collect();
    for (id, with) in stages().filter_map(|s| Some((&s.id, &s.with.as_ref()?.stage))) {
        let place = |id: &StageId| groups.iter().position(|g| g.contains(id));
        if let (Some(a), Some(b)) = (place(id), place(with))
            && a != b
        {
            let moved = groups.remove(a.max(b));
            groups[a.min(b)].extend(moved);
        }
    }
    groups
}

/// Renames the loops of `s` and its versions that have another name than `names` says.
fn call_alike(s: &mut Stage, names: &Taken) {
    let lagging = s.dims.iter().filter_map(|d| {
        let (_, new) = names.iter().find(|(n, _)| d.name == **n || s.taken.get(*n) == Some(&d.name))?;
        (d.name != *new).then(|| (d.name.clone(), new.clone()))
    });
    for (old, new) in lagging.collect::<Vec<_>>() {
        s.call(&old, &new);
        s.changes.push(Change::Rename { old, new });
    }
    s.special.iter_mut().for_each(|(_, s)| call_alike(s, names));
}
