//! Sparse matrices of dense blocks of one size. Those that are multiplied by vectors have their blocks transposed in memory, as [`loops`] have it.

use crate::matrix_free::preconditioner::aggregates::loops::{
    self, Number, RowOfProduct, add_product, add_products,
};
use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged};
use smallvec::SmallVec;
use std::cmp::Ordering;
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
pub struct Blocks<S> {
    /// Its pattern.
    pub pattern: Arc<Pattern>,
    /// Rows of a block.
    pub height: usize,
    /// Columns of a block.
    pub width: usize,
    /// Block by block.
    pub values: Vec<S>,
}

/// The blocks of a matrix by columns: rows and places of those of every column, ascending.
#[derive(Clone, Default, Debug)]
pub struct ByColumns {
    /// Number of the first block of every column, and the number of all.
    pub starts: Vec<usize>,
    /// The row of each, and its place among the blocks of the matrix.
    pub blocks: Vec<(u32, u32)>,
}

/// The pattern of a symmetric matrix, and that of its half on and above the diagonal.
#[derive(Clone, Default, Debug)]
pub struct Symmetric {
    /// Of all of it.
    pub whole: Arc<Pattern>,
    /// Of the half.
    pub half: Pattern,
    /// For every block of the whole, the place in the half of it or of its mirror image.
    places: Vec<u32>,
}

impl Symmetric {
    /// Of a pattern that is symmetric.
    pub fn new(whole: Pattern) -> Symmetric {
        let above = |i: usize| whole.row(i).iter().copied().filter(|&j| j as usize >= i).collect();
        let half = Pattern::new((0..whole.rows()).map(above));
        let of_row = |i: usize| whole.row(i).iter().map(move |&j| (i, j));
        let place = |(i, j): (usize, u32)| {
            let (upper, lower) = (i.min(j as usize), i.max(j as usize));
            half.place(upper, lower as u32).expect("the pattern is symmetric") as u32
        };
        let places = (0..whole.rows()).flat_map(of_row).map(place).collect();
        Symmetric { whole: Arc::new(whole), half, places }
    }

    /// Bytes of its lists but for the whole pattern.
    pub fn bytes(&self) -> usize {
        let Pattern { starts, columns } = &self.half;
        starts.len() * size_of::<usize>() + (columns.len() + self.places.len()) * size_of::<u32>()
    }
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

