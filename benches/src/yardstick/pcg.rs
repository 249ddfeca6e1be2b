//! The two-sweep PCG by hand: A = w + graph Laplacian of an N x N grid with free borders, float32, Jacobi inlined.
//!
//! One iteration is the pair of sweeps that the engine's schedule should become (two threads, in place):
//!
//! ```text
//! A(beta):  p = z + beta p, z = r / diag;   pq = p . A p      reads r p,   writes p
//! B(alpha): x += alpha p;  r -= alpha A p;  rz = r . r / diag reads p x r, writes x r
//! ```
//! A p is computed twice and never stored: 8 floats move per unknown. In A the rows of p just outside a strip are
//! recomputed from the old p before any strip overwrites its own.

use super::isa::{Isa, multiversion};
use super::team::Team;
use std::ops::Range;

/// Independent partial sums of a row: enough for two vectors of 512 bits.
const LANES: usize = 32;

/// The state of the iteration.
pub struct Pcg {
    team: Team,
    isa: Isa,
    /// Points in each direction.
    n: usize,
    /// Weight of the fit term, the diagonal beside the Laplacian's.
    w: f32,
    b: Vec<f32>,
    p: Vec<f32>,
    x: Vec<f32>,
    r: Vec<f32>,
    /// New rows of p just below and above each strip.
    halos: Vec<[Vec<f32>; 2]>,
    rz: f64,
    beta: f64,
}

/// The right-hand side: smooth waves with some noise.
pub fn right_hand_side(n: usize) -> Vec<f32> {
    let at = |x: usize, y: usize| {
        let noise =
            (x as u32).wrapping_mul(2_654_435_761).wrapping_add((y as u32).wrapping_mul(40_503)) % 1000;
        (x as f32 * 0.01).sin() * (y as f32 * 0.013).cos() + noise as f32 * 1e-3
    };
    (0..n * n).map(|i| at(i % n, i / n)).collect()
}

impl Pcg {
    /// The problem of size `n` x `n` (n >= 2) with weight `w`, at x = 0. There are at most n/2 threads.
    pub fn new(n: usize, w: f32, threads: usize) -> Pcg {
        assert!(n >= 2, "a border on either side");
        let threads = threads.clamp(1, n / 2);
        let zeros = || vec![0.0; n * n];
        let halos = (0..threads).map(|_| [vec![0.0; n], vec![0.0; n]]).collect();
        let mut pcg = Pcg {
            team: Team::new(threads),
            isa: Isa::host(),
            n,
            w,
            b: right_hand_side(n),
            p: zeros(),
            x: zeros(),
            r: zeros(),
            halos,
            rz: 0.0,
            beta: 0.0,
        };
        pcg.restart();
        pcg
    }

    /// Back to x = 0.
    pub fn restart(&mut self) {
        self.x.fill(0.0);
        self.p.fill(0.0);
        self.r.copy_from_slice(&self.b);
        let rows = Rows { n: self.n, w: self.w };
        let squares = self
            .r
            .iter()
            .enumerate()
            .map(|(i, &r)| r as f64 * r as f64 / rows.diagonal(i % self.n, i / self.n) as f64);
        (self.rz, self.beta) = (squares.sum(), 0.0);
    }

    /// r . z, the squared norm of the residual in the inverse of the preconditioner.
    pub fn rz(&self) -> f64 {
        self.rz
    }

    /// The solution so far.
    pub fn x(&self) -> &[f32] {
        &self.x
    }

    /// One iteration.
    pub fn iterate(&mut self) {
        let beta = self.beta as f32;
        self.recompute_halos(beta);
        let pq = self.sweep_a(beta);
        let rz = self.sweep_b((self.rz / pq) as f32);
        self.beta = rz / self.rz;
        self.rz = rz;
    }

    fn strips(&self) -> Vec<Range<usize>> {
        let threads = self.team.threads();
        (0..threads).map(|t| self.n * t / threads..self.n * (t + 1) / threads).collect()
    }

    fn recompute_halos(&mut self, beta: f32) {
        let (isa, rows) = (self.isa, Rows { n: self.n, w: self.w });
        let parts = self.strips().into_iter().zip(&mut self.halos).collect();
        let (r, p) = (&self.r[..], &self.p[..]);
        self.team.each(parts, |_, (strip, [below, above]): (Range<usize>, &mut [Vec<f32>; 2])| {
            for (y, out) in [(strip.start.wrapping_sub(1), below), (strip.end, above)] {
                if y < rows.n {
                    out.copy_from_slice(row(p, rows.n, y));
                    direction_row(isa, rows, beta, y, row(r, rows.n, y), out);
                }
            }
        });
    }

    fn sweep_a(&mut self, beta: f32) -> f64 {
        let (isa, rows) = (self.isa, Rows { n: self.n, w: self.w });
        let strips = self.strips();
        let mut partials = vec![0.0; strips.len()];
        let p = split(&mut self.p, self.n, &strips);
        let parts = strips.into_iter().zip(p).zip(&self.halos).zip(&mut partials).collect();
        let r = &self.r[..];
        self.team.each(
            parts,
            |_, (((strip, p), halo), partial): (((_, &mut [f32]), &[Vec<f32>; 2]), &mut f64)| {
                *partial = strip_a(isa, rows, beta, strip, r, p, halo);
            },
        );
        partials.iter().sum()
    }

