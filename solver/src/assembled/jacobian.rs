//! The sparse Jacobian, by rows and by columns, and products with it.
//!
//! Both orders are kept so that every product is a loop over independent outputs: parallel, and the same bits for any number
//! of threads.

use crate::counting_sort::counting_sort;
use rayon::prelude::*;
use sprs::CsMatI;
use std::iter::repeat_n;

/// Rows or columns that one task handles at least.
const GRAIN: usize = 512;

/// J: one row per residual that counts, one column per free unknown. The pattern holds every entry that may be non-zero; it
/// does not change from one x to the next.
#[derive(Clone, Debug)]
pub struct Jacobian {
    rows: CsMatI<f64, u32, usize>,
    /// J^T by rows.
    columns: CsMatI<f64, u32, usize>,
    /// For each entry of `columns`, its position in `rows`.
    position_in_rows: Vec<u32>,
}

impl Jacobian {
    /// All zeros, on the pattern `indptr`, `indices` (by rows, ascending and distinct in each). Fewer than 2^32 entries.
    pub(super) fn zeros(columns: usize, indptr: Vec<usize>, indices: Vec<u32>) -> Jacobian {
        let shape = (indptr.len() - 1, columns);
        let (t_indptr, t_indices, position_in_rows) = transpose(columns, &indptr, &indices);
        let zeros = vec![0.0; indices.len()];
        Jacobian {
            rows: CsMatI::new(shape, indptr, indices, zeros.clone()),
            columns: CsMatI::new((shape.1, shape.0), t_indptr, t_indices, zeros),
            position_in_rows,
        }
    }

    /// J by rows.
    pub fn rows(&self) -> &CsMatI<f64, u32, usize> {
        &self.rows
    }

    /// J^T by rows.
    pub fn columns(&self) -> &CsMatI<f64, u32, usize> {
        &self.columns
    }

    /// Overwrites the values: `fill` gets the row starts, the column of each entry and the values to set.
    pub(super) fn refill(&mut self, fill: impl FnOnce(&[usize], &[u32], &mut [f64])) {
        let (indptr, indices, values) = self.rows.view_mut().into_raw_storage();
        fill(indptr, indices, values);
        let values: &[f64] = self.rows.data();
        let copies = self.columns.data_mut().par_iter_mut().zip(&self.position_in_rows);
        copies.with_min_len(GRAIN).for_each(|(copy, &p)| *copy = values[p as usize]);
    }

    /// Multiplies each row with its factor; 0 makes it 0 whatever it holds.
    pub(super) fn scale_rows(&mut self, factors: &[f64]) {
        self.refill(|indptr, _, values| {
            for (row, &factor) in factors.iter().enumerate() {
                let entries = &mut values[indptr[row]..indptr[row + 1]];
                entries.iter_mut().for_each(|v| *v = weighted(factor, *v));
            }
        });
    }

    /// Per slot makes the rows (I - bend r r^T) J, J being the rows of `slots` that are in it. Those that hold anything have one pattern.
    pub(super) fn bend_rows(&mut self, slots: &[usize], bend: &[f64], residuals: &[f64]) {
        self.refill(|indptr, _, values| {
            // r^T J.
            let mut slopes: Vec<Vec<f64>> = vec![Vec::new(); bend.len()];
            let bent = |row: usize| bend.get(slots[row]).copied().filter(|b| *b != 0.0);
            for row in (0..slots.len()).filter(|&row| bent(row).is_some()) {
                let (entries, slope) = (&values[indptr[row]..indptr[row + 1]], &mut slopes[slots[row]]);
                slope.resize(slope.len().max(entries.len()), 0.0);
                slope.iter_mut().zip(entries).for_each(|(s, v)| *s += residuals[row] * v);
            }
            for row in 0..slots.len() {
                let Some(bend) = bent(row) else { continue };
                let entries = &mut values[indptr[row]..indptr[row + 1]];
                let share = bend * residuals[row];
                entries.iter_mut().zip(&slopes[slots[row]]).for_each(|(v, s)| *v -= share * s);
            }
        });
    }

    /// Makes the columns for which `drop` is true 0.
    pub(super) fn drop_columns(&mut self, drop: &[bool]) {
        self.refill(|_, columns, values| {
            values.iter_mut().zip(columns).filter(|(_, c)| drop[**c as usize]).for_each(|(v, _)| *v = 0.0);
        });
    }

    /// The same pattern with `f` of every value.
    pub(crate) fn map(&self, f: impl Fn(f64) -> f64) -> Jacobian {
        let mut mapped = self.clone();
        mapped.refill(|_, _, values| values.iter_mut().for_each(|v| *v = f(*v)));
        mapped
    }

    /// J v.
    pub fn apply(&self, v: &[f64]) -> Vec<f64> {
        product(&self.rows, v)
    }

    /// J^T w.
    pub fn apply_transpose(&self, w: &[f64]) -> Vec<f64> {
        product(&self.columns, w)
    }

    /// diag(J^T J).
    pub fn diag(&self) -> Vec<f64> {
        per_row(&self.columns, |_, values| values.iter().map(|v| v * v).sum())
    }
}

fn product(matrix: &CsMatI<f64, u32, usize>, v: &[f64]) -> Vec<f64> {
    per_row(matrix, |indices, values| indices.iter().zip(values).map(|(&i, a)| a * v[i as usize]).sum())
}

/// `f` of each row of a matrix.
fn per_row(matrix: &CsMatI<f64, u32, usize>, f: impl Fn(&[u32], &[f64]) -> f64 + Sync) -> Vec<f64> {
    let (indptr, indices, values) = (matrix.indptr(), matrix.indices(), matrix.data());
    let indptr = indptr.raw_storage();
    let row = |r: usize| {
        let range = indptr[r]..indptr[r + 1];
        f(&indices[range.clone()], &values[range])
    };
    (0..matrix.rows()).into_par_iter().with_min_len(GRAIN).map(row).collect()
}

/// The pattern of the transpose, and where each of its entries stands in the original.
fn transpose(columns: usize, indptr: &[usize], indices: &[u32]) -> (Vec<usize>, Vec<u32>, Vec<u32>) {
    let (starts, positions) = counting_sort(indices, columns);
    let row_of: Vec<u32> =
        (0..).zip(indptr.windows(2)).flat_map(|(row, ends)| repeat_n(row, ends[1] - ends[0])).collect();
    let rows = positions.iter().map(|&p| row_of[p as usize]).collect();
    (starts, rows, positions)
}

/// `weight` times `r`; 0 under weight 0, whatever r is.
pub(super) fn weighted(weight: f64, r: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { weight * r }
}
