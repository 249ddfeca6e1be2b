//! The inverse of A on the coarsest level, which the host makes: at most `COARSEST` rows.

use crate::matrix_free::preconditioner::hierarchy::pattern::{PART, is_own};
use crate::matrix_free::preconditioner::hierarchy::shape::{Hierarchy, coordinates_of, number_of};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::{Mat, Par};
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::{Buffer, BufferError};

/// The share by which the diagonal is raised, for A in float64 and in float32: A may be singular to rounding, where nothing holds the unknowns in
/// place. There r has a part of rounding, too, which the inverse is not to make a step of.
const SHIFTS: [f64; 2] = [1e-8, 1e-6];

/// The largest raise that is tried: what rounding in float32 does to A is far less.
const LARGEST: f64 = 1e-2;

/// A^-1, symmetric and positive definite, by Cholesky in float64, of A in the type that PCG has. Rows of scalars that take no part are 0.
pub fn inverted(a: &Mat<f64>, linear: ScalarType) -> Mat<f64> {
    let n = a.nrows();
    let takes_part = |i: usize| a[(i, i)] > 0.0;
    let mut shift = SHIFTS[usize::from(linear == ScalarType::F32)];
    let mut inverse = Mat::zeros(n, n);
    while shift <= LARGEST {
        let shifted = Mat::from_fn(n, n, |i, j| match (takes_part(i) && takes_part(j), i == j) {
            (true, true) => a[(i, j)] * (1.0 + shift),
            (true, false) => a[(i, j)],
            (false, same) => f64::from(u8::from(same)),
        });
        if let Some(lower) = lower_inverse(shifted) {
            inverse = lower;
            break;
        }
        shift *= 10.0;
    }
    // Nothing but the diagonal is left of a matrix that is not even nearly positive.
    if shift > LARGEST {
        (0..n).filter(|&i| takes_part(i)).for_each(|i| inverse[(i, i)] = 1.0 / a[(i, i)]);
    }
    let symmetric =
        |i: usize, j: usize| if takes_part(i) && takes_part(j) { inverse[(i.max(j), i.min(j))] } else { 0.0 };
    Mat::from_fn(n, n, symmetric)
}

/// The lower triangle of the inverse of a positive definite matrix, on one thread: its bits depend on nothing else.
fn lower_inverse(mut a: Mat<f64>) -> Option<Mat<f64>> {
    let n = a.nrows();
    let scratch = llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default());
    let mut memory =
        MemBuffer::try_new(scratch.or(llt::inverse::inverse_scratch::<f64>(n, Par::Seq))).ok()?;
    let stack = MemStack::new(&mut memory);
    llt::factor::cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default())
        .ok()?;
    let mut inverse = Mat::zeros(n, n);
    llt::inverse::inverse(inverse.as_mut(), a.as_ref(), Par::Seq, stack);
    Some(inverse)
}

/// Reads A of the coarsest level, the diagonal pairs and all pairs part by part, and writes its inverse: row by element and channel, column by the
/// last coordinate, the number of a scalar with components fastest.
///
/// # Errors
/// A device that does not take it.
pub fn invert(
    of: &Hierarchy,
    [diagonal, matrix]: [&[&Buffer]; 2],
    inverse: &Buffer,
) -> Result<(), BufferError> {
    let Some(first) = matrix.first() else { return Ok(()) };
    let Some((_, extents)) = first.spec().extents.split_last() else { return Ok(()) };
    let components = of.pairs.components();
    let elements: i32 = extents.iter().product();
    let n = elements as usize * components;
    let [diagonal, matrix] =
        [diagonal, matrix].map(|parts| parts.iter().map(|p| p.to_vec()).collect::<Vec<Vec<f64>>>());
    let mut dense = Mat::zeros(n, n);
    for element in 0..elements {
        let at = coordinates_of(element, extents);
        for (number, way) in of.coarse.ways().iter().enumerate() {
            let there: Vec<i32> = at.iter().zip(way).map(|(x, o)| x + o).collect();
            let Some(column) = number_of(&there, extents) else { continue };
            let width = of.coarse.parts().nth(number / PART).map_or(0, <[_]>::len);
            for (pair, &(r, c)) in of.pairs.list().iter().enumerate() {
                if is_own(way) && r < c {
                    continue;
                }
                let values = if r == c { &diagonal } else { &matrix };
                let value = values[number / PART]
                    [(pair * elements as usize + element as usize) * width + number % PART];
                let (i, j) = (element as usize * components + r, column * components + c);
                (dense[(i, j)], dense[(j, i)]) = (value, value);
            }
        }
    }
    let inverted = inverted(&dense, first.spec().ty);
    let values: Vec<f64> =
        (0..n).flat_map(|column| (0..n).map(move |row| (row, column))).map(|at| inverted[at]).collect();
    inverse.copy_from(&values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;

    /// The second difference with free ends has the constants as its null space; the last row takes no part.
    #[test]
    fn singular_matrices_have_an_inverse_that_is_symmetric_and_positive() {
        let entry = |i: usize, j: usize| match (i, j) {
            (4, _) | (_, 4) => 0.0,
            (0, 0) | (3, 3) => 1.0,
            (i, j) if i == j => 2.0,
            (i, j) if i.abs_diff(j) == 1 => -1.0,
            _ => 0.0,
        };
        let a = Mat::from_fn(5, 5, entry);
        let inverse = inverted(&a, ScalarType::F64);
        let inverse = DMatrix::from_fn(5, 5, |i, j| inverse[(i, j)]);
        assert_eq!(inverse, inverse.transpose());
        assert!(inverse.row(4).iter().all(|v| *v == 0.0));
        let own = inverse.view((0, 0), (4, 4)).into_owned();
        assert!(own.clone().symmetric_eigenvalues().iter().all(|v| *v > 0.0));
        // On what is not in the null space it is A^-1.
        let r = nalgebra::DVector::from_vec(vec![1.0, -1.0, 2.0, -2.0]);
        let back = DMatrix::from_fn(4, 4, entry) * (&own * &r);
        assert!((back - &r).norm() <= 1e-6 * r.norm());
    }
}
