//! Sparse matrices of dense blocks of one size.

use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged};
use std::sync::Arc;
use sumsq_codegen::runtime::Pool;

/// The blocks that a matrix has: per row, ascending columns.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pattern {
    /// Where the blocks of every row begin, and their number.
    pub starts: Vec<usize>,
    /// Their columns.
    pub columns: Vec<u32>,
}

/// A matrix of blocks, each row-major.
#[derive(Clone, Default, Debug)]
pub struct Blocks {
    /// Its pattern.
    pub pattern: Arc<Pattern>,
    /// Rows of a block.
    pub height: usize,
    /// Columns of a block.
    pub width: usize,
    /// Block by block.
    pub values: Vec<f64>,
}

/// The blocks of a matrix by columns: rows and places of those of every column, ascending.
#[derive(Clone, Default, Debug)]
pub struct ByColumns {
    /// Where the blocks of every column begin, and their number.
    pub starts: Vec<usize>,
    /// The row of each, and its place among the blocks of the matrix.
    pub blocks: Vec<(u32, u32)>,
}

impl Pattern {
    /// The pattern of these rows, which need not be sorted and may have columns twice.
    pub fn new(rows: impl Iterator<Item = Vec<u32>>) -> Pattern {
        let mut pattern = Pattern { starts: vec![0], columns: vec![] };
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            pattern.columns.extend(row);
            pattern.starts.push(pattern.columns.len());
        }
        pattern
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The columns of a row.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.columns[self.starts[row]..self.starts[row + 1]]
    }

    /// The place of a block.
    pub fn place(&self, row: usize, column: u32) -> Option<usize> {
        self.row(row).binary_search(&column).ok().map(|i| self.starts[row] + i)
    }

    /// The pattern of the product with another matrix.
    pub fn times(&self, other: &Pattern) -> Pattern {
        let row = |i| self.row(i).iter().flat_map(|&j| other.row(j as usize).iter().copied()).collect();
        Pattern::new((0..self.rows()).map(row))
    }

    /// The same by columns.
    pub fn by_columns(&self, columns: usize) -> ByColumns {
        let mut starts = vec![0; columns + 1];
        self.columns.iter().for_each(|&c| starts[c as usize + 1] += 1);
        (0..columns).for_each(|c| starts[c + 1] += starts[c]);
        let (mut next, mut blocks) = (starts.clone(), vec![(0, 0); self.columns.len()]);
        for row in 0..self.rows() {
            for place in self.starts[row]..self.starts[row + 1] {
                let to = &mut next[self.columns[place] as usize];
                blocks[*to] = (row as u32, place as u32);
                *to += 1;
            }
        }
        ByColumns { starts, blocks }
    }
}

impl Blocks {
    /// A matrix of zeros.
    pub fn zeros(pattern: Arc<Pattern>, height: usize, width: usize) -> Blocks {
        let values = vec![0.0; pattern.columns.len() * height * width];
        Blocks { pattern, height, width, values }
    }

    /// Values of a block.
    pub fn size(&self) -> usize {
        self.height * self.width
    }

    /// A block.
    pub fn block(&self, place: usize) -> &[f64] {
        &self.values[place * self.size()..(place + 1) * self.size()]
    }

    /// The blocks of a row, with their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, &[f64])> {
        let places = self.pattern.starts[row]..self.pattern.starts[row + 1];
        places.map(|place| (self.pattern.columns[place], self.block(place)))
    }

    /// y = M x.
    pub fn apply(&self, pool: &Pool, x: &[f64], y: &mut [f64]) {
        each(pool, y, self.height, |row, y| {
            y.fill(0.0);
            self.add_row(row, x, 1.0, y);
        });
    }

    /// Adds row `row` of `factor` M x to y.
    pub fn add_row(&self, row: usize, x: &[f64], factor: f64, y: &mut [f64]) {
        for (column, block) in self.row(row) {
            let x = &x[column as usize * self.width..][..self.width];
            add_product(block, x, factor, y);
        }
    }

    /// y = M^T x, by columns.
    pub fn apply_transposed(&self, pool: &Pool, columns: &ByColumns, x: &[f64], y: &mut [f64]) {
        each(pool, y, self.width, |column, y| {
            y.fill(0.0);
            for &(row, place) in &columns.blocks[columns.starts[column]..columns.starts[column + 1]] {
                let x = &x[row as usize * self.height..][..self.height];
                for (row, x) in self.block(place as usize).chunks_exact(self.width).zip(x) {
                    y.iter_mut().zip(row).for_each(|(y, m)| *y += m * x);
                }
            }
        });
    }

    /// The product with another matrix, on its pattern.
    pub fn times(&self, pool: &Pool, other: &Blocks, pattern: Arc<Pattern>) -> Blocks {
        let mut product = Blocks::zeros(pattern.clone(), self.height, other.width);
        let size = product.size();
        each_ragged(pool, &mut product.values, &pattern.starts, size, |i, out| {
            let columns = pattern.row(i);
            for (j, left) in self.row(i) {
                for (column, right) in other.row(j as usize) {
                    let at = columns.partition_point(|c| *c < column) * size;
                    add_blocks(left, right, other.width, &mut out[at..at + size]);
                }
            }
        });
        product
    }

    /// The product of its transpose with another matrix, on its pattern; `columns` are its own.
    pub fn transposed_times(
        &self,
        pool: &Pool,
        columns: &ByColumns,
        other: &Blocks,
        pattern: Arc<Pattern>,
    ) -> Blocks {
        let mut product = Blocks::zeros(pattern.clone(), self.width, other.width);
        let size = product.size();
        each_ragged(pool, &mut product.values, &pattern.starts, size, |i, out| {
            let own = pattern.row(i);
            for &(row, place) in &columns.blocks[columns.starts[i]..columns.starts[i + 1]] {
                let left = self.block(place as usize);
                for (column, right) in other.row(row as usize) {
                    let at = own.partition_point(|c| *c < column) * size;
                    add_transposed(left, right, [self.width, other.width], &mut out[at..at + size]);
                }
            }
        });
        product
    }
}

/// y += factor B x.
pub fn add_product(block: &[f64], x: &[f64], factor: f64, y: &mut [f64]) {
    for (row, y) in block.chunks_exact(x.len()).zip(y) {
        *y += factor * row.iter().zip(x).map(|(m, x)| m * x).sum::<f64>();
    }
}

/// out += A B, B with `width` columns.
pub fn add_blocks(a: &[f64], b: &[f64], width: usize, out: &mut [f64]) {
    let inner = b.len() / width;
    for (row, out) in a.chunks_exact(inner).zip(out.chunks_exact_mut(width)) {
        for (a, b) in row.iter().zip(b.chunks_exact(width)) {
            out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
        }
    }
}

/// out += A^T B, with so many columns of A and of B.
fn add_transposed(a: &[f64], b: &[f64], [height, width]: [usize; 2], out: &mut [f64]) {
    for (a, b) in a.chunks_exact(height).zip(b.chunks_exact(width)) {
        for (a, out) in a.iter().zip(out.chunks_exact_mut(width)) {
            out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
        }
    }
}