    fn sweep_b(&mut self, alpha: f32) -> f64 {
        let (isa, rows) = (self.isa, Rows { n: self.n, w: self.w });
        let strips = self.strips();
        let mut partials = vec![0.0; strips.len()];
        let x = split(&mut self.x, self.n, &strips);
        let r = split(&mut self.r, self.n, &strips);
        let parts = strips.into_iter().zip(x.into_iter().zip(r)).zip(&mut partials).collect();
        let p = &self.p[..];
        self.team.each(parts, |_, ((strip, (x, r)), partial): ((_, (&mut [f32], &mut [f32])), &mut f64)| {
            *partial = strip_b(isa, rows, alpha, strip, p, x, r);
        });
        partials.iter().sum()
    }
}

/// Row `y` of an array.
#[inline(always)]
fn row(a: &[f32], n: usize, y: usize) -> &[f32] {
    &a[y * n..][..n]
}

/// The rows of each strip.
fn split<'a>(mut a: &'a mut [f32], n: usize, strips: &[Range<usize>]) -> Vec<&'a mut [f32]> {
    let mut parts = vec![];
    for s in strips {
        let (part, rest) = a.split_at_mut(s.len() * n);
        parts.push(part);
        a = rest;
    }
    parts
}

/// What the operator is.
#[derive(Clone, Copy)]
struct Rows {
    n: usize,
    w: f32,
}

impl Rows {
    /// Diagonal of A at an inner column of row `y`; one less at the first and last columns.
    #[inline(always)]
    fn inner_diagonal(self, y: usize) -> f32 {
        self.w + 4.0 - (y == 0) as u32 as f32 - (y == self.n - 1) as u32 as f32
    }

    fn diagonal(self, x: usize, y: usize) -> f32 {
        self.inner_diagonal(y) - (x == 0) as u32 as f32 - (x == self.n - 1) as u32 as f32
    }

    /// A u at column `x` of a row, by its neighbour rows (beyond the border: the row itself).
    #[inline(always)]
    fn apply(self, x: usize, below: &[f32], u: &[f32], above: &[f32]) -> f32 {
        let (left, right) = (u[x.saturating_sub(1)], u[(x + 1).min(self.n - 1)]);
        (self.w + 4.0) * u[x] - left - right - below[x] - above[x]
    }
}

multiversion!(
    /// p = r / diag + beta p over one row.
    fn direction_row(rows: Rows, beta: f32, y: usize, r: &[f32], p: &mut [f32]) -> () = direction_row_body
);
multiversion!(
    /// Sweep A over a strip; returns its part of p . A p.
    fn strip_a(
        rows: Rows,
        beta: f32,
        strip: Range<usize>,
        r: &[f32],
        p: &mut [f32],
        halo: &[Vec<f32>; 2],
    ) -> f64 = strip_a_body
);
multiversion!(
    /// Sweep B over a strip; returns its part of r . r / diag.
    fn strip_b(
        rows: Rows,
        alpha: f32,
        strip: Range<usize>,
        p: &[f32],
        x: &mut [f32],
        r: &mut [f32],
    ) -> f64 = strip_b_body
);

#[inline(always)]
fn direction_row_body(rows: Rows, beta: f32, y: usize, r: &[f32], p: &mut [f32]) {
    let n = rows.n;
    let inverse = 1.0 / rows.inner_diagonal(y);
    let border = 1.0 / (rows.inner_diagonal(y) - 1.0);
    let (first, last) = (p[0], p[n - 1]);
    p.iter_mut().zip(r).for_each(|(p, r)| *p = r * inverse + beta * *p);
    p[0] = r[0] * border + beta * first;
    p[n - 1] = r[n - 1] * border + beta * last;
}

/// Row y + 1 of p becomes new just before row y needs it, while both are in cache.
#[inline(always)]
fn strip_a_body(
    rows: Rows,
    beta: f32,
    strip: Range<usize>,
    r: &[f32],
    p: &mut [f32],
    halo: &[Vec<f32>; 2],
) -> f64 {
    let n = rows.n;
    let mut sum = 0.0;
    direction_row_body(rows, beta, strip.start, row(r, n, strip.start), &mut p[..n]);
    for y in strip.clone() {
        let at = (y - strip.start) * n;
        if y + 1 < strip.end {
            direction_row_body(rows, beta, y + 1, row(r, n, y + 1), &mut p[at + n..at + 2 * n]);
        }
        let u = &p[at..at + n];
        let below = match y {
            0 => u,
            _ if y == strip.start => &halo[0],
            _ => &p[at - n..at],
        };
        let above = match y {
            _ if y == n - 1 => u,
            _ if y == strip.end - 1 => &halo[1],
            _ => &p[at + n..at + 2 * n],
        };
        sum += dot_row(rows, below, u, above);
    }
    sum
}

