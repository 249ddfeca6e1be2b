//! Routines per residual instance: cost, model and their parts.

use super::Template;
use crate::dag::{At, Dag, ExprId, Source};
use crate::model::Energy;

/// The per-instance routines of one residual template.
#[derive(Clone, Debug)]
pub struct ResidualCost {
    /// Index among the energy's residuals.
    pub residual: usize,
    /// The boundary rule holds (1 where it is lifted).
    pub boundary: ExprId,
    /// Some unknown read is in the domain at a free element.
    pub counts: ExprId,
    /// Both: the instance is part of E.
    pub guard: ExprId,
    /// The residual of a counted instance, else 0.
    pub value: ExprId,
    /// Its square, else 0. Under a loss, the whole block's energy at its first residual, 0 at the others.
    pub cost: ExprId,
    /// Its part of the model's change, (J d)(2 r + J d) times the weight of its loss, else 0; d is the direction. Under a loss of second
    /// order the square is that of the bent J d.
    pub model: ExprId,
    /// (J d) of a counted instance, else 0.
    pub jp: ExprId,
}

pub(super) fn residual_cost(energy: &Energy, dag: &mut Dag, t: &Template) -> ResidualCost {
    let guard = dag.and(&[t.boundary, t.counts]);
    let zero = dag.constant(0.0);
    let bent = super::directional(dag, &t.rows);
    let model = if bent == t.jp {
        let twice = dag.sum(0.0, &[(2.0, t.value), (1.0, t.jp)]);
        dag.mul(t.jp, twice)
    } else {
        let (slope, square) = (dag.mul(t.value, t.jp), dag.powi(bent, 2));
        dag.sum(0.0, &[(2.0, slope), (1.0, square)])
    };
    let model = t.weigh(dag, model);
    // A block's energy stands by itself: its squares are guarded one by one.
    let in_block = energy.residuals[t.residual].block.is_some();
    let mut guarded = |e: ExprId| dag.select(guard, e, zero);
    ResidualCost {
        residual: t.residual,
        boundary: t.boundary,
        counts: t.counts,
        guard,
        value: guarded(t.value),
        cost: if in_block { t.energy } else { guarded(t.energy) },
        model: guarded(model),
        jp: guarded(t.jp),
    }
}

/// Whether an instance counts: one of the unknowns it reads, as constructed, is in the domain and free. In a space without
/// Exclude every element of the domain is free.
pub(super) fn counts(energy: &Energy, dag: &mut Dag, residual: usize) -> ExprId {
    let mut any = Vec::new();
    for read in &energy.residuals[residual].unknown_reads {
        let Source::Unknown(u) = read.source else { continue };
        let space = energy.unknowns[u.index()].space;
        let excludes = energy.excludes.iter().any(|&(s, _)| s == space);
        any.push(match &read.at {
            at if excludes && *at != At::Global => dag.free(space, at.clone()),
            at => dag.inside(&energy.graphs, at),
        });
    }
    dag.or(&any)
}
