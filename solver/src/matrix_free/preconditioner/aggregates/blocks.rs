//! Sparse matrices of dense blocks of one size.

use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged};
use std::sync::Arc;
use sumsq_codegen::runtime::Pool;

/// The blocks that a matrix has: per row, ascending columns.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Pattern {
    /// Number of the first block of every row, and the number of all.
    pub starts: Vec<usize>,
    /// Their columns.
    pub columns: Vec<u32>,
}

/// A matrix of blocks, each row-major.
#[derive(Clone, Default, Debug)]
pub struct Blocks<S = f64> {
    /// Its pattern.
    pub pattern: Arc<Pattern>,
    /// Rows of a block.
    pub height: usize,
    /// Columns of a block.
    pub width: usize,
    /// Block by block.
    pub values: Vec<S>,
}

/// Numbers that a matrix may be kept in; sums are always float64.
pub trait Stored: Copy + Default + Send + Sync + Into<f64> {
    /// The nearest one.
    fn nearest(value: f64) -> Self;
}

impl Stored for f32 {
    fn nearest(value: f64) -> f32 {
        value as f32
    }
}

impl Stored for f64 {
    fn nearest(value: f64) -> f64 {
        value
    }
}

/// The blocks of a matrix by columns: rows and places of those of every column, ascending.
#[derive(Clone, Default, Debug)]
pub struct ByColumns {
    /// Number of the first block of every column, and the number of all.
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

impl<S: Stored> Blocks<S> {
    /// Values of a block.
    pub fn size(&self) -> usize {
        self.height * self.width
    }

    /// A block.
    pub fn block(&self, place: usize) -> &[S] {
        &self.values[place * self.size()..(place + 1) * self.size()]
    }

    /// The blocks of a row, with their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, &[S])> {
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
            add_product(block, &x[column as usize * self.width..][..self.width], factor, y);
        }
    }

    /// y = M^T x, by columns.
    pub fn apply_transposed(&self, pool: &Pool, columns: &ByColumns, x: &[f64], y: &mut [f64]) {
        each(pool, y, self.width, |column, y| {
            y.fill(0.0);
            for &(row, place) in columns.of(column) {
                let x = &x[row as usize * self.height..][..self.height];
                add_transposed_product(self.block(place as usize), x, y);
            }
        });
    }

    /// Takes the pattern of another matrix and its numbers, rounded.
    pub fn keep(&mut self, pool: &Pool, of: &Blocks) {
        (self.height, self.width) = (of.height, of.width);
        self.pattern = of.pattern.clone();
        keep(pool, &of.values, &mut self.values);
    }
}

/// Rounds all numbers of a list.
pub fn keep<S: Stored>(pool: &Pool, from: &[f64], to: &mut Vec<S>) {
    to.resize(from.len(), S::default());
    each(pool, to, 1, |i, to| to[0] = S::nearest(from[i]));
}

impl ByColumns {
    /// Row and place of every block of a column.
    pub fn of(&self, column: usize) -> &[(u32, u32)] {
        &self.blocks[self.starts[column]..self.starts[column + 1]]
    }
}

impl Blocks {
    /// Makes it a matrix of zeros, in the memory that it has.
    pub fn clear(&mut self, pattern: Arc<Pattern>, height: usize, width: usize) {
        self.values.clear();
        self.values.resize(pattern.columns.len() * height * width, 0.0);
        (self.pattern, self.height, self.width) = (pattern, height, width);
    }

    /// Makes it the product of two matrices, on a pattern that has all of its blocks.
    pub fn multiply(&mut self, pool: &Pool, a: &Blocks, b: &Blocks, pattern: Arc<Pattern>) {
        self.clear(pattern.clone(), a.height, b.width);
        let size = self.size();
        each_ragged(pool, &mut self.values, &pattern.starts, size, |i, out| {
            let columns = pattern.row(i);
            for (j, left) in a.row(i) {
                for (column, right) in b.row(j as usize) {
                    let at = columns.partition_point(|c| *c < column) * size;
                    add_blocks(left, right, b.width, &mut out[at..at + size]);
                }
            }
        });
    }

    /// Makes it A^T B, likewise; `columns` are A's.
    pub fn multiply_transposed(
        &mut self,
        pool: &Pool,
        (a, columns): (&Blocks, &ByColumns),
        b: &Blocks,
        pattern: Arc<Pattern>,
    ) {
        self.clear(pattern.clone(), a.width, b.width);
        let size = self.size();
        each_ragged(pool, &mut self.values, &pattern.starts, size, |i, out| {
            let own = pattern.row(i);
            for &(row, place) in columns.of(i) {
                let left = a.block(place as usize);
                for (column, right) in b.row(row as usize) {
                    let at = own.partition_point(|c| *c < column) * size;
                    add_transposed(left, right, [a.width, b.width], &mut out[at..at + size]);
                }
            }
        });
    }
}

