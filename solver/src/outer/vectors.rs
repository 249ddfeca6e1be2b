//! Passes over vectors in the host's memory, in float64: pieces of a fixed size, on several threads.
//!
//! A sum is that of its pieces' sums, one after the other, so its bits do not depend on the number of threads.

use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};
use sumsq_codegen::runtime::Pool;

/// Elements of a piece: its vectors stay in a core's cache from one operation to the next.
const PIECE: usize = 1 << 12;
/// Pieces up to which the calling thread is done before others have begun.
const FEW: usize = 8;
/// Sums that are added to in turn, so that none waits for the one before.
const LANES: usize = 8;

/// The threads that go over the pieces.
#[derive(Clone, Copy)]
pub(crate) enum Workers<'a> {
    /// Those of the rayon pool that the caller is in.
    Rayon,
    /// Those that pipelines run on.
    Pool(&'a Pool),
}

impl Workers<'_> {
    /// Calls `f` on every piece: with the number of its first entry, its part of the vectors that are written, and of those that are read. All
    /// have one length. Returns what it makes of each piece, in their order.
    pub fn pass<const W: usize, const R: usize, S: Send>(
        self,
        mut written: [&mut [f64]; W],
        mut read: [&[f64]; R],
        f: impl Fn(usize, [&mut [f64]; W], [&[f64]; R]) -> S + Sync,
    ) -> Vec<S> {
        let n = written.iter().map(|v| v.len()).chain(read.iter().map(|v| v.len())).min().unwrap_or(0);
        let mut pieces = vec![];
        for start in (0..n).step_by(PIECE) {
            let length = PIECE.min(n - start);
            let w = written.each_mut().map(|v| v.split_off_mut(..length).unwrap_or_default());
            let r = read.each_mut().map(|v| v.split_off(..length).unwrap_or_default());
            pieces.push((start, w, r));
        }
        match self {
            _ if pieces.len() <= FEW => pieces.into_iter().map(|(i, w, r)| f(i, w, r)).collect(),
            Workers::Rayon => pieces.into_par_iter().map(|(i, w, r)| f(i, w, r)).collect(),
            Workers::Pool(pool) => {
                let slots: Vec<_> = pieces.into_iter().map(|piece| Mutex::new((Some(piece), None))).collect();
                pool.for_each(slots.len() as i32, |k| {
                    let mut slot = slots[k as usize].lock().unwrap_or_else(PoisonError::into_inner);
                    slot.1 = slot.0.take().map(|(i, w, r)| f(i, w, r));
                });
                let made =
                    |slot: Mutex<(_, Option<S>)>| slot.into_inner().unwrap_or_else(PoisonError::into_inner).1;
                slots.into_iter().filter_map(made).collect()
            }
        }
    }

    /// out_i = f(a_i).
    pub fn map(self, out: &mut [f64], a: &[f64], f: impl Fn(f64) -> f64 + Sync) {
        self.pass([out], [a], |_, [out], [a]| out.iter_mut().zip(a).for_each(|(out, &a)| *out = f(a)));
    }

    /// out_i = f(a_i, b_i).
    pub fn zip(self, out: &mut [f64], [a, b]: [&[f64]; 2], f: impl Fn(f64, f64) -> f64 + Sync) {
        self.pass([out], [a, b], |_, [out], [a, b]| {
            out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (&a, &b))| *out = f(a, b));
        });
    }

    /// a.b.
    pub fn dot(self, a: &[f64], b: &[f64]) -> f64 {
        self.pass([], [a, b], |_, [], [a, b]| dot(a, b)).into_iter().sum()
    }

    /// The largest |f(piece, i)| over the entries i of all pieces of vectors; NaN if any is.
    pub fn largest<const R: usize>(
        self,
        read: [&[f64]; R],
        f: impl Fn(&[&[f64]; R], usize) -> f64 + Sync,
    ) -> f64 {
        let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        let of_piece = |_, []: [&mut [f64]; 0], piece: [&[f64]; R]| {
            let n = piece.first().map_or(0, |v| v.len());
            (0..n).fold(0.0, |m, i| larger(m, f(&piece, i).abs()))
        };
        self.pass([], read, of_piece).into_iter().fold(0.0, larger)
    }
}

/// a.b on the calling thread.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, rest_a), (b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    rest_a.iter().zip(rest_b).fold(lanes.iter().sum(), |sum, (a, b)| sum + a * b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_the_same_on_any_threads() {
        let pools = [1, 2, 3].map(Pool::new);
        for n in [0, 1, PIECE - 1, PIECE, PIECE + 1, FEW * PIECE + 1, 31 * PIECE + 77] {
            let a: Vec<f64> = (0..n).map(|i| (i as f64 * 0.7).sin()).collect();
            let b: Vec<f64> = (0..n).map(|i| 1.0 / (1.0 + i as f64)).collect();
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let expected = Workers::Rayon.dot(&a, &b);
            assert!((expected - plain).abs() <= 1e-13 * (1.0 + plain.abs()), "{n}: {expected} for {plain}");
            for pool in &pools {
                let workers = Workers::Pool(pool);
                assert_eq!(workers.dot(&a, &b).to_bits(), expected.to_bits(), "{n}");
                let mut c = vec![f64::NAN; n];
                workers.zip(&mut c, [&a, &b], |a, b| a + 2.0 * b);
                assert!((0..n).all(|i| c[i] == a[i] + 2.0 * b[i]), "{n}");
                workers.map(&mut c, &a, |a| -a);
                assert!((0..n).all(|i| c[i] == -a[i]), "{n}");
                let starts = workers.pass([&mut c], [&a], |start, [c], [a]| {
                    c.copy_from_slice(a);
                    (start, a.len())
                });
                assert!(starts.is_sorted() && starts.iter().map(|(_, length)| length).sum::<usize>() == n);
                assert_eq!(c, a);
            }
        }
    }

    #[test]
    fn the_largest_is_nan_if_any_is() {
        let mut v = vec![0.5; 20 * PIECE];
        v[7 * PIECE + 3] = -2.0;
        let pool = Pool::new(2);
        assert_eq!(Workers::Pool(&pool).largest([&v], |[v], i| v[i]), 2.0);
        v[19 * PIECE] = f64::NAN;
        assert!(Workers::Pool(&pool).largest([&v], |[v], i| v[i]).is_nan());
        assert_eq!(Workers::Rayon.largest([&[]], |[v], i| v[i]), 0.0);
    }
}
