//! What an energy declares: the model that both front ends build and everything else reads.
//!
//! Energies are checked when they are built: a finished [`Energy`] has only resolved names, at least one unknown read
//! by some residual, one domain per residual, channels in range.

use crate::dag::{Access, Dag, ExprId, Offset, Source, moved};
use crate::losses::LossKind;
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$m:meta])* $name:ident),* $(,)?) => { $(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);
        impl $name {
            /// As an index into the model's table.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )* };
}
ids!(
    /// A run-time extent.
    DimId,
    /// An index space: a list of dims.
    SpaceId,
    /// An unknown.
    UnknownId,
    /// A given array.
    ArrayId,
    /// A computed array.
    ComputedId,
    /// A parameter.
    ParamId,
    /// A graph.
    GraphId,
    /// A named group of residuals.
    GroupId,
    /// Residuals under one robust loss.
    BlockId,
);

/// Declared element types; floats compute in the solve's precision, integers are read-only and converted by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ElementType {
    OptFloat,
    Float,
    Double,
    Uint8,
    Int(IntegerType),
}

/// The declared integer types other than `uint8`; `int` is 32 bits wide, `bool` a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum IntegerType {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint16,
    Uint32,
    Uint64,
}

/// A run-time extent.
#[derive(Clone, Debug)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// Position among the dims of the C interface; -1 if it is not one of them.
    pub position: i64,
    /// The extent, if the energy fixes it: the dim of globals is 1 long and is nobody's input.
    pub fixed: Option<u64>,
}

/// An unknown or array: `channels` scalars at each element of `space`.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Scalars per element.
    pub channels: u16,
    /// Where it lives.
    pub space: SpaceId,
    /// Declared element type.
    pub element: ElementType,
    /// Position in the C interface's parameter list.
    pub position: i64,
    /// The unknown that this array is a constant view of: it holds the unknown's values as of the last accepted step, and its
    /// derivative is zero. Only arrays are views.
    pub view_of: Option<UnknownId>,
    /// Source line of the declaration.
    pub line: Option<u32>,
}

/// An array defined by expressions at offset 0, one per channel; 0 outside its domain. Derivatives flow through it.
#[derive(Clone, Debug)]
pub struct Computed {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub space: SpaceId,
    /// What each channel holds. They read unknowns, arrays and computed arrays declared before.
    pub values: Vec<ExprId>,
    /// The box of its reads around the element, offset 0 included; `{0}` if it uses InBounds.
    pub reach: (Offset, Offset),
    /// Unknown reads as constructed, distinct, also through other computed arrays, relative to the element.
    pub unknown_reads: Vec<Access>,
    /// The offsets at which it reads anything, distinct, also through other computed arrays.
    pub places: Vec<Offset>,
    /// Source line of the declaration.
    pub line: Option<u32>,
}

/// A robust loss over the channels of one Vector: the block's energy is `kind` of the sum of their squares.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which loss.
    pub kind: LossKind,
    /// Its scale s > 0: an expression of constants and params.
    pub scale: ExprId,
    /// Whether J^T J holds the loss's own curvature as well (Triggs' correction), or its slope alone.
    pub second_order: bool,
}

/// Box bounds on an unknown: expressions over its index space without unknowns, one per channel.
#[derive(Clone, Debug)]
pub struct BoxBounds {
    /// The unknown.
    pub unknown: UnknownId,
    /// Lower bounds.
    pub lower: Vec<ExprId>,
    /// Upper bounds.
    pub upper: Vec<ExprId>,
}

/// A constant of the solve with `channels` entries.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Entries.
    pub channels: u16,
    /// Declared type of the entries.
    pub element: ElementType,
    /// Position in the C interface's parameter list.
    pub position: i64,
}

/// A vertex of a graph: an index array into `space`.
#[derive(Clone, Debug)]
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

    /// Whether two slots are the same element in no hyperedge: other index spaces, or other offsets from one vertex.
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

/// The set a residual template is instantiated over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Domain {
    /// Every element of an index space.
    Space(SpaceId),
    /// Every hyperedge of a graph.
    Graph(GraphId),
}

