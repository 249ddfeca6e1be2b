//! Contracts: schedules that the declarations of a pipeline forbid.
//!
//! - A pipeline with strict floats: whatever could change the value of a float. That is `relaxed`, and a float reduction in
//!   another order: by `rfactor`, `reorder` or `fuse`, over the lanes of a vector, or atomic and parallel. That holds for minima
//!   and maxima, too, of which the order decides the sign of a zero.
//! - A strided output: being a sink or in place of an input, which need domains that start at 0 and known strides.
//!
//! Follows `apply_schedule`; changes nothing.

use crate::error::Error;
use crate::func::Layout;
use crate::plan::plans::{Dim, FuncPlan, Plan, Stage, illegal};
use crate::schedule::{Directive, StageId};

/// Checks `plan`.
pub(crate) fn contracts(plan: &Plan) -> Result<(), Error> {
    for f in plan.funcs.values() {
        if plan.pipeline.strict_float {
            strict(plan, f)?;
        }
        if f.output.as_ref().is_some_and(|o| o.layout == Layout::Strided) {
            strided(f)?;
        }
    }
    Ok(())
}

fn strict(plan: &Plan, f: &FuncPlan) -> Result<(), Error> {
    let refuse = |id: &StageId, directive: String| {
        let rule = format!("may change floats, which are strict in pipeline {}", plan.pipeline.name);
        Err(illegal(id, directive, rule))
    };
    if let Some(whole) = &f.partial_of
        && f.stages.iter().any(floats)
    {
        let id = StageId { func: whole.clone(), stage: 1 };
        return refuse(&id, format!("rfactor(into {})", f.func.name));
    }
    for s in f.stages.iter().flat_map(Stage::versions) {
        let said = [(s.relaxed, Directive::Relaxed), (s.reciprocals, Directive::Reciprocals)];
        if let Some((_, directive)) = said.iter().find(|(holds, _)| *holds) {
            return refuse(&s.id, directive.to_string());
        }
        if s.reduction.is_none() || !floats(s) {
            continue;
        }
        if let Some(text) = &s.reordered {
            return refuse(&s.id, text.clone());
        }
        let any_order = |d: &&Dim| d.kind.is_vector() || d.kind.is_parallel() && s.atomic;
        if let Some(d) = s.dims.iter().filter(|d| d.reduction).find(any_order) {
            return refuse(&s.id, d.directive());
        }
    }
    Ok(())
}

/// Does the stage store floats?
fn floats(s: &Stage) -> bool {
    s.values.iter().any(|v| v.ty().scalar.is_float())
}

fn strided(f: &FuncPlan) -> Result<(), Error> {
    let rule = "its buffer is strided: minimum and strides are unknown";
    match (f.sink, &f.in_place_of) {
        (true, _) => Err(illegal(&f.stages[0].id, "sink", rule)),
        (_, Some(input)) => Err(illegal(&f.stages[0].id, format!("in_place_of({input})"), rule)),
        _ => Ok(()),
    }
}