/// u . A u of a row.
#[inline(always)]
fn dot_row(rows: Rows, below: &[f32], u: &[f32], above: &[f32]) -> f64 {
    let n = rows.n;
    let centre = rows.w + 4.0;
    let mut sums = [0.0f32; LANES];
    let inner = 1..n - 1;
    let (chunks, _) = u[inner.clone()].as_chunks::<LANES>();
    let (left, right) = (u[..n - 2].as_chunks::<LANES>().0, u[2..].as_chunks::<LANES>().0);
    let (below_chunks, above_chunks) =
        (below[inner.clone()].as_chunks::<LANES>().0, above[inner].as_chunks::<LANES>().0);
    for ((((u, l), r), b), a) in chunks.iter().zip(left).zip(right).zip(below_chunks).zip(above_chunks) {
        for i in 0..LANES {
            sums[i] += u[i] * (centre * u[i] - l[i] - r[i] - b[i] - a[i]);
        }
    }
    let rest = 1 + chunks.len() * LANES..n;
    let tail: f32 = rest.chain([0]).map(|x| u[x] * rows.apply(x, below, u, above)).sum();
    (sums.iter().sum::<f32>() + tail) as f64
}

#[inline(always)]
fn strip_b_body(rows: Rows, alpha: f32, strip: Range<usize>, p: &[f32], x: &mut [f32], r: &mut [f32]) -> f64 {
    let n = rows.n;
    let mut sum = 0.0;
    for y in strip.clone() {
        let at = (y - strip.start) * n;
        let u = row(p, n, y);
        let below = if y == 0 { u } else { row(p, n, y - 1) };
        let above = if y == n - 1 { u } else { row(p, n, y + 1) };
        sum += update_row(rows, alpha, y, [below, u, above], &mut x[at..at + n], &mut r[at..at + n]);
    }
    sum
}

/// x += alpha p, r -= alpha A p over a row; returns its r . r / diag.
#[inline(always)]
fn update_row(rows: Rows, alpha: f32, y: usize, p: [&[f32]; 3], x: &mut [f32], r: &mut [f32]) -> f64 {
    let n = rows.n;
    let [below, u, above] = p;
    let centre = rows.w + 4.0;
    let mut sums = [0.0f32; LANES];
    let inner = 1..n - 1;
    let (chunks, _) = u[inner.clone()].as_chunks::<LANES>();
    let (left, right) = (u[..n - 2].as_chunks::<LANES>().0, u[2..].as_chunks::<LANES>().0);
    let (below_chunks, above_chunks) =
        (below[inner.clone()].as_chunks::<LANES>().0, above[inner.clone()].as_chunks::<LANES>().0);
    let (x_chunks, r_chunks) =
        (x[inner.clone()].as_chunks_mut::<LANES>().0, r[inner].as_chunks_mut::<LANES>().0);
    let neighbours = chunks.iter().zip(left).zip(right).zip(below_chunks).zip(above_chunks);
    for (((((u, lf), rt), b), a), (x, r)) in neighbours.zip(x_chunks.iter_mut().zip(r_chunks)) {
        for i in 0..LANES {
            x[i] += alpha * u[i];
            let v = r[i] - alpha * (centre * u[i] - lf[i] - rt[i] - b[i] - a[i]);
            r[i] = v;
            sums[i] += v * v;
        }
    }
    let mut total = sums.iter().sum::<f32>() / rows.inner_diagonal(y);
    for i in (1 + chunks.len() * LANES..n).chain([0]) {
        x[i] += alpha * u[i];
        r[i] -= alpha * rows.apply(i, below, u, above);
        total += r[i] * r[i] / rows.diagonal(i, y);
    }
    total as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The residual b - A x, in f64 and from the definition.
    fn residual(pcg: &Pcg) -> f64 {
        let (n, x) = (pcg.n, |i: usize| pcg.x[i] as f64);
        let mut worst: f64 = 0.0;
        for i in 0..n * n {
            let (cx, cy) = (i % n, i / n);
            let mut ax = pcg.w as f64 * x(i);
            for (inside, j) in [
                (cx > 0, i.wrapping_sub(1)),
                (cx + 1 < n, i + 1),
                (cy > 0, i.wrapping_sub(n)),
                (cy + 1 < n, i + n),
            ] {
                if inside {
                    ax += x(i) - x(j);
                }
            }
            worst = worst.max((pcg.b[i] as f64 - ax).abs());
        }
        worst
    }

    #[test]
    fn it_solves_the_system_with_any_number_of_threads() {
        for (n, threads) in [(2, 1), (5, 2), (37, 1), (37, 2), (64, 3), (101, 5)] {
            let mut pcg = Pcg::new(n, 0.1, threads);
            for _ in 0..300 {
                if pcg.rz() < 1e-12 {
                    break;
                }
                pcg.iterate();
            }
            assert!(residual(&pcg) < 1e-4, "n = {n}, {threads} threads: {}", residual(&pcg));
        }
    }
}
