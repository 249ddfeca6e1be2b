//! The entries of A that a level stores: pairs of a row's and a column's component, and the way between their elements.
//!
//! A is symmetric. Of two entries that are each other's transposes one is stored, with the element of its row: the one whose column lies
//! behind ([`leads_on`]), or in the lower triangle of an element's own block.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use sumsq_energy::derive::{Coupling, leads_on};

/// Entries of a part.
pub const PART: usize = 64;

/// An entry A(e, e + offset)\[row, column\].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The way from the row's element to the column's.
    pub offset: Vec<i32>,
    /// Component of the row.
    pub row: usize,
    /// Component of the column.
    pub column: usize,
}

/// The entries that are stored, ascending.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pattern(Vec<Entry>);

impl Entry {
    /// The entry on the other side of the diagonal.
    pub fn transposed(&self) -> Entry {
        let offset = self.offset.iter().map(|o| -o).collect();
        Entry { offset, row: self.column, column: self.row }
    }

    /// True of an entry of an element's own block.
    pub fn is_own(&self) -> bool {
        self.offset.iter().all(|o| *o == 0)
    }

    /// True of the diagonal.
    pub fn is_diagonal(&self) -> bool {
        self.is_own() && self.row == self.column
    }

    fn is_stored(&self) -> bool {
        leads_on(&self.offset) || (self.is_own() && self.row >= self.column)
    }
}

impl Pattern {
    /// The entries of level 0: the elements' own blocks, and couplings.
    pub fn finest(couplings: &[Coupling], dims: usize, components: usize, coupled: bool) -> Pattern {
        let pairs = (0..components).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let pairs = pairs.filter(|(i, j)| i == j || coupled);
        let own = pairs.map(|(row, column)| Entry { offset: vec![0; dims], row, column });
        let others =
            couplings.iter().map(|c| Entry { offset: c.offset.to_vec(), row: c.row, column: c.column });
        Pattern(own.chain(others).collect::<BTreeSet<Entry>>().into_iter().collect())
    }

    /// The entries of all coarser levels: those of the next one, and whatever they lead to in turn.
    pub fn coarse(&self) -> Pattern {
        let mut pattern = self.next();
        loop {
            let all: BTreeSet<Entry> =
                pattern.next().0.into_iter().chain(pattern.0.iter().cloned()).collect();
            if all.len() == pattern.0.len() {
                return pattern;
            }
            pattern = Pattern(all.into_iter().collect());
        }
    }

    /// The entries of P^T A P.
    fn next(&self) -> Pattern {
        let dims = self.0.first().map_or(0, |e| e.offset.len());
        let all = (0..dims).fold(self.full(), |all, dim| coarsened(&all, dim));
        Pattern(all.into_iter().filter(Entry::is_stored).collect())
    }

    /// Both of every two.
    pub fn full(&self) -> Vec<Entry> {
        let both = self.0.iter().flat_map(|e| [e.clone(), e.transposed()]);
        both.collect::<BTreeSet<Entry>>().into_iter().collect()
    }

    /// The entries that are stored.
    pub fn entries(&self) -> &[Entry] {
        &self.0
    }

    /// They, cut into parts of a vector each: a body of straight code computes no more of them.
    pub fn parts(&self) -> impl Iterator<Item = &[Entry]> {
        self.0.chunks(PART)
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part and channel of an entry, and if it is stored as its transpose, with the element of its column. `None`: 0 everywhere.
    pub fn find(&self, entry: &Entry) -> Option<(usize, usize, bool)> {
        let stored = entry.is_stored();
        let own = if stored { entry.clone() } else { entry.transposed() };
        self.0.binary_search(&own).ok().map(|i| (i / PART, i % PART, !stored))
    }

    /// The largest distance along a dim.
    pub fn reach(&self) -> u8 {
        let all = self.0.iter().flat_map(|e| &e.offset);
        all.map(|o| o.unsigned_abs().min(250) as u8).max().unwrap_or(0)
    }
}

/// The terms of P^T A P along one dim: the parent i has child 2 i + a, whose column is child 2 (i + o') + b of the parent i + o', so that
/// the way between them is o = b + 2 o' - a. For o: all such (a, o', b).
pub fn ways(o: i32) -> impl Iterator<Item = (i32, i32, i32)> {
    (-1..=1).flat_map(move |a| {
        (-1..=1).filter_map(move |b| ((o + a - b) % 2 == 0).then_some((a, (o + a - b) / 2, b)))
    })
}

/// The entries that some make along a dim, ascending.
pub fn coarsened(entries: &[Entry], dim: usize) -> Vec<Entry> {
    let of = |e: &Entry| {
        let e = e.clone();
        ways(e.offset[dim]).map(move |(_, o, _)| {
            let mut made = e.clone();
            made.offset[dim] = o;
            made
        })
    };
    entries.iter().flat_map(of).collect::<BTreeSet<Entry>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(offsets: &[[i32; 2]]) -> Pattern {
        let entries = offsets.iter().map(|o| Entry { offset: o.to_vec(), row: 0, column: 0 });
        Pattern(entries.collect::<BTreeSet<Entry>>().into_iter().collect())
    }

    #[test]
    fn five_points_become_nine_and_stay_so() {
        let coarse = scalar(&[[0, 0], [1, 0], [0, 1]]).coarse();
        assert_eq!(coarse, scalar(&[[0, 0], [1, 0], [-1, 1], [0, 1], [1, 1]]));
        assert_eq!(coarse.next(), coarse);
        assert_eq!(coarse.full().len(), 9);
    }

    #[test]
    fn far_couplings_end_at_two() {
        let coarse = scalar(&[[0, 0], [4, 0]]).coarse();
        assert_eq!(coarse.reach(), 3);
        assert_eq!(scalar(&[[0, 0], [2, 0]]).coarse().reach(), 2);
    }

    #[test]
    fn entries_are_found_on_both_sides() {
        let pattern = scalar(&[[0, 0], [1, 0]]);
        let entry = |x| Entry { offset: vec![x, 0], row: 0, column: 0 };
        assert_eq!(pattern.find(&entry(1)), Some((0, 1, false)));
        assert_eq!(pattern.find(&entry(-1)), Some((0, 1, true)));
        assert_eq!(pattern.find(&entry(2)), None);
    }
}
