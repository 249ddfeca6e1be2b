//! Lowering and code generation, the engine against Halide 21: one object file per run, the same pipelines and schedules, each side
//! on one thread. What a side does to build the pipeline is not timed.

use super::engine_pipelines::{JOBS, Job};
use crate::harness::{MIN_PAIRS, compare_timed, time};
use crate::report::Report;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use sumsq::codegen::Target;
use sumsq::codegen::compile::aot::compile_to_object;
use sumsq::codegen::lower::{LowerOptions, lower_timed};

type Failed = Box<dyn Error>;

pub fn run() -> Result<Report, Failed> {
    let setting = "time of sumsq / time of Halide 21 to an object file, one thread each; target: 0.5";
    let mut report = Report::new("engine", setting);
    let mut halide = Halide::start()?;
    let target = Target::host();
    for (name, what, build) in JOBS {
        let mut ours = || {
            let (p, s) = build();
            time(&mut || drop(compile_to_object(&p, &s, &target).expect("the schedule is legal")))
        };
        let mut failure = None;
        let mut theirs = || {
            halide.compile(name).unwrap_or_else(|e| {
                failure.get_or_insert(e);
                Duration::ZERO
            })
        };
        let ratio = on_deep_stack(|| compare_timed(what, &mut ours, &mut theirs, MIN_PAIRS));
        if let Some(e) = failure {
            return Err(e.into());
        }
        report.ratio(ratio);
        on_deep_stack(|| breakdown(&mut report, (name, what, build)));
    }
    report.note(format!("load average at the end: {}", load()));
    Ok(report)
}

/// Reports where our time goes.
fn breakdown(report: &mut Report, (name, _, build): Job) {
    let (p, s) = build();
    let (_, passes) = lower_timed(&p, &s, &LowerOptions::default()).expect("the schedule is legal");
    let whole: Duration = passes.iter().map(|p| p.1).sum();
    report.fact(&format!("{name}: lowering"), whole.as_secs_f64(), "s");
    for (pass, t) in passes {
        report.fact(&format!("{name}:   {pass}"), t.as_secs_f64(), "s");
    }
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .unwrap_or_default()
        .split(' ')
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Passes recurse over expressions.
fn on_deep_stack<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(s, f);
        thread.expect("a thread starts").join().expect("no part panics")
    })
}

/// `peers/halide/compile.py` in Halide's environment, kept running, so that its start is not timed.
struct Halide {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Halide {
    fn start() -> Result<Halide, Failed> {
        let own = std::env::current_exe()?;
        let python: PathBuf = own.ancestors().nth(2).unwrap_or(&own).join("peers/halide/bin/python");
        if !python.is_file() {
            return Err(format!(
                "Halide is not installed, {} is missing: run `cargo xtask setup --peers`",
                python.display()
            )
            .into());
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/halide/compile.py");
        let mut child =
            Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (to, from) = child.stdin.take().zip(child.stdout.take()).ok_or("the peer has no pipes")?;
        Ok(Halide { child, to, from: BufReader::new(from) })
    }

    /// Seconds of one compilation.
    fn compile(&mut self, name: &str) -> Result<Duration, String> {
        writeln!(self.to, "{name}").map_err(|e| format!("Halide ended early: {e}"))?;
        let mut line = String::new();
        self.from.read_line(&mut line).map_err(|e| e.to_string())?;
        let seconds: f64 = line.trim().parse().map_err(|_| format!("Halide failed on {name}: {line:?}"))?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Drop for Halide {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
