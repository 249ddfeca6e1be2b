//! Derivatives and the routines built from them.
//!
//! For a residual template r with partials J, every routine is an expression at one element (stencils: gathered by shifting
//! the template so that each use of an unknown lands on the element) or at one slot of a hyperedge (graphs: gathered over
//! the incidence list by the consumer):
//!
//! | routine    | meaning                                                                          |
//! |------------|----------------------------------------------------------------------------------|
//! | `gradient` | J^T r                                                                            |
//! | `blocks`   | the element's diagonal block of J^T J, lower triangle packed (0,0),(1,0),(1,1).. |
//! | `jtjp`     | J^T (J p), p read as [`Source::Direction`]                                       |
//! | `cost`     | r^2 of a counted instance                                                        |
//! | `model`    | (J d)(2 r + J d) of a counted instance, d read as [`Source::Direction`]          |
//!
//! A column of an excluded or out-of-domain element does not exist; p is 0 there, so J p needs no mask, and what the
//! routines give at excluded elements is meaningless.

mod chain;
mod cost;
mod count;
mod factor;
mod global;
mod graph;
mod hoist;
mod materialize;
mod passes;
mod robust;
mod share;
mod simplify;
mod stencil;

pub use chain::Chain;
pub use cost::ResidualCost;
pub use count::{OpCount, count_ops};
pub use global::GlobalRoutines;
pub use graph::{GraphRoutines, SlotRoutines};
pub use hoist::hoist;
pub use materialize::{Choice, Materialize, Stored};
pub use passes::Passes;
pub use share::share_parts;
pub use simplify::{PassReport, assume_guards, factor_sums, simplify};
pub use stencil::SpaceRoutines;

use crate::dag::{Access, Dag, ExprId, Source};
use crate::model::{BlockId, Domain, Energy, SpaceId, UnknownId};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// One scalar per element of an index space: a channel of an unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Component {
    /// The unknown.
    pub unknown: UnknownId,
    /// Its channel.
    pub channel: u16,
}

/// The routines of an energy.
#[derive(Clone, Debug)]
pub struct Routines {
    /// Holds every expression below (and the energy's own: it starts as a copy of the energy's DAG).
    pub dag: Dag,
    /// One per index space that has unknowns.
    pub spaces: Vec<SpaceRoutines>,
    /// One per graph that has residuals.
    pub graphs: Vec<GraphRoutines>,
    /// What the instances of each domain give the globals.
    pub globals: Vec<GlobalRoutines>,
    /// One per residual template that reads an unknown.
    pub costs: Vec<ResidualCost>,
    /// Values of the computed arrays, by array and channel, at offset 0.
    pub computed: Vec<Vec<ExprId>>,
    /// Their stored partials: what [`Source::Partial`] reads.
    pub partials: Vec<Vec<ExprId>>,
    /// What is stored once per linearisation: what [`Source::Hoisted`] reads, written at offset 0 or for a hyperedge. Partials
    /// that are materialised, then what [`hoist`] adds.
    pub stored: Stored,
    /// What is stored once per direction: what [`Source::Product`] reads.
    pub products: Stored,
    /// Operation counts of each routine before and after each pass.
    pub passes: Vec<PassReport>,
    /// Whether the order of emitted operations is chosen ([`crate::emit`]).
    pub scheduled: bool,
}

impl Routines {
    /// Differentiates, assembles and simplifies the routines of `energy`.
    pub fn build(energy: &Energy) -> Routines {
        Routines::build_with(energy, Passes::ALL, &Materialize::default())
    }

    /// The same with some passes only, and with some quantities stored.
    pub fn build_with(energy: &Energy, passes: Passes, choices: &Materialize) -> Routines {
        let mut routines = Routines::assemble(energy, passes, choices);
        routines.simplify(passes);
        routines
    }

    /// The routines as assembled, simplified by the DAG's constructors only.
    pub fn assemble(energy: &Energy, passes: Passes, choices: &Materialize) -> Routines {
        let mut dag = energy.dag.clone();
        dag.set_grouping(passes.bounds);
        let chain = Chain::new(energy, &mut dag);
        let mut templates = templates(energy, &mut dag, &chain);
        let (stored, products) = materialize::materialize(energy, &mut dag, &mut templates, choices);
        let spaces = (0..energy.spaces.len())
            .map(|s| SpaceId(s as u32))
            .filter(|&s| !components(energy, s).is_empty())
            .map(|s| stencil::space_routines(energy, &mut dag, s, &templates))
            .collect();
        let graphs = graph::graph_routines(energy, &mut dag, &templates);
        let globals = global::global_routines(energy, &mut dag, &templates);
        let costs = templates.iter().map(|t| cost::residual_cost(energy, &mut dag, t)).collect();
        let computed = energy.computed.iter().map(|c| c.values.clone()).collect();
        let (partials, scheduled, passes) = (chain.stored, passes.scheduling, Vec::new());
        Routines {
            dag,
            spaces,
            graphs,
            globals,
            costs,
            computed,
            partials,
            stored,
            products,
            passes,
            scheduled,
        }
    }
}

