//! The entries of A that a level stores: the ways from a row's element to a column's, and the pairs of their components.
//!
//! All levels store the same pairs, each along every way of the level: P interpolates each component alone, so P^T A P has no other pairs than A.
//! A is symmetric. Of two ways that are each other's opposites one is stored, with the element of its row: the one that leads to an element
//! stored behind ([`leads_on`]). An element's own block is stored whole; its lower triangle is what counts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use sumsq_codegen::Expr;
use sumsq_energy::derive::{Coupling, leads_on};

/// Ways of a part.
pub const PART: usize = 64;

/// The pairs of components that A couples: the diagonal ones first, then each other pair followed by its transpose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pairs {
    components: usize,
    list: Vec<(usize, usize)>,
}

/// The ways that are stored, ascending; 0 is one of them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pattern(Vec<Vec<i32>>);

/// The place of a way among those that are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The part.
    pub part: usize,
    /// Its number there.
    pub channel: usize,
    /// True if it is stored as its opposite, with the element of the column.
    pub transposed: bool,
}

impl Pairs {
    /// The pairs of elements with so many components of which these are coupled, within an element or across, in either order.
    pub fn new(components: usize, coupled: impl Fn(usize, usize) -> bool) -> Pairs {
        let lower = (0..components).flat_map(|i| (0..i).map(move |j| (i, j)));
        let others = lower.filter(|&(i, j)| coupled(i, j) || coupled(j, i));
        let others = others.flat_map(|(i, j)| [(i, j), (j, i)]);
        Pairs { components, list: (0..components).map(|i| (i, i)).chain(others).collect() }
    }

    /// All of them.
    pub fn list(&self) -> &[(usize, usize)] {
        &self.list
    }

    /// Components of an element, which is the number of the diagonal pairs.
    pub fn components(&self) -> usize {
        self.components
    }

    /// The number of a pair; absent where A is 0.
    pub fn find(&self, row: usize, column: usize) -> Option<usize> {
        self.list.iter().position(|pair| *pair == (row, column))
    }

    /// The number of its transpose.
    pub fn transposed(&self, pair: usize) -> usize {
        let c = self.components;
        if pair < c { pair } else { c + ((pair - c) ^ 1) }
    }

    /// The same of a number that is known when it runs. What lies behind the pairs is diagonal.
    pub fn transposed_expr(&self, pair: &Expr) -> Expr {
        let (first, end) = (self.components as i64, self.list.len() as i64);
        if end == first {
            return pair.clone();
        }
        let other = pair + 1i64 - ((pair - first) % 2i64) * 2i64;
        let is_other = pair.ge(Expr::from(first as i32)).and(pair.lt(Expr::from(end as i32)));
        let last = Expr::from(end as i32 + self.components as i32 - 1);
        Expr::select(is_other, other, pair.clone()).max(Expr::from(0)).min(last)
    }
}

impl Pattern {
    /// The ways of level 0: to the element itself, and of couplings.
    pub fn finest(couplings: &[Coupling], dims: usize) -> Pattern {
        let others = couplings.iter().map(|c| c.offset.to_vec());
        Pattern(others.chain([vec![0; dims]]).collect::<BTreeSet<Vec<i32>>>().into_iter().collect())
    }

    /// The ways of all coarser levels: those of the next one, and whatever they lead to in turn.
    pub fn coarse(&self) -> Pattern {
        let mut pattern = self.next();
        loop {
            let all: BTreeSet<Vec<i32>> =
                pattern.next().0.into_iter().chain(pattern.0.iter().cloned()).collect();
            if all.len() == pattern.0.len() {
                return pattern;
            }
            pattern = Pattern(all.into_iter().collect());
        }
    }

    /// The ways of P^T A P.
    fn next(&self) -> Pattern {
        let dims = self.0.first().map_or(0, Vec::len);
        let all = (0..dims).fold(self.full(), |all, dim| coarsened(&all, dim));
        Pattern(all.into_iter().filter(|way| is_stored(way)).collect())
    }

    /// Both of every two.
    pub fn full(&self) -> Vec<Vec<i32>> {
        let both = self.0.iter().flat_map(|way| [way.clone(), opposite(way)]);
        both.collect::<BTreeSet<Vec<i32>>>().into_iter().collect()
    }

