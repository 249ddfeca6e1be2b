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

/// a.b of one piece.
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
