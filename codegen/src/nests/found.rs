//! Results of the walk for later passes.

use crate::expr::{Expr, Name};
use crate::nests::sliding_window::Sliding;
use crate::nests::storage::{Live, Storage};
use crate::nests::table::RegionTable;
use rustc_hash::{FxHashMap, FxHashSet};

/// Findings on the way.
///
/// Invariant: it holds for all places together, so it only grows. Nothing is taken back where a scope or a version of a stage is
/// left; where a Func lies at several places, sizes are the largest of them.
#[derive(Default)]
pub(super) struct Found {
    /// Storage of the Funcs that have some.
    pub storage: FxHashMap<Name, Storage>,
    /// Regions in use at once of the Funcs whose storage may be folded.
    pub live: FxHashMap<Name, Live>,
    /// Outputs each of whose points is computed once.
    pub once: FxHashSet<Name>,
    /// First and last coordinate per dimension, of each input that is read and not trusted to be read inside.
    pub inputs: Vec<(Name, Vec<(Expr, Expr)>)>,
    /// The way in which each Func is computed again; of several places that which came last.
    pub sliding: FxHashMap<Name, Sliding>,
    /// Every Func at every place, for people.
    pub table: RegionTable,
}
