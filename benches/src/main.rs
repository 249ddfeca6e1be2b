//! `sumsq-bench [NAME]`: runs the benchmarks whose name contains NAME (all without it).

use std::process::ExitCode;
use sumsq_benches::harness::{compare, noise, time};
use sumsq_benches::report::{Report, results_folder};
use sumsq_benches::yardstick::pcg::Pcg;
use sumsq_benches::yardstick::stream::{Store, Stream};

/// Threads of every benchmark, on both sides.
const THREADS: usize = 2;

/// A name, and what runs under it.
type Benchmark = (&'static str, fn() -> Report);

/// Every benchmark.
const BENCHMARKS: &[Benchmark] = &[("stream", stream), ("pcg", pcg)];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = match &args[..] {
        [] => "",
        [name] if BENCHMARKS.iter().any(|(n, _)| n.contains(name.as_str())) => name,
        _ => {
            let names: Vec<_> = BENCHMARKS.iter().map(|(n, _)| *n).collect();
            eprintln!("usage: sumsq-bench [NAME]; the benchmarks are {}", names.join(", "));
            return ExitCode::from(2);
        }
    };
    for (_, run) in BENCHMARKS.iter().filter(|(n, _)| n.contains(wanted)) {
        let report = run();
        if let Err(e) = report.write(&results_folder()) {
            eprintln!("{}: cannot write the results: {e}", results_folder().display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The machine's memory bandwidth.
fn stream() -> Report {
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

/// One PCG iteration of the two sweeps by hand, against triad over as many bytes.
fn pcg() -> Report {
    const N: usize = 4096;
    /// Arrays that the two sweeps move, and that triad does.
    const MOVED: (f64, f64) = (8.0, 3.0);
    let mut report =
        Report::new("pcg", format!("w + Laplacian, w = 0.01, {N} x {N} float32, {THREADS} threads"));
    let mut yardstick = Pcg::new(N, 0.01, THREADS);
    for _ in 0..20 {
        yardstick.iterate();
    }
    report.fact("r.z after 20 iterations", yardstick.rz(), "");
    yardstick.restart();
    report.ratio(noise("hand-written / hand-written", &mut || yardstick.iterate(), 25));
    let mut arrays = Stream::new(N * N, THREADS);
    let mut triad = || {
        arrays.triad(Store::NonTemporal);
    };
    let ratio = compare("hand-written / triad", &mut || yardstick.iterate(), &mut triad, 25);
    let per_byte = ratio.median / (MOVED.0 / MOVED.1);
    report.ratio(ratio);
    report.fact("hand-written / triad, per byte", per_byte, "");
    report
}
