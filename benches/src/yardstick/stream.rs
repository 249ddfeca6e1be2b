//! Memory bandwidth: copy, triad and read over arrays larger than the caches, as STREAM counts it (McCalpin 1995):
//! bytes that the program names, without the lines that plain stores first read.

use super::isa::{Isa, multiversion};
use super::memory;
use super::team::Team;

/// Three arrays of f32, split evenly among a team.
pub struct Stream {
    team: Team,
    isa: Isa,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

/// Ways to store results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// Through the cache.
    Plain,
    /// Past it.
    NonTemporal,
}

impl Stream {
    /// Arrays of `len` elements.
    pub fn new(len: usize, threads: usize) -> Stream {
        let filled = |v: f32| {
            let mut array = memory::zeros(len);
            array.fill(v);
            array
        };
        Stream { team: Team::new(threads), isa: Isa::host(), a: filled(1.0), b: filled(2.0), c: filled(3.0) }
    }

    /// `c = a`; returns the bytes moved.
    pub fn copy(&mut self, store: Store) -> f64 {
        let isa = self.isa;
        let parts = zip3(&mut self.c, &self.a, &self.a, self.team.threads());
        self.team.each(parts, |_, (c, a, _)| match store {
            Store::Plain => copy_part(isa, c, a),
            Store::NonTemporal => stream_part(c, |i| a[i]),
        });
        8.0 * self.a.len() as f64
    }

    /// `a = b + 3 c`; returns the bytes moved.
    pub fn triad(&mut self, store: Store) -> f64 {
        let isa = self.isa;
        let parts = zip3(&mut self.a, &self.b, &self.c, self.team.threads());
        self.team.each(parts, |_, (a, b, c)| match store {
            Store::Plain => triad_part(isa, a, b, c),
            Store::NonTemporal => stream_part(a, |i| b[i] + 3.0 * c[i]),
        });
        12.0 * self.a.len() as f64
    }

    /// Sum of `a` and the bytes moved.
    pub fn read(&mut self) -> (f32, f64) {
        let isa = self.isa;
        let mut sums = vec![0.0; self.team.threads()];
        let size = self.a.len().div_ceil(self.team.threads()).max(1);
        let mut parts: Vec<_> = sums.iter_mut().zip(self.a.chunks(size)).collect();
        let mut rest: Vec<f32> = vec![0.0; self.team.threads()];
        let missing = self.team.threads() - parts.len();
        parts.extend(rest.iter_mut().take(missing).map(|s| (s, &[][..])));
        self.team.each(parts, |_, (sum, a)| *sum = sum_part(isa, a));
        (sums.iter().sum(), 4.0 * self.a.len() as f64)
    }
}

/// A part of an array that is written and of two that are read.
type Part<'a> = (&'a mut [f32], &'a [f32], &'a [f32]);

/// Cuts three arrays into as many parts as there are threads; parts start at multiples of 16.
fn zip3<'a>(mut w: &'a mut [f32], mut x: &'a [f32], mut y: &'a [f32], threads: usize) -> Vec<Part<'a>> {
    let size = w.len().div_ceil(threads).next_multiple_of(16);
    let mut parts = vec![];
    for _ in 0..threads {
        let n = size.min(w.len());
        let (w0, w1) = w.split_at_mut(n);
        parts.push((w0, &x[..n], &y[..n]));
        (w, x, y) = (w1, &x[n..], &y[n..]);
    }
    parts
}

multiversion!(fn copy_part(c: &mut [f32], a: &[f32]) -> () = copy_body);
multiversion!(fn triad_part(a: &mut [f32], b: &[f32], c: &[f32]) -> () = triad_body);
multiversion!(fn sum_part(a: &[f32]) -> f32 = sum_body);

#[inline(always)]
fn copy_body(c: &mut [f32], a: &[f32]) {
    c.iter_mut().zip(a).for_each(|(c, a)| *c = *a);
}

#[inline(always)]
fn triad_body(a: &mut [f32], b: &[f32], c: &[f32]) {
    a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + 3.0 * c);
}

/// Eight vectors of sums, which hides the latency of the addition.
#[inline(always)]
fn sum_body(a: &[f32]) -> f32 {
    let mut sums = [0.0f32; 128];
    let (chunks, rest) = a.as_chunks::<128>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(s, v)| *s += v);
    }
    sums.iter().chain(rest).sum()
}

/// `out[i] = f(i)` with stores that bypass the cache where the target has them.
fn stream_part(out: &mut [f32], f: impl Fn(usize) -> f32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_set_ps, _mm_sfence, _mm_stream_ps};
        // SAFETY: f32 is valid for every bit pattern, and __m128 is four of them.
        let (head, body, tail) = unsafe { out.align_to_mut::<std::arch::x86_64::__m128>() };
        let (first, last) = (head.len(), head.len() + 4 * body.len());
        head.iter_mut().enumerate().for_each(|(i, v)| *v = f(i));
        for (i, v) in body.iter_mut().enumerate() {
            let at = first + 4 * i;
            // SAFETY: SSE belongs to every x86-64; `v` is aligned to 16 bytes and exclusively ours.
            unsafe {
                _mm_stream_ps(
                    std::ptr::from_mut(v).cast(),
                    _mm_set_ps(f(at + 3), f(at + 2), f(at + 1), f(at)),
                )
            }
        }
        tail.iter_mut().enumerate().for_each(|(i, v)| *v = f(last + i));
        // SAFETY: as above; later loads of other threads must see these stores.
        unsafe { _mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    out.iter_mut().enumerate().for_each(|(i, v)| *v = f(i));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_compute_what_they_say() {
        for (len, threads) in [(1000, 2), (37, 3), (5, 4)] {
            let mut s = Stream::new(len, threads);
            for store in [Store::Plain, Store::NonTemporal] {
                s.a.iter_mut().enumerate().for_each(|(i, v)| *v = i as f32);
                s.c.fill(0.0);
                assert_eq!(s.copy(store), 8.0 * len as f64);
                assert_eq!(s.c, s.a);
                s.triad(store);
                assert!(s.a.iter().enumerate().all(|(i, v)| *v == 2.0 + 3.0 * i as f32));
                let (sum, bytes) = s.read();
                assert_eq!((sum, bytes), ((2 * len + 3 * len * (len - 1) / 2) as f32, 4.0 * len as f64));
            }
        }
    }
}
