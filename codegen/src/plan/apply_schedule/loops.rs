//! Directives that change the loops of one stage.

use crate::analysis::associative::{Reduction, redirect};
use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name};
use crate::func::Func;
use crate::plan::apply_schedule::expressions::of_parameters;
use crate::plan::apply_schedule::races::distinct_points;
use crate::plan::plans::{Change, Dim, FuncPlan, Fuse, MAX_FACTOR, Split, Stage, illegal};
use crate::plan::validate::is_var;
use crate::schedule::{ForKind, Tail};
use crate::types::Type;

/// The place of loop `var`, or an error that says which loops there are.
pub(super) fn find_dim(s: &Stage, var: &Name, directive: &str) -> Result<usize, Error> {
    s.dims.iter().position(|d| d.name == *var).ok_or_else(|| {
        let loops: Vec<&str> = s.dims.iter().map(|d| &*d.name).collect();
        illegal(&s.id, directive, format!("{var} is not a loop here; the loops are {}", loops.join(" ")))
    })
}

/// A name that a directive introduces stands for nothing yet.
fn must_be_new(f: &Func, s: &Stage, name: &Name, text: &str) -> Result<(), Error> {
    let used = s.dims.iter().any(|d| d.name == *name)
        || s.rvars.iter().any(|r| r.name == *name)
        || s.replaced(name).is_some()
        || f.vars.iter().any(|v| *v.name() == *name);
    match used {
        true => Err(illegal(&s.id, text, format!("{name} already names a variable of this stage"))),
        false => Ok(()),
    }
}

