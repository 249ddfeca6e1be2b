//! Small dense matrices: blocks of elements and what aggregates hold of candidates.

use crate::matrix_free::preconditioner::aggregates::blocks::{Number, add_blocks, add_product};
use crate::problem::aggregates::DEPENDENT;
use smallvec::{SmallVec, smallvec};

/// Rows of blocks that need no memory but the stack's.
pub const MOST: usize = 16;

/// Makes the columns of a matrix B, row-major and `k` wide, orthonormal, the first ones first, and `r` the upper triangle R of B = T R. Where a
/// column depends on those before it, it is 0, and so is the row of R.
///
/// R is Cholesky's factor of B^T B. That squares B's condition, so T is made once more of what the first time leaves: behind that it is orthonormal
/// to rounding where columns are independent to the square root of that (Yamamoto and others, Roundoff error analysis of the CholeskyQR2 algorithm,
/// 2015).
pub fn orthonormalise(b: &mut [f64], k: usize, r: &mut [f64]) {
    let mut memory = vec![0.0; 4 * k * k + k];
    let (gram, others) = memory.split_at_mut(k * k);
    let (factor, others) = others.split_at_mut(k * k);
    let (inverse, others) = others.split_at_mut(k * k);
    let (before, row) = others.split_at_mut(k * k);
    r.fill(0.0);
    (0..k).for_each(|i| r[i * k + i] = 1.0);
    for _ in 0..2 {
        gram.fill(0.0);
        add_blocks(b, b, [k, k], gram);
        triangle(gram, k, factor);
        invert_triangle(factor, k, inverse);
        for of in b.chunks_exact_mut(k) {
            row.fill(0.0);
            add_product(inverse, of, row);
            of.copy_from_slice(row);
        }
        before.copy_from_slice(r);
        r.fill(0.0);
        for (row, r) in factor.chunks_exact(k).zip(r.chunks_exact_mut(k)) {
            add_product(before, row, r);
        }
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
    let m = rows.len();
    let mut l: SmallVec<[f64; MOST * MOST]> = smallvec![0.0; m * m];
    for (i, &row) in rows.iter().enumerate() {
        rows[..=i].iter().enumerate().for_each(|(j, &column)| l[i * m + j] = a(row, column));
        l[i * m + i] *= 1.0 + S::SHIFT;
    }
    // Loops of a length that the compiler knows, where it is a usual one.
    let is_positive = match m {
        3 => invert_positive(3, &mut l),
        6 => invert_positive(6, &mut l),
        m => invert_positive(m, &mut l),
    };
    for (i, &row) in rows.iter().enumerate() {
        if !is_positive {
            inverse[row * n + row] = S::nearest(1.0 / a(row, row));
            continue;
        }
        for (j, &column) in rows[..=i].iter().enumerate() {
            // Symmetric to the last bit.
            let entry = S::nearest(l[i * m + j]);
            (inverse[row * n + column], inverse[column * n + row]) = (entry, entry);
        }
    }
}

/// Makes the lower triangle of a symmetric matrix that of its inverse, by Cholesky; false, and it is whatever it is, where that is not positive.
#[inline(always)]
fn invert_positive(m: usize, l: &mut [f64]) -> bool {
    let l = &mut l[..m * m];
    for j in 0..m {
        let pivot = l[j * m + j] - (0..j).map(|s| l[j * m + s] * l[j * m + s]).sum::<f64>();
        if pivot <= 0.0 || pivot.is_nan() {
            return false;
        }
        // The diagonal holds 1 / L_jj: nothing is multiplied by L_jj.
        let own = 1.0 / pivot.sqrt();
        for i in j + 1..m {
            let rest = l[i * m + j] - (0..j).map(|s| l[i * m + s] * l[j * m + s]).sum::<f64>();
            l[i * m + j] = rest * own;
        }
        l[j * m + j] = own;
    }
    // L^-1 in place of L, columns and rows from the last ones.
    for j in (0..m).rev() {
        for i in (j + 1..m).rev() {
            let sum: f64 = (j + 1..=i).map(|s| l[i * m + s] * l[s * m + j]).sum();
            l[i * m + j] = -sum * l[j * m + j];
        }
    }
    for i in 0..m {
        for j in 0..=i {
            l[i * m + j] = (i..m).map(|s| l[s * m + i] * l[s * m + j]).sum();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::aggregates;
    use nalgebra::DMatrix;

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
