//! PCG on one residual over a wide stencil by hand: J p is stored, as somebody would who writes it down once. A residual counts where its whole
//! stencil is inside of the image; Jacobi, float32.
//!
//! One iteration is three passes:
//!
//! ```text
//! p = z + beta p, z = r / diag
//! q = J p;   pq = q . q                                        a product per tap
//! x += alpha p;  r -= alpha J^T q;  rz = r . r / diag          a product per tap
//! ```

use super::isa::{Isa, multiversion};
use super::pcg::{LANES, tree_sum};
use super::team::Team;
use std::ops::Range;

/// Pixels of a row that are summed at once: what vectors of 256 bits hold in half of the registers.
const BLOCK: usize = 64;

/// The state of the iteration.
pub struct Wide {
    team: Team,
    isa: Isa,
    /// Pixels in each direction.
    n: usize,
    /// Half the stencil's width, without its centre.
    half: usize,
    /// Weights, row by row; and those of the transpose.
    taps: [Vec<f32>; 2],
    /// 1 / diag(J^T J).
    inverse: Vec<f32>,
    p: Vec<f32>,
    /// J p with a border of `half` zeros, where no stencil is inside.
    q: Vec<f32>,
    x: Vec<f32>,
    r: Vec<f32>,
    rz: f64,
    beta: f64,
}

impl Wide {
    /// The problem J x = a, at x = 0; `taps` are the weights of a square of odd width that fits into the image of `n` times `n` pixels.
    pub fn new(n: usize, taps: &[f32], a: &[f32], threads: usize) -> Wide {
        let half = taps.len().isqrt() / 2;
        let inner = n - 2 * half;
        let threads = threads.clamp(1, inner);
        let reversed = taps.iter().rev().copied().collect();
        let zeros = || vec![0.0; n * n];
        let mut wide = Wide {
            team: Team::new(threads),
            isa: Isa::host(),
            n,
            half,
            taps: [taps.to_vec(), reversed],
            inverse: vec![1.0; n * n],
            p: zeros(),
            q: vec![0.0; (n + 2 * half).pow(2)],
            x: zeros(),
            r: zeros(),
            rz: 0.0,
            beta: 0.0,
        };
        // diag = J^T 1 of squared weights, and r = J^T a: sweeps as those of an iteration.
        let squares: Vec<f32> = wide.taps[1].iter().map(|w| w * w).collect();
        let taps = std::mem::replace(&mut wide.taps[1], squares);
        let into_q = |q: &mut [f32], value: &dyn Fn(usize) -> f32| {
            for (y, row) in q.chunks_mut(n + 2 * half).enumerate().skip(2 * half).take(inner) {
                for x in half..n - half {
                    row[half + x] = value((y - half) * n + x);
                }
            }
        };
        into_q(&mut wide.q, &|_| 1.0);
        wide.update(-1.0);
        wide.inverse = wide.r.iter().map(|d| 1.0 / d).collect();
        wide.taps[1] = taps;
        wide.r.fill(0.0);
        into_q(&mut wide.q, &|at| a[at]);
        wide.rz = wide.update(-1.0);
        wide
    }

    /// r . z, the squared norm of the residual in the inverse of the preconditioner.
    pub fn rz(&self) -> f64 {
        self.rz
    }

    /// One iteration.
    pub fn iterate(&mut self) {
        self.direction(self.beta as f32);
        let pq = self.product();
        let rz = self.update((self.rz / pq) as f32);
        self.beta = rz / self.rz;
        self.rz = rz;
    }

    /// Rows of each member of the team, of so many.
    fn strips(&self, rows: usize) -> Vec<Range<usize>> {
        let threads = self.team.threads();
        (0..threads).map(|t| rows * t / threads..rows * (t + 1) / threads).collect()
    }

    fn direction(&mut self, beta: f32) {
        let (isa, strips) = (self.isa, self.strips(self.n));
        let (r, inverse, n) = (&self.r, &self.inverse, self.n);
        let parts = strips.iter().cloned().zip(split(&mut self.p, n, &strips)).collect();
        self.team.each(parts, |_, (rows, p): (Range<usize>, &mut [f32])| {
            let own = rows.start * n..rows.end * n;
            direction_part(isa, beta, &r[own.clone()], &inverse[own], p);
        });
    }

