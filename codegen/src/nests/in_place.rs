//! Outputs in place of an input.

use crate::analysis::algebra::Interval;
use crate::error::Error;
use crate::expr::{Expr, ExprKind};
use crate::nests::found::Found;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{FuncPlan, Stage, illegal};
use crate::schedule::Tail;

/// Checks the rules of [`crate::schedule::Directive::InPlaceOf`], once all is found.
pub(super) fn check_in_place(scope: &Scope, found: &Found) -> Result<(), Error> {
    let plan = scope.plan;
    for f in plan.funcs.values() {
        let Some(input) = &f.in_place_of else { continue };
        let fail = |rule: String| Err(illegal(&f.stages[0].id, format!("in_place_of({input})"), rule));
        let Some(i) = plan.pipeline.inputs.get(input) else {
            return fail("there is no such input".into());
        };
        let mut others = plan.funcs.values().filter(|g| g.func.name != f.func.name);
        if others.any(|g| g.in_place_of.as_ref() == Some(input)) {
            return fail("two outputs overwrite the input".into());
        }
        let own: Vec<Expr> = f.func.vars.iter().map(|v| v.expr()).collect();
        for (stage, calls) in scope.callers(input) {
            if stage.func != f.func.name || stage.stage != 0 {
                return fail(format!("{stage} reads the input, too"));
            }
            if calls.iter().any(|c| *c != own) {
                return fail("the input is read at other coordinates than those that are written".into());
            }
        }
        let Some(o) = &f.output else { return fail("it is no output".into()) };
        if o.layout != i.layout || o.halo != i.halo || f.func.types() != i.types || own.len() != i.dims {
            return fail("layout, halo, types or dimensions differ from the input's".into());
        }
        let shifted = f.stages[0].versions().iter().any(|s| s.splits().any(|t| t.tail == Tail::ShiftInwards));
        if shifted || found.storage.contains_key(&f.func.name) && !found.once.contains(&f.func.name) {
            return fail(
                "some points are computed more than once, and would read what was overwritten".into(),
            );
        }
    }
    Ok(())
}

/// Records whether every point of `f` is computed once: tiles do not overlap, and within a tile a value is kept, for `f` slides or
/// is stored where it is computed.
pub(super) fn note_once(scope: &Scope, regions: &Regions, found: &mut Found, f: &FuncPlan, slides: bool) {
    let stored = (f.func.name.clone(), f.store.clone());
    let (Some(own), Some(foot)) = (regions.own.get(&f.func.name), regions.at.get(&stored)) else { return };
    let inside = |(foot, own): (&Interval, &Interval)| {
        scope.facts.proves_le(&own.min, &foot.min) && scope.facts.proves_le(&foot.max, &own.max)
    };
    if (slides || f.store == f.compute) && foot.iter().zip(own).all(inside) {
        found.once.insert(f.func.name.clone());
    }
}

/// Does stage `s` only store what is there already? The pure definition of an output in place of an input, if it is that input:
/// such an output has updates only.
pub(super) fn keeps(found: &Found, f: &FuncPlan, s: &Stage) -> bool {
    let Some(input) = f.in_place_of.as_ref().filter(|_| s.id.stage == 0) else { return false };
    let own: Vec<Expr> = f.func.vars.iter().map(|v| v.expr()).collect();
    let is_input = |(k, v): (usize, &Expr)| matches!(v.kind(), ExprKind::Call { name, args, value } if name == input && *args == own && *value == k);
    !found.storage.contains_key(&f.func.name) && s.values.iter().enumerate().all(is_input)
}
