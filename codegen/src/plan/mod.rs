//! Plans: what is computed, and the loops of each stage.
//!
//! Takes a pipeline and a schedule; gives a `Plan` in which every directive is applied or refused, or a typed error
//! that names Func, directive and rule. Only definitions and lists of loops so far: regions and statements come with
//! [`crate::nests`].

pub(crate) mod apply_schedule;
pub(crate) mod contracts;
pub(crate) mod extents;
pub(crate) mod inline;
pub(crate) mod plans;
pub mod realization_order;
pub(crate) mod rfactor;
pub(crate) mod text;
pub(crate) mod uses;
pub mod validate;
pub(crate) mod wrappers;

use crate::error::Error;
use crate::expr::Name;
use crate::func::Pipeline;
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use plans::Plan;
use rustc_hash::FxHashSet;

/// The passes over definitions: what is computed, and the loops of each stage.
pub fn plan(p: &Pipeline, schedule: &Schedule) -> Result<Plan, Error> {
    on_large_stack(|| plan_here(p, schedule))
}

fn plan_here(p: &Pipeline, schedule: &Schedule) -> Result<Plan, Error> {
    validate::validate(p)?;
    let p = &wrappers::wrappers(p, schedule)?;
    validate::check_names(p)?;
    let order = realization_order::realization_order(p)?;
    let mut gone = FxHashSet::default();
    for name in &order {
        if apply_schedule::inlined(p, schedule, name)? {
            gone.insert(name.clone());
        }
    }
    let inlined = inline::inline(p, &order, &|n| gone.contains(n))?;
    // Funcs that no output needs are not computed; directives about them have no effect.
    let absent =
        |n: &Name| p.inputs.contains_key(n) || p.funcs.contains_key(n) && !inlined.funcs.contains_key(n);
    let plan = apply_schedule::apply_schedule(&inlined, schedule, &absent)?;
    contracts::contracts(&plan)?;
    Ok(plan)
}
