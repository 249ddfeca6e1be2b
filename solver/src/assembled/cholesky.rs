//! The direct solver: A = J^T J + D assembled, factorised as L L^T under an approximate minimum degree ordering (faer).
//!
//! The pattern of A is that of J^T J, which does not change: ordering and symbolic factorisation are done once.

use crate::assembled::Jacobian;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::sparse::linalg::cholesky::{SymbolicCholesky, factorize_symbolic_cholesky};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Side, get_global_parallelism};
use rayon::prelude::*;

/// Columns of A that one task assembles.
const GRAIN: usize = 512;

/// The lower triangle of A by columns, and its symbolic factorisation.
pub(super) struct NormalCholesky {
    col_ptr: Vec<usize>,
    row_idx: Vec<usize>,
    /// `None` if faer ran out of memory: then every solve fails.
    symbolic: Option<SymbolicCholesky<usize>>,
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
        let symbolic =
            factorize_symbolic_cholesky(pattern, Side::Lower, Default::default(), Default::default()).ok();
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
        let d = factorise_and_solve(self.symbolic.as_ref()?, SparseColMatRef::new(pattern, &values), b)?;
        Some((0..n).map(|i| if diag[i] == 0.0 { 0.0 } else { d[i] }).collect())
    }

    /// Bytes of A, of L and of what the factorisation needs beside them.
    pub fn bytes(&self) -> u64 {
        let Some(symbolic) = &self.symbolic else { return 0 };
        let numbers = symbolic.len_val() + 2 * self.row_idx.len() + self.col_ptr.len();
        (numbers * size_of::<f64>() + scratch(symbolic).unaligned_bytes_required()) as u64
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

/// Working memory of a factorisation and of a solve behind it.
fn scratch(symbolic: &SymbolicCholesky<usize>) -> StackReq {
    let par = get_global_parallelism();
    let factorise = symbolic.factorize_numeric_llt_scratch::<f64>(par, Default::default());
    factorise.or(symbolic.solve_in_place_scratch::<f64>(1, par))
}

/// x of A x = b; `None` where A is not positive definite or memory ends.
fn factorise_and_solve(
    symbolic: &SymbolicCholesky<usize>,
    a: SparseColMatRef<'_, usize, f64>,
    b: &[f64],
) -> Option<Vec<f64>> {
    let par = get_global_parallelism();
    let mut values = Vec::new();
    values.try_reserve_exact(symbolic.len_val()).ok()?;
    values.resize(symbolic.len_val(), 0.0);
    let mut memory = MemBuffer::try_new(scratch(symbolic)).ok()?;
    let stack = MemStack::new(&mut memory);
    let factor = symbolic
        .factorize_numeric_llt(
            &mut values,
            a,
            Side::Lower,
            Default::default(),
            par,
            stack,
            Default::default(),
        )
        .ok()?;
    let mut x = b.to_vec();
    let column = MatMut::from_column_major_slice_mut(&mut x, b.len(), 1);
    factor.solve_in_place_with_conj(Conj::No, column, par, stack);
    Some(x)
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
