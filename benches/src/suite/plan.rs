//! Planning a large picture: its time against that of copying the inputs, and the peak of memory against the plan's own buffers.
//!
//! The energy is that of `pcg`. The inputs are float32 in the caller's memory; planning binds views of them, allocates the buffers, and converts
//! the numbers into these. A copy of the inputs goes to fresh memory, too.

use super::{THREADS, pcg};
use crate::harness::compare_timed;
use crate::memory::{forget_peak, peak};
use crate::report::Report;
use std::hint::black_box;
use std::time::{Duration, Instant};
use sumsq::{ArrayView, CompileOptions, ProblemData, Solver};

/// Points in each direction.
const N: usize = 8192;
const PAIRS: usize = 15;

pub fn run() -> Report {
    let mut report =
        Report::new("plan", format!("w + Laplacian, {N} x {N}, mixed precision, {THREADS} threads"));
    let options = CompileOptions { threads: Some(THREADS), ..CompileOptions::default() };
    let solver = Solver::compile(pcg::energy(), &options).expect("the energy compiles");
    let inputs = [vec![0.5f32; N * N], vec![1.5f32; N * N]];
    let plan = || {
        let views = ["X", "A"].into_iter().zip(&inputs);
        let views = views.map(|(name, values)| ArrayView::new(name, &[N, N], values.as_slice()));
        let data = ProblemData::bind(solver.energy(), views).expect("the inputs fit the energy");
        solver.plan(&data).expect("the plan fits into memory")
    };
    let before = forget_peak();
    let problem = plan();
    let (buffers, rise) = (problem.buffer_bytes() as f64, peak().saturating_sub(before) as f64);
    drop(problem);
    report.fact("inputs", inputs.iter().map(|v| size_of_val(v.as_slice())).sum::<usize>() as f64 / 1e9, "GB");
    report.fact("buffers of the plan", buffers / 1e9, "GB");
    report.fact("peak of memory / buffers of the plan", rise / buffers, "");
    let mut planning = || timed(plan);
    let mut copying = || timed(|| black_box(inputs.clone()));
    report.ratio(compare_timed("plan / copy of the inputs", &mut planning, &mut copying, PAIRS));
    report
}

/// The time of making something; giving it back is not counted.
fn timed<T>(make: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let made = make();
    let time = start.elapsed();
    drop(made);
    time
}
