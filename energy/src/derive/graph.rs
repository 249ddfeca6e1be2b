//! Routines over the hyperedges of a graph: what an edge gives the element at each of its slots, which are its vertices and
//! the neighbours that it reaches through computed arrays.

use super::stencil::{packed, sum_of};
use super::{Component, Template, component_of, components};
use crate::dag::{Access, At, Dag, ExprId};
use crate::model::{Domain, Energy, GraphId, SpaceId};

/// What a hyperedge gives the element at one of its slots, if that is in the domain. The element's routine is the sum of these over its incidences
/// in every (graph, slot), plus the stencil routine.
#[derive(Clone, Debug)]
pub struct SlotRoutines {
    /// The slot.
    pub slot: u16,
    /// Its index space.
    pub space: SpaceId,
    /// (J^T r)_c, one per component of the space.
    pub gradient: Vec<ExprId>,
    /// The slot's part of the diagonal block, packed lower triangle. Where several slots of the edge are the same element
    /// the partials are summed before the product: `J_s,c * sum over t at the same element of J_t,d`.
    pub blocks: Vec<ExprId>,
    /// (J^T J p)_c, one per component of the space, without what the stored blocks give.
    pub jtjp: Vec<ExprId>,
    /// As `blocks`, of the groups whose blocks are stored; empty if there are none.
    pub stored_blocks: Vec<ExprId>,
}

/// The routines of one graph.
#[derive(Clone, Debug)]
pub struct GraphRoutines {
    /// The graph.
    pub graph: GraphId,
    /// The slots whose unknowns some residual reads, ascending.
    pub slots: Vec<SlotRoutines>,
}

pub(super) fn graph_routines(energy: &Energy, dag: &mut Dag, templates: &[Template]) -> Vec<GraphRoutines> {
    let mut out = Vec::new();
    for (g, graph) in energy.graphs.iter().enumerate() {
        let id = GraphId(g as u32);
        let own: Vec<&Template> = templates.iter().filter(|t| t.domain == Domain::Graph(id)).collect();
        if own.is_empty() {
            continue;
        }
        let read =
            |slot: u16| own.iter().any(|t| t.partials.iter().any(|(a, _)| a.at == At::Vertex(id, slot)));
        let slots =
            graph.slots().filter(|&s| read(s)).map(|s| slot_routines(energy, dag, id, s, &own)).collect();
        out.push(GraphRoutines { graph: id, slots });
    }
    out
}

fn slot_routines(
    energy: &Energy,
    dag: &mut Dag,
    graph: GraphId,
    slot: u16,
    templates: &[&Template],
) -> SlotRoutines {
    let declared = &energy.graphs[graph.index()];
    let space = declared.space_of(slot);
    let components = components(energy, space);
    let n = components.len();
    let mut gradient = vec![Vec::new(); n];
    let mut blocks = vec![Vec::new(); packed(n, 0)];
    let (mut jtjp, mut stored) = (vec![Vec::new(); n], Vec::new());
    for t in templates {
        let here = partials_at(dag, &t.partials, graph, slot, &components);
        let applied = partials_at(dag, &t.applied.partials, graph, slot, &components);
        if t.applied.blocks {
            stored.resize(blocks.len(), Vec::new());
        }
        let rows = partials_at(dag, &t.rows, graph, slot, &components);
        let mut column = rows.clone();
        for other in declared.slots().filter(|&o| o != slot && !declared.never_same(slot, o)) {
            let same = dag.same_vertex(graph, slot, other);
            for (sum, there) in column.iter_mut().zip(partials_at(dag, &t.rows, graph, other, &components)) {
                let zero = dag.constant(0.0);
                let coinciding = dag.select(same, there, zero);
                *sum = dag.add(*sum, coinciding);
            }
        }
        for c in (0..n).filter(|&c| !dag.is_constant(rows[c], 0.0)).collect::<Vec<_>>() {
            gradient[c].push(dag.mul(here[c], t.weighted_value));
            jtjp[c].push(t.applied.product(dag, applied[c], &mut |dag, a| match a.at {
                At::Vertex(_, s) if !declared.never_same(slot, s) => Some(dag.same_vertex(graph, slot, s)),
                _ => None,
            }));
            for d in 0..=c {
                let jj = dag.mul(rows[c], column[d]);
                let jj = t.weigh(dag, jj);
                blocks[packed(c, d)].push(jj);
                if t.applied.blocks {
                    stored[packed(c, d)].push(jj);
                }
            }
        }
    }
    let mut total =
        |lists: Vec<Vec<ExprId>>| -> Vec<ExprId> { lists.iter().map(|l| sum_of(dag, l)).collect() };
    let (gradient, blocks, jtjp, stored_blocks) =
        (total(gradient), total(blocks), total(jtjp), total(stored));
    SlotRoutines { slot, space, gradient, blocks, jtjp, stored_blocks }
}

/// The partials with respect to each component at a slot, 0 where not read.
fn partials_at(
    dag: &mut Dag,
    partials: &[(Access, ExprId)],
    graph: GraphId,
    slot: u16,
    components: &[Component],
) -> Vec<ExprId> {
    let zero = dag.constant(0.0);
    let at = At::Vertex(graph, slot);
    let find = |c: &Component| partials.iter().find(|(a, _)| a.at == at && component_of(a) == Some(*c));
    components.iter().map(|c| find(c).map_or(zero, |(_, p)| *p)).collect()
}
