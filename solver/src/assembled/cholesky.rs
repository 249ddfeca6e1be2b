//! The direct solver: A = J^T J + D assembled, factorised as L L^T under an approximate minimum degree ordering (faer).
//!
//! The pattern of A is that of J^T J, which does not change: ordering and symbolic factorisation are done once.

use crate::assembled::Jacobian;
use faer::Side;
use faer::prelude::Solve;
use faer::sparse::linalg::solvers::{Llt, SymbolicLlt};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use rayon::prelude::*;

/// Columns of A that one task assembles.
const GRAIN: usize = 512;

/// The lower triangle of A by columns, and its symbolic factorisation.
pub(super) struct NormalCholesky {
    col_ptr: Vec<usize>,
    row_idx: Vec<usize>,
    /// `None` if faer ran out of memory: then every solve fails.
    symbolic: Option<SymbolicLlt<usize>>,
}

impl NormalCholesky {
    /// Analyses the pattern of J^T J.
    pub fn new(jacobian: &Jacobian) -> NormalCholesky {
        let n = jacobian.columns().rows();
        let columns: Vec<Vec<usize>> =
            (0..n).into_par_iter().with_min_len(GRAIN).map(|i| lower_pattern(jacobian, i)).collect();
        let mut col_ptr = vec![0];
        for column in &columns {
            col_ptr.push(col_ptr[col_ptr.len() - 1] + column.len());
        }
        let row_idx = columns.concat();
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &col_ptr, None, &row_idx);
        let symbolic = SymbolicLlt::try_new(pattern, Side::Lower).ok();
        NormalCholesky { col_ptr, row_idx, symbolic }
    }

    /// Solves (J^T J + diag(`damping`)) d = b; `None` if the matrix is not positive definite. Where `diag` = diag(J^T J)
    /// is 0, so is d.
    pub fn solve(&self, jacobian: &Jacobian, diag: &[f64], damping: &[f64], b: &[f64]) -> Option<Vec<f64>> {
        let n = b.len();
        let mut values = self.assemble(jacobian);
        for i in 0..n {
            // An empty column: any pivot will do, since b is 0 there.
            values[self.col_ptr[i]] += if diag[i] == 0.0 { 1.0 } else { damping[i] };
        }
        let pattern = SymbolicSparseColMatRef::new_checked(n, n, &self.col_ptr, None, &self.row_idx);
        let matrix = SparseColMatRef::new(pattern, &values);
        let factor = Llt::try_new_with_symbolic(self.symbolic.clone()?, matrix, Side::Lower).ok()?;
        let d = factor.solve(faer::col::Col::from_fn(n, |i| b[i]));
        Some((0..n).map(|i| if diag[i] == 0.0 { 0.0 } else { d[i] }).collect())
    }

    /// The values of J^T J on the pattern.
    fn assemble(&self, jacobian: &Jacobian) -> Vec<f64> {
        let mut values = vec![0.0; self.row_idx.len()];
        let (mut rest, mut tasks) = (values.as_mut_slice(), Vec::new());
        for i in 0..self.col_ptr.len() - 1 {
            let (mine, others) = rest.split_at_mut(self.col_ptr[i + 1] - self.col_ptr[i]);
            tasks.push((i, mine));
            rest = others;
        }
        tasks.into_par_iter().with_min_len(GRAIN).for_each(|(i, mine)| {
            let rows = &self.row_idx[self.col_ptr[i]..self.col_ptr[i + 1]];
            for_each_product(jacobian, i, |j, v| {
                if let Ok(k) = rows.binary_search(&j) {
                    mine[k] += v;
                }
            });
        });
        values
    }
}

/// The rows j >= i of column i of J^T J, ascending; i itself always.
fn lower_pattern(jacobian: &Jacobian, i: usize) -> Vec<usize> {
    let mut rows = vec![i];
    for_each_product(jacobian, i, |j, _| rows.push(j));
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Calls `f(j, J_ri J_rj)` for each row r of J and each j >= i.
fn for_each_product(jacobian: &Jacobian, i: usize, mut f: impl FnMut(usize, f64)) {
    let (by_row, by_column) = (jacobian.rows(), jacobian.columns());
    for p in by_column.indptr().outer_inds_sz(i) {
        let (r, value) = (by_column.indices()[p] as usize, by_column.data()[p]);
        for q in by_row.indptr().outer_inds_sz(r) {
            let j = by_row.indices()[q] as usize;
            if j >= i {
                f(j, value * by_row.data()[q]);
            }
        }
    }
}
