//! Hierarchies of grids: coarser and coarser copies of an index space, and what A is on them.
//!
//! Level 0 is the space itself. Level l + 1 has ceil(n/2) elements along a dim that has n on level l; its element i lies where 2 i does there.
//! P interpolates linearly along every dim, per component: an element between two has the mean of both, and a last one behind its only
//! parent a copy, so that constants stay what they are. A_{l+1} = P^T A_l P (Galerkin). Rows of scalars that take no part are 0 on level
//! 0, and so on every other.
//!
//! | file | holds |
//! |---|---|
//! | [`pattern`] | the entries of A that a level stores, which do not depend on its sizes |
//! | [`galerkin`] | pipelines of A per damping: level 0, the next coarser one, and the smoothers |
//! | [`cycle`] | pipelines of a cycle: what a PCG iteration makes of r |
//! | [`coarsest`] | the inverse on the coarsest level |
//!
//! The pipelines of level 1 serve all coarser ones: the plan binds them to the vectors and sizes of each ([`Span`]).

pub mod coarsest;
pub mod cycle;
pub mod galerkin;
pub mod pattern;

use crate::matrix_free::draft::{coordinates, vars};
use crate::matrix_free::params::Size;
use crate::matrix_free::preconditioner::hierarchy::pattern::Pattern;
use crate::matrix_free::skeleton::{Field, Skeleton, Space, Span};
use crate::matrix_free::vectors::{Extents, Initial, VectorId, What};
use serde::{Deserialize, Serialize};
use sumsq_codegen::{Expr, ScalarType, Var};
use sumsq_energy::dag::At;
use sumsq_energy::derive::Couplings;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// Scalars of the coarsest level at most.
pub const COARSEST: usize = 300;

/// The hierarchy of a space, but for its sizes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hierarchy {
    /// The entries of A on level 0.
    pub finest: Pattern,
    /// The entries of A on all others.
    pub coarse: Pattern,
    /// Levels from the finest on whose part is one smoothing, added to what the coarser ones give. The others smooth before and after:
    /// V(1,1).
    pub additive: u8,
    /// Elements that a row of J reads at most, a bound of the eigenvalues of M^-1 A on level 0.
    pub elements: usize,
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
    /// What the cycle makes of it.
    Correction,
    /// A^-1 on the coarsest level.
    Inverse,
    /// A part of A on a level, where scalars take part: see [`Pattern::parts`].
    Matrix(usize),
}

impl Hierarchy {
    /// The hierarchy of a space, if stencils couple its elements.
    pub fn of(couplings: &Couplings, space: &Space) -> Option<Hierarchy> {
        let finest = Pattern::finest(couplings.spaces.get(&space.id)?, space);
        let coarse = finest.coarse();
        let additive = additive_levels(space.dims, space.components, space.coupled) as u8;
        Some(Hierarchy { finest, coarse, additive, elements: couplings.elements })
    }

    /// The fields of its space.
    pub fn fields(&self, space: &Space, linear: ScalarType) -> Vec<Field> {
        let id = space.id;
        let initial = Initial::ZerosPerMask;
        let points = |level, reach| Extents::Level { space: id, level, reach };
        let (fine, coarse) = (points(0, self.finest.reach() + 1), points(1, self.coarse.reach() + 1));
        let vector = |width| Field { level: 1, points: coarse, width, ty: linear, initial };
        let f64 = |level, points, width| Field { level, points, width, ty: ScalarType::F64, initial };
        let mut fields = vec![
            f64(1, Extents::Scalar, 1),
            vector(space.components),
            vector(space.components),
            vector(space.components),
            f64(0, Extents::Coarsest(id), space.components),
        ];
        fields.extend(self.coarse.parts().map(|part| vector(part.len())));
        let finest = self.finest.parts();
        fields.extend(finest.map(|part| Field { level: 0, points: fine, ..vector(part.len()) }));
        fields
    }

    /// The number of a field, in the order of [`Hierarchy::fields`].
    pub fn field(&self, of: Of, level: u8) -> u8 {
        let number = match of {
            Of::Bound => 1,
            Of::Smoother => 2,
            Of::Residual => 3,
            Of::Correction => 4,
            Of::Inverse => 5,
            Of::Matrix(part) if level == 0 => 6 + self.coarse.parts().count() + part,
            Of::Matrix(part) => 6 + part,
        };
        number as u8
    }

    /// The entries of A on a level.
    pub fn pattern(&self, level: u8) -> &Pattern {
        if level == 0 { &self.finest } else { &self.coarse }
    }
}

