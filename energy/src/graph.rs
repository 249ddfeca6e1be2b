//! Graphs: sets of hyperedges, and the slots that these read.

use crate::ids::{Offset, SpaceId, moved};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use std::hash::{Hash, Hasher};

/// A vertex of a graph: an index array into `space`.
#[derive(Clone, Hash, Debug)]
pub struct Vertex {
    /// Its name, as in `G.v0`.
    pub name: String,
    /// The index space it points into.
    pub space: SpaceId,
    /// Position of the index array in the C interface's parameter list.
    pub position: i64,
}

/// The element at a constant offset from a vertex: a place that hyperedges reach through computed arrays that read around
/// their own element. It may lie outside the domain, where everything reads 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Neighbour {
    /// Slot of the vertex.
    pub vertex: u16,
    /// From there; not 0.
    pub offset: Offset,
}

/// A set of hyperedges.
///
/// A *slot* is a place that a hyperedge reads: its vertices in order, then their neighbours.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Position of the hyperedge count.
    pub position: i64,
    /// Its vertices, in order of their slots.
    pub vertices: Vec<Vertex>,
    /// The neighbours of vertices that its residuals reach: slots `vertices.len()..`.
    pub neighbours: IndexSet<Neighbour, FxBuildHasher>,
}

impl Hash for Graph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Graph { name, position, vertices, neighbours } = self;
        (name, position, vertices, neighbours.as_slice()).hash(state);
    }
}

impl Graph {
    /// All slots.
    pub fn slots(&self) -> std::ops::Range<u16> {
        0..(self.vertices.len() + self.neighbours.len()) as u16
    }

    /// The vertex that a slot is or is a neighbour of, and the offset from there.
    pub fn vertex_of(&self, slot: u16) -> (u16, Option<&Offset>) {
        match usize::from(slot).checked_sub(self.vertices.len()) {
            None => (slot, None),
            Some(k) => (self.neighbours[k].vertex, Some(&self.neighbours[k].offset)),
        }
    }

    /// The index space that a slot points into.
    pub fn space_of(&self, slot: u16) -> SpaceId {
        self.vertices[usize::from(self.vertex_of(slot).0)].space
    }

    /// The slot at an offset from a slot, if there is one.
    pub fn moved(&self, slot: u16, by: &Offset) -> Option<u16> {
        let to = self.neighbour(slot, by);
        if to.offset.iter().all(|&o| o == 0) {
            return Some(to.vertex);
        }
        self.neighbours.get_index_of(&to).map(|k| (self.vertices.len() + k) as u16)
    }

    /// The same, added if it is new; `None` where there are more slots than can be told apart.
    pub fn reach(&mut self, slot: u16, by: &Offset) -> Option<u16> {
        if let Some(known) = self.moved(slot, by) {
            return Some(known);
        }
        let new =
            u16::try_from(self.vertices.len() + self.neighbours.len()).ok().filter(|&n| n < u16::MAX)?;
        let neighbour = self.neighbour(slot, by);
        self.neighbours.insert(neighbour);
        Some(new)
    }

    fn neighbour(&self, slot: u16, by: &Offset) -> Neighbour {
        let (vertex, offset) = self.vertex_of(slot);
        Neighbour { vertex, offset: offset.map_or_else(|| by.clone(), |o| moved(o, by)) }
    }

    /// Tells whether two slots are the same element in no hyperedge: other index spaces, or other offsets from one vertex.
    pub fn never_same(&self, a: u16, b: u16) -> bool {
        self.space_of(a) != self.space_of(b) || (a != b && self.vertex_of(a).0 == self.vertex_of(b).0)
    }

    /// `G.v0`, or `G.v0(1,0)` for a neighbour.
    pub fn slot_name(&self, slot: u16) -> String {
        let (vertex, offset) = self.vertex_of(slot);
        let offset = offset.map_or_else(String::new, |o| {
            let entries: Vec<String> = o.iter().map(i32::to_string).collect();
            format!("({})", entries.join(","))
        });
        format!("{}.{}{offset}", self.name, self.vertices[usize::from(vertex)].name)
    }
}
