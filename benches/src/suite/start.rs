//! From energy text to ready plan on a first start, which compiles, and on a second one, which finds what the first has kept: energies of ever
//! more lines, stencils of ever more pixels, and the energies of the demos. Every start is a process of its own.

use super::THREADS;
use crate::report::Report;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use sumsq::energy::Energy;
use sumsq::{ArrayData, CompileOptions, NamedArray, ProblemData, Solver};
use sumsq_examples::demos::{self, Demo};

/// Starts of which the fastest counts.
const RUNS: usize = 3;

/// Numbers of lines, each an `Energy` of its own.
const LINES: [usize; 5] = [10, 30, 100, 300, 1000];

/// Widths of square stencils.
const WIDTHS: [usize; 4] = [3, 5, 9, 15];

/// The word of the command line by which a process makes one start.
pub const ONCE: &str = "start-once";

/// Elements of the problems: what is compiled does not depend on them.
const SIDE: usize = 64;

pub fn run() -> Result<Report, Box<dyn Error>> {
    let setting = format!("text to plan in a process of its own, {THREADS} threads, fastest of {RUNS}");
    let mut report = Report::new("start", setting);
    let lines = LINES.map(|n| format!("lines {n}"));
    let stencils = WIDTHS.map(|n| format!("stencil {n}"));
    let demos = demos::ALL.iter().filter(|demo| demo.has_text()).map(|demo| demo.name.to_string());
    for case in lines.into_iter().chain(stencils).chain(demos) {
        let (mut first, mut second) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..RUNS {
            let kept = tempfile::tempdir()?;
            first = first.min(started(&case, kept.path())?);
            second = second.min(started(&case, kept.path())?);
        }
        report.fact(&format!("{case}, first start"), first, "s");
        report.fact(&format!("{case}, second start"), second, "s");
    }
    Ok(report)
}

/// Seconds of one start, which keeps its code in a folder.
fn started(case: &str, kept: &Path) -> Result<f64, Box<dyn Error>> {
    let output =
        Command::new(std::env::current_exe()?).args([ONCE, case]).env("SUMSQ_CACHE", kept).output()?;
    if !output.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Makes one start; returns its seconds.
pub fn once(case: &str) -> Result<f64, Box<dyn Error>> {
    let (text, inputs, options) = problem(case)?;
    let options = CompileOptions { threads: Some(THREADS), ..options };
    let started = Instant::now();
    let energy = Energy::from_text("start.t", &text)?;
    let data = ProblemData::bind(&energy, &inputs)?;
    let solver = Solver::compile(energy, &options)?;
    let _plan = solver.plan(&data)?;
    Ok(started.elapsed().as_secs_f64())
}

/// The text of a case, its inputs and options.
fn problem(case: &str) -> Result<(String, Vec<NamedArray>, CompileOptions), Box<dyn Error>> {
    if let Some(demo) = Demo::find(case) {
        let problem = demo.problem()?;
        return Ok((problem.text.to_string(), problem.inputs, problem.options.compile));
    }
    let zeros = |name: &str, shape: &[usize]| {
        let data = ArrayData::F64(vec![0.0; shape.iter().product()]);
        NamedArray { name: name.into(), shape: shape.into(), data }
    };
    let (kind, n) = case.split_once(' ').ok_or("no such case")?;
    let (text, shape) = match (kind, n.parse()?) {
        ("lines", n) => (lines(n), &[SIDE * SIDE][..]),
        ("stencil", n) => (stencil(n), &[SIDE, SIDE][..]),
        _ => return Err("no such case".into()),
    };
    Ok((text, vec![zeros("X", shape), zeros("A", shape)], CompileOptions::default()))
}

/// An energy of `n` lines, each of two reads.
fn lines(n: usize) -> String {
    format!(
        "local N = Dim('N', 0)\nlocal X = Unknown('X', double, {{N}}, 0)\nlocal A = Array('A', double, {{N}}, 1)\n\
         for i = 1, {n} do Energy(X(0) * A(i) - X(i % 7)) end\n"
    )
}

/// The weight of a pixel of a stencil, as its text has it: no two are the same.
pub fn weight(x: i32, y: i32) -> f64 {
    let (x, y) = (f64::from(x), f64::from(y));
    1.0 / (1.0 + x * x + y * y) + 0.001 * x + 0.0003 * y
}

/// One residual over a square of `width` times `width` pixels.
pub fn stencil(width: usize) -> String {
    let half = width / 2;
    format!(
        "local W, H = Dim('W', 0), Dim('H', 1)\nlocal X = Unknown('X', float, {{W,H}}, 0)\n\
         local A = Array('A', float, {{W,H}}, 1)\nlocal s = 0\nfor y = -{half}, {half} do for x = -{half}, {half} do\n\
         s = s + (1 / (1 + x * x + y * y) + 0.001 * x + 0.0003 * y) * X(x, y)\nend end\nEnergy(s - A(0, 0))\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_of_each_kind_starts() {
        for case in ["lines 2", "stencil 3", "image_warping"] {
            assert!(once(case).unwrap() > 0.0, "{case}");
        }
        assert!(once("lines").is_err() && once("soup 3").is_err());
    }
}