/// The least number of additive levels, of at least one, with which the first level that is not moves at most half the bytes of a PCG
/// iteration for its two products with A. Bytes are those of vectors of the iteration and of A, both for interior elements.
pub fn additive_levels(dims: usize, components: usize, coupled: bool) -> usize {
    let pairs = if coupled { components * components } else { components };
    let stencil = 3usize.pow(dims as u32).div_ceil(2) * pairs;
    let level = |n: usize| 2 * (stencil + 3 * components) >> (dims * n).min(63);
    let iteration = 8 * components + 2 * pairs;
    (1..8).find(|&n| 2 * level(n) <= iteration).unwrap_or(8)
}

/// Operations per element that P^T A P may have, in entries of A that it makes along each dim: it is straight code.
const MOST_ENTRIES: usize = 700;

/// Unknowns per element at most, for spaces of so many dims.
pub fn most_components(dims: usize) -> usize {
    let entries =
        |components: usize| dims * 3usize.saturating_pow(dims as u32).div_ceil(2) * components * components;
    (1..=8).rev().find(|&c| entries(c) <= MOST_ENTRIES).unwrap_or(0)
}

/// The spaces of an energy whose unknowns some residual reads at several offsets.
pub fn served(energy: &Energy) -> Vec<SpaceId> {
    let spaces = (0..energy.spaces.len() as u32).map(SpaceId).filter(|&s| !energy.is_global(s));
    let couples = |space: SpaceId| {
        let own = energy.residuals.iter().filter(|r| r.domain == Domain::Space(space));
        own.into_iter().any(|r| {
            let reads = r.unknown_reads.iter().filter(|a| energy.space_of(a.source) == space);
            let mut at = reads.map(|a| &a.at).filter(|at| matches!(at, At::Offset(_)));
            at.next().is_some_and(|first| at.any(|other| other != first))
        })
    };
    spaces.filter(|&s| couples(s)).collect()
}

/// The extents of every level, and of the coarsest: the first behind level 0 with at most [`COARSEST`] scalars.
pub fn levels(extents: &[usize], components: usize) -> Vec<Vec<usize>> {
    let mut all = vec![extents.to_vec()];
    loop {
        let next: Vec<usize> = all[all.len() - 1].iter().map(|n| n.div_ceil(2)).collect();
        let scalars = next.iter().product::<usize>() * components;
        all.push(next);
        if scalars <= COARSEST {
            return all;
        }
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

/// A level that pipelines are built for, with its space.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// What all pipelines share.
    pub k: &'a Skeleton,
    /// The kind.
    pub kind: u8,
    /// The space.
    pub space: &'a Space,
    /// Its hierarchy.
    pub of: &'a Hierarchy,
    /// The level.
    pub level: u8,
}

impl<'a> Grid<'a> {
    /// Level 0 of every space that has a hierarchy.
    pub fn finest(k: &'a Skeleton, kind: u8) -> impl Iterator<Item = Grid<'a>> {
        k.spaces.iter().filter_map(move |space| {
            let of = space.hierarchy.as_ref()?;
            Some(Grid { k, kind, space, of, level: 0 })
        })
    }

    /// The next coarser one.
    pub fn next(self) -> Grid<'a> {
        Grid { level: self.level + 1, ..self }
    }

    /// A field.
    pub fn id(&self, of: Of) -> VectorId {
        let field = self.of.field(of, self.level);
        VectorId { level: self.level, ..What::M { kind: self.kind, field }.of(self.space.id) }
    }

    /// A, part by part.
    pub fn matrix(&self) -> Vec<VectorId> {
        (0..self.pattern().parts().count()).map(|part| self.id(Of::Matrix(part))).collect()
    }

    /// The entries of A.
    pub fn pattern(&self) -> &'a Pattern {
        self.of.pattern(self.level)
    }

    /// Its extent along a dim.
    pub fn extent(&self, dim: usize) -> Expr {
        match self.level {
            0 => Size::Extent(self.space.id, dim).expr(),
            level => Size::LevelExtent(self.space.id, level, dim).expr(),
        }
    }

    /// Loop variables of an element.
    pub fn vars(&self) -> Vec<Var> {
        vars(self.space.dims)
    }

    /// An element.
    pub fn at(&self) -> Vec<Expr> {
        coordinates(&self.vars())
    }

    /// A name of its pipelines.
    pub fn name(&self, what: &str) -> String {
        format!("{what}{}_m{}@{}", self.space.id.0, self.kind, self.level)
    }

    /// The levels from 1 to before the coarsest, of which those below `from` and from `to` on are left out.
    pub fn span(&self, from: u8, to: u8, descending: bool) -> Span {
        Span::Levels { space: self.space.id, from, to, descending }
    }
}
