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
use super::memory;
use super::team::Team;
use std::ops::Range;

/// Independent partial sums of a row: a vector of 512 bits.
pub(super) const LANES: usize = 16;
/// Elements before the first and after the last column of each row. Rows start at cache lines; in p, the pads next
/// to the row repeat its first and last element, which makes the stencil uniform: a free border is a neighbour
/// equal to oneself.
const PAD: usize = 16;

/// The state of the iteration.
pub struct Pcg {
    team: Team,
    isa: Isa,
    /// Points in each direction.
    n: usize,
    /// Weight of the fit term, the diagonal beside the Laplacian's.
    w: f32,
    b: Vec<f32>,
    p: Grid,
    x: Grid,
    r: Grid,
    /// New rows of p just below and above each strip.
    halos: Vec<[Grid; 2]>,
    rz: f64,
    beta: f64,
}

/// Rows of `n` elements with pads, each starting at a cache line.
struct Grid {
    data: Vec<f32>,
    /// Start of row 0, its pad included.
    start: usize,
}

impl Grid {
    fn zeros(n: usize, rows: usize) -> Grid {
        let data = memory::zeros(rows * pitch(n) + PAD);
        // On a machine that cannot say, rows are merely unaligned.
        let start = data.as_ptr().align_offset(64).min(PAD);
        Grid { data, start }
    }

    fn rows(&self) -> &[f32] {
        &self.data[self.start..]
    }

    fn rows_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.start..]
    }
}

/// Elements from row to row.
fn pitch(n: usize) -> usize {
    n.next_multiple_of(16) + 2 * PAD
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
        let zeros = || Grid::zeros(n, n);
        let halos = (0..threads).map(|_| [Grid::zeros(n, 1), Grid::zeros(n, 1)]).collect();
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
        let n = self.n;
        self.x.data.fill(0.0);
        self.p.data.fill(0.0);
        for (row, b) in self.r.rows_mut().chunks_mut(pitch(n)).zip(self.b.chunks(n)) {
            row[PAD..PAD + n].copy_from_slice(b);
        }
        let rows = Rows { n, w: self.w };
        let squares =
            self.b.iter().enumerate().map(|(i, &b)| b as f64 * b as f64 / rows.diagonal(i % n, i / n) as f64);
        (self.rz, self.beta) = (squares.sum(), 0.0);
    }

    /// r . z, the squared norm of the residual in the inverse of the preconditioner.
    pub fn rz(&self) -> f64 {
        self.rz
    }

    /// The solution so far, at a point.
    pub fn x(&self, column: usize, y: usize) -> f32 {
        row(self.x.rows(), self.n, y)[PAD + column]
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
        let (r, p) = (self.r.rows(), self.p.rows());
        self.team.each(parts, |_, (strip, [below, above]): (Range<usize>, &mut [Grid; 2])| {
            for (y, out) in [(strip.start.wrapping_sub(1), below), (strip.end, above)] {
                if y < rows.n {
                    let out = &mut out.rows_mut()[..pitch(rows.n)];
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
        let p = split(self.p.rows_mut(), self.n, &strips);
        let parts = strips.into_iter().zip(p).zip(&self.halos).zip(&mut partials).collect();
        let r = self.r.rows();
        self.team.each(
            parts,
            |_, (((strip, p), halo), partial): (((_, &mut [f32]), &[Grid; 2]), &mut f64)| {
                *partial = strip_a(isa, rows, beta, strip, r, p, halo);
            },
        );
        partials.iter().sum()
    }

    fn sweep_b(&mut self, alpha: f32) -> f64 {
        let (isa, rows) = (self.isa, Rows { n: self.n, w: self.w });
        let strips = self.strips();
        let mut partials = vec![0.0; strips.len()];
        let x = split(self.x.rows_mut(), self.n, &strips);
        let r = split(self.r.rows_mut(), self.n, &strips);
        let parts = strips.into_iter().zip(x.into_iter().zip(r)).zip(&mut partials).collect();
        let p = self.p.rows();
        self.team.each(parts, |_, ((strip, (x, r)), partial): (StripB, &mut f64)| {
            *partial = strip_b(isa, rows, alpha, strip, p, x, r);
        });
        partials.iter().sum()
    }
}

/// Rows of a strip, and its part of x and r.
type StripB<'a> = (Range<usize>, (&'a mut [f32], &'a mut [f32]));

/// Row `y` of an array, with its pads.
#[inline(always)]
fn row(a: &[f32], n: usize, y: usize) -> &[f32] {
    &a[y * pitch(n)..][..pitch(n)]
}

/// The rows of each strip.
fn split<'a>(mut a: &'a mut [f32], n: usize, strips: &[Range<usize>]) -> Vec<&'a mut [f32]> {
    let mut parts = vec![];
    for s in strips {
        let (part, rest) = a.split_at_mut(s.len() * pitch(n));
        parts.push(part);
        a = rest;
    }
    parts
}

/// Rows of the operator.
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
        halo: &[Grid; 2],
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
    let (first, last) = (p[PAD], p[PAD + n - 1]);
    p[PAD..PAD + n].iter_mut().zip(&r[PAD..PAD + n]).for_each(|(p, r)| *p = r * inverse + beta * *p);
    p[PAD] = r[PAD] * border + beta * first;
    p[PAD + n - 1] = r[PAD + n - 1] * border + beta * last;
    p[PAD - 1] = p[PAD];
    p[PAD + n] = p[PAD + n - 1];
}

