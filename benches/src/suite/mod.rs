//! The benchmarks by name.

mod ablation;
mod compile;
mod explicit;
mod pcg;
mod stream;

use crate::report::Report;

/// Threads of every benchmark, on both sides.
pub const THREADS: usize = 2;

/// A name and what it runs.
pub type Benchmark = (&'static str, fn() -> Report);

/// Every benchmark.
pub const BENCHMARKS: &[Benchmark] = &[
    ("stream", stream::run),
    ("pcg", pcg::run),
    ("explicit", explicit::run),
    ("compile", compile::run),
    ("ablation", ablation::run),
];
