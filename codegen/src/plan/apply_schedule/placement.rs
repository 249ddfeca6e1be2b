//! Directives about where a Func is computed and how its values are stored.

use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::plan::apply_schedule::expressions::of_parameters;
use crate::plan::apply_schedule::loops::find_dim;
use crate::plan::plans::{Bound, FuncPlan, Level, Stage, illegal};
use crate::schedule::{Directive, ForKind, StageId};
use crate::types::Type;
use indexmap::IndexMap;

pub(super) fn place(plan: &mut FuncPlan, d: &Directive, id: &StageId) -> Result<(), Error> {
    let dim = |plan: &FuncPlan, var: &Name, what: &str| {
        let i = plan.func.vars.iter().position(|v| *v.name() == *var);
        i.ok_or_else(|| illegal(id, format!("{what}({var})"), "the Func has no such dimension"))
    };
    match d {
        Directive::Inline => {}
        Directive::ComputeRoot => plan.compute = Level::Root,
        Directive::ComputeAt(l) => {
            if plan.store == plan.compute {
                plan.store = Level::At(l.clone());
            }
            plan.compute = Level::At(l.clone());
        }
        Directive::StoreAt(l) => plan.store = Level::At(l.clone()),
        Directive::HoistStorage(l) => plan.hoist = Some(Level::At(l.clone())),
        Directive::FoldStorage { var, factor } => {
            let i = dim(plan, var, "fold_storage")?;
            if !factor.is_power_of_two() {
                return Err(illegal(
                    id,
                    format!("fold_storage({var}, {factor})"),
                    "the factor is not a power of two",
                ));
            }
            plan.fold[i] = Some(*factor);
        }
        Directive::StoreWhole => plan.whole = true,
        Directive::AlignBounds { var, modulus } => {
            let i = dim(plan, var, "align_bounds")?;
            if *modulus == 0 || *modulus > 1 << 20 {
                return Err(illegal(
                    id,
                    format!("align_bounds({var}, {modulus})"),
                    "the modulus must be in 1..=2^20",
                ));
            }
            plan.align[i] = Some(*modulus);
        }
        Directive::Bound { var, min, extent } => {
            let text = d.to_string();
            let i = dim(plan, var, "bound")?;
            for e in min.iter().chain([extent]) {
                i32_of_parameters(e).map_err(|rule| illegal(id, text.clone(), rule))?;
            }
            if extent.as_int().is_some_and(|n| n < 1) {
                return Err(illegal(id, text, "the extent must be at least 1"));
            }
            plan.bound[i] = Some(Bound { min: min.clone(), extent: extent.clone() });
        }
        Directive::Estimate { var, min, extent } => {
            let i = dim(plan, var, "set_estimate")?;
            if *extent < 1 {
                return Err(illegal(id, d.to_string(), "the extent must be at least 1"));
            }
            plan.estimates[i] = Some((*min, *extent));
        }
        Directive::AlignStorage { .. } | Directive::ReorderStorage(_) if plan.output.is_some() => {
            return Err(illegal(id, d.to_string(), "an output lies as its buffer does"));
        }
        Directive::AlignStorage { var, modulus } => {
            let i = dim(plan, var, "align_storage")?;
            if *modulus == 0 || *modulus > 1 << 20 {
                return Err(illegal(id, d.to_string(), "the modulus must be in 1..=2^20"));
            }
            plan.pad[i] = Some(*modulus);
        }
        Directive::ReorderStorage(vars) => {
            let mut order = vec![];
            for v in vars {
                let i = dim(plan, v, "reorder_storage")?;
                if order.contains(&i) {
                    return Err(illegal(id, d.to_string(), format!("{v} is named twice")));
                }
                order.push(i);
            }
            if order.len() != plan.func.vars.len() {
                return Err(illegal(id, d.to_string(), "name all dimensions, fastest first"));
            }
            plan.storage_order = order;
        }
        Directive::StoreIn(m) => plan.memory = Some(*m),
        Directive::Sink | Directive::NonTemporal(_) | Directive::InPlaceOf(_) if plan.output.is_none() => {
            return Err(illegal(id, d.to_string(), "only an output has an output buffer"));
        }
        Directive::Sink => plan.sink = true,
        Directive::NonTemporal(when) => plan.non_temporal = Some(when.clone()),
        Directive::InPlaceOf(input) => plan.in_place_of = Some(input.clone()),
        _ => unreachable!("place: loop directives are handled by the caller"),
    }
    Ok(())
}

