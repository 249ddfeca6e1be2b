//! A level of a hierarchy of aggregates, and the next one made of it.

use crate::matrix_free::preconditioner::aggregates::blocks::{
    Blocks, ByColumns, Pattern, add_blocks, apply_inverse,
};
use crate::matrix_free::preconditioner::aggregates::rows::{each, each_ragged, sum};
use crate::problem::aggregates::{self, DEPENDENT, NONE, POWER_STEPS, SAFETY};
use std::sync::Arc;
use sumsq_codegen::runtime::Pool;

/// Rows of blocks that need no memory but the stack's.
const MOST: usize = 16;

/// Relative shift of the diagonal of a block before it is inverted.
const SHIFT: f64 = 1e-12;

/// A level. Rows of scalars that take no part are 0 in all of its matrices.
#[derive(Default)]
pub struct Level {
    /// A, all blocks of both triangles.
    pub a: Blocks,
    /// The inverse of every diagonal block of A.
    pub inverse: Vec<f64>,
    /// w = 4/(3 lambda), lambda the largest eigenvalue of D^-1 A, D these blocks.
    pub weight: f64,
    /// Near-null candidates: per scalar a number for each.
    pub candidates: Vec<f64>,
    /// The way to the next level.
    pub shape: Option<Shape>,
    /// P.
    pub p: Blocks,
    /// A P.
    ap: Blocks,
}

/// Everything of a step to the next level that does not depend on numbers, once the aggregates are known.
#[derive(Clone)]
pub struct Shape {
    /// The aggregate of every element.
    own: Vec<u32>,
    /// Elements of every aggregate: where they begin, and the lists.
    starts: Vec<usize>,
    members: Vec<u32>,
    /// The pattern of A that the rest was made of.
    a: Arc<Pattern>,
    /// Of P, of A P and of P^T A P.
    p: Arc<Pattern>,
    ap: Arc<Pattern>,
    next: Arc<Pattern>,
    /// P by columns.
    pub columns: Arc<ByColumns>,
}

impl Level {
    /// A level without numbers.
    pub fn planned(pattern: Arc<Pattern>, block: usize) -> Level {
        let a = Blocks { pattern, height: block, width: block, values: vec![] };
        Level { a, ..Level::default() }
    }

    /// Makes the shape of the step to the next level as it is where all that is coupled is strongly so; the next one's pattern.
    pub fn plan(&mut self) -> Option<Arc<Pattern>> {
        let a = &self.a.pattern;
        let (mut starts, mut neighbours) = (vec![0], vec![]);
        for e in 0..a.rows() {
            neighbours.extend(a.row(e).iter().filter(|f| **f as usize != e));
            starts.push(neighbours.len());
        }
        let (own, count) = aggregates::aggregates(&starts, &neighbours);
        self.shape = (count > 0).then(|| Shape::new(a, own, count));
        self.shape.as_ref().map(|s| s.next.clone())
    }

    /// Scalars of an element.
    pub fn block(&self) -> usize {
        self.a.height
    }

    /// Elements.
    pub fn elements(&self) -> usize {
        self.a.pattern.rows()
    }

    /// P by columns, where there is a next level.
    pub fn columns(&self) -> Option<&ByColumns> {
        self.shape.as_ref().map(|s| &*s.columns)
    }

    /// Makes the smoother, of new numbers for A.
    pub fn renew(&mut self, pool: &Pool) {
        let block = self.block();
        self.inverse.resize(self.elements() * block * block, 0.0);
        let a = &self.a;
        each(pool, &mut self.inverse, block * block, |e, inverse| {
            let own = a.pattern.place(e, e as u32).map(|place| a.block(place));
            inverse.fill(0.0);
            own.into_iter().for_each(|own| invert(own, block, inverse));
        });
        self.weight = 4.0 / (3.0 * self.largest_eigenvalue(pool));
    }

    /// Makes P, and A and the candidates of the next level, if any elements form aggregates: couplings below `threshold` are none. What is
    /// below `noise` of an aggregate's diagonal is rounding: its row becomes 0. Tells whether there is a next level.
    pub fn coarsen(&mut self, pool: &Pool, threshold: f64, noise: f64, next: &mut Level) -> bool {
        let Some(shape) = self.shaped(threshold) else { return false };
        let (t, candidates) = self.tentative(pool, &shape);
        self.smooth(pool, &shape, &t);
        self.ap.multiply(pool, &self.a, &self.p, shape.ap.clone());
        next.a.multiply_transposed(pool, (&self.p, &shape.columns), &self.ap, shape.next.clone());
        next.candidates = candidates;
        self.silence(pool, &shape, noise, &mut next.a);
        self.shape = Some(shape);
        true
    }