    /// q = J p; returns q . q.
    fn product(&mut self) -> f64 {
        let (isa, n, half) = (self.isa, self.n, self.half);
        let (pitch, strips) = (n + 2 * half, self.strips(n - 2 * half));
        let mut sums = vec![0.0; strips.len()];
        let (p, taps) = (&self.p, &self.taps[0]);
        let rows = split(&mut self.q[2 * half * pitch..], pitch, &strips);
        let parts = strips.iter().cloned().zip(rows).zip(&mut sums).collect();
        self.team.each(parts, |_, ((rows, q), sum): ((Range<usize>, &mut [f32]), &mut f64)| {
            for (y, q) in rows.zip(q.chunks_mut(pitch)) {
                let q = &mut q[2 * half..n];
                convolve(isa, taps, &p[y * n..], n, q);
                *sum += squares(isa, q);
            }
        });
        sums.iter().sum()
    }

    /// x += alpha p, r -= alpha J^T q; returns r . r / diag.
    fn update(&mut self, alpha: f32) -> f64 {
        let (isa, n, pitch) = (self.isa, self.n, self.n + 2 * self.half);
        let strips = self.strips(n);
        let mut sums = vec![0.0; strips.len()];
        let (p, q, taps, inverse) = (&self.p, &self.q, &self.taps[1], &self.inverse);
        let rows = split(&mut self.x, n, &strips).into_iter().zip(split(&mut self.r, n, &strips));
        let parts = strips.iter().cloned().zip(rows).zip(&mut sums).collect();
        self.team.each(parts, |_, ((rows, (x, r)), sum): (Part, &mut f64)| {
            let mut product = vec![0.0; n];
            for ((y, x), r) in rows.zip(x.chunks_mut(n)).zip(r.chunks_mut(n)) {
                convolve(isa, taps, &q[y * pitch..], pitch, &mut product);
                let own = y * n..(y + 1) * n;
                *sum += update_row(isa, alpha, [&p[own.clone()], &product, &inverse[own]], x, r);
            }
        });
        sums.iter().sum()
    }
}

/// Rows of a strip, and its part of x and r.
type Part<'a> = (Range<usize>, (&'a mut [f32], &'a mut [f32]));

/// The rows of each strip.
fn split<'a>(mut a: &'a mut [f32], pitch: usize, strips: &[Range<usize>]) -> Vec<&'a mut [f32]> {
    let mut parts = vec![];
    for s in strips {
        let (part, rest) = a.split_at_mut(s.len() * pitch);
        parts.push(part);
        a = rest;
    }
    parts
}

multiversion!(
    /// p = r * inverse + beta p.
    fn direction_part(beta: f32, r: &[f32], inverse: &[f32], p: &mut [f32]) -> () = direction_body
);
multiversion!(
    /// `out` = the taps of rows of `from` that begin `pitch` apart, the first of each at the first pixel of its row.
    fn convolve(taps: &[f32], from: &[f32], pitch: usize, out: &mut [f32]) -> () = convolve_body
);
multiversion!(
    /// q . q.
    fn squares(q: &[f32]) -> f64 = squares_body
);
multiversion!(
    /// x += alpha p, r -= alpha product; returns r . r inverse.
    fn update_row(alpha: f32, of: [&[f32]; 3], x: &mut [f32], r: &mut [f32]) -> f64 = update_body
);

#[inline(always)]
fn direction_body(beta: f32, r: &[f32], inverse: &[f32], p: &mut [f32]) {
    p.iter_mut().zip(r).zip(inverse).for_each(|((p, r), i)| *p = r * i + beta * *p);
}

#[inline(always)]
fn convolve_body(taps: &[f32], from: &[f32], pitch: usize, out: &mut [f32]) {
    let width = taps.len().isqrt();
    let (blocks, rest) = out.as_chunks_mut::<BLOCK>();
    let summed = blocks.len() * BLOCK;
    for (b, out) in blocks.iter_mut().enumerate() {
        let mut sums = [0.0f32; BLOCK];
        for (row, taps) in taps.chunks(width).enumerate() {
            let from = &from[row * pitch + b * BLOCK..][..BLOCK + width - 1];
            for (column, w) in taps.iter().enumerate() {
                let window = &from[column..][..BLOCK];
                for i in 0..BLOCK {
                    sums[i] = window[i].mul_add(*w, sums[i]);
                }
            }
        }
        *out = sums;
    }
    for (i, out) in rest.iter_mut().enumerate() {
        let row = |(row, taps): (usize, &[f32])| -> f32 {
            let from = &from[row * pitch + summed + i..][..width];
            from.iter().zip(taps).map(|(v, w)| v * w).sum()
        };
        *out = taps.chunks(width).enumerate().map(row).sum();
    }
}

