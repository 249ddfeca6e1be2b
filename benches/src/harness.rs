//! Ratios measured side by side: two things run in alternation, in alternating order, and the median of the
//! ratios of neighbours is what counts. Shared machines drift; a ratio of neighbours does not.

use std::time::{Duration, Instant};

/// The fewest pairs that make a median.
pub const MIN_PAIRS: usize = 15;

/// The times of `a` over those of `b`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Sides that are compared: `ours / theirs`, unless it says otherwise.
    pub name: String,
    /// Median of time(a) / time(b) over the pairs.
    pub median: f64,
    /// First and third quartile of the ratios.
    pub quartiles: (f64, f64),
    /// Median times in seconds.
    pub seconds: (f64, f64),
    /// Number of pairs that were run.
    pub pairs: usize,
    /// True if `a` was ended early so often that the median is a lower bound.
    pub at_least: bool,
}

/// Times of two neighbours, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Of the one.
    pub a: f64,
    /// Of the other.
    pub b: f64,
    /// True if `a` was ended early: it took at least that long.
    pub at_least: bool,
}

impl Ratio {
    /// The median of pairs that have been run already; there must be one.
    pub fn of(name: &str, pairs: &[Times]) -> Ratio {
        let seconds: Vec<_> = pairs.iter().map(|t| (t.a, t.b)).collect();
        // Far off, but finite: quantiles lie between neighbours.
        let ended: Vec<_> =
            pairs.iter().map(|t| if t.at_least { (1e100 * t.a, t.b) } else { (t.a, t.b) }).collect();
        let ratio = summarise(name, &seconds);
        Ratio { at_least: summarise(name, &ended).median > ratio.median, ..ratio }
    }
}

/// Runs `a` and `b` in `pairs` pairs (at least [`MIN_PAIRS`]) after one untimed run of each.
pub fn compare(name: &str, a: &mut dyn FnMut(), b: &mut dyn FnMut(), pairs: usize) -> Ratio {
    compare_timed(name, &mut || time(&mut *a), &mut || time(&mut *b), pairs)
}

/// As [`compare`], of things that say themselves how long the part that counts took.
pub fn compare_timed(
    name: &str,
    a: &mut dyn FnMut() -> Duration,
    b: &mut dyn FnMut() -> Duration,
    pairs: usize,
) -> Ratio {
    a();
    b();
    let times = (0..pairs.max(MIN_PAIRS)).map(|i| pair(i, a, b));
    summarise(name, &times.collect::<Vec<_>>())
}

/// As [`compare_timed`], of things that run for seconds: at least three pairs, then as many up to [`MIN_PAIRS`] as start within
/// `budget`, without untimed runs before.
pub fn compare_within(
    name: &str,
    a: &mut dyn FnMut() -> Duration,
    b: &mut dyn FnMut() -> Duration,
    budget: Duration,
) -> Ratio {
    let start = Instant::now();
    let pairs = (0..MIN_PAIRS).take_while(|i| *i < 3 || start.elapsed() < budget);
    summarise(name, &pairs.map(|i| pair(i, a, b)).collect::<Vec<_>>())
}

/// Pair `i`, in alternating order.
fn pair(i: usize, a: &mut dyn FnMut() -> Duration, b: &mut dyn FnMut() -> Duration) -> (f64, f64) {
    let (a, b) = if i.is_multiple_of(2) {
        let t = a();
        (t, b())
    } else {
        let t = b();
        (a(), t)
    };
    (a.as_secs_f64(), b.as_secs_f64())
}

/// The noise of the machine: `a` against itself, in the same way. The ratio would be 1 on a quiet machine.
pub fn noise(name: &str, a: &mut dyn FnMut(), pairs: usize) -> Ratio {
    let a = std::cell::RefCell::new(a);
    let run = || time(&mut **a.borrow_mut());
    compare_timed(name, &mut { run }, &mut { run }, pairs)
}

/// The time that a run takes.
pub fn time(f: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

/// Processor time of all threads during a run: on a busy machine, what the run would take but for its neighbours.
pub fn processor_time(f: &mut dyn FnMut()) -> Duration {
    let now = || {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to `t`.
        unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
        Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
    };
    let start = now();
    f();
    now() - start
}

fn summarise(name: &str, times: &[(f64, f64)]) -> Ratio {
    let sorted = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v
    };
    // A time too short for the clock must not make the ratio infinite.
    let ratios = sorted(times.iter().map(|(a, b)| a.max(1e-9) / b.max(1e-9)).collect());
    Ratio {
        name: name.to_string(),
        median: quantile(&ratios, 0.5),
        quartiles: (quantile(&ratios, 0.25), quantile(&ratios, 0.75)),
        seconds: (
            quantile(&sorted(times.iter().map(|t| t.0).collect()), 0.5),
            quantile(&sorted(times.iter().map(|t| t.1).collect()), 0.5),
        ),
        pairs: times.len(),
        at_least: false,
    }
}

/// Linear interpolation between the neighbours of the wanted rank.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ratio_is_of_neighbours() {
        // A machine that is three times slower in the second half: the ratio stays 2.
        let times: Vec<_> = (0..15).map(|i| if i < 8 { (2.0, 1.0) } else { (6.0, 3.0) }).collect();
        let r = summarise("x", &times);
        assert_eq!((r.median, r.quartiles, r.pairs), (2.0, (2.0, 2.0), 15));
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.5), 3.0);
    }

    #[test]
    fn a_median_of_bounds_is_a_bound() {
        let times = |a, at_least| Times { a, b: 1.0, at_least };
        let of = |pairs: &[Times]| (Ratio::of("x", pairs).median, Ratio::of("x", pairs).at_least);
        assert_eq!(of(&[times(1.0, false), times(2.0, false), times(9.0, true)]), (2.0, false));
        assert_eq!(of(&[times(1.0, false), times(2.0, true), times(9.0, false)]), (2.0, true));
        assert_eq!(of(&[times(1.0, true), times(2.0, false), times(9.0, false)]), (2.0, true));
        assert_eq!(of(&[times(3.0, true)]), (3.0, true));
        assert_eq!(of(&[times(1.0, true), times(3.0, true)]), (2.0, true));
    }

    #[test]
    fn order_alternates_and_few_pairs_become_enough() {
        let log = std::cell::RefCell::new(String::new());
        let r = compare("x", &mut || log.borrow_mut().push('a'), &mut || log.borrow_mut().push('b'), 3);
        assert_eq!(r.pairs, MIN_PAIRS);
        assert!(log.borrow().starts_with("ababbaabba"), "{}", log.borrow());
    }
}
