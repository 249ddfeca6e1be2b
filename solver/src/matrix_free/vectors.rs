//! The vectors of a solver: an id for each, and one table of what they are.
//!
//! Pipelines declare by id what they read and write, plans allocate, bind and copy by id. The name of an id is for people and for the
//! symbols of generated code: nothing is read back from it.
//!
//! A pipeline says `X` for the unknowns wherever it reads them. Its [`Role`] says which copy of the numbers that is.

use serde::{Deserialize, Serialize};
use std::fmt;
use sumsq_energy::model::{ArrayId, ComputedId, Domain, GraphId, SpaceId};

/// A quantity that is kept in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum What {
    // Of a space with unknowns.
    /// x, in the master precision.
    X,
    /// x + d.
    Trial,
    /// x in the linear solver's precision, where that is another one.
    LinearX,
    /// x as of the last accepted step, which constant views read. No memory of its own: it is x in its role (see [`Role`]).
    View,
    /// 1 at free elements, 0 at excluded ones.
    Free,
    /// Number of free elements.
    FreeCount,
    /// 1 per vector of lanes that holds a free element.
    Live,
    /// 1 per vector of lanes that is near a free element.
    Near,
    /// Lower bounds of x.
    Lower,
    /// Upper bounds of x.
    Upper,
    /// g, then the kept entries of the diagonal blocks of J^T J.
    GradientAndBlocks,
    /// The running maximum of diag(J^T J).
    Scales,
    /// The largest entry that diag(J^T J) has had, per component of a space.
    Largest,
    /// Bounds that D is clamped to: the least entry of every component of a space, then the largest ones.
    Clamps,
    /// d, then r.
    DR,
    /// A field of a preconditioner, both by number; field 0 is its pointwise part.
    M {
        /// The preconditioner.
        kind: u8,
        /// The field.
        field: u8,
    },
    /// D.
    Damp,
    /// The direction of the iteration before.
    P,
    /// The direction.
    PNew,
    /// q = (J^T J + D) p.
    Q,
    /// The share of all hyperedges in J^T J p, where they add it to their vertices.
    Scattered,
    /// The stored share of the diagonal blocks of J^T J, packed.
    StoredBlocks,

    // Of a domain.
    /// Weighted residuals that are stored for J^T r.
    Residual,
    /// Parts of J^T J p that are stored once per linearisation.
    Hoisted,
    /// The products J p that are stored.
    Product,
    /// Entries of J^T J between different elements.
    Couplings,
    /// Displacements of unknowns that the energy gives as hardly resisted.
    NearNull,

    /// A computed array: its values, then its partials.
    Computed,
    /// An array.
    Array,
    /// An array in the linear solver's precision, where that is another one.
    LinearArray,

    // Of a vertex of a graph.
    /// The element at the vertex, per hyperedge.
    Vertex,
    /// First entry of every block of rows.
    RowBlock,
    /// Incidences of every row.
    RowLength,
    /// Element of every row.
    RowElement,
    /// Hyperedge of every entry of the rows.
    RowEdge,
    /// The element at this other vertex of the hyperedge of every entry.
    RowVertex(u16),
    /// Copies of what is stored over the hyperedges, beside every entry.
    RowHoisted,
    /// Place in `RowOf` where the rows of every element begin.
    FirstRow,
    /// Number of rows of every element.
    RowCount,
    /// Rows, grouped by element.
    RowOf,
    /// First entry of every element that has one row.
    FirstEntry,
    /// Number of its entries; 0 of elements without a row, or with several.
    EntryCount,
    /// Sums over rows in J^T J p.
    Part,
    /// Their share of p.q, a scalar.
    PartProduct,

    // Tuples of scalars.
    /// Shares of the instances of a domain in the globals' J^T J p.
    Total,
    /// The carried scalars of PCG.
    State,
    /// Those of the next iteration.
    Next,
    /// From sweep A to sweep B.
    Alpha,
    /// Not 0 once PCG is to stop.
    Done,
    /// At the start of PCG.
    Start,
    /// r0.z0 where the preconditioner has stages behind the damping.
    StartProduct,
    /// Of a share of the sums: E per residual group and the number of instances that count.
    Energy,
    /// The model's decrease and norms.
    Model,
}

