//! Derivatives and the routines built from them.
//!
//! A routine is what the passes, the counts and the solver handle: some expressions evaluated together, of one [`Kind`] (what they
//! compute: J^T r, J^T J p, r^2, ...) at one [`Site`] (where: at every element, at every hyperedge for one of its slots, ...).
//! [`Routines`] is the table of them. `rows.rs` and `cost.rs` build their roots out of the residual templates and their partials
//! J; a new kind is a variant, its roots there, and a pipeline that asks for it.
//!
//! A column of an excluded or out-of-domain element does not exist; p is 0 there, so J p needs no mask, and what the
//! routines give at excluded elements is meaningless.

mod chain;
mod cost;
mod count;
mod couple;
mod couplings;
mod factor;
mod hoist;
mod materialize;
mod pairs;
mod passes;
pub(crate) mod robust;
mod routine;
mod rows;
mod share;
mod simplify;
mod site;
mod template;
mod within;

pub use chain::Chain;
pub use count::{OpCount, count_ops};
pub use couplings::{Coupling, Couplings, PairCoupling, leads_on};
pub use hoist::hoist;
pub use passes::Passes;
pub use routine::{Kind, Part, PassReport, Routine, Routines};
pub use share::share_parts;
pub use simplify::{assume_guards, factor_sums, simplify};
pub use site::Site;
pub use template::{Component, GroupStores, components};

use crate::dag::{Access, Dag, ExprId};
use crate::error::EnergyError;
use crate::model::{BlockId, ComputedId, Energy};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use template::{Applied, Template, directional};
use within::within;

impl Routines {
    /// Differentiates, assembles and simplifies the routines of `energy`.
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn build(energy: &Energy) -> Result<Routines, EnergyError> {
        Routines::build_with(energy, Passes::ALL, &[])
    }

    /// The same with some passes only, and with what `groups` store, by number; those that it does not have store nothing.
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn build_with(
        energy: &Energy,
        passes: Passes,
        groups: &[GroupStores],
    ) -> Result<Routines, EnergyError> {
        let mut routines = Routines::assemble(energy, passes, groups)?;
        routines.simplify(energy, passes)?;
        Ok(routines)
    }

    /// The routines as assembled, simplified by the DAG's constructors only.
    ///
    /// # Errors
    /// A budget of the energy that is spent.
    pub fn assemble(
        energy: &Energy,
        passes: Passes,
        groups: &[GroupStores],
    ) -> Result<Routines, EnergyError> {
        let mut dag = energy.dag.clone();
        dag.set_grouping(passes.bounds);
        dag.allow_derivatives();
        let chain = Chain::new(energy, &mut dag);
        within(energy, &dag, || "the partials of computed arrays".into(), None)?;
        let mut templates = templates(energy, &mut dag, &chain)?;
        let materialized = materialize::materialize(energy, &mut dag, &mut templates, groups);
        let mut table = Vec::new();
        within(energy, &dag, || "what is stored of J".into(), None)?;
        for site in Site::of_rows(energy, &templates) {
            table.extend(rows::rows_at(energy, &mut dag, site, &templates)?);
        }
        for (c, (array, partials)) in energy.computed.iter().zip(chain.stored).enumerate() {
            let (site, roots) =
                (Site::Array(ComputedId(c as u32)), [array.values.clone(), partials].concat());
            table.push(Routine { kind: Kind::Computed, site, roots });
        }
        table.extend(materialized);
        for t in &templates {
            table.extend(cost::instance_routines(energy, &mut dag, t));
            within(energy, &dag, || "cost and model".into(), Some(t.residual))?;
        }
        table.retain(|r| !r.roots.is_empty());
        let couplings = Couplings::default();
        let (reports, parts) = (Vec::new(), Vec::new());
        Ok(Routines { dag, table, passes: reports, parts, couplings, scheduled: passes.scheduling })
    }
}