/// Row y + 1 of p becomes new just before row y needs it, while both are in cache.
#[inline(always)]
fn strip_a_body(
    rows: Rows,
    beta: f32,
    strip: Range<usize>,
    r: &[f32],
    p: &mut [f32],
    halo: &[Grid; 2],
) -> f64 {
    let (n, pitch) = (rows.n, pitch(rows.n));
    let mut sum = 0.0;
    direction_row_body(rows, beta, strip.start, row(r, n, strip.start), &mut p[..pitch]);
    for y in strip.clone() {
        let own = y - strip.start;
        if y + 1 < strip.end {
            direction_row_body(rows, beta, y + 1, row(r, n, y + 1), &mut p[(own + 1) * pitch..][..pitch]);
        }
        let u = row(p, n, own);
        let below = match y {
            0 => u,
            _ if y == strip.start => row(halo[0].rows(), n, 0),
            _ => row(p, n, own - 1),
        };
        let above = match y {
            _ if y == n - 1 => u,
            _ if y == strip.end - 1 => row(halo[1].rows(), n, 0),
            _ => row(p, n, own + 1),
        };
        sum += dot_row(n, rows.w + 4.0, [below, u, above]);
    }
    sum
}

/// The columns of a row of p and of its four neighbours: itself, left, right, below, above.
#[inline(always)]
fn stencil(n: usize, [below, u, above]: [&[f32]; 3]) -> [&[f32]; 5] {
    let inner = PAD..PAD + n;
    [&u[inner.clone()], &u[PAD - 1..][..n], &u[PAD + 1..][..n], &below[inner.clone()], &above[inner]]
}

/// u . A u of a row.
#[inline(always)]
fn dot_row(n: usize, centre: f32, p: [&[f32]; 3]) -> f64 {
    let [u, left, right, below, above] = stencil(n, p);
    let mut sums = [0.0f32; LANES];
    let (us, ls, rs) = (u.as_chunks::<LANES>().0, left.as_chunks::<LANES>().0, right.as_chunks::<LANES>().0);
    let (bs, os) = (below.as_chunks::<LANES>().0, above.as_chunks::<LANES>().0);
    for ((((u, l), r), b), o) in us.iter().zip(ls).zip(rs).zip(bs).zip(os) {
        for i in 0..LANES {
            sums[i] += u[i] * (centre * u[i] - l[i] - r[i] - b[i] - o[i]);
        }
    }
    let mut sum = tree_sum(sums);
    for i in us.len() * LANES..n {
        sum += u[i] * (centre * u[i] - left[i] - right[i] - below[i] - above[i]);
    }
    sum as f64
}

/// Sum of the lanes by halves: vector additions, where one lane after the other would cost as much as a short row.
#[inline(always)]
pub(super) fn tree_sum(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn strip_b_body(rows: Rows, alpha: f32, strip: Range<usize>, p: &[f32], x: &mut [f32], r: &mut [f32]) -> f64 {
    let (n, pitch) = (rows.n, pitch(rows.n));
    let mut sum = 0.0;
    for y in strip.clone() {
        let u = row(p, n, y);
        let below = if y == 0 { u } else { row(p, n, y - 1) };
        let above = if y == n - 1 { u } else { row(p, n, y + 1) };
        let own = (y - strip.start) * pitch + PAD;
        sum += update_row(rows, alpha, y, [below, u, above], &mut x[own..own + n], &mut r[own..own + n]);
    }
    sum
}

/// x += alpha p, r -= alpha A p over a row; returns its r . r / diag.
#[inline(always)]
fn update_row(rows: Rows, alpha: f32, y: usize, p: [&[f32]; 3], x: &mut [f32], r: &mut [f32]) -> f64 {
    let n = rows.n;
    let [u, left, right, below, above] = stencil(n, p);
    let centre = rows.w + 4.0;
    let mut sums = [0.0f32; LANES];
    let (us, ls, rs) = (u.as_chunks::<LANES>().0, left.as_chunks::<LANES>().0, right.as_chunks::<LANES>().0);
    let (bs, os) = (below.as_chunks::<LANES>().0, above.as_chunks::<LANES>().0);
    let (xs, vs) = (x.as_chunks_mut::<LANES>().0, r.as_chunks_mut::<LANES>().0);
    let neighbours = us.iter().zip(ls).zip(rs).zip(bs).zip(os);
    for (((((u, l), r), b), o), (x, v)) in neighbours.zip(xs.iter_mut().zip(vs)) {
        for i in 0..LANES {
            x[i] += alpha * u[i];
            let new = v[i] - alpha * (centre * u[i] - l[i] - r[i] - b[i] - o[i]);
            v[i] = new;
            sums[i] += new * new;
        }
    }
    let mut sum = tree_sum(sums);
    for i in us.len() * LANES..n {
        x[i] += alpha * u[i];
        r[i] -= alpha * (centre * u[i] - left[i] - right[i] - below[i] - above[i]);
        sum += r[i] * r[i];
    }
    // The first and last columns have one neighbour less, and so a smaller diagonal.
    let inner = 1.0 / rows.inner_diagonal(y);
    let border = 1.0 / (rows.inner_diagonal(y) - 1.0);
    (sum * inner + (r[0] * r[0] + r[n - 1] * r[n - 1]) * (border - inner)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The residual b - A x, in f64 and from the definition.
    fn residual(pcg: &Pcg) -> f64 {
        let n = pcg.n;
        let x = |i: usize| pcg.x(i % n, i / n) as f64;
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