/// The scalars per element of a space: every channel of every unknown, in order of declaration.
pub fn components(energy: &Energy, space: SpaceId) -> Vec<Component> {
    let unknowns = energy.unknowns.iter().enumerate().filter(|(_, u)| u.space == space);
    unknowns
        .flat_map(|(i, u)| {
            (0..u.channels).map(move |channel| Component { unknown: UnknownId(i as u32), channel })
        })
        .collect()
}

/// A residual template with its partials.
struct Template {
    /// Index among the energy's residuals.
    residual: usize,
    domain: Domain,
    /// The residual as written.
    value: ExprId,
    /// The boundary rule's condition, 1 where it is lifted.
    boundary: ExprId,
    /// Partials by unknown access; not 0, unless `rows` are not.
    partials: Vec<(Access, ExprId)>,
    /// What J^T J is made of, by the same accesses: the partials, bent under a loss of second order.
    rows: Vec<(Access, ExprId)>,
    /// J p: the sum of partial times direction.
    jp: ExprId,
    /// Some unknown read is in the domain at a free element.
    counts: ExprId,
    /// Its part of E where it counts: the square, or the loss of its block at the block's first residual and 0 at the others.
    energy: ExprId,
    /// rho' of its block, if it is under a loss.
    weight: Option<ExprId>,
    /// The value times that weight.
    weighted_value: ExprId,
    /// What J^T J p is made of.
    applied: Applied,
}

/// J as J^T J p applies it: as derived, or read from where it is stored.
struct Applied {
    /// In the order of the template's partials.
    partials: Vec<(Access, ExprId)>,
    /// rho' where the partials do not hold its root.
    weight: Option<ExprId>,
    /// J p times the weight.
    jp: ExprId,
    /// Whether the elements' own share is left to their stored blocks.
    blocks: bool,
}

impl Applied {
    /// J^T's part of one access: `partial` times the weighted J p, without the share of accesses that are `own` where the elements' blocks
    /// are stored. `own` gives the condition under which an access reads the element itself.
    fn product(
        &self,
        dag: &mut Dag,
        partial: ExprId,
        own: &mut dyn FnMut(&mut Dag, &Access) -> Option<ExprId>,
    ) -> ExprId {
        if !self.blocks {
            return dag.mul(partial, self.jp);
        }
        let zero = dag.constant(0.0);
        let mut others = Vec::new();
        for (access, partial) in &self.partials {
            let other = match own(dag, access) {
                None => *partial,
                Some(own) => dag.select(own, zero, *partial),
            };
            others.push((access.clone(), other));
        }
        let jp = directional(dag, &others);
        let jp = self.weight.map_or(jp, |w| dag.mul(w, jp));
        dag.mul(partial, jp)
    }
}

impl Template {
    /// `e` times the weight.
    fn weigh(&self, dag: &mut Dag, e: ExprId) -> ExprId {
        self.weight.map_or(e, |w| dag.mul(w, e))
    }
}

/// The templates that read an unknown.
fn templates(energy: &Energy, dag: &mut Dag, chain: &Chain) -> Vec<Template> {
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
    }
    weigh_blocks(energy, dag, &mut out);
    out
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
        let robust = robust::robust(dag, block, sq);
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

/// `sum partial * direction`.
fn directional(dag: &mut Dag, partials: &[(Access, ExprId)]) -> ExprId {
    let mut terms = Vec::with_capacity(partials.len());
    for (access, partial) in partials {
        let p = direction(dag, access);
        terms.push((1.0, dag.mul(*partial, p)));
    }
    dag.sum(0.0, &terms)
}

/// The direction's read beside an unknown's.
fn direction(dag: &mut Dag, access: &Access) -> ExprId {
    let Source::Unknown(u) = access.source else { unreachable!("partials are with respect to unknowns") };
    dag.access(Access { source: Source::Direction(u), ..access.clone() })
}

/// The component that an access reads, if it reads an unknown.
fn component_of(access: &Access) -> Option<Component> {
    match access.source {
        Source::Unknown(unknown) => Some(Component { unknown, channel: access.channel }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
