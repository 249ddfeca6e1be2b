//! M by a hierarchy of grids: z = w M_0^-1 r + P e, with M_0 block Jacobi's and e what the coarser levels make of P^T r. Spaces whose
//! elements no stencil couples, or that have too many unknowns, keep block Jacobi.

use crate::matrix_free::draft::Draft;
use crate::matrix_free::preconditioner::diagonal::Block;
use crate::matrix_free::preconditioner::hierarchy::{self, Grid, cycle, galerkin, marks, smoother};
use crate::matrix_free::preconditioner::kinds::block_jacobi::BlockJacobi;
use crate::matrix_free::preconditioner::{At, M, Preconditioner};
use crate::matrix_free::skeleton::{Entries, Field, Scheduled, Skeleton, Space, When};
use crate::outer::forcing::Range;
use crate::problem::levels;
use crate::problem::options::{self, OptionError};
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::model::Energy;

/// M by a hierarchy of grids.
pub struct Multigrid;

impl Preconditioner for Multigrid {
    fn name(&self) -> &'static str {
        options::Preconditioner::Multigrid.name()
    }

    fn suits(&self, energy: &Energy) -> Result<(), OptionError> {
        levels::check_grids(energy)
    }

    fn has_hierarchies(&self) -> bool {
        true
    }

    fn entries(&self, space: &Space) -> Entries {
        BlockJacobi.entries(space)
    }

    fn width(&self, space: &Space) -> usize {
        BlockJacobi.width(space)
    }

    fn inverse(&self, of: &Block, beside: &mut Vec<Func>) -> Vec<Expr> {
        BlockJacobi.inverse(of, beside)
    }

    fn fields(&self, space: &Space, linear: ScalarType) -> Vec<Field> {
        space.hierarchy.as_ref().map(|of| hierarchy::fields(of, space, linear)).unwrap_or_default()
    }

    fn stages(&self, when: When) -> u8 {
        match when {
            When::Masked => 2,
            When::Linearised => 3,
            When::Damped => 2,
            When::Iteration => 6,
        }
    }

    fn pipelines(&self, k: &Skeleton, kind: u8, when: When, stage: u8) -> Vec<Scheduled> {
        let m = M { kind, of: self };
        let pipelines = |finest: Grid| {
            // What serves the coarser levels is built for the first of them.
            let coarse = finest.next();
            match (when, stage) {
                (When::Masked, 0) if finest.of.skips => marks::marks(finest),
                (When::Masked, 1) if finest.of.skips => marks::marks(coarse),
                (When::Linearised, 0) if !finest.of.rolls => galerkin::finest(m, finest),
                (When::Linearised, 1) if finest.of.rolls => galerkin::coarsen_rolling(m, finest),
                (When::Linearised, 1) => galerkin::coarsen(finest),
                (When::Linearised, 2) => galerkin::coarsen(coarse),
                (When::Damped, 0) => smoother::damped(coarse),
                (When::Damped, 1) => smoother::smoother(coarse),
                (When::Iteration, 0) => cycle::restrict_finest(finest),
                (When::Iteration, 1) if finest.of.additive > 1 => cycle::restrict(coarse),
                (When::Iteration, 2) => cycle::down(coarse),
                (When::Iteration, 3) => cycle::solve(coarse),
                (When::Iteration, 4) => cycle::up(coarse),
                (When::Iteration, 5) if finest.of.additive > 1 => cycle::add(coarse),
                _ => vec![],
            }
        };
        Grid::finest(k, kind).flat_map(pipelines).collect()
    }

    fn apply_own(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        let own = BlockJacobi.apply(at, r);
        let Some(of) = &at.space().hierarchy else { return own };
        let w = Expr::float(r[0].ty().scalar, 4.0 / (3.0 * of.elements as f64));
        own.into_iter().map(|z| &w * z).collect()
    }

    fn product_of_levels(&self, d: &mut Draft, kind: u8, space: &Space) -> Option<Expr> {
        let of = space.hierarchy.as_ref()?;
        Some(cycle::product(d, &Grid { k: d.k, kind, space, of, level: 1 }))
    }

    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        let own = self.apply_own(at, r);
        let Some(of) = &at.space().hierarchy else { return own };
        let grid = Grid { k: at.draft.k, kind: at.kind, space: at.space(), of, level: 0 };
        let ty = r[0].ty().scalar;
        let e = cycle::interpolated(at.draft, &grid, at.coordinates);
        // Where M_0 is computed, it is not 0 out of the domain.
        let inside = match at.space().inline_diagonal {
            true => galerkin::inside(&grid, at.coordinates),
            false => vec![],
        };
        let value = |(c, (z, e)): (usize, (&Expr, &Expr))| {
            let on = inside.iter().fold(self.takes_part(at, c), |on, inside| on.and(inside.clone()));
            Expr::select(on, z + e.cast(ty), Expr::float(ty, 0.0))
        };
        own.iter().zip(&e).enumerate().map(value).collect()
    }

    fn eta(&self) -> Option<Range> {
        Range::of(options::Preconditioner::Multigrid)
    }

    fn takes_part(&self, at: &At, c: usize) -> Expr {
        BlockJacobi.takes_part(at, c)
    }
}
