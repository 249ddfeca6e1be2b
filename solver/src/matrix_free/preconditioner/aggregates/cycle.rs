//! A cycle over the levels behind the finest, V(1,1) with block smoothers; matrices in float64, or in float32 for a PCG in that.

use crate::matrix_free::preconditioner::aggregates::blocks::{
    Blocks, ByColumns, Stored, add_product, apply_inverse, keep,
};
use crate::matrix_free::preconditioner::aggregates::level::Level;
use crate::matrix_free::preconditioner::aggregates::rows::each;
use sumsq_codegen::runtime::Pool;

/// Matrices of a level.
#[derive(Clone, Copy)]
pub struct Operators<'a, S> {
    /// A; nothing on the finest level.
    pub a: &'a Blocks<S>,
    /// The inverse of every diagonal block of A; likewise.
    pub inverse: &'a [S],
    /// w.
    pub weight: f64,
    /// P by columns; `None` on the coarsest level.
    pub columns: Option<&'a ByColumns>,
    /// P.
    pub p: &'a Blocks<S>,
}

/// Matrices of a level, rounded.
#[derive(Default)]
pub struct Rounded {
    a: Blocks<f32>,
    inverse: Vec<f32>,
    p: Blocks<f32>,
}

/// Vectors of a level: r, e and what is left of r.
pub type Vectors = [Vec<f64>; 3];

impl Rounded {
    /// Takes the numbers of a level; of the finest one P alone.
    pub fn keep(&mut self, pool: &Pool, of: &Level, finest: bool) {
        if !finest {
            self.a.keep(pool, &of.a);
            keep(pool, &of.inverse, &mut self.inverse);
        }
        if of.shape.is_some() {
            self.p.keep(pool, &of.p);
        }
    }

    /// The matrices of that level.
    pub fn operators<'a>(&'a self, of: &'a Level) -> Operators<'a, f32> {
        Operators { a: &self.a, inverse: &self.inverse, weight: of.weight, columns: of.columns(), p: &self.p }
    }
}

impl Level {
    /// Its matrices.
    pub fn operators(&self) -> Operators<'_, f64> {
        let Level { a, inverse, weight, p, .. } = self;
        Operators { a, inverse, weight: *weight, columns: self.columns(), p }
    }
}

/// P e of the finest level, e what a cycle over the others makes of P^T r; nothing is written where there are no others.
pub fn correct<S: Stored>(
    pool: &Pool,
    levels: &[Operators<'_, S>],
    inverse: Option<&[f64]>,
    [r, correction]: [&mut [f64]; 2],
    vectors: &mut [Vectors],
) {
    let Some((finest, coarser)) = levels.split_first() else { return };
    let Some(columns) = finest.columns.filter(|_| !coarser.is_empty()) else { return };
    finest.p.apply_transposed(pool, columns, r, &mut vectors[0][0]);
    cycle(pool, coarser, inverse, vectors);
    finest.p.apply(pool, &vectors[0][1], correction);
}

/// Makes e of r on the first of these levels; `inverse` is A^-1 on the last.
fn cycle<S: Stored>(
    pool: &Pool,
    levels: &[Operators<'_, S>],
    inverse: Option<&[f64]>,
    vectors: &mut [Vectors],
) {
    let (Some((level, coarser)), Some((own, others))) = (levels.split_first(), vectors.split_first_mut())
    else {
        return;
    };
    let [r, e, rest] = own;
    if let (true, Some(inverse)) = (coarser.is_empty(), inverse) {
        each(pool, e, 1, |i, e| {
            let row = inverse[i * r.len()..][..r.len()].iter();
            e[0] = row.zip(r.iter()).map(|(m, r)| m * r).sum();
        });
        return;
    }
    let block = level.a.height;
    apply_inverse(pool, level.inverse, block, level.weight, r, e);
    if let (Some(columns), false) = (level.columns, coarser.is_empty()) {
        level.rest(pool, r, e, rest);
        level.p.apply_transposed(pool, columns, rest, &mut others[0][0]);
        cycle(pool, coarser, inverse, others);
        let correction = &others[0][1];
        each(pool, e, block, |row, e| level.p.add_row(row, correction, 1.0, e));
    }
    level.rest(pool, r, e, rest);
    let inverse = level.inverse;
    each(pool, e, block, |row, e| {
        add_product(
            &inverse[row * block * block..][..block * block],
            &rest[row * block..][..block],
            level.weight,
            e,
        );
    });
}

impl<S: Stored> Operators<'_, S> {
    /// rest = r - A e.
    fn rest(&self, pool: &Pool, r: &[f64], e: &[f64], rest: &mut [f64]) {
        let block = self.a.height;
        each(pool, rest, block, |row, rest| {
            rest.copy_from_slice(&r[row * block..][..block]);
            self.a.add_row(row, e, -1.0, rest);
        });
    }
}
