//! The vectors of every coarser level that hold nothing but 0, per mask: nests leave them out.
//!
//! P reads an element of level l + 1 at its children on level l. So where no child of an element is free, nor any of theirs, its row of A is 0, and r and
//! the correction are; vectors of such elements are never written. They are 0 from the moment on when the mask was made.

use crate::matrix_free::domain::mask::{greatest, is_set};
use crate::matrix_free::draft::Draft;
use crate::matrix_free::preconditioner::hierarchy::shape::Of;
use crate::matrix_free::preconditioner::hierarchy::{Grid, scheduled};
use crate::matrix_free::schedule::{Strip, grain};
use crate::matrix_free::skeleton::Scheduled;
use crate::matrix_free::vectors::{Role, VectorId, What};
use sumsq_codegen::{Expr, Func};

/// The marks of the next level.
pub fn marks(grid: Grid) -> Vec<Scheduled> {
    let mut d = Draft::new(grid.k, grid.name("marks"), Role::Master);
    let (next, vars, own) = (grid.next(), grid.vars(), grid.marks(Of::Free));
    d.input(own);
    let children = grid.children(&grid.at(), 0);
    let free = children.iter().map(|at| d.element(own, at, 0)).reduce(|a, b| a.max(b));
    let free = d.func(next.id(Of::Free), &vars, vec![free.expect("an element has children")]);
    let strip = Strip::Level(next.space.id, next.level);
    d.map(&free, strip);
    d.output(&free, next.id(Of::Free));
    let vector = i64::from(grain(&grid.k.target));
    let element = |at: &[Expr], i: Expr| {
        let mut at = at.to_vec();
        at[0] = (&at[0] * vector + i).min(next.extent(0) - 1);
        free.at(&at, 0)
    };
    let live = next.id(Of::Live);
    let f = greatest(&mut d, &live.to_string(), (vars.len(), strip), [0, vector as i32], element);
    d.output(&f, live);
    scheduled(d, grid.level_span())
}

/// Skips the vectors of the nest of `f` that hold no descendants of free elements of a level.
pub fn skip(d: &mut Draft, grid: &Grid, f: &Func, at: &[Expr]) {
    let live = grid.live(d, &[at.to_vec()]);
    d.skip_unless(f, live);
}

impl Grid<'_> {
    /// Marks of this level.
    fn marks(&self, of: Of) -> VectorId {
        match (self.level, of) {
            (0, Of::Live) => What::Live.of(self.space.id),
            (0, _) => What::Free.of(self.space.id),
            _ => self.id(of),
        }
    }

    /// True if the vector at one of these elements holds a descendant of a free one; absent where nothing is skipped.
    pub fn live(&self, d: &mut Draft, at: &[Vec<Expr>]) -> Option<Expr> {
        if !self.of.skips {
            return None;
        }
        let live = self.marks(Of::Live);
        d.input(live);
        let vector = i64::from(grain(&self.k.target));
        let marks = at.iter().map(|at| {
            let mut at = at.clone();
            at[0] = &at[0] / vector;
            is_set(live, &at)
        });
        marks.reduce(|a, b| a.or(b))
    }

    /// The elements of this level whose coordinates from dim `first` on are those of children of an element of the next one, and others its own. Out of
    /// the domain there are none: the nearest one inside is another child.
    pub fn children(&self, at: &[Expr], first: usize) -> Vec<Vec<Expr>> {
        let mut all = vec![at.to_vec()];
        for dim in first..at.len() {
            let child = |of: &Vec<Expr>, a: i64| {
                let mut of = of.clone();
                of[dim] = (&of[dim] * 2i64 + a).max(Expr::from(0)).min(self.extent(dim) - 1);
                of
            };
            all = all.iter().flat_map(|of| (-1..=1).map(move |a| child(of, a))).collect();
        }
        all
    }
}
