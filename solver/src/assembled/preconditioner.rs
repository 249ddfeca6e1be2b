//! The preconditioners of the assembled path: the diagonal blocks of A, of size 0 (none), 1 (Jacobi), or of
//! [`blocks`] of an element (block Jacobi).

use crate::assembled::{Explicit, Jacobian};
use crate::problem::blocks;
use crate::problem::options::Preconditioner;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rayon::prelude::*;
use sumsq_energy::model::{Energy, SpaceId};

/// Relative shift of a block's diagonal before its factorisation: a block may be singular to rounding.
const BLOCK_SHIFT: f64 = 1e-12;

/// Blocks of one task.
const GRAIN: usize = 256;

/// Returns what `requested` means for `energy`: `Auto` becomes `None` if the energy says so, else block Jacobi where an element has
/// several unknown scalars, else Jacobi.
pub fn resolve(requested: Preconditioner, energy: &Energy) -> Preconditioner {
    if requested != Preconditioner::Auto {
        return requested;
    }
    let scalars_at = |s: usize| {
        let unknowns = energy.unknowns.iter().filter(|f| f.space.index() == s);
        unknowns.map(|f| usize::from(f.channels)).sum::<usize>()
    };
    if energy.use_preconditioner == Some(false) {
        Preconditioner::None
    } else if (0..energy.spaces.len()).any(|s| scalars_at(s) > 1) {
        Preconditioner::BlockJacobi
    } else {
        Preconditioner::Jacobi
    }
}

/// M of one element each, by its inverse. 0 at unconstrained unknowns.
pub(super) enum BlockDiagonal {
    /// M^-1 is diagonal.
    Diagonal(Vec<f64>),
    /// Columns of J and the factorised block of A, per element.
    Blocks(Vec<(Vec<u32>, BlockInverse)>),
}

/// Inverse of a block.
pub(super) enum BlockInverse {
    Factor(Cholesky<f64, Dyn>),
    /// Its diagonal, where the block is not positive definite.
    Diagonal(Vec<f64>),
}

/// The columns of J of each block that has any, if this kind of M is made of them.
pub(super) fn element_blocks(kind: Preconditioner, problem: &Explicit<'_>) -> Vec<Vec<u32>> {
    if matches!(kind, Preconditioner::None | Preconditioner::Jacobi) {
        return vec![];
    }
    let spaces = (0..problem.energy.spaces.len()).map(|s| SpaceId(s as u32));
    let elements = spaces.flat_map(|s| (0..problem.layout.elements(s)).map(move |e| (s, e)));
    let of_element = |(s, e)| {
        blocks::of_space(&problem.energy, s).into_iter().map(move |run| problem.columns_of(s, e, run))
    };
    elements.flat_map(of_element).filter(|block| !block.is_empty()).collect()
}

impl BlockDiagonal {
    /// M for A = J^T J + diag(`damping`), with `diag` = diag(J^T J). `blocks` are those of [`element_blocks`].
    pub fn new(
        kind: Preconditioner,
        jacobian: &Jacobian,
        diag: &[f64],
        damping: &[f64],
        blocks: &[Vec<u32>],
    ) -> BlockDiagonal {
        let constrained = |i: usize, value: f64| if diag[i] == 0.0 { 0.0 } else { value };
        let inverse = |i: usize| constrained(i, 1.0 / (diag[i] + damping[i]));
        match kind {
            Preconditioner::None => {
                BlockDiagonal::Diagonal((0..diag.len()).map(|i| constrained(i, 1.0)).collect())
            }
            Preconditioner::Jacobi => BlockDiagonal::Diagonal((0..diag.len()).map(inverse).collect()),
            Preconditioner::BlockJacobi
            | Preconditioner::Auto
            | Preconditioner::Multigrid
            | Preconditioner::Aggregation => {
                let factorise = |block: &Vec<u32>| {
                    let columns: Vec<u32> =
                        block.iter().copied().filter(|&c| diag[c as usize] != 0.0).collect();
                    let factor = BlockInverse::new(jacobian, &columns, damping);
                    (columns, factor)
                };
                BlockDiagonal::Blocks(blocks.par_iter().with_min_len(GRAIN).map(factorise).collect())
            }
        }
    }

    /// M^-1 r.
    pub fn apply_inverse(&self, r: &[f64]) -> Vec<f64> {
        match self {
            BlockDiagonal::Diagonal(inverse) => inverse.iter().zip(r).map(|(m, r)| m * r).collect(),
            BlockDiagonal::Blocks(blocks) => {
                let mut z = vec![0.0; r.len()];
                for (columns, block) in blocks {
                    let mut local =
                        DVector::from_iterator(columns.len(), columns.iter().map(|&c| r[c as usize]));
                    block.solve(&mut local);
                    columns.iter().zip(local.iter()).for_each(|(&c, &v)| z[c as usize] = v);
                }
                z
            }
        }
    }
}

impl BlockInverse {
    fn new(jacobian: &Jacobian, columns: &[u32], damping: &[f64]) -> BlockInverse {
        let mut a = gram_block(jacobian, columns);
        for (i, &c) in columns.iter().enumerate() {
            a[(i, i)] += damping[c as usize];
            a[(i, i)] *= 1.0 + BLOCK_SHIFT;
        }
        let diagonal = a.diagonal();
        match Cholesky::new(a) {
            Some(factor) => BlockInverse::Factor(factor),
            None => BlockInverse::Diagonal(diagonal.iter().map(|d| 1.0 / d).collect()),
        }
    }

    fn solve(&self, v: &mut DVector<f64>) {
        match self {
            BlockInverse::Factor(factor) => factor.solve_mut(v),
            BlockInverse::Diagonal(inverse) => v.iter_mut().zip(inverse).for_each(|(v, m)| *v *= m),
        }
    }
}

/// The block of J^T J of some columns, ascending: a merge of each pair of sparse columns.
fn gram_block(jacobian: &Jacobian, columns: &[u32]) -> DMatrix<f64> {
    let n = columns.len();
    let transpose = jacobian.columns();
    let column = |i: usize| {
        let range = transpose.indptr().outer_inds_sz(columns[i] as usize);
        (&transpose.indices()[range.clone()], &transpose.data()[range])
    };
    let mut a = DMatrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let value = sparse_dot(column(i), column(j));
            (a[(i, j)], a[(j, i)]) = (value, value);
        }
    }
    a
}

fn sparse_dot((rows_a, a): (&[u32], &[f64]), (rows_b, b): (&[u32], &[f64])) -> f64 {
    let (mut i, mut j, mut sum) = (0, 0, 0.0);
    while i < rows_a.len() && j < rows_b.len() {
        match rows_a[i].cmp(&rows_b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                sum += a[i] * b[j];
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    sum
}
