//! Energies without computed arrays: their values put where they are read.
//!
//! The same energy, as one expression per residual: slow where an array is read at many offsets, and the meaning that the
//! stored arrays and their chain rule are held against.

use crate::dag::{Access, At, Dag, ExprId, Node, Source};
use crate::model::Energy;

impl Energy {
    /// This energy with every read of a computed array replaced by what the array holds there, 0 outside its domain. Boxes of
    /// the boundary rule and counted reads stay those of the energy as written.
    pub fn inlined(&self) -> Energy {
        let mut energy = self.clone();
        if energy.computed.is_empty() {
            return energy;
        }
        let mut dag = std::mem::take(&mut energy.dag);
        let mut values: Vec<Vec<ExprId>> = Vec::new();
        for computed in &self.computed {
            let inlined = computed.values.iter().map(|&v| inline(&mut dag, &values, v)).collect();
            values.push(inlined);
        }
        for r in &mut energy.residuals {
            r.value = inline(&mut dag, &values, r.value);
        }
        for (_, condition) in &mut energy.excludes {
            *condition = inline(&mut dag, &values, *condition);
        }
        for bound in &mut energy.bounds {
            for side in bound.lower.iter_mut().chain(&mut bound.upper) {
                *side = inline(&mut dag, &values, *side);
            }
        }
        energy.computed.clear();
        energy.dag = dag;
        energy
    }
}

/// `id` with its reads of the computed arrays whose `values` are known replaced.
fn inline(dag: &mut Dag, values: &[Vec<ExprId>], id: ExprId) -> ExprId {
    dag.substitute(id, &mut |dag, node| {
        let Node::Access(Access { source: Source::Computed(c), channel, at }) = node else { return None };
        let value = values[c.index()][usize::from(*channel)];
        Some(match at {
            At::Offset(o) => {
                let (inside, there, zero) = (dag.in_bounds(o, o), dag.shift(value, o), dag.constant(0.0));
                dag.select(inside, there, zero)
            }
            // Only arrays that depend on their own element are read at vertices.
            At::Vertex(..) => dag.substitute(value, &mut |dag, node| match node {
                Node::Access(a) if a.at != At::Global => {
                    Some(dag.access(Access { at: at.clone(), ..a.clone() }))
                }
                _ => None,
            }),
            At::Global => value,
        })
    })
}
