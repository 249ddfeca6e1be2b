//! Hierarchies of grids: coarser and coarser copies of an index space, and what A is on them.
//!
//! Level 0 is the space itself. Level l + 1 has ceil(n/2) elements along a dim that has n on level l; its element i lies where 2 i does there.
//! P interpolates linearly along every dim, per component: an element between two has the mean of both, and a last one behind its only
//! parent a copy, so that constants stay what they are. A_{l+1} = P^T A_l P (Galerkin). Rows of scalars that take no part are 0 on level
//! 0, and so on every other.
//!
//! | file | holds |
//! |---|---|
//! | [`shape`] | the hierarchy of a space, and the numbers of its fields |
//! | [`marks`] | pipelines per mask: the vectors of a level that hold nothing but 0 |
//! | [`pattern`] | the entries of A that a level stores, which do not depend on its sizes |
//! | [`galerkin`] | pipelines of J^T J and of D per linearisation: level 0, the next coarser one, or both at once |
//! | [`smoother`] | pipelines per damping: A of both, and the smoothers |
//! | [`cycle`] | pipelines of a cycle: what a PCG iteration makes of r |
//! | [`coarsest`] | the inverse on the coarsest level |
//!
//! J^T J and D are apart on every level: D is linear in 1/R, so that another radius changes no more than the sum.
//!
//! Nothing but level 1 is made of level 0. So on a CPU its rows are made as that needs them ([`Hierarchy::rolls`]) and never reach memory.
//!
//! The pipelines of level 1 serve all coarser ones: the plan binds them to the vectors and sizes of each ([`Span`]).

pub mod coarsest;
pub mod cycle;
pub mod galerkin;
pub mod marks;
pub mod pattern;
pub mod shape;
pub mod smoother;

use crate::matrix_free::draft::{Draft, coordinates, vars};
use crate::matrix_free::params::Size;
use crate::matrix_free::preconditioner::hierarchy::pattern::Pattern;
use crate::matrix_free::preconditioner::hierarchy::shape::{Hierarchy, Of};
use crate::matrix_free::skeleton::{Field, Scheduled, Skeleton, Space, Span};
use crate::matrix_free::vectors::{Extents, Initial, VectorId, What};
use sumsq_codegen::{Expr, ScalarType, Var};

/// The fields of a space with a hierarchy, from 1 on: see [`Hierarchy::field`].
pub fn fields(of: &Hierarchy, space: &Space, linear: ScalarType) -> Vec<Field> {
    let id = space.id;
    let initial = Initial::ZerosPerMask;
    let (fine, coarse) = (of.finest.reach() + 1, of.coarse.reach() + 1);
    let points = Extents::Level { space: id, level: 1, reach: coarse };
    let vector = |width| Field { level: 1, points, width, ty: linear, initial };
    let (diagonal, all) = (of.pairs.components(), of.pairs.list().len() + of.pairs.components());
    let matrix = |level, reach, pairs: usize, width| {
        let points = Extents::Pairs { space: id, level, reach, pairs: pairs as u16 };
        Field { level, points, width, ty: linear, initial }
    };
    let f64 = |level, points, width| Field { level, points, width, ty: ScalarType::F64, initial };
    let mut fields = vec![
        f64(1, Extents::Scalar, 1),
        vector(space.components),
        vector(space.components),
        vector(space.components),
        f64(0, Extents::Coarsest(id), space.components),
    ];
    fields.extend(of.coarse.parts().map(|part| matrix(1, coarse, diagonal, part.len())));
    fields.extend(of.coarse.parts().map(|part| matrix(1, coarse, all, part.len())));
    if !of.rolls {
        fields.extend(of.finest.parts().map(|part| matrix(0, fine, all, part.len())));
    }
    if of.skips {
        let vectors = Extents::LevelVectors { space: id, level: 1, reach: coarse };
        let bytes = |points| Field { level: 1, points, width: 1, ty: ScalarType::U8, initial };
        fields.extend([points, vectors].map(bytes));
    }
    fields
}

/// A level that pipelines are built for, with its space.
#[derive(Clone, Copy)]
pub struct Grid<'a> {
    /// The solver that it is part of.
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

    /// J^T J and D, part by part.
    pub fn matrix(&self) -> Vec<VectorId> {
        (0..self.pattern().parts().count()).map(|part| self.id(Of::Matrix(part))).collect()
    }

    /// The diagonal pairs of A, part by part.
    pub fn diagonal(&self) -> Vec<VectorId> {
        (0..self.pattern().parts().count()).map(|part| self.id(Of::Diagonal(part))).collect()
    }

    /// The ways of A.
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

    /// They, and the number of a pair.
    pub fn pair_vars(&self) -> Vec<Var> {
        self.vars().into_iter().chain([Var::new("pair")]).collect()
    }

    /// An element.
    pub fn at(&self) -> Vec<Expr> {
        coordinates(&self.vars())
    }

    /// A name of its pipelines.
    pub fn name(&self, what: &str) -> String {
        format!("{what}{}_m{}@{}", self.space.id.0, self.kind, self.level)
    }

    /// Once for level 0, else for all levels before the coarsest.
    pub fn level_span(&self) -> Span {
        match self.level {
            0 => Span::Once,
            from => self.span(from, u8::MAX, false),
        }
    }

    /// The levels from 1 to before the coarsest, of which those below `from` and from `to` on are left out.
    pub fn span(&self, from: u8, to: u8, descending: bool) -> Span {
        Span::Levels { space: self.space.id, from, to, descending }
    }
}

/// The finished pipeline over a span.
pub fn scheduled(d: Draft, span: Span) -> Vec<Scheduled> {
    d.finish().into_iter().map(|s| Scheduled { span, ..s }).collect()
}
