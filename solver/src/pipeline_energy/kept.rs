//! Values that are kept between products: what does not depend on the direction p is computed once per linearisation, and every product takes it
//! as an input.
//!
//! ```text
//! product(x, p)  --cut-->  kept: values(x)        once per linearisation
//!                          product(values, x, p)  once per PCG iteration
//! ```
//! A Func that the product needs is kept if it has updates, which must be stored anyway, or more than [`DEAR`] operations and reads with all that is
//! substituted into it; else the product computes it where it reads it. [`PipelineEnergy::keep`] and [`PipelineEnergy::recompute`] decide otherwise. What would take
//! more than a quarter of the memory there is (a half of what `max_memory` allows) is computed again, the largest first.

use crate::pipeline_energy::PipelineEnergy;
use crate::pipeline_energy::derive::{OverUnknowns, direction_of, reachable};
use crate::pipeline_energy::error::PipelineEnergyError;
use std::collections::{BTreeMap, BTreeSet};
use sumsq_codegen::expr::walk::nodes;
use sumsq_codegen::gradient::as_inputs;
use sumsq_codegen::{Constraint, Expr, ExprKind, Func, Name, Param, Pipeline, ScalarType};

/// Operations on floats, and reads, above which it is cheaper to read a value than to compute it again.
const DEAR: usize = 24;

/// A pipeline that depends on directions, in two.
pub(super) struct Cut {
    /// The part that does not depend on them: the Funcs that are kept, as outputs. None if there is nothing to keep.
    pub kept: Option<Pipeline>,
    /// The rest, which takes them as inputs.
    pub product: OverUnknowns,
}

impl Cut {
    /// Cuts `whole`; the Funcs `dropped` are not kept, whatever they cost.
    ///
    /// # Errors
    /// A name that is to be kept or recomputed and is no Func, or has updates and is to be recomputed.
    pub(super) fn new(
        whole: &OverUnknowns,
        e: &PipelineEnergy,
        dropped: &[Name],
    ) -> Result<Cut, PipelineEnergyError> {
        for name in e.keep.iter().chain(&e.recompute) {
            let Some(f) = e.pipeline.funcs.get(name) else {
                return Err(PipelineEnergyError::NoSuchFunc { name: name.to_string() });
            };
            if e.recompute.contains(name) && !f.updates.is_empty() {
                return Err(PipelineEnergyError::Recompute { name: name.to_string() });
            }
        }
        let p = &whole.pipeline;
        let kept = chosen(p, e, dropped);
        let names: Vec<&str> = kept.iter().map(|n| &**n).collect();
        let mut product = whole.clone();
        as_inputs(&mut product.pipeline, &names);
        product.pipeline = reachable(product.pipeline);
        let mut first = p.clone();
        first.name = format!("{}_kept", p.name);
        first.outputs.clear();
        for name in &kept {
            let f = first.funcs[name].clone();
            first.output_strided(&f, Constraint::defaults(f.vars.len()));
        }
        let kept = (!kept.is_empty()).then(|| reachable(first));
        Ok(Cut { kept, product })
    }
}

/// Names of the Funcs that are kept, in the order of their definition.
fn chosen(p: &Pipeline, e: &PipelineEnergy, dropped: &[Name]) -> Vec<Name> {
    let moving = moving(p, e);
    let is_fixed = |name: &Name| p.funcs.contains_key(name) && !moving.contains(name);
    let of_moving = p.funcs.values().filter(|f| moving.contains(&f.name)).flat_map(reads);
    let mut reached: Vec<Name> = of_moving.filter(is_fixed).collect();
    let (mut seen, mut kept, mut costs) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    while let Some(name) = reached.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let f = &p.funcs[&name];
        let mut is_dear = || !f.updates.is_empty() || cost(p, f, &mut costs) > DEAR;
        let refused = e.recompute.contains(&name) || dropped.contains(&name) || !can_be_kept(f);
        if !refused && (e.keep.contains(&name) || is_dear()) {
            kept.insert(name);
        } else {
            reached.extend(reads(f).filter(is_fixed));
        }
    }
    p.funcs.keys().filter(|name| kept.contains(*name)).cloned().collect()
}

/// Has `f` one buffer?
fn can_be_kept(f: &Func) -> bool {
    let types = f.types();
    types[0] != ScalarType::Bool && types.iter().all(|t| *t == types[0])
}

/// Directions, and the Funcs that depend on them.
fn moving(p: &Pipeline, e: &PipelineEnergy) -> BTreeSet<Name> {
    let mut moving: BTreeSet<Name> = e.names().into_iter().map(|n| direction_of(n).into()).collect();
    loop {
        let before = moving.len();
        for f in p.funcs.values() {
            if reads(f).any(|name| moving.contains(&name)) {
                moving.insert(f.name.clone());
            }
        }
        if moving.len() == before {
            return moving;
        }
    }
}

/// Funcs, inputs and parameters whose values `f` reads.
fn reads(f: &Func) -> impl Iterator<Item = Name> {
    let updates = f.updates.iter().flat_map(|u| {
        let bounds = u.rdom.vars.iter().flat_map(|r| [&r.min, &r.extent]);
        u.args.iter().chain(&u.values).chain(&u.rdom.predicate).chain(bounds)
    });
    let found: BTreeSet<Name> = nodes(f.values.iter().chain(updates))
        .into_iter()
        .filter_map(|e| match e.kind() {
            ExprKind::Call { name, .. } => Some(name.clone()),
            ExprKind::Param(Param::Named(name)) => Some(name.clone()),
            _ => None,
        })
        .filter(|name| *name != f.name)
        .collect();
    found.into_iter()
}

/// Operations on floats and reads in the pure definition of `f`, and in all that would be substituted into it. Coordinates are shared by the lanes
/// of a vector and do not count.
fn cost(p: &Pipeline, f: &Func, known: &mut BTreeMap<Name, usize>) -> usize {
    if let Some(cost) = known.get(&f.name) {
        return *cost;
    }
    let below: Vec<Name> =
        reads(f).filter(|n| p.funcs.get(n).is_some_and(|g| g.updates.is_empty())).collect();
    let below =
        below.into_iter().fold(0usize, |sum, name| sum.saturating_add(cost(p, &p.funcs[&name], known)));
    let counts = |e: &&Expr| e.ty().scalar.is_float() || matches!(e.kind(), ExprKind::Call { .. });
    let all = nodes(&f.values).into_iter().filter(counts).count().saturating_add(below);
    known.insert(f.name.clone(), all);
    all
}