    /// One column of so many blocks.
    pub fn column(rows: usize) -> Pattern {
        Pattern { starts: (0..=rows).collect(), columns: vec![0; rows] }
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

impl ByColumns {
    /// Row and place of every block of a column.
    pub fn of(&self, column: usize) -> &[(u32, u32)] {
        &self.blocks[self.starts[column]..self.starts[column + 1]]
    }
}

impl<S: Number> Blocks<S> {
    /// Values of a block.
    pub fn size(&self) -> usize {
        self.height * self.width
    }

    /// Number of the first block of every row, columns of blocks, blocks.
    fn parts(&self) -> (&[usize], &[u32], &[S]) {
        (&self.pattern.starts, &self.pattern.columns, &self.values)
    }

    /// A block.
    pub fn block(&self, place: usize) -> &[S] {
        &self.values[place * self.size()..(place + 1) * self.size()]
    }

    /// The blocks of a row, with their columns.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (u32, &[S])> {
        let own = self.pattern.starts[row]..self.pattern.starts[row + 1];
        let blocks = &self.values[own.start * self.size()..own.end * self.size()];
        self.pattern.columns[own].iter().copied().zip(blocks.chunks_exact(self.size().max(1)))
    }

    /// Has another pattern and size of blocks from now on, in the memory that it has; numbers are whatever they were.
    pub fn reshape(&mut self, pattern: Arc<Pattern>, height: usize, width: usize) {
        self.values.resize(pattern.columns.len() * height * width, S::default());
        (self.pattern, self.height, self.width) = (pattern, height, width);
    }

    /// y = M x, M stored with transposed blocks.
    pub fn apply(&self, pool: &Pool, x: &[S], y: &mut [S]) {
        each(pool, y, self.width, |row, y| {
            y.fill(S::default());
            self.add_row(row, x, y);
        });
    }

    /// Adds row `row` of M x to y, likewise.
    pub fn add_row(&self, row: usize, x: &[S], y: &mut [S]) {
        let (own, size) = (self.pattern.starts[row]..self.pattern.starts[row + 1], self.size());
        let columns = &self.pattern.columns[own.clone()];
        add_products(&self.values[own.start * size..own.end * size], |n| columns[n], self.height, x, y);
    }

    /// Transposes every block.
    pub fn transpose_blocks(&mut self, pool: &Pool) {
        let (height, width, size) = (self.height, self.width, self.size());
        each(pool, &mut self.values, size, |_, block| {
            let was: SmallVec<[S; 64]> = SmallVec::from_slice(block);
            for (r, row) in was.chunks(width).enumerate() {
                row.iter().enumerate().for_each(|(c, v)| block[c * height + r] = *v);
            }
        });
        (self.height, self.width) = (width, height);
    }

    /// Makes it the product of two matrices, A stored with transposed blocks, on a pattern that has all of its blocks.
    pub fn multiply(&mut self, pool: &Pool, a: &Blocks<S>, b: &Blocks<S>, pattern: Arc<Pattern>) {
        self.reshape(pattern.clone(), a.width, b.width);
        let shape = [a.height, a.width, b.width];
        each_ragged(pool, &mut self.values, &pattern.starts, a.width * b.width, |i, out| {
            out.fill(S::default());
            let own = a.pattern.starts[i]..a.pattern.starts[i + 1];
            let lefts = &a.values[own.start * a.size()..own.end * a.size()];
            let rows = &a.pattern.columns[own];
            let (row_of, columns, others) = (|n: usize| rows[n], pattern.row(i), false);
            loops::run(shape, RowOfProduct { lefts, row_of, b: b.parts(), first: 0, columns, others, out });
        });
    }

    /// Makes it A^T B, which is known to be symmetric, with transposed blocks and on such a pattern. The half on and above the diagonal is
    /// computed in memory of its own, the whole is a copy of it.
    pub fn multiply_to_symmetric(
        &mut self,
        pool: &Pool,
        a: &Columns<S>,
        b: &Blocks<S>,
        of: &Symmetric,
        half: &mut Vec<S>,
    ) {
        self.reshape(of.whole.clone(), b.width, a.width);
        let (shape, size) = ([b.height, b.width, a.width], self.size());
        half.resize(of.half.columns.len() * size, S::default());
        each_ragged(pool, half, &of.half.starts, size, |i, out| {
            out.fill(S::default());
            let own = a.of.starts[i]..a.of.starts[i + 1];
            let lefts = &a.values[own.start * a.size()..own.end * a.size()];
            let rows = &a.of.blocks[own];
            let (row_of, columns, others) = (|n: usize| rows[n].0, of.half.row(i), true);
            loops::run(
                shape,
                RowOfProduct { lefts, row_of, b: b.parts(), first: i as u32, columns, others, out },
            );
        });
        let (n, half) = (self.width, &half[..]);
        each_ragged(pool, &mut self.values, &of.whole.starts, size, |i, out| {
            let first = of.whole.starts[i];
            for place in first..of.whole.starts[i + 1] {
                let from = &half[of.places[place] as usize * size..][..size];
                let to = &mut out[(place - first) * size..][..size];
                match (of.whole.columns[place] as usize).cmp(&i) {
                    Ordering::Greater => to.copy_from_slice(from),
                    // Rounding is not symmetric.
                    Ordering::Equal => copy_symmetric(from, n, to),
                    Ordering::Less => copy_transposed(from, n, to),
                }
            }
        });
    }
}

/// Copies a square block transposed.
fn copy_transposed<S: Number>(from: &[S], n: usize, to: &mut [S]) {
    for (r, row) in to.chunks_exact_mut(n).enumerate() {
        for c in 0..row.len() {
            row[c] = from[c * n + r];
        }
    }
}

/// Copies the upper triangle of a square block to both.
fn copy_symmetric<S: Number>(from: &[S], n: usize, to: &mut [S]) {
    for (r, row) in to.chunks_exact_mut(n).enumerate() {
        for c in 0..row.len() {
            row[c] = from[r.min(c) * n + r.max(c)];
        }
    }
}

/// A matrix of blocks by columns, each row-major, in the order in which products with its transpose read them.
#[derive(Default)]
pub struct Columns<S> {
    of: Arc<ByColumns>,
    height: usize,
    width: usize,
    values: Vec<S>,
}

impl<S: Number> Columns<S> {
    /// Values of a block.
    fn size(&self) -> usize {
        self.height * self.width
    }

    /// Takes the numbers of a matrix.
    pub fn keep(&mut self, pool: &Pool, columns: &Arc<ByColumns>, m: &Blocks<S>) {
        let size = m.size();
        self.values.resize(columns.blocks.len() * size, S::default());
        each(pool, &mut self.values, size, |n, block| {
            block.copy_from_slice(m.block(columns.blocks[n].1 as usize));
        });
        (self.of, self.height, self.width) = (columns.clone(), m.height, m.width);
    }

    /// The blocks of a column, with their rows.
    pub fn column(&self, column: usize) -> impl Iterator<Item = (u32, &[S])> {
        let (own, size) = (self.of.starts[column]..self.of.starts[column + 1], self.size());
        let rows = self.of.blocks[own.clone()].iter().map(|(row, _)| *row);
        rows.zip(self.values[own.start * size..own.end * size].chunks_exact(size.max(1)))
    }

    /// y = M^T x.
    pub fn apply_transposed(&self, pool: &Pool, x: &[S], y: &mut [S]) {
        each(pool, y, self.width, |column, y| {
            y.fill(S::default());
            let (own, size) = (self.of.starts[column]..self.of.starts[column + 1], self.size());
            let rows = &self.of.blocks[own.clone()];
            add_products(&self.values[own.start * size..own.end * size], |n| rows[n].0, self.height, x, y);
        });
    }
}

/// y = D^-1 x, with the inverses of D's blocks, which are symmetric.
pub fn apply_inverse<S: Number>(pool: &Pool, inverse: &[S], block: usize, x: &[S], y: &mut [S]) {
    each(pool, y, block, |e, y| {
        y.fill(S::default());
        add_product(&inverse[e * block * block..][..block * block], &x[e * block..][..block], y);
    });
}
