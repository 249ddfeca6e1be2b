//! Loops over blocks of numbers, the arithmetic of matrices of blocks: products along rows of blocks, in a way that compilers turn into SIMD, of B^T x
//! and B^T C with a block B.
//!
//! Loops know the sizes of blocks when they are compiled, where these are usual. They go by numbers, not by iterators: calls of these would not be
//! inlined where a crate is compiled in several units.

use crate::problem::aggregates::NOISE;
use std::ops::{Add, AddAssign, Mul, Sub};
use sumsq_codegen::runtime::Element;

/// Numbers of matrices and vectors: float32 where PCG is in that, else float64.
pub trait Number:
    Element
    + Default
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Into<f64>
{
    /// Relative shift of the diagonal of a block before it is inverted: well above what rounding does to it.
    const SHIFT: f64;
    /// Share of an aggregate's diagonal below which what P^T A P has there is rounding.
    const NOISE: f64;
    /// The nearest one.
    fn nearest(value: f64) -> Self;
}

impl Number for f32 {
    const SHIFT: f64 = 1e-5;
    const NOISE: f64 = 1e-6;

    fn nearest(value: f64) -> f32 {
        value as f32
    }
}

impl Number for f64 {
    const SHIFT: f64 = 1e-12;
    const NOISE: f64 = NOISE;

    fn nearest(value: f64) -> f64 {
        value
    }
}

/// Rows of A and B, columns of A, and columns of B, in a product A^T B.
pub type Shape = [usize; 3];

/// A loop over products A^T B of blocks of one shape.
pub trait Loop {
    /// Runs it: with blocks of B that are `W` wide, of any width if that is 0, and take `P` lanes; with `W` for all of the shape, if it is `SQUARE`.
    fn run<const W: usize, const P: usize, const SQUARE: bool>(self, shape: Shape);
}

/// Runs a loop over blocks of a shape.
pub fn run(shape: Shape, of: impl Loop) {
    match shape {
        [1, 1, 1] => of.run::<1, 1, true>(shape),
        [2, 2, 2] => of.run::<2, 2, true>(shape),
        [3, 3, 3] => of.run::<3, 4, true>(shape),
        [4, 4, 4] => of.run::<4, 4, true>(shape),
        [6, 6, 6] => of.run::<6, 8, true>(shape),
        [_, _, 1] => of.run::<1, 1, false>(shape),
        [_, _, 2] => of.run::<2, 2, false>(shape),
        [_, _, 3] => of.run::<3, 4, false>(shape),
        [_, _, 4] => of.run::<4, 4, false>(shape),
        [_, _, 5] => of.run::<5, 8, false>(shape),
        [_, _, 6] => of.run::<6, 8, false>(shape),
        [_, _, 12] => of.run::<12, 12, false>(shape),
        _ => of.run::<0, 0, false>(shape),
    }
}

/// out += A^T B.
#[inline(always)]
pub fn add<S: Number, const W: usize, const P: usize, const SQUARE: bool>(
    shape: Shape,
    a: &[S],
    b: &[S],
    out: &mut [S],
) {
    if W == 0 {
        any_width::blocks(shape, a, b, out);
    } else if SQUARE {
        square::<S, W, P>(a, b, out);
    } else {
        blocks::<S, W, P>(shape[1], a, b, out);
    }
}

/// One product, out += A^T B.
struct Product<'a, S> {
    a: &'a [S],
    b: &'a [S],
    out: &'a mut [S],
}

impl<S: Number> Loop for Product<'_, S> {
    #[inline(always)]
    fn run<const W: usize, const P: usize, const SQUARE: bool>(self, shape: Shape) {
        add::<S, W, P, SQUARE>(shape, self.a, self.b, self.out);
    }
}

/// out += A^T B, with so many columns of A and of B.
pub fn add_blocks<S: Number>(a: &[S], b: &[S], [height, width]: [usize; 2], out: &mut [S]) {
    run([a.len() / height, height, width], Product { a, b, out });
}

/// A row of the product of two matrices of blocks: blocks L of its row on the left, and rows of B on the right, from a column on.
pub struct RowOfProduct<'a, S, R> {
    /// The blocks of the left.
    pub lefts: &'a [S],
    /// The row of B that each meets.
    pub row_of: R,
    /// Number of the first block of every row of B, their columns, and the blocks.
    pub b: (&'a [usize], &'a [u32], &'a [S]),
    /// The first column that is computed.
    pub first: u32,
    /// The columns of the product's row, ascending: all that B's rows have from the first one on.
    pub columns: &'a [u32],
    /// Blocks are B^T L in place of L^T B.
    pub others: bool,
    /// The row.
    pub out: &'a mut [S],
}