/// The thing that a vector belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Over {
    /// The solver as a whole.
    Nothing,
    /// An index space.
    Space(SpaceId),
    /// The hyperedges of a graph.
    Graph(GraphId),
    /// A vertex of the hyperedges of a graph.
    Vertex(GraphId, u16),
    /// A declared array.
    Array(ArrayId),
    /// A computed array.
    Computed(ComputedId),
    /// These routines of globals, by number.
    Globals(usize),
    /// A share of the sums of the energy, by number.
    Share(usize),
}

/// Names a vector of the solver. `over` is of the kind that `what` belongs to; `level` is that of a hierarchy, 0 for the problem itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct VectorId {
    /// The quantity.
    pub what: What,
    /// The thing that it belongs to.
    pub over: Over,
    /// The level.
    pub level: u8,
}

impl What {
    /// This quantity of the problem itself.
    pub fn of(self, over: impl Into<Over>) -> VectorId {
        VectorId { what: self, over: over.into(), level: 0 }
    }

    /// True if the host reads it behind a phase, or what it is exchanged with.
    pub fn is_result(self) -> bool {
        use What::*;
        matches!(self, FreeCount | Largest | Start | StartProduct | State | Next | Model | Energy)
    }
}

impl VectorId {
    /// The same of a level that lies so many behind its own; a vector of no coarser level stays as it is.
    pub fn shifted(self, by: u8) -> VectorId {
        VectorId { level: if self.level > 0 { self.level + by } else { 0 }, ..self }
    }
}

impl From<()> for Over {
    fn from((): ()) -> Over {
        Over::Nothing
    }
}
impl From<SpaceId> for Over {
    fn from(s: SpaceId) -> Over {
        Over::Space(s)
    }
}
impl From<Domain> for Over {
    fn from(d: Domain) -> Over {
        match d {
            Domain::Space(s) => Over::Space(s),
            Domain::Graph(g) => Over::Graph(g),
        }
    }
}
impl From<(GraphId, u16)> for Over {
    fn from((graph, vertex): (GraphId, u16)) -> Over {
        Over::Vertex(graph, vertex)
    }
}
impl From<ArrayId> for Over {
    fn from(a: ArrayId) -> Over {
        Over::Array(a)
    }
}
impl From<ComputedId> for Over {
    fn from(c: ComputedId) -> Over {
        Over::Computed(c)
    }
}

impl fmt::Display for VectorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.what {
            What::X => "x",
            What::Trial => "xt",
            What::LinearX => "xl",
            What::View => "v",
            What::Free => "free",
            What::FreeCount => "nfree",
            What::Live => "live",
            What::Near => "near",
            What::Lower => "lo",
            What::Upper => "hi",
            What::GradientAndBlocks => "gb",
            What::Scales => "sc",
            What::Largest => "largest",
            What::Clamps => "clamps",
            What::DR => "dr",
            What::M { kind: 0, field: 0 } => "minv",
            What::M { .. } => "m",
            What::Damp => "damp",
            What::P => "p",
            What::PNew => "pn",
            What::Q => "q",
            What::Scattered => "scattered",
            What::StoredBlocks => "bd",
            What::Residual => "res",
            What::Hoisted => "h",
            What::Product => "jp",
            What::Couplings => "jtj",
            What::NearNull => "nn",
            What::Computed => "c",
            What::Array => "a",
            What::LinearArray => "l.a",
            What::Vertex => "",
            What::Part | What::PartProduct => "part_",
            What::RowBlock | What::RowLength | What::RowElement | What::RowEdge => "r",
            What::RowVertex(_) | What::RowHoisted => "r",
            What::FirstRow | What::RowCount | What::RowOf | What::FirstEntry | What::EntryCount => "r",
            What::Total => "total",
            What::State => "state",
            What::Next => "next",
            What::Alpha => "alpha",
            What::Done => "done",
            What::Start => "start",
            What::StartProduct => "start_rz",
            What::Energy => "energy",
            What::Model => "model",
        };
        f.write_str(prefix)?;
        match self.what {
            What::M { kind, field } if (kind, field) != (0, 0) => write!(f, "{kind}f{field}s")?,
            _ => {}
        }
        match self.over {
            Over::Nothing => {}
            Over::Space(SpaceId(n)) | Over::Array(ArrayId(n)) | Over::Computed(ComputedId(n)) => {
                write!(f, "{n}")?;
            }
            Over::Share(0) => {}
            Over::Globals(n) | Over::Share(n) => write!(f, "{n}")?,
            Over::Graph(g) => write!(f, "g{}", g.0)?,
            Over::Vertex(g, v) if self.what == What::Vertex => write!(f, "g{}v{v}", g.0)?,
            Over::Vertex(g, v) if matches!(self.what, What::Part | What::PartProduct) => {
                write!(f, "g{}s{v}", g.0)?;
            }
            Over::Vertex(g, v) => write!(f, "{}s{v}", g.0)?,
        }
        match self.what {
            What::RowBlock => f.write_str(".block")?,
            What::RowLength => f.write_str(".length")?,
            What::RowElement => f.write_str(".own")?,
            What::RowEdge => f.write_str(".edge")?,
            What::RowVertex(other) => write!(f, ".v{other}")?,
            What::RowHoisted => f.write_str(".h")?,
            What::FirstRow => f.write_str(".first")?,
            What::RowCount => f.write_str(".count")?,
            What::RowOf => f.write_str(".of")?,
            What::FirstEntry => f.write_str(".entry")?,
            What::EntryCount => f.write_str(".in_row")?,
            What::PartProduct => f.write_str("_pq")?,
            _ => {}
        }
        if self.level > 0 { write!(f, "@{}", self.level) } else { Ok(()) }
    }
}

