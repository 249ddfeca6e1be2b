//! Versions of a stage for run-time conditions.

use crate::error::Error;
use crate::expr::Expr;
use crate::func::Pipeline;
use crate::plan::apply_schedule::apply;
use crate::plan::apply_schedule::expressions::of_parameters;
use crate::plan::plans::{FuncPlan, illegal};
use crate::schedule::{Directive, Tail};
use crate::types::Type;

/// See [`Directive::Specialize`]: adds a version of stage `k`, which starts as the stage is now.
pub(super) fn specialize(
    p: &Pipeline,
    plan: &mut FuncPlan,
    k: usize,
    cond: &Expr,
    directives: &[Directive],
) -> Result<(), Error> {
    let id = plan.stages[k].id.clone();
    let text = format!("specialize({cond})");
    if !of_parameters(cond) {
        return Err(illegal(&id, text, "the condition must be made of constants and parameters"));
    }
    let zero = Expr::int(cond.ty(), 0);
    let cond = if cond.ty() == Type::BOOL { cond.clone() } else { cond.ne_(zero) };
    // The directives work on stages of the plan: the version takes the place of its stage meanwhile.
    let original = plan.stages[k].clone();
    plan.stages[k].special.clear();
    for d in directives {
        let loops = matches!(
            d,
            Directive::Split { .. }
                | Directive::Fuse { .. }
                | Directive::Rename { .. }
                | Directive::Reorder(_)
                | Directive::Kind { .. }
                | Directive::Partition { .. }
                | Directive::Specialize { .. }
        );
        if !loops {
            return Err(illegal(&id, format!("{text}: {d}"), "only loops can differ between versions"));
        }
        if matches!(d, Directive::Split { tail: Tail::RoundUp, .. }) {
            let rule = "RoundUp changes the region, which all versions share; use Predicate";
            return Err(illegal(&id, format!("{text}: {d}"), rule));
        }
        apply(p, plan, k, d)?;
    }
    let version = std::mem::replace(&mut plan.stages[k], original);
    plan.stages[k].special.push((cond, version));
    Ok(())
}
