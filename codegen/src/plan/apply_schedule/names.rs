//! Names of loops that are used again: `split(y, y, yi, 8)` calls the outer loop as the one that it replaces.
//!
//! Inside of a plan every variable of a stage, loop or not, has a name of its own: a loop that takes over the name of one that it
//! replaces is `y~` there, the next one `y~~`. Directives that follow mean the loop ([`resolved`]), and so does every level of
//! another stage ([`unify`]). Messages and printed loop nests leave the marks out ([`shown`]).

use crate::expr::walk::{Substitution, variables};
use crate::expr::{Expr, Name};
use crate::plan::plans::{Change, FuncPlan, Level, Stage, shown};
use crate::schedule::{Directive, LoopLevel};
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
    while s.dims.iter().any(|d| *d.name == *name) || s.replaced(&name.as_str().into()).is_some() {
        name.push('~');
    }
    name.into()
}

/// Gives loops that the schedule calls alike one name in all stages and versions, so that levels and joint loops find them, and levels that
/// name.
pub(super) fn unify(plans: &mut IndexMap<Name, FuncPlan>) {
    let mut names: FxHashMap<Name, Name> = FxHashMap::default();
    for s in plans.values().flat_map(|f| &f.stages).flat_map(Stage::versions) {
        for (n, name) in s.taken.iter().filter(|(_, name)| s.dims.iter().any(|d| d.name == **name)) {
            let longest = names.entry(n.clone()).or_insert_with(|| name.clone());
            if name.len() > longest.len() {
                *longest = name.clone();
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let level = |l: &mut LoopLevel| {
        if let Some(name) = names.get(&l.var) {
            l.var = name.clone();
        }
    };
    for f in plans.values_mut() {
        f.stages.iter_mut().for_each(|s| call_alike(s, &names));
        for at in [&mut f.compute, &mut f.store] {
            if let Level::At(l) = at {
                level(l);
            }
        }
        f.stages.iter_mut().filter_map(|s| s.with.as_mut()).for_each(level);
    }
}

/// Renames the loops of `s` and its versions that have another name than `names` says.
fn call_alike(s: &mut Stage, names: &FxHashMap<Name, Name>) {
    let lagging = s.dims.iter().filter_map(|d| {
        let new = names.get(shown(&d.name))?;
        (d.name != *new).then(|| (d.name.clone(), new.clone()))
    });
    for (old, new) in lagging.collect::<Vec<_>>() {
        s.call(&old, &new);
        s.changes.push(Change::Rename { old, new });
    }
    s.special.iter_mut().for_each(|(_, s)| call_alike(s, names));
}