    /// The shape of the step, the old one if the aggregates are still the same.
    fn shaped(&mut self, threshold: f64) -> Option<Shape> {
        let (starts, neighbours) = self.strong(threshold);
        let (own, count) = aggregates::aggregates(&starts, &neighbours);
        if count == 0 {
            self.shape = None;
            return None;
        }
        let old = self.shape.take();
        let same = |old: &Shape| old.own == own && Arc::ptr_eq(&old.a, &self.a.pattern);
        Some(old.filter(same).unwrap_or_else(|| Shape::new(&self.a.pattern, own, count)))
    }

    /// The elements that every element is strongly coupled with: where their lists begin, and the lists, ascending.
    fn strong(&self, threshold: f64) -> (Vec<usize>, Vec<u32>) {
        let norm = |block: &[f64]| block.iter().map(|v| v * v).sum::<f64>();
        let a = &self.a;
        let others = |e: usize| a.row(e).filter(move |(f, _)| *f as usize != e).map(|(_, block)| norm(block));
        let largest: Vec<f64> = (0..self.elements()).map(|e| others(e).fold(0.0, f64::max)).collect();
        let (mut starts, mut neighbours) = (vec![0], vec![]);
        for e in 0..self.elements() {
            for (f, block) in a.row(e).filter(|(f, _)| *f as usize != e) {
                let norm = norm(block);
                // Squares of norms.
                if norm > 0.0 && norm >= threshold.powi(2) * (largest[e] * largest[f as usize]).sqrt() {
                    neighbours.push(f);
                }
            }
            starts.push(neighbours.len());
        }
        (starts, neighbours)
    }

    /// T, a block for every member of every aggregate, and what it leaves of the candidates: Gram and Schmidt, twice.
    fn tentative(&self, pool: &Pool, shape: &Shape) -> (Vec<f64>, Vec<f64>) {
        let block = self.block();
        let k = self.candidates.len() / (self.elements() * block);
        let mut t = vec![0.0; shape.members.len() * block * k];
        let rows_of = |aggregate: usize| {
            let members = &shape.members[shape.starts[aggregate]..shape.starts[aggregate + 1]];
            members.iter().flat_map(move |&e| e as usize * block..(e as usize + 1) * block)
        };
        each_ragged(pool, &mut t, &shape.starts, block * k, |aggregate, t| {
            let rows = rows_of(aggregate);
            rows.zip(t.chunks_mut(k)).for_each(|(i, t)| t.copy_from_slice(&self.candidates[i * k..][..k]));
            orthonormalise(t, k);
        });
        let mut left = vec![0.0; (shape.starts.len() - 1) * k * k];
        each(pool, &mut left, k * k, |aggregate, left| {
            let own = &t[shape.starts[aggregate] * block * k..shape.starts[aggregate + 1] * block * k];
            for (i, t) in rows_of(aggregate).zip(own.chunks(k)) {
                let candidates = &self.candidates[i * k..][..k];
                for (a, t) in t.iter().enumerate() {
                    (a..k).for_each(|j| left[a * k + j] += t * candidates[j]);
                }
            }
        });
        (t, left)
    }

    /// P = (I - w D^-1 A) T.
    fn smooth(&mut self, pool: &Pool, shape: &Shape, t: &[f64]) {
        let block = self.block();
        let k = t.len() / (shape.members.len() * block);
        let mut at = vec![usize::MAX; self.elements()];
        shape.members.iter().enumerate().for_each(|(n, &e)| at[e as usize] = n * block * k);
        let of = |e: usize| (at[e] != usize::MAX).then(|| (shape.own[e], &t[at[e]..at[e] + block * k]));
        self.p.clear(shape.p.clone(), block, k);
        let (a, inverse, weight) = (&self.a, &self.inverse, self.weight);
        each_ragged(pool, &mut self.p.values, &shape.p.starts, block * k, |e, out| {
            let columns = shape.p.row(e);
            let place = |aggregate: u32| columns.partition_point(|c| *c < aggregate) * block * k;
            for (f, a) in a.row(e) {
                if let Some((aggregate, t)) = of(f as usize) {
                    add_blocks(a, t, k, &mut out[place(aggregate)..][..block * k]);
                }
            }
            let inverse = &inverse[e * block * block..][..block * block];
            for out in out.chunks_mut(block * k) {
                let (mut small, mut large) = ([0.0; MOST * MOST], vec![]);
                let at = match small.get_mut(..block * k) {
                    Some(at) => at,
                    None => {
                        large.resize(block * k, 0.0);
                        &mut large[..]
                    }
                };
                at.iter_mut().zip(&mut *out).for_each(|(at, out)| *at = -weight * std::mem::take(out));
                add_blocks(inverse, at, k, out);
            }
            if let Some((aggregate, t)) = of(e) {
                out[place(aggregate)..].iter_mut().zip(t).for_each(|(out, t)| *out += t);
            }
        });
    }

