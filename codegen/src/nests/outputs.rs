//! Outputs with storage of their own, besides the buffer.
//!
//! An output that is computed inside a nest, or read beyond its domain, has storage like an intermediate; each point of
//! the domain goes to the output buffer once, from the iteration whose own tile holds it ([`crate::nests::sinks`]).

use crate::analysis::algebra::Interval;
use crate::expr::{Expr, Name};
use crate::ir::stmt::{Stmt, Target};
use crate::nests::found::Found;
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::plan::plans::{FuncPlan, Level, Stage};
use crate::schedule::ForKind;

/// Places where the values of a stage go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    /// To intermediate storage.
    pub intermediate: bool,
    /// To the output buffer.
    pub output: bool,
}

/// Does `f` need storage besides the output buffer? Not if its region, which was inferred, is known to lie in that.
pub(super) fn has_storage(scope: &Scope, regions: &Regions, f: &FuncPlan) -> bool {
    let name = &f.func.name;
    if f.output.is_none() || f.sink {
        return true;
    }
    let Some(region) = regions.at.get(&(name.clone(), Level::Root)) else { return true };
    // The tests at root see to it that no buffer is empty.
    let mut facts = scope.facts.clone();
    let p = &scope.plan.pipeline;
    for (buffer, dims) in p.inputs.values().map(|i| (&i.name, i.dims)).chain([(name, region.len())]) {
        (0..dims).for_each(|d| facts.assume(&Expr::from(1).le(p.shape(buffer).extent(d))));
    }
    !region.iter().enumerate().all(|(d, i)| {
        let domain = scope.domain(name, d);
        facts.proves_le(&domain.min, &i.min) && facts.proves_le(&i.max, &domain.max)
    })
}

/// The places where the values of stage `s` go.
pub(super) fn destination(found: &Found, f: &FuncPlan, s: &Stage) -> Destination {
    let intermediate = found.storage.contains_key(&f.func.name);
    let whole = f.stages.len() == 1;
    let output = f.output.is_some() && (!intermediate || (whole && s.id.stage == 0));
    Destination { intermediate, output }
}

/// The coordinates, per dimension, at which a point that also has intermediate storage goes to the output buffer.
pub(super) fn own_intervals(regions: &Regions, f: &FuncPlan, to: Destination) -> Vec<Interval> {
    if !to.output || !to.intermediate {
        return vec![];
    }
    regions.own.get(&f.func.name).cloned().unwrap_or_default()
}

/// Copies the own tile of an output with update definitions from its storage to its buffer.
pub(super) fn copy_to_output(regions: &Regions, found: &Found, f: &FuncPlan) -> Option<Stmt> {
    let name = &f.func.name;
    if f.output.is_none() || f.stages.len() == 1 || !found.storage.contains_key(name) {
        return None;
    }
    let own = &regions.own[name];
    let var = |d: usize| -> Name { format!("{name}.copy.{}", f.func.vars[d].name()).into() };
    let args: Vec<Expr> = (0..own.len()).map(|d| Expr::var(var(d))).collect();
    let types = f.func.types().into_iter().enumerate();
    let values = types.map(|(k, t)| Expr::call(name.clone(), t, args.clone(), k)).collect();
    let mut body = Stmt::Provide { func: name.clone(), args, values, to: Target::Output };
    for (d, i) in own.iter().enumerate() {
        let (min, extent) = (i.min.clone(), i.extent());
        body = Stmt::For { var: var(d), min, extent, kind: ForKind::Serial, body: Box::new(body) };
    }
    Some(body)
}
