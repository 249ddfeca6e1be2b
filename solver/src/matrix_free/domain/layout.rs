//! The layout of fields in memory: planar, but in records where hyperedges read them at their vertices, so that all of a vertex is in
//! one cache line and read at once. Records are of lists only: the stencils of a grid want planes.

use rustc_hash::FxHashSet;
use sumsq_codegen::Layout;
use sumsq_energy::dag::{Access, At, ExprId, Node, Source};
use sumsq_energy::derive::Routines;
use sumsq_energy::model::{ArrayId, ElementType, Energy};

/// Channels that a record may hold.
const CHANNELS: std::ops::RangeInclusive<usize> = 2..=16;

/// Returns what `roots` read at the vertices of hyperedges.
pub fn at_vertices(r: &Routines, roots: &[ExprId]) -> FxHashSet<Source> {
    let mut sources = FxHashSet::default();
    for id in r.dag.reachable(roots) {
        if let Node::Access(Access { source, at: At::Vertex(..), .. }) = r.dag.node(id) {
            sources.insert(*source);
        }
    }
    sources
}

/// The arrays that can be stored as bytes, whatever the precision of what reads them: those of bytes that are read at offsets alone. The
/// processor gathers no bytes.
pub fn bytes(energy: &Energy, r: &Routines, roots: &[ExprId]) -> FxHashSet<ArrayId> {
    let declared = energy.arrays.iter().map(|a| a.element == ElementType::Uint8);
    let ids = (0..).map(ArrayId).zip(declared).filter_map(|(id, byte)| byte.then_some(id));
    let mut bytes: FxHashSet<ArrayId> = ids.collect();
    for id in r.dag.reachable(roots) {
        match r.dag.node(id) {
            Node::Access(Access { source: Source::Array(_), at: At::Offset(_), .. }) => {}
            Node::Access(Access { source: Source::Array(a), .. }) => drop(bytes.remove(a)),
            Node::Sample { image, .. } => drop(bytes.remove(&image.0)),
            _ => {}
        }
    }
    bytes
}

/// The layout of so many channels in records, if they can be.
pub fn record(channels: usize) -> Layout {
    if CHANNELS.contains(&channels) {
        Layout::Record(channels.next_power_of_two().max(4) as u8)
    } else {
        Layout::Planar
    }
}
