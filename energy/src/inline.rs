//! Energies without computed arrays: their values put where they are read.
//!
//! The same energy, as one expression per residual: slow where an array is read at many offsets, and the meaning that the
//! stored arrays and their chain rule are held against.

use crate::dag::{Access, At, Dag, ExprId, Node, Source};
use crate::model::{Computed, ComputedId, Energy, Graph, GraphId, Loss};

impl Energy {
    /// This energy with every read of a computed array replaced by what the array holds there, 0 outside its domain. Boxes of
    /// the boundary rule and counted reads stay those of the energy as written.
    pub fn inlined(&self) -> Energy {
        self.inlined_where(|_| true)
    }

    /// The same of some computed arrays only.
    pub fn inlined_where(&self, chosen: impl Fn(&Computed) -> bool) -> Energy {
        let mut energy = self.clone();
        if !self.computed.iter().any(&chosen) {
            return energy;
        }
        let mut dag = std::mem::take(&mut energy.dag);
        let mut arrays: Vec<Array> = Vec::new();
        energy.computed.clear();
        for computed in &self.computed {
            let values =
                computed.values.iter().map(|&v| inline(&mut dag, &self.graphs, &arrays, v)).collect();
            if chosen(computed) {
                arrays.push(Array::Inlined(values));
            } else {
                arrays.push(Array::Kept(ComputedId(energy.computed.len() as u32)));
                energy.computed.push(Computed { values, ..computed.clone() });
            }
        }
        for r in &mut energy.residuals {
            r.value = inline(&mut dag, &self.graphs, &arrays, r.value);
        }
        for block in &mut energy.blocks {
            let (Loss::Scaled(_, of) | Loss::Formula(of)) = &mut block.loss;
            *of = inline(&mut dag, &self.graphs, &arrays, *of);
        }
        for (_, condition) in &mut energy.excludes {
            *condition = inline(&mut dag, &self.graphs, &arrays, *condition);
        }
        for bound in &mut energy.bounds {
            for side in bound.lower.iter_mut().chain(&mut bound.upper) {
                *side = inline(&mut dag, &self.graphs, &arrays, *side);
            }
        }
        for value in energy.near_null.iter_mut().flat_map(|n| &mut n.values) {
            *value = inline(&mut dag, &self.graphs, &arrays, *value);
        }
        energy.dag = dag;
        energy
    }
}

/// Replacement of a computed array.
enum Array {
    /// Its values by channel, at offset 0.
    Inlined(Vec<ExprId>),
    /// Its new number.
    Kept(ComputedId),
}

/// `id` with its reads of computed arrays replaced.
fn inline(dag: &mut Dag, graphs: &[Graph], arrays: &[Array], id: ExprId) -> ExprId {
    dag.substitute(id, &mut |dag, node| {
        let Node::Access(a) = node else { return None };
        let Source::Computed(c) = a.source else { return None };
        let value = match &arrays[c.index()] {
            Array::Inlined(values) => values[usize::from(a.channel)],
            Array::Kept(c) => return Some(dag.access(Access { source: Source::Computed(*c), ..a.clone() })),
        };
        let there = match &a.at {
            At::Offset(o) => dag.shift(value, o),
            At::Vertex(g, slot) => at_slot(dag, graphs, (*g, *slot), value),
            At::Edge(_) | At::Global => value,
        };
        let (inside, zero) = (dag.inside(graphs, &a.at), dag.constant(0.0));
        Some(dag.select(inside, there, zero))
    })
}

/// Returns what `value`, written at an element, is at a slot of a hyperedge. All its places are slots since the array was first read there.
fn at_slot(dag: &mut Dag, graphs: &[Graph], (g, slot): (GraphId, u16), value: ExprId) -> ExprId {
    let graph = &graphs[g.index()];
    dag.substitute(value, &mut |dag, node| match node {
        Node::Access(Access { source, channel, at: At::Offset(o) }) => {
            let at = At::Vertex(g, graph.moved(slot, o).expect("the places of an array are slots"));
            Some(dag.access(Access { source: *source, channel: *channel, at }))
        }
        Node::Index(d) => Some(dag.index_at(g, slot, *d)),
        Node::InBounds { lo, hi } => Some(dag.in_bounds_at(g, slot, lo, hi)),
        _ => None,
    })
}
