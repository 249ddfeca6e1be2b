//! Small dense matrices: blocks of elements and what aggregates hold of candidates.

use crate::matrix_free::preconditioner::aggregates::loops::{Number, add_blocks, multiply_rows};
use crate::problem::aggregates::DEPENDENT;
use nalgebra::{Cholesky, DMatrix};
use smallvec::SmallVec;

/// Rows of blocks that need no memory but the stack's.
pub const MOST: usize = 16;

/// Makes the columns of a matrix B, row-major and `k` wide, orthonormal, the first ones first, and `r` the upper triangle R of B = T R. Where a
/// column depends on those before it, it is 0, and so is the row of R.
///
/// R is Cholesky's factor of B^T B. That squares B's condition, so T is made once more of what the first time leaves: behind that it is orthonormal
/// to rounding where columns are independent to the square root of that (Yamamoto and others, Roundoff error analysis of the CholeskyQR2 algorithm,
/// 2015).
pub fn orthonormalise(b: &mut [f64], k: usize, r: &mut [f64]) {
    let mut memory = vec![0.0; 3 * k * k];
    let (gram, others) = memory.split_at_mut(k * k);
    let (factor, inverse) = others.split_at_mut(k * k);
    r.fill(0.0);
    (0..k).for_each(|i| r[i * k + i] = 1.0);
    for _ in 0..2 {
        gram.fill(0.0);
        add_blocks(b, b, [k, k], gram);
        triangle(gram, k, factor);
        invert_triangle(factor, k, inverse);
        multiply_rows(b, inverse, k);
        multiply_rows(factor, r, k);
        r.copy_from_slice(factor);
    }
}

/// Writes the upper triangle U of U^T U = G. A row is 0 where the column of whatever G is the Gram matrix of depends on those before.
fn triangle(g: &[f64], k: usize, u: &mut [f64]) {
    u.fill(0.0);
    for i in 0..k {
        let rest = |u: &[f64], j| g[i * k + j] - (0..i).map(|s| u[s * k + i] * u[s * k + j]).sum::<f64>();
        let pivot = rest(u, i);
        if pivot > DEPENDENT * DEPENDENT * g[i * k + i] {
            let own = 1.0 / pivot.sqrt();
            (i..k).for_each(|j| u[i * k + j] = rest(u, j) * own);
        }
    }
}

/// Writes the inverse of an upper triangle; rows and columns are 0 where its diagonal is.
fn invert_triangle(u: &[f64], k: usize, inverse: &mut [f64]) {
    inverse.fill(0.0);
    for j in (0..k).filter(|&j| u[j * k + j] > 0.0) {
        inverse[j * k + j] = 1.0 / u[j * k + j];
        for i in (0..j).rev().filter(|&i| u[i * k + i] > 0.0) {
            let sum: f64 = (i + 1..=j).map(|s| u[i * k + s] * inverse[s * k + j]).sum();
            inverse[i * k + j] = -sum / u[i * k + i];
        }
    }
}

/// Writes the inverse of a symmetric positive matrix by Cholesky, the diagonal shifted; rows whose diagonal is 0 are left alone. The inverse of
/// the diagonal, where the matrix is not positive to rounding.
pub fn invert<S: Number>(a: &[S], n: usize, inverse: &mut [S]) {
    let a = |i: usize, j: usize| -> f64 { a[i * n + j].into() };
    let rows: SmallVec<[usize; MOST]> = (0..n).filter(|&i| a(i, i) > 0.0).collect();
    let (rows, m) = (&rows[..], rows.len());
    let mut memory = [0.0; MOST * MOST];
    let mut more = vec![];
    let l = match memory.get_mut(..m * m) {
        Some(l) => l,
        None => {
            more.resize(m * m, 0.0);
            &mut more[..]
        }
    };
    for (i, own) in l.chunks_exact_mut(m.max(1)).enumerate() {
        for j in 0..i + 1 {
            own[j] = a(rows[i], rows[j]);
        }
        own[i] *= 1.0 + S::SHIFT;
    }
    let is_positive = invert_positive(m, l);
    for i in 0..m {
        if !is_positive {
            inverse[rows[i] * n + rows[i]] = S::nearest(1.0 / a(rows[i], rows[i]));
            continue;
        }
        for j in 0..i + 1 {
            // Symmetric to the last bit.
            let entry = S::nearest(l[i * m + j]);
            inverse[rows[i] * n + rows[j]] = entry;
            inverse[rows[j] * n + rows[i]] = entry;
        }
    }
}

