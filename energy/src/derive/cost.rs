//! Routines per residual instance: what it adds to E and to the model, and whether it counts.

use super::template::Template;
use super::{Kind, Routine, Site};
use crate::dag::{At, Dag, ExprId, Source};
use crate::model::Energy;

pub(super) fn instance_routines(energy: &Energy, dag: &mut Dag, t: &Template) -> [Routine; 3] {
    let guard = dag.and(&[t.boundary, t.counts]);
    let zero = dag.constant(0.0);
    let bent = super::template::directional(dag, &t.rows);
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
    let cost = if in_block { t.energy } else { dag.select(guard, t.energy, zero) };
    let model = dag.select(guard, model, zero);
    let routine = |kind, root| Routine { kind, site: Site::Residual(t.residual), roots: vec![root] };
    [routine(Kind::Cost, cost), routine(Kind::Model, model), routine(Kind::Counts, t.counts)]
}

/// Tells whether an instance counts: one of the unknowns it reads, as constructed, is in the domain and free. In a space without
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