/// Calls a loop with the width of its rows known to the compiler, where it is a usual one.
macro_rules! with_width {
    ($width:expr, $f:ident($($arg:expr),*)) => {
        match $width {
            1 => $f::<_, 1>($($arg),*),
            2 => $f::<_, 2>($($arg),*),
            3 => $f::<_, 3>($($arg),*),
            4 => $f::<_, 4>($($arg),*),
            5 => $f::<_, 5>($($arg),*),
            6 => $f::<_, 6>($($arg),*),
            7 => $f::<_, 7>($($arg),*),
            8 => $f::<_, 8>($($arg),*),
            9 => $f::<_, 9>($($arg),*),
            12 => $f::<_, 12>($($arg),*),
            width => any_width::$f(width, $($arg),*),
        }
    };
}

/// y = `factor` D^-1 x, with the inverses of D's blocks.
pub fn apply_inverse<S: Stored>(
    pool: &Pool,
    inverse: &[S],
    block: usize,
    factor: f64,
    x: &[f64],
    y: &mut [f64],
) {
    each(pool, y, block, |e, y| {
        y.fill(0.0);
        add_product(&inverse[e * block * block..][..block * block], &x[e * block..][..block], factor, y);
    });
}

/// y += `factor` B x.
pub fn add_product<S: Stored>(block: &[S], x: &[f64], factor: f64, y: &mut [f64]) {
    with_width!(x.len(), product(block, x, factor, y))
}

/// y += B^T x.
fn add_transposed_product<S: Stored>(block: &[S], x: &[f64], y: &mut [f64]) {
    with_width!(y.len(), transposed_product(block, x, y))
}

/// out += A B, B with `width` columns.
pub fn add_blocks(a: &[f64], b: &[f64], width: usize, out: &mut [f64]) {
    with_width!(width, blocks(a, b, out))
}

/// out += A^T B, with so many columns of A and of B.
fn add_transposed(a: &[f64], b: &[f64], [height, width]: [usize; 2], out: &mut [f64]) {
    with_width!(width, transposed_blocks(a, b, height, out))
}

fn product<S: Stored, const W: usize>(block: &[S], x: &[f64], factor: f64, y: &mut [f64]) {
    let Some(x) = x.first_chunk::<W>() else { return };
    for (row, y) in block.as_chunks::<W>().0.iter().zip(y) {
        let mut sum = 0.0;
        for j in 0..W {
            sum += row[j].into() * x[j];
        }
        *y += factor * sum;
    }
}

fn transposed_product<S: Stored, const W: usize>(block: &[S], x: &[f64], y: &mut [f64]) {
    let Some(y) = y.first_chunk_mut::<W>() else { return };
    for (row, x) in block.as_chunks::<W>().0.iter().zip(x) {
        for j in 0..W {
            y[j] += row[j].into() * x;
        }
    }
}

fn blocks<S: Stored, const W: usize>(a: &[S], b: &[f64], out: &mut [f64]) {
    let b = b.as_chunks::<W>().0;
    for (row, out) in a.chunks_exact(b.len().max(1)).zip(out.as_chunks_mut::<W>().0) {
        for (a, b) in row.iter().zip(b) {
            let a: f64 = (*a).into();
            for j in 0..W {
                out[j] += a * b[j];
            }
        }
    }
}

fn transposed_blocks<S: Stored, const W: usize>(a: &[S], b: &[f64], height: usize, out: &mut [f64]) {
    for (a, b) in a.chunks_exact(height).zip(b.as_chunks::<W>().0) {
        for (a, out) in a.iter().zip(out.as_chunks_mut::<W>().0) {
            let a: f64 = (*a).into();
            for j in 0..W {
                out[j] += a * b[j];
            }
        }
    }
}

/// The same loops for any width.
mod any_width {
    use super::Stored;

    pub fn product<S: Stored>(width: usize, block: &[S], x: &[f64], factor: f64, y: &mut [f64]) {
        for (row, y) in block.chunks_exact(width).zip(y) {
            *y += factor * row.iter().zip(x).fold(0.0, |sum, (m, x)| sum + (*m).into() * x);
        }
    }

    pub fn transposed_product<S: Stored>(width: usize, block: &[S], x: &[f64], y: &mut [f64]) {
        for (row, x) in block.chunks_exact(width).zip(x) {
            y.iter_mut().zip(row).for_each(|(y, m)| *y += (*m).into() * x);
        }
    }

    pub fn blocks(width: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
        for (row, out) in a.chunks_exact(b.len() / width).zip(out.chunks_exact_mut(width)) {
            for (a, b) in row.iter().zip(b.chunks_exact(width)) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
            }
        }
    }

    pub fn transposed_blocks(width: usize, a: &[f64], b: &[f64], height: usize, out: &mut [f64]) {
        for (a, b) in a.chunks_exact(height).zip(b.chunks_exact(width)) {
            for (a, out) in a.iter().zip(out.chunks_exact_mut(width)) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out += a * b);
            }
        }
    }
}