    /// The ways that are stored.
    pub fn ways(&self) -> &[Vec<i32>] {
        &self.0
    }

    /// They, cut into parts of a vector each: a body of straight code computes no more of them.
    pub fn parts(&self) -> impl Iterator<Item = &[Vec<i32>]> {
        self.0.chunks(PART)
    }

    /// The place of a way. `None`: A is 0 along it.
    pub fn find(&self, way: &[i32]) -> Option<Stored> {
        let transposed = !is_stored(way);
        let own = if transposed { opposite(way) } else { way.to_vec() };
        let i = self.0.binary_search(&own).ok()?;
        Some(Stored { part: i / PART, channel: i % PART, transposed })
    }

    /// The largest distance along a dim.
    pub fn reach(&self) -> u8 {
        let all = self.0.iter().flatten();
        all.map(|o| o.unsigned_abs().min(250) as u8).max().unwrap_or(0)
    }
}

/// True of the way to the element itself.
pub fn is_own(way: &[i32]) -> bool {
    way.iter().all(|o| *o == 0)
}

fn is_stored(way: &[i32]) -> bool {
    is_own(way) || leads_on(way)
}

fn opposite(way: &[i32]) -> Vec<i32> {
    way.iter().map(|o| -o).collect()
}

/// The terms of P^T A P along one dim: the parent i has child 2 i + a, whose column is child 2 (i + o') + b of the parent i + o', so that
/// the way between them is o = b + 2 o' - a. For o: all such (a, o', b).
pub fn terms_along(o: i32) -> impl Iterator<Item = (i32, i32, i32)> {
    (-1..=1).flat_map(move |a| {
        (-1..=1).filter_map(move |b| ((o + a - b) % 2 == 0).then_some((a, (o + a - b) / 2, b)))
    })
}

/// The ways that some make along a dim, ascending.
pub fn coarsened(ways: &[Vec<i32>], dim: usize) -> Vec<Vec<i32>> {
    let of = |way: &Vec<i32>| {
        let way = way.clone();
        terms_along(way[dim]).map(move |(_, o, _)| {
            let mut made = way.clone();
            made[dim] = o;
            made
        })
    };
    ways.iter().flat_map(of).collect::<BTreeSet<Vec<i32>>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(ways: &[[i32; 2]]) -> Pattern {
        Pattern(ways.iter().map(|o| o.to_vec()).collect::<BTreeSet<Vec<i32>>>().into_iter().collect())
    }

    #[test]
    fn five_points_become_nine_and_stay_so() {
        let coarse = pattern(&[[0, 0], [1, 0], [0, 1]]).coarse();
        assert_eq!(coarse, pattern(&[[0, 0], [1, 0], [-1, 1], [0, 1], [1, 1]]));
        assert_eq!(coarse.next(), coarse);
        assert_eq!(coarse.full().len(), 9);
    }

    #[test]
    fn far_couplings_end_at_two() {
        let coarse = pattern(&[[0, 0], [4, 0]]).coarse();
        assert_eq!(coarse.reach(), 3);
        assert_eq!(pattern(&[[0, 0], [2, 0]]).coarse().reach(), 2);
    }

    #[test]
    fn ways_are_found_on_both_sides() {
        let pattern = pattern(&[[0, 0], [1, 0]]);
        let stored = |transposed| Some(Stored { part: 0, channel: 1, transposed });
        assert_eq!(pattern.find(&[1, 0]), stored(false));
        assert_eq!(pattern.find(&[-1, 0]), stored(true));
        assert_eq!(pattern.find(&[2, 0]), None);
    }

    #[test]
    fn transposes_stand_side_by_side() {
        let pairs = Pairs::new(3, |i, j| (i, j) == (0, 2) || (i, j) == (2, 1));
        assert_eq!(pairs.list(), [(0, 0), (1, 1), (2, 2), (2, 0), (0, 2), (2, 1), (1, 2)]);
        for (i, &(row, column)) in pairs.list().iter().enumerate() {
            assert_eq!(pairs.find(column, row), Some(pairs.transposed(i)));
        }
        assert_eq!(pairs.find(1, 0), None);
    }
}
