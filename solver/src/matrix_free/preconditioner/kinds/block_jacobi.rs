//! M = the diagonal blocks of A, one per element, inverted by Cholesky. Where no residual couples the scalars of an element
//! that is Jacobi.

use crate::matrix_free::preconditioner::diagonal::Block;
use crate::matrix_free::preconditioner::inverse::{Matrix, STRAIGHT, lower};
use crate::matrix_free::preconditioner::{At, Preconditioner, is_not_zero};
use crate::matrix_free::skeleton::{Entries, Space, packed};
use crate::problem::options;
use std::ops::Range;
use sumsq_codegen::{Expr, Func, ScalarType};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, SpaceId};

/// M = the diagonal blocks of A. Field 0 is the packed inverse of each, one behind the other, or the inverses of the diagonal where they have
/// no more.
pub struct BlockJacobi;

impl Preconditioner for BlockJacobi {
    fn name(&self) -> &'static str {
        options::Preconditioner::BlockJacobi.name()
    }

    fn entries(&self, space: &Space) -> Entries {
        if space.coupled { Entries::Block } else { Entries::Diagonal }
    }

    fn width(&self, space: &Space) -> usize {
        self.entries(space).list(&space.blocks).len()
    }

    fn inverse(&self, of: &Block, beside: &mut Vec<Func>) -> Vec<Expr> {
        let c = of.active.len();
        if !of.space.coupled {
            return (0..c).map(|i| of.where_active(i, of.number(1.0) / of.damped(i))).collect();
        }
        of.space.blocks.iter().flat_map(|block| inverse_of(of, block, beside)).collect()
    }

    fn apply(&self, at: &At, r: &[Expr]) -> Vec<Expr> {
        let m = &at.inverse;
        if !at.space().coupled {
            return at.scaled(r);
        }
        let (mut z, mut first) = (vec![], 0);
        for block in &at.space().blocks {
            let (n, r) = (block.len(), &r[block.clone()]);
            let row = |i| (0..n).map(move |j| &m[first + packed(i, j)] * &r[j]);
            z.extend((0..n).map(|i| row(i).reduce(|a, b| a + b).expect("at least one component")));
            first += packed(n, 0);
        }
        z
    }

    fn takes_part(&self, at: &At, c: usize) -> Expr {
        let space = at.space();
        let wanted = if space.coupled { Entries::Block } else { Entries::Diagonal };
        let of_c = wanted.list(&space.blocks).iter().position(|&e| e == packed(c, c));
        is_not_zero(&at.inverse[of_c.expect("the diagonal is always kept")])
    }
}

/// The packed inverse of a block of A, and what is computed `beside` it.
fn inverse_of(of: &Block, block: &Range<usize>, beside: &mut Vec<Func>) -> Vec<Expr> {
    let shift = of.number(1.0 + block_shift(of.linear));
    let pairs = || lower(block.len()).map(|(i, j)| (block.start + i, block.start + j));
    let both = |i: usize, j: usize| of.active[i].and(of.active[j].clone());
    // An inactive scalar becomes an identity row, so that the others' block is inverted alone.
    let entry = |(i, j): (usize, usize)| {
        if i == j {
            return Expr::select(of.active[i].clone(), of.damped(i) * &shift, of.number(1.0));
        }
        let e = of.entries[i][j].clone().unwrap_or_else(|| of.number(0.0));
        Expr::select(both(i, j), e, of.number(0.0))
    };
    let a: Vec<Expr> = pairs().map(entry).collect();
    let matrix = Matrix { n: block.len(), entries: &a, least: 0.5 * block_shift(of.linear) };
    let inverse = match matrix.n <= STRAIGHT {
        true => matrix.inverse(),
        false => matrix.inverse_by_loops(&format!("{}_{}", of.space.id.0, block.start), of.vars, beside),
    };
    let masked = pairs().zip(inverse).map(|((i, j), e)| match i == j {
        true => of.where_active(i, e),
        false => Expr::select(both(i, j), e, of.number(0.0)),
    });
    masked.collect()
}

/// Unknown scalars of the element that has most.
pub fn largest_element(energy: &Energy) -> usize {
    let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
    spaces.map(|s| component_count(energy, s)).max().unwrap_or(0)
}

/// Relative shift of the diagonal of a block before it is inverted: well above the rounding of the inverse's entries, which are
/// up to 1/shift times those of the matrix. Where it was too small, a singular block's inverse would be indefinite.
fn block_shift(linear: ScalarType) -> f64 {
    if linear == ScalarType::F32 { 1e-5 } else { 1e-12 }
}