/// A scalar residual template.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The residual as written (vectors scalarised), without the boundary guard.
    pub value: ExprId,
    /// Over which set.
    pub domain: Domain,
    /// The boundary rule's box `(lo, hi)`, offset 0 included: outside of it the residual is 0. `None` where the rule is lifted
    /// (InBounds used) or does not apply (graphs).
    pub guard: Option<(Offset, Offset)>,
    /// Unknown reads as constructed, distinct: an instance counts iff one of them is in the domain and free.
    pub unknown_reads: Vec<Access>,
    /// Group it is reported under.
    pub group: GroupId,
    /// The robust loss it is under, with the other channels of its Vector.
    pub block: Option<BlockId>,
    /// Source line.
    pub line: Option<u32>,
}

/// Text of an energy file, for messages.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path or name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// An energy: declarations and residual templates over one DAG.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    /// Expressions.
    pub dag: Dag,
    /// Dims in order of declaration.
    pub dims: Vec<Dim>,
    /// Index spaces: each distinct list of dims, fastest-varying first.
    pub spaces: Vec<Vec<DimId>>,
    /// Unknowns in order of declaration.
    pub unknowns: Vec<Field>,
    /// Arrays in order of declaration.
    pub arrays: Vec<Field>,
    /// Computed arrays in order of declaration: each reads only those before it.
    pub computed: Vec<Computed>,
    /// Params in order of declaration.
    pub params: Vec<Param>,
    /// Graphs in order of declaration.
    pub graphs: Vec<Graph>,
    /// Residual templates in order.
    pub residuals: Vec<Residual>,
    /// Group names; group k is by default the k-th `Energy(...)` call, named `energy_<k+1>`.
    pub groups: Vec<String>,
    /// Robust losses.
    pub blocks: Vec<Block>,
    /// Box bounds, at most one per unknown.
    pub bounds: Vec<BoxBounds>,
    /// Excluded where any of the expressions of that space is non-zero.
    pub excludes: Vec<(SpaceId, ExprId)>,
    /// `UsePreconditioner(...)`, if said.
    pub use_preconditioner: Option<bool>,
    /// Warnings found while building (a template without unknowns, ...).
    pub warnings: Vec<String>,
    /// The text it came from.
    pub source: Option<Arc<SourceFile>>,
}

impl Energy {
    /// `W x H`-style name of an index space.
    pub fn space_name(&self, s: SpaceId) -> String {
        let names: Vec<&str> =
            self.spaces[s.index()].iter().map(|d| self.dims[d.index()].name.as_str()).collect();
        if self.is_global(s) {
            return "{}".into();
        }
        format!("{{{}}}", names.join(","))
    }

    /// Whether a space is that of the globals: one element, read from everywhere.
    pub fn is_global(&self, s: SpaceId) -> bool {
        self.spaces[s.index()].iter().all(|d| self.dims[d.index()].fixed.is_some())
    }

    /// Whether some array is a constant view of an unknown.
    pub fn has_views(&self) -> bool {
        self.arrays.iter().any(|a| a.view_of.is_some())
    }

    /// The index space that a source lives over.
    pub fn space_of(&self, source: Source) -> SpaceId {
        match source {
            Source::Unknown(u) | Source::Direction(u) => self.unknowns[u.index()].space,
            Source::Array(a) => self.arrays[a.index()].space,
            Source::Computed(c) | Source::Partial(c) => self.computed[c.index()].space,
            Source::Hoisted(Domain::Space(s)) | Source::Product(Domain::Space(s)) => s,
            Source::Hoisted(Domain::Graph(_)) | Source::Product(Domain::Graph(_)) => {
                unreachable!("what is stored for hyperedges lives over no index space")
            }
        }
    }

    /// `{W,H}` or the graph's name.
    pub fn domain_name(&self, domain: Domain) -> String {
        match domain {
            Domain::Space(s) => self.space_name(s),
            Domain::Graph(g) => self.graphs[g.index()].name.clone(),
        }
    }
}