/// The templates that read an unknown.
fn templates(energy: &Energy, dag: &mut Dag, chain: &Chain) -> Result<Vec<Template>, EnergyError> {
    let mut out = Vec::new();
    for (residual, r) in energy.residuals.iter().enumerate() {
        if r.unknown_reads.is_empty() {
            continue;
        }
        let partials = chain.partials(energy, dag, r.value);
        let boundary = match &r.guard {
            Some((lo, hi)) => dag.in_bounds(lo, hi),
            None => dag.constant(1.0),
        };
        let jp = directional(dag, &partials);
        let applied = Applied { partials: partials.clone(), weight: None, jp, blocks: false };
        out.push(Template {
            residual,
            applied,
            stores: GroupStores::default(),
            domain: r.domain,
            value: r.value,
            boundary,
            rows: partials.clone(),
            partials,
            jp,
            counts: cost::counts(energy, dag, residual),
            energy: dag.powi(r.value, 2),
            weight: None,
            weighted_value: r.value,
        });
        within(energy, dag, || "J".into(), Some(residual))?;
    }
    weigh_blocks(energy, dag, &mut out);
    within(energy, dag, || "the rows under losses".into(), None)?;
    Ok(out)
}

/// Puts the templates of each block under its loss.
fn weigh_blocks(energy: &Energy, dag: &mut Dag, templates: &mut [Template]) {
    let zero = dag.constant(0.0);
    for (b, block) in energy.blocks.iter().enumerate() {
        let id = Some(BlockId(b as u32));
        let mut members: Vec<&mut Template> =
            templates.iter_mut().filter(|t| energy.residuals[t.residual].block == id).collect();
        let guards: Vec<ExprId> = members.iter().map(|t| dag.and(&[t.boundary, t.counts])).collect();
        let squares = members.iter().zip(&guards).map(|(t, &guard)| (1.0, dag.select(guard, t.energy, zero)));
        let squares: Vec<_> = squares.collect();
        let sq = dag.sum(0.0, &squares);
        let counts: Vec<ExprId> = members.iter().map(|t| t.counts).collect();
        let counts = dag.or(&counts);
        let robust = robust::robust(dag, block, sq, counts, &guards);
        if let Some(by) = robust.bend {
            bend_rows(dag, &mut members, &guards, by);
        }
        for (i, t) in members.into_iter().enumerate() {
            t.energy = if i == 0 { robust.energy } else { zero };
            t.weight = Some(robust.weight);
            t.weighted_value = dag.mul(robust.weight, t.value);
            let jp = directional(dag, &t.rows);
            t.applied = Applied {
                partials: t.rows.clone(),
                weight: t.weight,
                jp: dag.mul(robust.weight, jp),
                blocks: false,
            };
        }
    }
}

/// Makes the rows of a block (I - by r r^T) J; where a guard does not hold, its r is 0.
fn bend_rows(dag: &mut Dag, members: &mut [&mut Template], guards: &[ExprId], by: ExprId) {
    let zero = dag.constant(0.0);
    let mut slopes: IndexMap<Access, Vec<(f64, ExprId)>, FxBuildHasher> = IndexMap::default();
    for (t, &guard) in members.iter().zip(guards) {
        for (access, partial) in &t.partials {
            let product = dag.mul(t.value, *partial);
            slopes.entry(access.clone()).or_default().push((1.0, dag.select(guard, product, zero)));
        }
    }
    // r^T J.
    let slopes: Vec<(Access, ExprId)> =
        slopes.into_iter().map(|(a, terms)| (a, dag.sum(0.0, &terms))).collect();
    for (t, &guard) in members.iter_mut().zip(guards) {
        let (mut partials, mut rows) = (Vec::with_capacity(slopes.len()), Vec::with_capacity(slopes.len()));
        for (access, slope) in &slopes {
            let partial = t.partials.iter().find(|(a, _)| a == access).map_or(zero, |p| p.1);
            let share = dag.product(1.0, &[(by, 1), (t.value, 1), (*slope, 1)]);
            let share = dag.select(guard, share, zero);
            partials.push((access.clone(), partial));
            rows.push((access.clone(), dag.sub(partial, share)));
        }
        (t.partials, t.rows) = (partials, rows);
    }
}

#[cfg(test)]
mod tests;
