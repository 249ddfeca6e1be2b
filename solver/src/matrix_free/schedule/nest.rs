//! The nests of a pipeline: what it says of how each of its Funcs is computed.

use crate::matrix_free::vectors::VectorId;
use sumsq_codegen::{Expr, Name};
use sumsq_energy::model::{Domain, SpaceId};

/// The nest of a Func: how it is computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Nest {
    /// The Func.
    pub func: Name,
    /// Its variables, fastest first.
    pub vars: Vec<Name>,
    /// Number of its updates.
    pub updates: usize,
    /// Place and order of its computation.
    pub kind: Kind,
    /// An expression in the coordinates of its points: vectors for which it is false are skipped.
    pub live: Option<Expr>,
    /// The input that it overwrites.
    pub in_place_of: Option<VectorId>,
    /// Of a reduction: what is computed in its nest beyond its own elements, ring by ring or tile by tile.
    pub tiles: Option<Tiles>,
}

/// Funcs that a reduction computes beyond its own elements.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tiles {
    /// Elements on either side, where that is known.
    pub beside: u32,
    /// Numbers of an element.
    pub values: usize,
}

/// The kinds of nests.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A nest of its own over the points of an output, cut into strips along the last dim.
    Map(Strip),
    /// As `Map`, of a Func whose last variable is the number of a pair.
    Pairs(Strip, Pairs),
    /// Inside of such a nest, for each row and pair.
    RowsIn(Name),
    /// Inside of such a nest by rows, whose reader this is: so many pairs, written out for each vector, in a ring of rows along the last dim.
    PairsIn(Name, i32),
    /// A nest of its own over the rows of a vertex, (lane, block).
    Rows,
    /// Nests of its own: the points, then for every update what this variable of it counts, whose sums may come in any order. On a GPU alone.
    Scatter(Vec<Name>),
    /// A nest of its own: sums and maxima over the points of these variables, the same for any number of threads.
    Reduction(Vec<Name>, Strip),
    /// Inside of the nest of its reader, vector by vector, and stored there.
    StoredIn(Name),
    /// Inside of the nest of its reader, vector by vector, in registers.
    RegistersIn(Name),
    /// Inside of the nest of its reader, vector by vector, in the frame: an array for each element, of which these are the first dims. What fills
    /// it is written out.
    ArrayIn(Name, usize),
    /// Inside of the reduction that reads it, row by row, in a ring of rows.
    RingIn(Name, Ring),
    /// Substituted into what reads it.
    Inline,
}

/// The order of pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// Each in all rows of a strip, one after the other: rows of one pair lie behind each other in memory.
    First,
    /// Each in a row along the last dim, one after the other.
    ByRows,
    /// All of this number, written out, for each vector.
    WrittenOut(i32),
}

/// The share of a domain that one thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strip {
    /// Rows of a domain, by its sizes.
    Of(Domain),
    /// Rows of a coarser level of a space.
    Level(SpaceId, u8),
    /// Blocks of the rows of a vertex.
    Blocks,
    /// Entries of the rows of a vertex.
    Entries,
}

/// A ring of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Rows that are read on either side; `None` leaves the number of rows to the engine.
    pub reach: Option<u32>,
    /// Also stored to memory, past the caches where vectors are larger than these.
    pub stored: bool,
}
