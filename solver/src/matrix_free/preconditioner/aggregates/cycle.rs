//! A cycle over the levels behind the finest, V(1,1) with block smoothers.

use crate::matrix_free::preconditioner::aggregates::blocks::apply_inverse;
use crate::matrix_free::preconditioner::aggregates::level::Level;
use crate::matrix_free::preconditioner::aggregates::loops::{Number, add_product};
use crate::matrix_free::preconditioner::aggregates::rows::each;
use sumsq_codegen::runtime::Pool;

/// Vectors of a level: r, e and what is left of r.
pub type Vectors<S> = [Vec<S>; 3];

/// P e of the finest level, e what a cycle over the others makes of P^T r; nothing is written where there are no others.
pub fn correct<S: Number>(
    pool: &Pool,
    levels: &[Level<S>],
    inverse: Option<&[f64]>,
    [r, correction]: [&mut [S]; 2],
    vectors: &mut [Vectors<S>],
) {
    let Some((finest, coarser)) = levels.split_first() else { return };
    if coarser.is_empty() {
        return;
    }
    finest.columns.apply_transposed(pool, r, &mut vectors[0][0]);
    cycle(pool, coarser, inverse, vectors);
    finest.p.apply(pool, &vectors[0][1], correction);
}

/// Makes e of r on the first of these levels; `inverse` is A^-1 on the last.
fn cycle<S: Number>(pool: &Pool, levels: &[Level<S>], inverse: Option<&[f64]>, vectors: &mut [Vectors<S>]) {
    let (Some((level, coarser)), Some((own, others))) = (levels.split_first(), vectors.split_first_mut())
    else {
        return;
    };
    let [r, e, rest] = own;
    if let (true, Some(inverse)) = (coarser.is_empty(), inverse) {
        each(pool, e, 1, |i, e| {
            let row = inverse[i * r.len()..][..r.len()].iter();
            e[0] = S::nearest(row.zip(r.iter()).map(|(m, &r)| m * r.into()).sum());
        });
        return;
    }
    let (block, smoother) = (level.block(), &level.smoother);
    apply_inverse(pool, smoother, block, r, e);
    if !coarser.is_empty() {
        level.rest(pool, r, e, rest);
        level.columns.apply_transposed(pool, rest, &mut others[0][0]);
        cycle(pool, coarser, inverse, others);
        let correction = &others[0][1];
        each(pool, e, block, |row, e| level.p.add_row(row, correction, e));
    }
    level.rest(pool, r, e, rest);
    each(pool, e, block, |row, e| {
        add_product(&smoother[row * block * block..][..block * block], &rest[row * block..][..block], e);
    });
}

impl<S: Number> Level<S> {
    /// rest = r - A e.
    fn rest(&self, pool: &Pool, r: &[S], e: &[S], rest: &mut [S]) {
        let block = self.block();
        each(pool, rest, block, |row, rest| {
            rest.fill(S::default());
            self.a.add_row(row, e, rest);
            rest.iter_mut().zip(&r[row * block..]).for_each(|(rest, r)| *rest = *r - *rest);
        });
    }
}
