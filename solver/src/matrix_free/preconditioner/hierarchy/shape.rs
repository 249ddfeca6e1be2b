//! The hierarchy of a space, but for its sizes, and the numbers of its fields.

use crate::matrix_free::preconditioner::hierarchy::pattern::{Pairs, Pattern};
use crate::problem::grids::additive_levels;
use serde::{Deserialize, Serialize};
use sumsq_energy::derive::Couplings;
use sumsq_energy::model::SpaceId;

/// The hierarchy of a space, but for its sizes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hierarchy {
    /// The pairs of components that A couples, on every level.
    pub pairs: Pairs,
    /// The ways of A on level 0.
    pub finest: Pattern,
    /// The ways of A on all others.
    pub coarse: Pattern,
    /// Levels from the finest on whose part is one smoothing, added to what the coarser ones give. The others smooth before and after:
    /// V(1,1).
    pub additive: u8,
    /// Elements that a row of J reads at most, a bound of the eigenvalues of M^-1 A on level 0.
    pub elements: usize,
    /// True if rows of level 0 are made as level 1 needs them, and never stored.
    pub rolls: bool,
    /// True if vectors without free elements are skipped on every level.
    pub skips: bool,
}

/// The fields of a kind with hierarchies, beside field 0.
#[derive(Clone, Copy)]
pub enum Of {
    /// The largest row sum of D^-1/2 A D^-1/2 on a coarser level, D its diagonal: a bound of the eigenvalues of D^-1 A.
    Bound,
    /// w D^-1 there.
    Smoother,
    /// r there.
    Residual,
    /// The correction that the cycle makes of it.
    Correction,
    /// A^-1 on the coarsest level.
    Inverse,
    /// A part of the diagonal pairs of A on a coarser level.
    Diagonal(usize),
    /// A part of J^T J on a level that is stored, where scalars take part, pair by pair; behind the pairs what D adds to the diagonal ones, as
    /// it was when these were linearised. See [`Pattern::parts`].
    Matrix(usize),
    /// 1 at elements of a coarser level of which a free element of level 0 is a descendant, where vectors are skipped.
    Free,
    /// 1 per vector of lanes that holds such an element.
    Live,
}

impl Hierarchy {
    /// The hierarchy of a space, if stencils couple its elements: of so many dims, with so many scalars per element, of which residuals couple
    /// these pairs within an element.
    pub fn of(
        couplings: &Couplings,
        space: SpaceId,
        (dims, components): (usize, usize),
        coupled: &dyn Fn(usize, usize) -> bool,
    ) -> Option<Hierarchy> {
        let own = couplings.spaces.get(&space)?;
        let across = |i: usize, j: usize| own.iter().any(|c| (c.row, c.column) == (i, j));
        let pairs = Pairs::new(components, |i, j| coupled(i, j) || across(i, j));
        let finest = Pattern::finest(own, dims);
        let coarse = finest.coarse();
        let within = (0..components).any(|i| (0..i).any(|j| coupled(i, j)));
        let additive = additive_levels(dims, components, within) as u8;
        Some(Hierarchy {
            pairs,
            finest,
            coarse,
            additive,
            elements: couplings.elements,
            rolls: false,
            skips: false,
        })
    }

    /// The same, of whose level 0 rows may be made with so many elements around the domain along dim 0, which must be 0.
    #[must_use]
    pub fn rolling(self, beside: u32) -> Hierarchy {
        let parts = [&self.finest, &self.coarse].map(|pattern| pattern.parts().count());
        let rolls = parts == [1, 1] && beside > u32::from(self.finest.reach());
        Hierarchy { rolls, ..self }
    }

    /// The number of a field, field 0 apart.
    pub fn field(&self, of: Of, level: u8) -> u8 {
        let parts = self.coarse.parts().count();
        let number = match of {
            Of::Bound => 1,
            Of::Smoother => 2,
            Of::Residual => 3,
            Of::Correction => 4,
            Of::Inverse => 5,
            Of::Diagonal(part) => 6 + part,
            Of::Matrix(part) if level > 0 => 6 + parts + part,
            Of::Matrix(part) => 6 + 2 * parts + part,
            Of::Free => self.behind_matrices(),
            Of::Live => self.behind_matrices() + 1,
        };
        number as u8
    }

    fn behind_matrices(&self) -> usize {
        let stored = if self.rolls { 0 } else { self.finest.parts().count() };
        6 + 2 * self.coarse.parts().count() + stored
    }

    /// The ways of A on a level.
    pub fn pattern(&self, level: u8) -> &Pattern {
        if level == 0 { &self.finest } else { &self.coarse }
    }
}

/// The coordinates of an element by its number, the first dim fastest.
pub fn coordinates_of(mut element: i32, extents: &[i32]) -> Vec<i32> {
    let along = |n: &i32| {
        let x = element % n;
        element /= n;
        x
    };
    extents.iter().map(along).collect()
}

/// The number of the element at some coordinates, if it is there.
pub fn number_of(at: &[i32], extents: &[i32]) -> Option<usize> {
    let inside = at.iter().zip(extents).all(|(x, n)| (0..*n).contains(x));
    let number = (0..at.len()).rev().fold(0, |n, dim| n * i64::from(extents[dim]) + i64::from(at[dim]));
    inside.then_some(number as usize)
}
