//! Splits an associative reduction in two (Suriana, Adams, Kamil: Parallel associative reductions in Halide, 2017).
//!
//! `f(a) = f(a) op e(r, k)` over reduction variables r and k becomes
//! ```text
//! into(a, v)  = identity
//! into(a, v)  = into(a, v) op e(r, v)        over r
//! f(x)        = f(x) op into(x, k)           over k
//! ```
//! where x is a where that has no variables, so that neither of both is looked at elsewhere.
//!
//! An argmin or argmax is associative, but of equal candidates the first counts: it keeps the outermost loops.
//! The intermediate keeps the splits of its reduction variables, with `v` in the place of `k`, so that tails are
//! guarded where they are known. Kinds of loops given before stay with the iterations they were given to: those of
//! reduction variables go to the intermediate (a kept one to `v`), those of pure variables stay here.

use crate::analysis::algebra::{Interval, build};
use crate::analysis::associative::{Reduction, redirect};
use crate::error::Error;
use crate::expr::walk::{Substitution, variables};
use crate::expr::{Expr, Name};
use crate::func::{Func, Var};
use crate::plan::apply_schedule::pure_stage;
use crate::plan::extents::{blocks, points};
use crate::plan::plans::{Bounded, Change, Dim, FuncPlan, Stage, illegal};
use crate::plan::validate::is_var;
use crate::schedule::{ForKind, StageId};
use rustc_hash::FxHashMap;

/// Factors stage `k` of `plan`; the stage then reduces over the kept variables. Returns the intermediate.
pub(crate) fn rfactor(
    plan: &mut FuncPlan,
    k: usize,
    keep: &[(Name, Name)],
    into: &Name,
    text: &str,
) -> Result<FuncPlan, Error> {
    let stage = &plan.stages[k];
    let fail = |rule: String| Err(illegal(&stage.id, text, rule));
    let Some(reduction) = &stage.reduction else {
        let forms = "f(a) = f(a) op e, op in + * min max & | ^, or an argmin or argmax";
        return fail(format!("the update is not an associative reduction ({forms})"));
    };
    if !stage.special.is_empty() {
        return fail("the update has special versions: factor first".into());
    }
    if keep.is_empty() {
        return fail("keeps no variable".into());
    }
    for (i, (r, v)) in keep.iter().enumerate() {
        if !stage.dims.iter().any(|d| d.name == *r && d.reduction) {
            return fail(format!("{r} is not a reduction loop of this update"));
        }
        if keep[..i].iter().any(|(q, w)| q == r || w == v) || plan.func.vars.iter().any(|w| *w.name() == *v) {
            return fail(format!("{r} as {v} repeats a variable"));
        }
        let clash = stage.dims.iter().any(|d| d.name == *v && d.name != *r) || stage.replaced(v).is_some();
        if clash || stage.rvars.iter().any(|b| b.name == *v && b.name != *r) {
            return fail(format!("{v} already names a variable of this update"));
        }
    }
    if !reduction.commutes() && !outermost(stage, keep) {
        return fail("an argmin or argmax must keep the outermost reduction loops, innermost first".into());
    }
    let kept: Vec<Bounded> =
        keep.iter().map(|(r, _)| bounds_of(stage, r)).collect::<Option<_>>().ok_or_else(|| {
            illegal(&stage.id, text, "the bounds of a kept variable depend on a reduction variable")
        })?;
    let partial = intermediate(plan, k, reduction, keep, into);
    plan.stages[k] = merge(plan, k, reduction, kept, into);
    Ok(partial)
}

/// Are the kept loops all reduction loops from some place outwards, in this order? Then the parts follow each other in
/// the order of the whole.
fn outermost(s: &Stage, keep: &[(Name, Name)]) -> bool {
    let loops: Vec<&Name> = s.dims.iter().filter(|d| d.reduction).map(|d| &d.name).collect();
    loops.ends_with(&keep.iter().map(|(r, _)| r).collect::<Vec<_>>())
}

/// Bounds of a reduction loop in terms of pure variables and parameters.
fn bounds_of(s: &Stage, name: &Name) -> Option<Bounded> {
    let bounded = |min: Expr, max: Expr| Some(Bounded { name: name.clone(), min, max });
    let zero = Expr::from(0);
    let interval = |b: &Bounded| Interval { min: b.min.clone(), max: b.max.clone() };
    match s.made(name) {
        Some(Change::Split(t)) if t.inner == *name => bounded(zero, build::offset(&t.factor, -1)),
        Some(Change::Split(t)) => {
            let old = bounds_of(s, &t.old)?;
            bounded(zero, build::offset(&blocks(&old.min, &old.max, &t.factor), -1))
        }
        Some(Change::Fuse(t)) => {
            let (inner, outer) = (bounds_of(s, &t.inner)?, bounds_of(s, &t.outer)?);
            bounded(zero, build::offset(&points(&interval(&inner), &interval(&outer)), -1))
        }
        Some(Change::Rename { old, .. }) => {
            let old = bounds_of(s, old)?;
            bounded(old.min, old.max)
        }
        None => s.rvars.iter().find(|r| r.name == *name).cloned(),
    }
}

