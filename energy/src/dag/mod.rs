//! The symbolic DAG: hash-consed nodes in an arena.
//!
//! Every constructor normalises (see `arith` and `boolean`), so that equal expressions mostly have equal ids. A child's
//! id is always smaller than its parent's: ascending ids are a topological order, and every traversal here is a loop over
//! sorted ids instead of a recursion.
//!
//! Normalising is algebra over the reals. It may turn a NaN or an Inf into a finite value (`0*x = 0`, `x - x = 0`,
//! `x/x = 1`), never the reverse, over- and underflow aside. In particular a factor never leaves the guard of a
//! [`Node::Select`]; it may enter one.

mod arith;
mod boolean;
mod derivative;
mod display;
mod eval;
mod function;
mod meter;
mod node;
mod spending;
mod traverse;

pub use crate::ids::Offset;
pub use display::{Ids, Names};
pub use eval::{Env, Evaluator, interpolate};
pub use node::*;
pub use sumsq_codegen::functions::Function;

use crate::graph::Graph;
use crate::ids::{ArrayId, GraphId, ParamId, SpaceId};
use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{Hash, Hasher};

/// An arena of hash-consed nodes: equal expressions have equal ids.
#[derive(Clone, Debug, Default)]
pub struct Dag {
    nodes: IndexSet<Node, FxBuildHasher>,
    /// Length of the longest path from each node down.
    depths: Vec<u32>,
    meter: meter::Meter,
    /// `(node, access node) -> derivative`.
    derivatives: FxHashMap<(ExprId, ExprId), ExprId>,
    /// Number of normalising constructors that are active inside each other; bounds recursion on adversarial nests.
    nesting: u32,
    /// Terms of a sum under one condition stay apart.
    ungrouped: bool,
}

/// Of its nodes, and of what derivation goes by besides: memories of what was found before change no result.
impl Hash for Dag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Dag { nodes, depths: _, meter: _, derivatives: _, nesting: _, ungrouped } = self;
        (nodes.as_slice(), ungrouped, self.budgets(), self.taken()).hash(state);
    }
}

impl Dag {
    /// An empty arena.
    pub fn new() -> Dag {
        Dag::default()
    }

    /// Tells whether terms of a sum under one condition share one Select from here on (they do at first).
    pub fn set_grouping(&mut self, on: bool) {
        self.ungrouped = !on;
    }

    /// Number of nodes ever built.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Tells whether nothing has been built yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node with this id.
    pub fn node(&self, id: ExprId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The id of exactly this node, whose normal form is the caller's business.
    fn intern(&mut self, node: Node) -> ExprId {
        let operands = node.operands();
        self.spend(1 + operands.len());
        // Constants are always had: what a spent budget leaves of an expression is one.
        if self.is_spent() && !matches!(node, Node::Const(_)) {
            return self.constant(0.0);
        }
        let (index, new) = self.nodes.insert_full(node);
        if new {
            let depth = self.count(&operands);
            self.depths.push(depth);
        }
        ExprId(u32::try_from(index).expect("an energy has fewer than 2^32 nodes"))
    }

    /// A number.
    pub fn constant(&mut self, v: f64) -> ExprId {
        self.intern(Node::Const(Const::new(v)))
    }

    /// A scalar read.
    pub fn access(&mut self, access: Access) -> ExprId {
        self.intern(Node::Access(access))
    }

    /// An array sampled at real coordinates, one per dim; `partials` are the images of its derivatives, or empty.
    pub fn sample(&mut self, image: (ArrayId, u16), partials: &[(ArrayId, u16)], at: &[ExprId]) -> ExprId {
        self.intern(Node::Sample { image, partials: partials.into(), at: at.into() })
    }

    /// Channel of a parameter.
    pub fn param(&mut self, param: ParamId, channel: u16) -> ExprId {
        self.intern(Node::Param(param, channel))
    }

    /// The element's coordinate along `dim`.
    pub fn index(&mut self, dim: u16) -> ExprId {
        self.intern(Node::Index(dim))
    }

    /// Tells whether the box `[lo, hi]` around the element lies in the domain. The element itself always does, so the box is
    /// extended to hold offset 0: equal conditions get equal nodes, and the box that is only offset 0 is the constant 1.
    pub fn in_bounds(&mut self, lo: &Offset, hi: &Offset) -> ExprId {
        match with_origin(lo, hi) {
            Some((lo, hi)) => self.intern(Node::InBounds { lo, hi }),
            None => self.constant(1.0),
        }
    }

    /// Tells whether the element at `at` lies in the domain: vertices, hyperedges and globals do.
    pub fn inside(&mut self, graphs: &[Graph], at: &At) -> ExprId {
        match at {
            At::Offset(o) => self.in_bounds(o, o),
            At::Vertex(graph, slot) => match graphs[graph.index()].vertex_of(*slot) {
                (vertex, Some(o)) => self.in_bounds_at(*graph, vertex, o, o),
                (_, None) => self.constant(1.0),
            },
            At::Edge(_) | At::Global => self.constant(1.0),
        }
    }

    /// Tells whether the element at `at` is in the domain and not excluded.
    pub fn free(&mut self, space: SpaceId, at: At) -> ExprId {
        self.intern(Node::Free(space, at))
    }

    /// The coordinate of a slot of the hyperedge along `dim`.
    pub fn index_at(&mut self, graph: GraphId, slot: u16, dim: u16) -> ExprId {
        self.intern(Node::IndexAt(graph, slot, dim))
    }

    /// Tells whether the box `[lo, hi]` around a slot of the hyperedge lies in the domain, where the slot itself does.
    pub fn in_bounds_at(&mut self, graph: GraphId, slot: u16, lo: &Offset, hi: &Offset) -> ExprId {
        match with_origin(lo, hi) {
            Some((lo, hi)) => self.intern(Node::InBoundsAt { graph, slot, lo, hi }),
            None => self.constant(1.0),
        }
    }

    /// Tells whether two slots of the hyperedge are the same element.
    pub fn same_vertex(&mut self, graph: GraphId, a: u16, b: u16) -> ExprId {
        if a == b {
            return self.constant(1.0);
        }
        self.intern(Node::SameVertex(graph, a.min(b), a.max(b)))
    }

    /// The value of a constant node.
    pub fn as_constant(&self, id: ExprId) -> Option<f64> {
        match self.node(id) {
            Node::Const(c) => Some(c.get()),
            _ => None,
        }
    }

    /// Tells whether `id` is the constant `v`.
    pub fn is_constant(&self, id: ExprId, v: f64) -> bool {
        self.as_constant(id) == Some(v)
    }
}

/// The smallest box around `[lo, hi]` and offset 0; `None` if that is offset 0 alone.
fn with_origin(lo: &Offset, hi: &Offset) -> Option<(Offset, Offset)> {
    let lo: Offset = lo.iter().map(|&v| v.min(0)).collect();
    let hi: Offset = hi.iter().map(|&v| v.max(0)).collect();
    lo.iter().chain(&hi).any(|&v| v != 0).then_some((lo, hi))
}

#[cfg(test)]
mod tests;