pub(super) fn default_placement(plan: &mut FuncPlan) -> Result<(), Error> {
    let id = &plan.stages[0].id;
    if plan.compute == Level::Root && plan.store != Level::Root {
        return Err(illegal(id, "store_at", "needs a compute_at inside it"));
    }
    if plan.store == Level::Root && plan.hoist.is_some() {
        return Err(illegal(id, "hoist_storage", "needs a compute_at inside it"));
    }
    if plan.hoist.is_some() && plan.sink {
        return Err(illegal(id, "hoist_storage", "a sink is stored where its consumer needs it"));
    }
    if plan.compute != Level::Root && plan.output.is_some() && !plan.sink {
        return Err(illegal(id, "compute_at", "an output computed in a consumer's nest needs `sink`"));
    }
    if let (true, Some(d)) = (plan.sink, plan.bound.iter().position(Option::is_some)) {
        let text = format!("bound({})", plan.func.vars[d].name());
        return Err(illegal(id, text, "a sink covers what its consumer needs"));
    }
    if plan.sink && plan.compute == Level::Root {
        return Err(illegal(id, "sink", "needs compute_at; an output at root is stored anyway"));
    }
    Ok(())
}

/// Is `e` an i32 made of constants and parameters?
fn i32_of_parameters(e: &Expr) -> Result<(), String> {
    match e.ty() == Type::I32 && of_parameters(e) {
        true => Ok(()),
        false => Err(format!("{e} is no i32 made of constants and parameters")),
    }
}

/// Every level names an existing loop of a computed Func, and no Func is computed inside of itself: from any Func, one
/// comes to one at root by going from each to the one in whose loop it is computed.
pub(super) fn check_levels(plans: &IndexMap<Name, FuncPlan>) -> Result<(), Error> {
    for f in plans.values() {
        let named = [("compute_at", Some(&f.compute)), ("store_at", Some(&f.store))];
        for (what, level) in named.into_iter().chain([("hoist_storage", f.hoist.as_ref())]) {
            let Some(Level::At(l)) = level else { continue };
            let id = &f.stages[0].id;
            let text = format!("{what}({}, {})", l.stage.func, l.var);
            let stage = plans.get(&l.stage.func).and_then(|g| g.stages.get(l.stage.stage));
            let Some(stage) = stage else {
                return Err(illegal(id, text, "there is no such stage, or it is inlined"));
            };
            if f.sink && !stage.special.is_empty() {
                return Err(illegal(id, text, "a sink lies in a stage without special versions"));
            }
            check_level(stage, &l.var, &text).map_err(|rule| illegal(id, text.clone(), rule))?;
        }
    }
    plans.values().try_for_each(|f| check_nesting(plans, f))
}

/// `f` is not computed in a loop of its own, nor in one of a Func that is computed in a loop of `f`.
fn check_nesting(plans: &IndexMap<Name, FuncPlan>, f: &FuncPlan) -> Result<(), Error> {
    let (mut path, mut at) = (vec![&f.func.name], &f.compute);
    // A circle that `f` leads to without being in it is found from a Func that is; here the walk just has to end.
    while let Level::At(l) = at
        && path.len() <= plans.len()
    {
        path.push(&l.stage.func);
        if l.stage.func == f.func.name {
            let path: Vec<&str> = path.iter().map(|n| &***n).collect();
            let rule = format!("a Func cannot be computed inside of itself: {}", path.join(" in "));
            let Level::At(own) = &f.compute else { break };
            return Err(illegal(&f.stages[0].id, Directive::ComputeAt(own.clone()).to_string(), rule));
        }
        at = &plans[&l.stage.func].compute;
    }
    Ok(())
}

/// Loop `var` exists in every version of `stage`, and can hold a Func.
fn check_level(stage: &Stage, var: &Name, text: &str) -> Result<(), String> {
    let i = find_dim(stage, var, text).map_err(|e| match e {
        Error::Schedule { rule, .. } => rule,
        e => e.to_string(),
    })?;
    if stage.dims[i..].iter().any(|d| d.kind == ForKind::GpuLane) {
        return Err("the level is inside of a loop of lanes".into());
    }
    let version = |(cond, s): &(Expr, Stage)| {
        check_level(s, var, text).map_err(|rule| format!("in the version for {cond}: {rule}"))
    };
    stage.special.iter().try_for_each(version)
}
