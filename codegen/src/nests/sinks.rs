//! Outputs inside a nest.
//!
//! A sink has storage of its own; each point of the domain goes to the output buffer once, from the iteration whose own tile holds it:
//! the interval of the consumer's coordinates at the store level. The rules are those of [`crate::schedule::Directive::Sink`]. Its consumer is
//! the stage in whose loops it is computed, or, where partial results of that are computed in these loops too, the innermost of them: there
//! all loops over the domain meet.

use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::Expr;
use crate::ir::stmt::Stmt;
use crate::nests::bounds_inference::{ranges_of, region};
use crate::nests::checks::assertion;
use crate::nests::outputs::has_storage;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{FuncPlan, Level, Plan, Stage, illegal, own_var};
use crate::schedule::{LoopLevel, StageId, Tail};

/// Checks the rules of [`crate::schedule::Directive::Sink`] that need no regions: same space, each point visited once.
pub(super) fn check_sinks(plan: &Plan) -> Result<(), Error> {
    for f in plan.funcs.values().filter(|f| f.sink) {
        let Level::At(l) = &f.compute else { continue };
        let stage = consumer(plan, l);
        if let Some(rule) = broken_rule(plan, f, &plan.funcs[&stage.id.func], stage) {
            return Err(illegal(&f.stages[0].id, format!("sink, compute_at({})", f.compute), rule));
        }
    }
    Ok(())
}

/// The consumer of what is computed at `level`.
fn consumer<'p>(plan: &'p Plan, level: &LoopLevel) -> &'p Stage {
    let outer = &plan.funcs[&level.stage.func].stages[level.stage.stage];
    let depth = |l: &LoopLevel| outer.dims.iter().position(|d| *d.name == *own_var(l));
    let mut stage = outer;
    let part = |f: &&FuncPlan, of: &StageId| match &f.compute {
        Level::At(l) if f.partial_of.as_ref() == Some(&of.func) && l.stage == *of => {
            *of != outer.id || depth(l) <= depth(level)
        }
        _ => false,
    };
    while let Some(f) = plan.funcs.values().find(|f| part(f, &stage.id)) {
        stage = &f.stages[1];
    }
    stage
}

/// The rule that sink `f` in the loops of a stage breaks.
fn broken_rule(plan: &Plan, f: &FuncPlan, consumer: &FuncPlan, stage: &Stage) -> Option<String> {
    let id = &stage.id;
    if stage.coords.len() != f.func.vars.len() {
        let coords = stage.coords.join(", ");
        return Some(format!("{id} iterates over ({coords}), which is not the space of {}", f.func.name));
    }
    if stage.splits().any(|t| t.tail == Tail::ShiftInwards) {
        return Some(format!(
            "each point is stored once, but ShiftInwards makes {id} visit some points twice"
        ));
    }
    let aligned = stage.id.stage == 0 && consumer.align.iter().any(Option::is_some);
    if aligned || stage.splits().any(|t| t.tail == Tail::RoundUp) {
        return Some(format!("each point is stored once, but the loops of {id} cover more than its domain"));
    }
    if !partitions(plan, consumer) {
        let name = &consumer.func.name;
        return Some(format!(
            "each point is stored once, but {name} is itself computed in a nest, which may visit a point twice"
        ));
    }
    let apart = f.stages.len() > 1 && f.store != f.compute;
    apart.then(|| "a sink with update definitions must be stored where it is computed".into())
}

/// Do the loops around and of `f` visit each point once? At root, or a partial result of such a nest.
fn partitions(plan: &Plan, f: &FuncPlan) -> bool {
    match (&f.compute, &f.partial_of) {
        (Level::Root, _) => true,
        (Level::At(l), Some(whole)) if l.stage.func == *whole => partitions(plan, &plan.funcs[whole]),
        _ => false,
    }
}

/// Binds the own tile of `f` at its store level, which is being opened, and checks that what the consumer reads covers it.
pub(super) fn own_tile(scope: &mut Scope, regions: &mut Regions, f: &FuncPlan) -> Result<(), Error> {
    let name = &f.func.name;
    let own: Vec<Interval> = match (&f.compute, f.sink) {
        (Level::At(l), true) => {
            let consumer = consumer(scope.plan, l);
            let ranges = ranges_of(scope, regions, &consumer.id, &f.store)?;
            consumer.coords.iter().map(|c| ranges[c].clone()).collect()
        }
        _ if f.output.is_some() && has_storage(scope, regions, f) => {
            (0..f.func.vars.len()).map(|d| scope.domain(name, d)).collect()
        }
        _ => return Ok(()),
    };
    let named = own.iter().zip(&f.func.vars).map(|(i, v)| {
        let prefix = format!("{name}.own.{}", v.name());
        regions.bind_ends(&mut scope.facts, &prefix, i)
    });
    let named: Vec<Interval> = named.collect();
    if f.sink {
        let footprint = region(scope, regions, name, &f.store)?;
        for (d, (foot, own)) in footprint.iter().zip(&named).enumerate() {
            if !scope.facts.proves_le(&foot.min, &own.min) || !scope.facts.proves_le(&own.max, &foot.max) {
                let rule = format!(
                    "what the consumer reads may not cover the points it stores, in dimension {}",
                    f.func.vars[d].name()
                );
                return Err(illegal(&f.stages[0].id, "sink", rule));
            }
        }
    }
    regions.own.insert(name.clone(), named);
    Ok(())
}

/// Tests at run time that the consumer's coordinates range over exactly the sink's domain.
pub(super) fn sink_checks(scope: &mut Scope, regions: &mut Regions) -> Result<Vec<Stmt>, Error> {
    let plan = scope.plan;
    let mut checks = vec![];
    for f in plan.funcs.values().filter(|f| f.sink) {
        let Level::At(l) = &f.compute else { continue };
        let name = &f.func.name;
        let consumer = consumer(plan, l);
        let ranges = ranges_of(scope, regions, &consumer.id, &Level::Root)?;
        for (d, c) in consumer.coords.iter().enumerate() {
            let (i, domain) = (&ranges[c], scope.domain(name, d));
            let equal = |a: &Expr, b: &Expr| [build::le(a, b), build::le(b, a)];
            let conds = [equal(&i.min, &domain.min), equal(&i.max, &domain.max)].concat();
            let message = format!(
                "sink {name}: {} must range over its domain in dimension {d}: from, to, last of the domain",
                consumer.id
            );
            let args = [i.min.clone(), i.max.clone(), domain.max];
            checks.extend(assertion(&scope.facts, &conds, message, &args));
        }
    }
    Ok(checks)
}