/// See [`crate::Directive::Split`].
pub(super) fn split(plan: &mut FuncPlan, k: usize, s: Split, text: &str) -> Result<(), Error> {
    let stage = &mut plan.stages[k];
    let i = find_dim(stage, &s.old, text)?;
    if s.outer == s.inner {
        return Err(illegal(&stage.id, text, "the new names must differ"));
    }
    must_be_new(&plan.func, stage, &s.outer, text)?;
    must_be_new(&plan.func, stage, &s.inner, text)?;
    if s.factor.ty() != Type::I32 || s.factor.as_int().is_some_and(|f| f < 1) {
        return Err(illegal(&stage.id, text, "the factor must be an i32 of at least 1"));
    }
    if s.factor.as_int().is_some_and(|f| f > MAX_FACTOR) {
        return Err(illegal(&stage.id, text, "the factor must be at most 2^26"));
    }
    if !of_parameters(&s.factor) {
        return Err(illegal(&stage.id, text, "the factor must be a constant or made of parameters"));
    }
    if s.tail == Tail::RoundUp && k > 0 {
        let rule = "RoundUp writes beyond the region: pure definitions only; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    if s.tail == Tail::ShiftInwards && k > 0 {
        let rule = "ShiftInwards would update some points twice: pure definitions only; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    if let (Tail::RoundUp, Some(extent)) = (s.tail, inner_extent(stage, &s.old))
        && extent.zip(s.factor.as_int()).is_none_or(|(n, factor)| n % factor != 0)
    {
        let rule = "RoundUp of an inner loop needs a factor that divides its extent; use Predicate";
        return Err(illegal(&stage.id, text, rule));
    }
    let d = stage.dims[i].clone();
    stage.dims[i].name = s.inner.clone();
    stage.dims.insert(i + 1, Dim { name: s.outer.clone(), ..d });
    stage.changes.push(Change::Split(s));
    Ok(())
}

/// See [`crate::Directive::Fuse`].
pub(super) fn fuse(f: &Func, s: &mut Stage, t: Fuse, text: &str) -> Result<(), Error> {
    let (i, o) = (find_dim(s, &t.inner, text)?, find_dim(s, &t.outer, text)?);
    if i == o {
        return Err(illegal(&s.id, text, "a loop cannot be fused with itself"));
    }
    must_be_new(f, s, &t.fused, text)?;
    if s.dims[i].reduction != s.dims[o].reduction {
        return Err(illegal(&s.id, text, "one is a reduction variable and the other is not"));
    }
    if let Some(d) = [&s.dims[i], &s.dims[o]].into_iter().find(|d| d.kind != ForKind::Serial) {
        let rule = format!("{} is no serial loop; fuse first, then say how the fused loop runs", d.name);
        return Err(illegal(&s.id, text, rule));
    }
    let before = reduction_order(s, None);
    s.dims[i].name = t.fused.clone();
    s.dims.remove(o);
    let after = reduction_order(s, Some(&t));
    s.changes.push(Change::Fuse(t));
    keeps_order(s, before != after, text)
}

/// See [`crate::Directive::Rename`].
pub(super) fn rename(f: &Func, s: &mut Stage, old: &Name, new: &Name, text: &str) -> Result<(), Error> {
    find_dim(s, old, text)?;
    must_be_new(f, s, new, text)?;
    s.call(old, new);
    s.changes.push(Change::Rename { old: old.clone(), new: new.clone() });
    Ok(())
}

/// See [`crate::Directive::Gather`].
pub(super) fn gather(f: &Func, s: &mut Stage, var: &Name, text: &str) -> Result<(), Error> {
    let Some(d) = f.vars.iter().position(|v| v.name() == var) else {
        return Err(illegal(&s.id, text, "the Func has no such dimension"));
    };
    if is_var(&s.args[d], var) {
        return Err(illegal(&s.id, text, format!("{var} is a loop already")));
    }
    if !s.special.is_empty() {
        return Err(illegal(&s.id, text, "the update has special versions: gather first"));
    }
    if s.rvars.iter().any(|r| r.name == *var) || s.made(var).is_some() {
        return Err(illegal(&s.id, text, format!("{var} already names a variable of this stage")));
    }
    let reads_elsewhere = |e: &Expr| matches!(e.kind(), ExprKind::Call { name, args, .. } if *name == f.name && *args != s.args);
    let all = s.args.iter().chain(&s.values).chain(&s.predicate);
    if nodes(all).into_iter().any(reads_elsewhere) {
        return Err(illegal(&s.id, text, "the update reads another element than the one that it writes"));
    }
    let own = Expr::var(var.clone());
    let mut args = s.args.clone();
    let at = std::mem::replace(&mut args[d], own.clone());
    let moved = |e: &Expr| redirect(e, &f.name, &s.args, &f.name, &args);
    let counts = s.predicate.iter().map(moved).chain([at.eq_(own)]).reduce(|a, b| a.and(b));
    s.values = s.values.iter().map(moved).collect();
    (s.args, s.predicate) = (args, counts);
    s.reduction = Reduction::of(&f.name, &s.args, &s.values, s.predicate.as_ref());
    s.dims.push(Dim::pure(var));
    Ok(())
}

/// The extent of a loop inside of a split, as far as it is constant; none for a whole dimension or the outer loops of one.
/// A fused loop is inside of something: its extent is not that of a dimension.
fn inner_extent(s: &Stage, name: &Name) -> Option<Option<i64>> {
    match s.made(name)? {
        Change::Split(t) if t.inner == *name => Some(t.factor.as_int()),
        Change::Split(t) => {
            let old = inner_extent(s, &t.old)?;
            Some(old.zip(t.factor.as_int()).map(|(n, factor)| (n + factor - 1) / factor))
        }
        Change::Fuse(_) => Some(None),
        Change::Rename { old, .. } => inner_extent(s, old),
    }
}

/// Reduction loops, innermost first; `fused` stands for the two loops that it was made from.
fn reduction_order(s: &Stage, fused: Option<&Fuse>) -> Vec<Name> {
    let names = s.dims.iter().filter(|d| d.reduction).flat_map(|d| match fused {
        Some(t) if t.fused == d.name => vec![t.inner.clone(), t.outer.clone()],
        _ => vec![d.name.clone()],
    });
    names.collect()
}

/// Refuses another order of reduction variables where that changes the result. Whether the rounding of a float sum matters
/// is decided when all directives are known.
fn keeps_order(s: &mut Stage, changed: bool, text: &str) -> Result<(), Error> {
    if !changed || distinct_points(s) {
        return Ok(());
    }
    if !s.reduction.as_ref().is_some_and(Reduction::commutes) {
        let rule = "changes the order of reduction variables of an update that does not commute";
        return Err(illegal(&s.id, text, rule));
    }
    s.reordered.get_or_insert(text.to_string());
    Ok(())
}

/// Puts the named loops, innermost first, in the places they occupied.
pub(super) fn reorder_dims(s: &mut Stage, names: &[Name], text: &str) -> Result<(), Error> {
    let mut at = vec![];
    for n in names {
        let i = find_dim(s, n, text)?;
        if at.contains(&i) {
            return Err(illegal(&s.id, text, format!("{n} is named twice")));
        }
        at.push(i);
    }
    let before = reduction_order(s, None);
    let moved: Vec<Dim> = at.iter().map(|&i| s.dims[i].clone()).collect();
    at.sort_unstable();
    for (i, d) in at.into_iter().zip(moved) {
        s.dims[i] = d;
    }
    let changed = reduction_order(s, None) != before;
    keeps_order(s, changed, text)
}