#[inline(always)]
fn squares_body(q: &[f32]) -> f64 {
    let (chunks, rest) = q.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for q in chunks {
        for i in 0..LANES {
            sums[i] += q[i] * q[i];
        }
    }
    f64::from(tree_sum(sums) + rest.iter().map(|q| q * q).sum::<f32>())
}

#[inline(always)]
fn update_body(alpha: f32, [p, product, inverse]: [&[f32]; 3], x: &mut [f32], r: &mut [f32]) -> f64 {
    x.iter_mut().zip(p).for_each(|(x, p)| *x += alpha * p);
    let mut sums = [0.0f32; LANES];
    let (rs, r_rest) = r.as_chunks_mut::<LANES>();
    let ((qs, q_rest), (is, i_rest)) = (product.as_chunks::<LANES>(), inverse.as_chunks::<LANES>());
    for ((r, q), inverse) in rs.iter_mut().zip(qs).zip(is) {
        for i in 0..LANES {
            r[i] -= alpha * q[i];
            sums[i] += r[i] * r[i] * inverse[i];
        }
    }
    let mut sum = tree_sum(sums);
    for ((r, q), inverse) in r_rest.iter_mut().zip(q_rest).zip(i_rest) {
        *r -= alpha * q;
        sum += *r * *r * inverse;
    }
    f64::from(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// r . z after some iterations, in float64 and from the definitions.
    fn expected(n: usize, taps: &[f32], a: &[f32], iterations: usize) -> f64 {
        let width = taps.len().isqrt();
        let inner = n - width + 1;
        let row = |k: usize| {
            let mut row = vec![0.0; n * n];
            for (t, w) in taps.iter().enumerate() {
                row[(k / inner + t / width) * n + k % inner + t % width] = f64::from(*w);
            }
            row
        };
        let j: Vec<Vec<f64>> = (0..inner * inner).map(row).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let product = |v: &[f64]| j.iter().map(|row| dot(row, v)).collect::<Vec<_>>();
        let back = |v: &[f64]| -> Vec<f64> {
            (0..n * n).map(|i| j.iter().zip(v).map(|(row, v)| row[i] * v).sum()).collect()
        };
        let half = width / 2;
        let inside = |k: usize| f64::from(a[(k / inner + half) * n + k % inner + half]);
        let mut r = back(&(0..inner * inner).map(inside).collect::<Vec<_>>());
        let diag: Vec<f64> = (0..n * n).map(|i| j.iter().map(|row| row[i] * row[i]).sum()).collect();
        let precondition = |r: &[f64]| r.iter().zip(&diag).map(|(r, d)| r / d).collect::<Vec<_>>();
        let mut p = precondition(&r);
        let mut rz = dot(&r, &p);
        for _ in 0..iterations {
            let q = product(&p);
            let alpha = rz / dot(&q, &q);
            r.iter_mut().zip(back(&q)).for_each(|(r, q)| *r -= alpha * q);
            let z = precondition(&r);
            let beta = dot(&r, &z) / rz;
            rz *= beta;
            p.iter_mut().zip(z).for_each(|(p, z)| *p = z + beta * *p);
        }
        rz
    }

    #[test]
    fn it_iterates_as_the_definition_says() {
        let taps: Vec<f32> = (0..25).map(|k| 1.0 / (1 + k * 7 % 11) as f32).collect();
        for (n, threads) in [(7, 1), (9, 2), (21, 3)] {
            let a: Vec<f32> = (0..n * n).map(|i| (i * i % 13) as f32 - 6.0).collect();
            let mut wide = Wide::new(n, &taps, &a, threads);
            for iterations in 0..3 {
                let want = expected(n, &taps, &a, iterations);
                assert!((wide.rz() - want).abs() < 1e-4 * want + 1e-6, "{n}: {} is not {want}", wide.rz());
                wide.iterate();
            }
        }
    }
}
