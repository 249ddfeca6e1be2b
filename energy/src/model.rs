//! What an energy declares: the model that both front ends build and everything else reads.
//!
//! Energies are checked when they are built: a finished [`Energy`] has only resolved names, at least one unknown read
//! by some residual, one domain per residual, channels in range.

use crate::dag::{Access, Dag, ExprId, Offset};
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
    /// A parameter.
    ParamId,
    /// A graph.
    GraphId,
    /// A named group of residuals.
    GroupId,
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
    /// Position among the dims of the C interface.
    pub position: i64,
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
    /// Source line of the declaration.
    pub line: Option<u32>,
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

/// A set of hyperedges.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its name.
    pub name: String,
    /// Position of the hyperedge count.
    pub position: i64,
    /// Its vertices, in order of their slots.
    pub vertices: Vec<Vertex>,
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
    /// Params in order of declaration.
    pub params: Vec<Param>,
    /// Graphs in order of declaration.
    pub graphs: Vec<Graph>,
    /// Residual templates in order.
    pub residuals: Vec<Residual>,
    /// Group names; group k is by default the k-th `Energy(...)` call, named `energy_<k+1>`.
    pub groups: Vec<String>,
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
        format!("{{{}}}", names.join(","))
    }
}
