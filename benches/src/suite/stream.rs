//! The machine's memory bandwidth.

use super::THREADS;
use crate::harness::time;
use crate::report::Report;
use crate::yardstick::stream::{Store, Stream};

/// The machine's memory bandwidth.
pub fn run() -> Report {
    const LEN: usize = 1 << 26;
    let mut report = Report::new("stream", format!("3 arrays of {LEN} f32, {THREADS} threads"));
    let mut arrays = Stream::new(LEN, THREADS);
    type Kernel = fn(&mut Stream) -> f64;
    let kernels: [(&str, Kernel); 5] = [
        ("copy", |s| s.copy(Store::Plain)),
        ("copy, non-temporal", |s| s.copy(Store::NonTemporal)),
        ("triad", |s| s.triad(Store::Plain)),
        ("triad, non-temporal", |s| s.triad(Store::NonTemporal)),
        ("read", |s| s.read().1),
    ];
    for (name, kernel) in kernels {
        let best = (0..20)
            .map(|_| {
                let mut bytes = 0.0;
                let seconds = time(&mut || bytes = kernel(&mut arrays)).as_secs_f64();
                bytes / seconds
            })
            .fold(0.0, f64::max);
        report.fact(name, best / 1e9, "GB/s, best of 20");
    }
    report
}