/// The copy of the numbers that a pipeline computes with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// x and the arrays in the master precision.
    Master,
    /// As `Master`, with x + d in place of x.
    Trial,
    /// x and the arrays in the linear solver's precision.
    Linear,
    /// As `Linear`, with the direction in place of the one before.
    LinearB,
}

/// The points of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Extents {
    /// One.
    Scalar,
    /// The elements of a space.
    Space(SpaceId),
    /// The elements of a level of a space's hierarchy, where so many elements beyond them may be read.
    Level {
        /// The space.
        space: SpaceId,
        /// The level.
        level: u8,
        /// Elements beyond, per dim.
        reach: u8,
    },
    /// They, for each of so many pairs of components.
    Pairs {
        /// The space.
        space: SpaceId,
        /// The level.
        level: u8,
        /// Elements beyond, per dim.
        reach: u8,
        /// Pairs.
        pairs: u16,
    },
    /// The vectors of lanes of a level, along dim 0, where so many beyond them may be read.
    LevelVectors {
        /// The space.
        space: SpaceId,
        /// The level.
        level: u8,
        /// Vectors beyond, per dim.
        reach: u8,
    },
    /// The elements of the coarsest level of a space, for each scalar there.
    Coarsest(SpaceId),
    /// The vectors of lanes of a space, along dim 0.
    Vectors(SpaceId),
    /// The hyperedges of a graph.
    Edges(GraphId),
    /// The blocks of rows of a vertex.
    Blocks(GraphId, u16),
    /// The rows of a vertex, padding included.
    Rows(GraphId, u16),
    /// The rows of a vertex, lane by block.
    LanesByBlocks(GraphId, u16),
    /// The entries of the rows of a vertex.
    Entries(GraphId, u16),
    /// The rows of a vertex, without padding (but at least one).
    RowsByElement(GraphId, u16),
}

/// Contents of a vector before anything is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Initial {
    /// 0.
    Zeros,
    /// 0, again with every new mask of free elements: written near those alone, and read everywhere.
    ZerosPerMask,
    /// 1 whenever arrays or params are bound.
    OnesPerBinding,
}

impl Extents {
    /// The same points on another level, where they are those of one.
    pub fn on_level(self, level: u8) -> Extents {
        match self {
            Extents::Level { space, reach, .. } => Extents::Level { space, level, reach },
            Extents::LevelVectors { space, reach, .. } => Extents::LevelVectors { space, level, reach },
            Extents::Pairs { space, reach, pairs, .. } => Extents::Pairs { space, level, reach, pairs },
            points => points,
        }
    }
}
