//! Couplings: which entries of J^T J lie between different elements of an index space.

use crate::dag::Offset;
use crate::model::{GraphId, SpaceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An entry of A = J^T J: row by component `row` of an element e, column by component `column` of e + `offset`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Coupling {
    /// The way from the row's element to the column's.
    pub offset: Offset,
    /// Component of the row.
    pub row: usize,
    /// Component of the column.
    pub column: usize,
}

/// An entry of A = J^T J: row by component `row` of the element at a hyperedge's first slot, column by component `column` of that at its
/// second one.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct PairCoupling {
    /// Two slots of a graph, ascending, which point into the same space.
    pub slots: (u16, u16),
    /// Component of the row.
    pub row: usize,
    /// Component of the column.
    pub column: usize,
}

/// The couplings of an energy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Couplings {
    /// Per space that has any, what each root of its routine `Kind::Couplings` is. Each pair of elements once: see
    /// [`leads_on`].
    pub spaces: BTreeMap<SpaceId, Vec<Coupling>>,
    /// Per graph that has any, what each root of its routine `Kind::Couplings` is, once [`Routines::add_pair_couplings`](super::Routines::add_pair_couplings)
    /// has derived them.
    pub graphs: BTreeMap<GraphId, Vec<PairCoupling>>,
    /// Elements that one row of J reads at most, those of all spaces together. With M the diagonal blocks of A, by elements, it
    /// bounds the eigenvalues of M^-1 A from above: (sum of m numbers)^2 is at most m times the sum of their squares.
    pub elements: usize,
}

/// True of offsets to elements that are stored behind an element, which are half of those that are not 0.
pub fn leads_on(offset: &[i32]) -> bool {
    offset.iter().rev().find(|o| **o != 0).is_some_and(|o| *o > 0)
}