    /// Makes rows and columns 0 whose diagonal entry in `next` is not above what rounding leaves of 0.
    fn silence(&self, pool: &Pool, shape: &Shape, noise: f64, next: &mut Blocks) {
        let (block, k) = (self.block(), next.height);
        let mut kept = vec![0.0; next.pattern.rows() * k];
        each(pool, &mut kept, k, |aggregate, kept| {
            for &(e, place) in shape.columns.of(aggregate) {
                let Some(own) = self.a.pattern.place(e as usize, e) else { continue };
                for (c, p) in self.p.block(place as usize).chunks(k).enumerate() {
                    let diagonal = self.a.block(own)[c * block + c];
                    kept.iter_mut().zip(p).for_each(|(kept, p)| *kept += p * p * diagonal);
                }
            }
            let own = next.pattern.place(aggregate, aggregate as u32).map(|place| next.block(place));
            for (i, kept) in kept.iter_mut().enumerate() {
                let diagonal = own.map_or(0.0, |own| own[i * k + i]);
                *kept = f64::from(u8::from(diagonal > noise * *kept));
            }
        });
        let Blocks { pattern, values, .. } = next;
        each_ragged(pool, values, &pattern.starts, k * k, |i, row| {
            for (&j, block) in pattern.row(i).iter().zip(row.chunks_mut(k * k)) {
                let on = |a: usize, b: usize| kept[i * k + a] * kept[j as usize * k + b] != 0.0;
                block.iter_mut().enumerate().filter(|(n, _)| !on(n / k, n % k)).for_each(|(_, v)| *v = 0.0);
            }
        });
    }

    /// The largest eigenvalue of D^-1 A, a little more than the power method finds.
    fn largest_eigenvalue(&self, pool: &Pool) -> f64 {
        let n = self.elements() * self.block();
        let mut v: Vec<f64> = (0..n).map(aggregates::start).collect();
        let (mut av, mut largest) = (vec![0.0; n], 1.0);
        for _ in 0..POWER_STEPS {
            self.a.apply(pool, &v, &mut av);
            apply_inverse(pool, &self.inverse, self.block(), 1.0, &av, &mut v);
            // Behind the first step v^T D v = 1.
            largest = sum(pool, n, |i| v[i] * av[i]).sqrt();
            if largest.is_nan() || largest <= 0.0 {
                return 1.0;
            }
            let scale = 1.0 / largest;
            each(pool, &mut v, 1, |_, v| v[0] *= scale);
        }
        SAFETY * largest
    }

    /// Bytes of its numbers and lists, with so many candidates, and with `rounded` copies.
    pub fn bytes(&self, candidates: usize, rounded: bool) -> usize {
        let (block, elements) = (self.block(), self.elements());
        let lists = |p: &Pattern| p.starts.len() * size_of::<usize>() + p.columns.len() * size_of::<u32>();
        let a = &self.a.pattern;
        let number = size_of::<f64>() + if rounded { size_of::<f32>() } else { 0 };
        let blocks = (a.columns.len() + elements) * block * block * number;
        let shape = self.shape.as_ref().map_or(0, |s| {
            let own =
                (s.own.len() + s.members.len()) * size_of::<u32>() + s.starts.len() * size_of::<usize>();
            let columns = s.columns.blocks.len() * 2 * size_of::<u32>();
            let products =
                (s.p.columns.len() * number + s.ap.columns.len() * size_of::<f64>()) * block * candidates;
            own + columns + products + lists(&s.p) + lists(&s.ap)
        });
        blocks + elements * block * candidates * size_of::<f64>() + lists(a) + shape
    }
}

impl Shape {
    fn new(a: &Arc<Pattern>, own: Vec<u32>, count: usize) -> Shape {
        let taken = own.iter().filter(|o| **o != NONE).count();
        let mut starts = vec![0; count + 1];
        own.iter().filter(|o| **o != NONE).for_each(|&o| starts[o as usize + 1] += 1);
        (0..count).for_each(|i| starts[i + 1] += starts[i]);
        let (mut next, mut members) = (starts.clone(), vec![0; taken]);
        for (e, &o) in own.iter().enumerate().filter(|(_, o)| **o != NONE) {
            members[next[o as usize]] = e as u32;
            next[o as usize] += 1;
        }
        let of = |e: usize| a.row(e).iter().map(|&f| own[f as usize]).filter(|o| *o != NONE).collect();
        let p = Pattern::new((0..a.rows()).map(of));
        let ap = a.times(&p);
        let columns = p.by_columns(count);
        let row =
            |i: usize| columns.of(i).iter().flat_map(|&(e, _)| ap.row(e as usize).iter().copied()).collect();
        let next = Arc::new(Pattern::new((0..count).map(row)));
        let (p, ap, columns) = (Arc::new(p), Arc::new(ap), Arc::new(columns));
        Shape { own, starts, members, a: a.clone(), p, ap, next, columns }
    }
}