/// Makes the lower triangle of a symmetric matrix that of its inverse, by Cholesky; false, and it is whatever it is, where that is not positive.
fn invert_positive(m: usize, l: &mut [f64]) -> bool {
    // Loops of a length that the compiler knows, where it is a usual one.
    match m {
        0 => true,
        1 => of_size::<1>(l),
        2 => of_size::<2>(l),
        3 => of_size::<3>(l),
        4 => of_size::<4>(l),
        5 => of_size::<5>(l),
        6 => of_size::<6>(l),
        7 => of_size::<7>(l),
        8 => of_size::<8>(l),
        9 => of_size::<9>(l),
        12 => of_size::<12>(l),
        _ => {
            let whole = DMatrix::from_fn(m, m, |i, j| l[i.max(j) * m + i.min(j)]);
            let Some(factor) = Cholesky::new(whole) else { return false };
            l.copy_from_slice(factor.inverse().as_slice());
            true
        }
    }
}

#[expect(clippy::needless_range_loop, reason = "indices of rows and of columns")]
fn of_size<const M: usize>(l: &mut [f64]) -> bool {
    let Some(l) = l.as_chunks_mut::<M>().0.first_chunk_mut::<M>() else { return false };
    for j in 0..M {
        let mut pivot = l[j][j];
        for s in 0..j {
            pivot -= l[j][s] * l[j][s];
        }
        if pivot <= 0.0 || pivot.is_nan() {
            return false;
        }
        // The diagonal holds 1 / L_jj: nothing is multiplied by L_jj.
        l[j][j] = 1.0 / pivot.sqrt();
        for i in j + 1..M {
            let mut rest = l[i][j];
            for s in 0..j {
                rest -= l[i][s] * l[j][s];
            }
            l[i][j] = rest * l[j][j];
        }
    }
    // L^-1 in place of L, columns and rows from the last ones.
    for j in (0..M).rev() {
        for i in (j + 1..M).rev() {
            let mut sum = 0.0;
            for s in j + 1..i + 1 {
                sum += l[i][s] * l[s][j];
            }
            l[i][j] = -sum * l[j][j];
        }
    }
    for i in 0..M {
        for j in 0..i + 1 {
            let mut sum = 0.0;
            for s in i..M {
                sum += l[s][i] * l[s][j];
            }
            l[i][j] = sum;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::aggregates;

    /// Rows whose diagonal is 0 take no part, also where the matrix needs more memory than the stack's.
    #[test]
    fn blocks_are_inverted_where_scalars_take_part() {
        for n in [1, 2, 5, 6, 17, 20] {
            let root =
                DMatrix::from_fn(n, n, |i, j| aggregates::start(i * n + j) + f64::from(u8::from(i == j)));
            let mut a = &root * root.transpose();
            let off = n / 3;
            if n > 2 {
                (0..n).for_each(|i| (a[(i, off)], a[(off, i)]) = (0.0, 0.0));
            }
            let mut inverse = vec![0.0; n * n];
            invert(a.as_slice(), n, &mut inverse);
            let product = &a * DMatrix::from_row_slice(n, n, &inverse);
            let expected = DMatrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j && (n <= 2 || i != off))));
            assert!((product - expected).norm() <= 1e-7, "{n} rows");
        }
    }

    /// Also where columns depend on others, and where they nearly do.
    #[test]
    fn matrices_become_orthonormal_columns_and_a_triangle() {
        for (rows, k) in [(3, 1), (6, 2), (40, 6), (70, 13), (4, 6)] {
            let mut whole = DMatrix::from_fn(rows, k, |i, j| aggregates::start(i * k + j) + 2.0);
            let depends = k > 2;
            if depends {
                let sum = whole.column(0) * 3.0 - whole.column(1);
                whole.set_column(2, &sum);
                let near = whole.column(k - 1) * 1e-4 + whole.column(0);
                whole.set_column(k - 1, &near);
            }
            let mut t = whole.transpose().as_slice().to_vec();
            let mut r = vec![f64::NAN; k * k];
            orthonormalise(&mut t, k, &mut r);
            let (t, r) = (DMatrix::from_row_slice(rows, k, &t), DMatrix::from_row_slice(k, k, &r));
            assert!((&t * &r - &whole).norm() <= 1e-11 * whole.norm(), "{rows} x {k}");
            let gram = t.transpose() * &t;
            let on = |i: usize| gram[(i, i)] != 0.0;
            let expected = DMatrix::from_fn(k, k, |i, j| f64::from(u8::from(i == j && on(i))));
            assert!((gram.clone() - expected).norm() <= 1e-13, "{rows} x {k}: {gram}");
            let rank = (0..k).filter(|&i| on(i)).count();
            assert_eq!(rank, (k - usize::from(depends)).min(rows), "{rows} x {k}");
            assert!((0..k).all(|i| (0..i).all(|j| r[(i, j)] == 0.0) && (on(i) || r.row(i).norm() == 0.0)));
        }
    }
}