impl<S: Number, R: Fn(usize) -> u32> Loop for RowOfProduct<'_, S, R> {
    #[inline(always)]
    fn run<const W: usize, const P: usize, const SQUARE: bool>(self, shape: Shape) {
        let [rows, height, width] = if SQUARE { [W; 3] } else { shape };
        let (size, (starts, columns, blocks)) = (height * width, self.b);
        let (left_size, right_size) = match self.others {
            true => (rows * width, rows * height),
            false => (rows * height, rows * width),
        };
        for n in 0..self.lefts.len() / left_size {
            let left = &self.lefts[n * left_size..][..left_size];
            let row = (self.row_of)(n) as usize;
            let mut place = 0;
            for at in starts[row]..starts[row + 1] {
                let column = columns[at];
                if column < self.first {
                    continue;
                }
                // Both ascend.
                while self.columns[place] < column {
                    place += 1;
                }
                let out = &mut self.out[place * size..][..size];
                let right = &blocks[at * right_size..][..right_size];
                let (a, b) = if self.others { (right, left) } else { (left, right) };
                add::<S, W, P, SQUARE>(shape, a, b, out);
            }
        }
    }
}

/// A row of (I - w D^-1 A) T.
pub struct SmoothRow<'a, S, T> {
    /// The row of A, blocks transposed.
    pub a: &'a [S],
    /// For a place in it whose column is in an aggregate: the place of the aggregate in the row that is made, and the column's block of T.
    pub term: T,
    /// w D^-1 of the row.
    pub smoother: &'a [S],
    /// Memory for A T.
    pub at: &'a mut [S],
    /// The row.
    pub out: &'a mut [S],
}

impl<'a, S: Number + 'a, T: Fn(usize) -> Option<(usize, &'a [S])>> Loop for SmoothRow<'a, S, T> {
    #[inline(always)]
    fn run<const W: usize, const P: usize, const SQUARE: bool>(self, shape: Shape) {
        let [rows, height, width] = if SQUARE { [W; 3] } else { shape };
        let (size, left_size) = (height * width, rows * height);
        self.at.fill(S::default());
        self.out.fill(S::default());
        for n in 0..self.a.len() / left_size {
            if let Some((place, t)) = (self.term)(n) {
                let a = &self.a[n * left_size..][..left_size];
                add::<S, W, P, SQUARE>(shape, a, t, &mut self.at[place * size..][..size]);
            }
        }
        for i in 0..self.at.len() {
            self.at[i] = S::default() - self.at[i];
        }
        for n in 0..self.out.len() / size {
            let (at, out) = (&self.at[n * size..][..size], &mut self.out[n * size..][..size]);
            add::<S, W, P, SQUARE>(shape, self.smoother, at, out);
        }
    }
}

/// Rows, each multiplied by a square matrix.
struct Rows<'a, S> {
    rows: &'a mut [S],
    by: &'a [S],
}

impl<S: Number> Loop for Rows<'_, S> {
    #[inline(always)]
    fn run<const W: usize, const P: usize, const SQUARE: bool>(self, [width, ..]: Shape) {
        if !SQUARE {
            let mut product = vec![S::default(); width];
            for row in self.rows.chunks_exact_mut(width) {
                product.fill(S::default());
                any_width::product(width, self.by, row, &mut product);
                row.copy_from_slice(&product);
            }
            return;
        }
        let by = self.by.as_chunks::<W>().0;
        let Some(by) = by.first_chunk::<W>() else { return };
        let mut lanes = [[S::default(); P]; W];
        for t in 0..W {
            lanes[t] = padded(&by[t]);
        }
        for row in self.rows.as_chunks_mut::<W>().0 {
            let mut sum = [S::default(); P];
            for t in 0..W {
                for j in 0..P {
                    sum[j] += row[t] * lanes[t][j];
                }
            }
            put(&sum, row);
        }
    }
}

