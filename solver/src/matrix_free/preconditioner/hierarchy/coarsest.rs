//! The inverse of A on the coarsest level, which the host makes: at most [`COARSEST`](crate::problem::grids::COARSEST) rows.

use crate::matrix_free::preconditioner::hierarchy::pattern::PART;
use crate::matrix_free::preconditioner::hierarchy::shape::{Hierarchy, coordinates_of, number_of};
use nalgebra::{Cholesky, DMatrix};
use sumsq_codegen::Name;
use sumsq_codegen::runtime::Buffer;
use sumsq_energy::model::SpaceId;

/// What the diagonal is raised by, in its own measure: A may be singular to rounding, where nothing holds the unknowns in place.
const SHIFT: f64 = 1e-8;

/// The beginning of the names of the host's steps.
const HOST_STEP: &str = "invert ";

/// The largest raise that is tried: what rounding in float32 does to A is far less.
const LARGEST: f64 = 1e-2;

/// A^-1, symmetric and positive definite, by Cholesky in float64. Rows of scalars that take no part are 0.
fn inverted(a: &DMatrix<f64>) -> DMatrix<f64> {
    let n = a.nrows();
    let takes_part = |i: usize| a[(i, i)] > 0.0;
    let mut shift = SHIFT;
    let mut inverse = DMatrix::zeros(n, n);
    while shift <= LARGEST {
        let shifted = DMatrix::from_fn(n, n, |i, j| match (takes_part(i) && takes_part(j), i == j) {
            (true, true) => a[(i, j)] * (1.0 + shift),
            (true, false) => a[(i, j)],
            (false, same) => f64::from(u8::from(same)),
        });
        if let Some(factor) = Cholesky::new(shifted) {
            let lower = factor.l();
            let identity = DMatrix::identity(n, n);
            let root = lower.solve_lower_triangular(&identity).unwrap_or(identity);
            inverse = root.tr_mul(&root);
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
    DMatrix::from_fn(n, n, symmetric)
}

/// The name of the host's step in a program.
pub fn host_step(kind: u8, space: SpaceId) -> Name {
    format!("{HOST_STEP}{kind}.{}", space.0).into()
}

/// The preconditioner and the space that such a name is of.
pub fn of_host_step(name: &str) -> Option<(u8, SpaceId)> {
    let (kind, space) = name.strip_prefix(HOST_STEP)?.split_once('.')?;
    Some((kind.parse().ok()?, SpaceId(space.parse().ok()?)))
}

/// Reads A of the coarsest level, part by part, and writes its inverse: row by element and channel, column by the last coordinate, the number of a
/// scalar with components fastest.
pub fn invert(of: &Hierarchy, components: usize, parts: &[&Buffer], inverse: &Buffer) {
    let Some(first) = parts.first() else { return };
    let extents = first.spec().extents.clone();
    let elements: i32 = extents.iter().product();
    let n = elements as usize * components;
    let mut dense = DMatrix::zeros(n, n);
    for element in 0..elements {
        let at = coordinates_of(element, &extents);
        for (channel, entry) in of.coarse.entries().iter().enumerate() {
            let there: Vec<i32> = at.iter().zip(&entry.offset).map(|(x, o)| x + o).collect();
            let (Some(column), Some(value)) =
                (number_of(&there, &extents), parts[channel / PART].get::<f64>(&at, channel % PART))
            else {
                continue;
            };
            let (i, j) = (element as usize * components + entry.row, column * components + entry.column);
            (dense[(i, j)], dense[(j, i)]) = (value, value);
        }
    }
    let inverted = inverted(&dense);
    for (element, column) in (0..elements).flat_map(|e| (0..n).map(move |column| (e, column))) {
        let at: Vec<i32> = coordinates_of(element, &extents).into_iter().chain([column as i32]).collect();
        for c in 0..components {
            inverse.set(&at, c, inverted[(element as usize * components + c, column)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let a = DMatrix::from_fn(5, 5, entry);
        let inverse = inverted(&a);
        assert_eq!(inverse, inverse.transpose());
        assert!(inverse.row(4).iter().all(|v| *v == 0.0));
        let own = inverse.view((0, 0), (4, 4)).into_owned();
        assert!(own.clone().symmetric_eigenvalues().iter().all(|v| *v > 0.0));
        // On what is not in the null space it is A^-1.
        let r = nalgebra::DVector::from_vec(vec![1.0, -1.0, 2.0, -2.0]);
        let back = a.view((0, 0), (4, 4)) * (&own * &r);
        assert!((back - &r).norm() <= 1e-6 * r.norm());
    }
}