/// `into(a, v) = identity; into(a, v) = into(a, v) op e`.
fn intermediate(
    plan: &FuncPlan,
    k: usize,
    reduction: &Reduction,
    keep: &[(Name, Name)],
    into: &Name,
) -> FuncPlan {
    let stage = &plan.stages[k];
    let f = &plan.func;
    let vars: Vec<Var> =
        f.vars.iter().copied().chain(keep.iter().map(|(_, v)| Var::new(v.clone()))).collect();
    let func = Func::new(into.clone(), &vars, reduction.identity(&f.types()));

    let rename: FxHashMap<Name, Name> = keep.iter().cloned().collect();
    let new_name = |n: &Name| rename.get(n).unwrap_or(n).clone();
    let by: FxHashMap<Name, Expr> = keep.iter().map(|(r, v)| (r.clone(), Expr::var(v.clone()))).collect();
    let mut subst = Substitution::new(&by);
    let args: Vec<Expr> = stage
        .args
        .iter()
        .map(|a| subst.apply(a))
        .chain(keep.iter().map(|(_, v)| Expr::var(v.clone())))
        .collect();
    let at: Vec<Expr> =
        stage.args.iter().cloned().chain(keep.iter().map(|(_, v)| Expr::var(v.clone()))).collect();
    let partial = |v: &Expr| redirect(v, &f.name, &stage.args, into, &at);
    let values = stage.values.iter().map(|v| subst.apply(&partial(v))).collect();
    // Changes of pure variables of the original belong to its loops, not to those of the intermediate.
    let pure_change = |c: &Change| {
        let from = stage.origins(c.before()[0]);
        f.vars.iter().any(|v| from.contains(v.name()))
    };
    let id = StageId { func: into.clone(), stage: 1 };
    let mut update = Stage {
        predicate: stage.predicate.as_ref().map(|e| subst.apply(e)),
        rvars: stage.rvars.iter().filter(|r| !rename.contains_key(&r.name)).cloned().collect(),
        changes: stage.changes.iter().filter(|c| !pure_change(c)).map(|c| c.renamed(&new_name)).collect(),
        dims: stage.dims.iter().filter(|d| d.reduction && !rename.contains_key(&d.name)).cloned().collect(),
        relaxed: stage.relaxed,
        reciprocals: stage.reciprocals,
        coords: stage.coords.iter().map(new_name).collect(),
        reduction: Some(reduction.clone()),
        ..Stage::new(id, args, values)
    };
    let kind_of = |v: &Name| {
        let kept = keep.iter().find(|k| k.1 == *v).and_then(|k| stage.dims.iter().find(|d| d.name == k.0));
        kept.map_or(ForKind::Serial, |d| d.kind)
    };
    for (v, a) in vars.iter().zip(&update.args) {
        if is_var(a, v.name()) {
            update.dims.push(Dim { kind: kind_of(v.name()), ..Dim::pure(v.name()) });
        }
    }
    let taken = stage.taken.iter().filter(|(_, name)| update.dims.iter().any(|d| d.name == **name));
    update.taken = taken.map(|(n, name)| (n.clone(), name.clone())).collect();
    let stages = vec![pure_stage(&func), update];
    FuncPlan { partial_of: Some(f.name.clone()), ..FuncPlan::new(func, stages) }
}

/// `f(x) = f(x) op into(x, k)` over the kept variables.
fn merge(plan: &FuncPlan, k: usize, reduction: &Reduction, kept: Vec<Bounded>, into: &Name) -> Stage {
    let f = &plan.func;
    let old = &plan.stages[k];
    let is_fixed = |a: &Expr| variables(a).is_empty();
    let coordinate = |(v, a): (&Var, &Expr)| if is_fixed(a) { a.clone() } else { v.expr() };
    let args: Vec<Expr> = f.vars.iter().zip(&old.args).map(coordinate).collect();
    let at: Vec<Expr> = args.iter().cloned().chain(kept.iter().map(|r| Expr::var(r.name.clone()))).collect();
    let types = f.types();
    let tuple = |name: &Name, at: &[Expr]| -> Vec<Expr> {
        types.iter().enumerate().map(|(i, &ty)| Expr::call(name.clone(), ty, at.to_vec(), i)).collect()
    };
    let pure_origin = |c: &&Change| f.vars.iter().any(|v| old.origins(c.before()[0]).contains(v.name()));
    let mut pure: Vec<Dim> = old.dims.iter().filter(|d| !d.reduction).cloned().collect();
    let changes: Vec<Change> = old.changes.iter().filter(pure_origin).cloned().collect();
    for (v, a) in f.vars.iter().zip(&args) {
        // A coordinate that the update computed is a loop now.
        if !is_fixed(a)
            && !pure.iter().any(|d| d.name == *v.name())
            && !changes.iter().any(|c| c.before().contains(&v.name()))
        {
            pure.push(Dim::pure(v.name()));
        }
    }
    let values = reduction.combine(&tuple(&f.name, &args), &tuple(into, &at));
    Stage {
        dims: kept.iter().map(|r| Dim::reduction(&r.name)).chain(pure).collect(),
        coords: kept.iter().map(|r| r.name.clone()).collect(),
        rvars: kept,
        changes,
        relaxed: old.relaxed,
        reciprocals: old.reciprocals,
        reduction: Some(reduction.clone()),
        taken: old.taken.clone(),
        ..Stage::new(old.id.clone(), args, values)
    }
}