/// Multiplies rows by a square matrix that is as wide as they: B = B U.
pub fn multiply_rows<S: Number>(rows: &mut [S], by: &[S], width: usize) {
    run([width; 3], Rows { rows, by });
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

/// y += B^T x.
pub fn add_product<S: Number>(block: &[S], x: &[S], y: &mut [S]) {
    with_width!(y.len(), product(block, x, y))
}

/// y += the sum of B^T x over blocks that lie one behind the other; block n has the x of element `at(n)`.
pub fn add_products<S: Number>(blocks: &[S], at: impl Fn(usize) -> u32, height: usize, x: &[S], y: &mut [S]) {
    with_width!(y.len(), products(blocks, at, height, x, y))
}

/// y += the diagonal of B^T D B, D a diagonal.
pub fn add_squares<S: Number>(block: &[S], diagonal: &[S], y: &mut [S]) {
    with_width!(y.len(), squares(block, diagonal, y))
}

fn squares<S: Number, const W: usize>(block: &[S], diagonal: &[S], y: &mut [S]) {
    let Some(y) = y.first_chunk_mut::<W>() else { return };
    let mut sum = *y;
    for (row, d) in block.as_chunks::<W>().0.iter().zip(diagonal) {
        for j in 0..W {
            sum[j] += row[j] * row[j] * *d;
        }
    }
    *y = sum;
}

fn product<S: Number, const W: usize>(block: &[S], x: &[S], y: &mut [S]) {
    let Some(y) = y.first_chunk_mut::<W>() else { return };
    let mut sum = *y;
    for (row, x) in block.as_chunks::<W>().0.iter().zip(x) {
        for j in 0..W {
            sum[j] += row[j] * *x;
        }
    }
    *y = sum;
}

fn products<S: Number, const W: usize>(
    blocks: &[S],
    at: impl Fn(usize) -> u32,
    height: usize,
    x: &[S],
    y: &mut [S],
) {
    let Some(y) = y.first_chunk_mut::<W>() else { return };
    // Two sums in registers: an addition waits for the one before the last.
    let (mut even, mut odd) = ([S::default(); W], [S::default(); W]);
    let rows = blocks.as_chunks::<W>().0;
    for n in 0..rows.len() / height.max(1) {
        let (block, x) = (&rows[n * height..][..height], &x[at(n) as usize * height..][..height]);
        for t in 0..height / 2 {
            let ([a, b], [x, y]) = ([&block[2 * t], &block[2 * t + 1]], [x[2 * t], x[2 * t + 1]]);
            for j in 0..W {
                even[j] += a[j] * x;
                odd[j] += b[j] * y;
            }
        }
        if height % 2 == 1 {
            let (a, x) = (&block[height - 1], x[height - 1]);
            for j in 0..W {
                even[j] += a[j] * x;
            }
        }
    }
    for j in 0..W {
        y[j] += even[j] + odd[j];
    }
}

/// A row with zeros behind it, up to a number of lanes that vectors have.
#[expect(clippy::manual_memcpy, reason = "a call of a copy is not inlined across units")]
#[inline(always)]
fn padded<S: Number, const W: usize, const P: usize>(row: &[S; W]) -> [S; P] {
    let mut all = [S::default(); P];
    for j in 0..W {
        all[j] = row[j];
    }
    all
}

/// Writes the row of such lanes.
#[expect(clippy::manual_memcpy, reason = "a call of a copy is not inlined across units")]
#[inline(always)]
fn put<S: Number, const W: usize, const P: usize>(all: &[S; P], row: &mut [S; W]) {
    for j in 0..W {
        row[j] = all[j];
    }
}

/// out += A^T B, with so many columns of A.
#[inline(always)]
fn blocks<S: Number, const W: usize, const P: usize>(height: usize, a: &[S], b: &[S], out: &mut [S]) {
    let (b, out) = (b.as_chunks::<W>().0, out.as_chunks_mut::<W>().0);
    for i in 0..out.len() {
        let mut sum: [S; P] = padded(&out[i]);
        for t in 0..b.len() {
            let (left, row) = (a[t * height + i], padded::<S, W, P>(&b[t]));
            for j in 0..P {
                sum[j] += left * row[j];
            }
        }
        put(&sum, &mut out[i]);
    }
}

/// The same of square blocks: every place is known to the compiler, which keeps B in registers.
#[inline(always)]
fn square<S: Number, const W: usize, const P: usize>(a: &[S], b: &[S], out: &mut [S]) {
    let (a, b, out) = (a.as_chunks::<W>().0, b.as_chunks::<W>().0, out.as_chunks_mut::<W>().0);
    let (Some(a), Some(b), Some(out)) =
        (a.first_chunk::<W>(), b.first_chunk::<W>(), out.first_chunk_mut::<W>())
    else {
        return;
    };
    let mut rows = [[S::default(); P]; W];
    for t in 0..W {
        rows[t] = padded(&b[t]);
    }
    for i in 0..W {
        let mut sum: [S; P] = padded(&out[i]);
        for t in 0..W {
            for j in 0..P {
                sum[j] += a[t][i] * rows[t][j];
            }
        }
        put(&sum, &mut out[i]);
    }
}

/// The same loops for any width.
mod any_width {
    use super::{Number, Shape};

    pub fn squares<S: Number>(width: usize, block: &[S], diagonal: &[S], y: &mut [S]) {
        for (row, d) in block.chunks_exact(width).zip(diagonal) {
            y.iter_mut().zip(row).for_each(|(y, m)| *y += *m * *m * *d);
        }
    }

    pub fn product<S: Number>(width: usize, block: &[S], x: &[S], y: &mut [S]) {
        for (row, x) in block.chunks_exact(width).zip(x) {
            y.iter_mut().zip(row).for_each(|(y, m)| *y += *m * *x);
        }
    }

    pub fn products<S: Number>(
        width: usize,
        blocks: &[S],
        at: impl Fn(usize) -> u32,
        height: usize,
        x: &[S],
        y: &mut [S],
    ) {
        for (n, block) in blocks.chunks_exact((height * width).max(1)).enumerate() {
            product(width, block, &x[at(n) as usize * height..][..height], y);
        }
    }

    pub fn blocks<S: Number>([_, height, width]: Shape, a: &[S], b: &[S], out: &mut [S]) {
        for (a, b) in a.chunks_exact(height).zip(b.chunks_exact(width)) {
            for (a, out) in a.iter().zip(out.chunks_exact_mut(width)) {
                out.iter_mut().zip(b).for_each(|(out, b)| *out += *a * *b);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::aggregates;

    fn numbers<S: Number>(n: usize, first: usize) -> Vec<S> {
        (first..first + n).map(|i| S::nearest(aggregates::start(i))).collect()
    }

    /// out += A^T B, number by number in the order of rows.
    fn plain<S: Number>([rows, height, width]: Shape, a: &[S], b: &[S], out: &mut [S]) {
        for (i, j) in (0..height).flat_map(|i| (0..width).map(move |j| (i, j))) {
            for t in 0..rows {
                out[i * width + j] += a[t * height + i] * b[t * width + j];
            }
        }
    }

    fn check<S: Number + PartialEq + std::fmt::Debug>() {
        let squares = (1..=13).map(|w| [w; 3]);
        let others = (1..=13).flat_map(|w| [[1, 2, w], [12, 12, w], [5, 7, w]]);
        for shape @ [rows, height, width] in squares.chain(others) {
            let [a, b] = [numbers::<S>(rows * height, 3), numbers(rows * width, 1000)];
            let mut out = numbers::<S>(height * width, 2000);
            let mut expected = out.clone();
            add_blocks(&a, &b, [height, width], &mut out);
            plain(shape, &a, &b, &mut expected);
            assert_eq!(out, expected, "{shape:?}");

            // Two blocks meet rows of B with columns 1, 4 and 4, 5; what is before column 4 is left out.
            let values = numbers::<S>(4 * rows * width, 500);
            let b = (&[0, 2, 4][..], &[1, 4, 4, 5][..], &values[..]);
            let lefts = numbers::<S>(2 * rows * height, 77);
            for others in [false, true] {
                let mut out = vec![S::default(); 2 * height * width];
                let mut expected = out.clone();
                let row_of = |n: usize| n as u32;
                let columns = &[4, 5];
                let of = RowOfProduct { lefts: &lefts, row_of, b, first: 4, columns, others, out: &mut out };
                run(if others { [rows, width, height] } else { shape }, of);
                for (left, right, place) in [(0, 1, 0), (1, 2, 0), (1, 3, 1)] {
                    let left = &lefts[left * rows * height..][..rows * height];
                    let right = &values[right * rows * width..][..rows * width];
                    let out = &mut expected[place * height * width..][..height * width];
                    match others {
                        false => plain(shape, left, right, out),
                        true => plain([rows, width, height], right, left, out),
                    }
                }
                assert_eq!(out, expected, "{shape:?} {others}");
            }

            if rows == height && height == width {
                let mut rows = numbers::<S>(3 * width, 9);
                let mut expected = vec![S::default(); 3 * width];
                let by = numbers::<S>(width * width, 90);
                for (row, to) in rows.chunks(width).zip(expected.chunks_mut(width)) {
                    plain([width, 1, width], row, &by, to);
                }
                multiply_rows(&mut rows, &by, width);
                assert_eq!(rows, expected, "{width}");
            }
        }
    }

    #[test]
    fn all_shapes_have_the_bits_of_plain_loops() {
        check::<f32>();
        check::<f64>();
    }
}