/// Makes the columns of a matrix, row-major, orthonormal, the first ones first; 0 where one depends on those before.
fn orthonormalise(t: &mut [f64], k: usize) {
    let dot = |t: &[f64], i: usize, j: usize| t.chunks(k).map(|row| row[i] * row[j]).sum::<f64>();
    for j in 0..k {
        let whole = dot(t, j, j).sqrt();
        for _ in 0..2 {
            for i in 0..j {
                let share = dot(t, i, j);
                t.chunks_mut(k).for_each(|row| row[j] -= share * row[i]);
            }
        }
        let norm = dot(t, j, j).sqrt();
        let scale = if norm > DEPENDENT * whole { 1.0 / norm } else { 0.0 };
        t.chunks_mut(k).for_each(|row| row[j] = if scale == 0.0 { 0.0 } else { row[j] * scale });
    }
}

/// Writes the inverse of a symmetric positive matrix by Cholesky, the diagonal shifted; rows whose diagonal is 0 are left alone. The inverse of
/// the diagonal, where the matrix is not positive to rounding.
pub fn invert(a: &[f64], n: usize, inverse: &mut [f64]) {
    let (mut small, mut large) = ([0.0; MOST * MOST], vec![]);
    let l = match small.get_mut(..n * n) {
        Some(l) => l,
        None => {
            large.resize(n * n, 0.0);
            &mut large[..]
        }
    };
    let (mut small, mut large) = ([0; MOST], vec![]);
    let rows = match small.get_mut(..n) {
        Some(rows) => rows,
        None => {
            large.resize(n, 0);
            &mut large[..]
        }
    };
    let mut m = 0;
    for i in (0..n).filter(|&i| a[i * n + i] > 0.0) {
        rows[m] = i;
        m += 1;
    }
    let rows = &rows[..m];
    for j in 0..m {
        for i in j..m {
            let entry = a[rows[i] * n + rows[j]] * if i == j { 1.0 + SHIFT } else { 1.0 };
            let rest = entry - (0..j).map(|s| l[i * m + s] * l[j * m + s]).sum::<f64>();
            if i > j {
                l[i * m + j] = rest / l[j * m + j];
            } else if rest > 0.0 {
                l[j * m + j] = rest.sqrt();
            } else {
                rows.iter().for_each(|&i| inverse[i * n + i] = 1.0 / a[i * n + i]);
                return;
            }
        }
    }
    // L^-1 in place of L, columns and rows from the last ones.
    for j in (0..m).rev() {
        let own = 1.0 / l[j * m + j];
        for i in (j + 1..m).rev() {
            let sum: f64 = (j + 1..=i).map(|s| l[i * m + s] * l[s * m + j]).sum();
            l[i * m + j] = -sum * own;
        }
        l[j * m + j] = own;
    }
    for (i, &row) in rows.iter().enumerate() {
        for (j, &column) in rows.iter().enumerate().take(i + 1) {
            inverse[row * n + column] = (i..m).map(|s| l[s * m + i] * l[s * m + j]).sum();
        }
    }
    // Symmetric to the last bit.
    for (i, &row) in rows.iter().enumerate() {
        rows[..i].iter().for_each(|&column| inverse[column * n + row] = inverse[row * n + column]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;

    /// Rows whose diagonal is 0 take no part, also where the matrix needs more memory than the stack's.
    #[test]
    fn blocks_are_inverted_where_scalars_take_part() {
        for n in [1, 2, 5, 6, 17, 20] {
            let root =
                DMatrix::from_fn(n, n, |i, j| aggregates::start(i * n + j) + f64::from(u8::from(i == j)));
            let mut a = &root * root.transpose();
            let off = n / 3;
            if n > 2 {
                (0..n).for_each(|i| (a[(i, off)], a[(off, i)]) = (0.0, 0.0));
            }
            let mut inverse = vec![0.0; n * n];
            invert(a.as_slice(), n, &mut inverse);
            let product = &a * DMatrix::from_row_slice(n, n, &inverse);
            let expected = DMatrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j && (n <= 2 || i != off))));
            assert!((product - expected).norm() <= 1e-7, "{n} rows");
        }
    }
}
