//! Peers in the same run: hand-written CUDA, products by cuSPARSE through CuPy, PCG in JAX. A peer whose tools are missing is left out, and said
//! to be.

use super::facts::Facts;
use super::iteration::{Planned, on_device};
use super::problems::{Setting, image_warping, laplacian};
use super::{Done, Extent};
use std::path::{Path, PathBuf};
use std::process::Command;
use sumsq::{CompileOptions, Preconditioner};

/// Iterations behind which both sides have the same r.z, and by how much that may differ: float32 vectors, summed in different orders.
const CHECKED: usize = 20;
const AGREEMENT: f64 = 2e-3;

/// Iterations of a run, and runs.
const WHOLE: (usize, usize) = (64, 5);
const QUICK: (usize, usize) = (2, 1);

/// The sources of a peer, in the bundle as in the workspace.
fn sources(peer: &str) -> PathBuf {
    sumsq_tests::workspace_root().join("benches/peers").join(peer)
}

/// The program of hand-written CUDA.
fn program(out: &Path) -> PathBuf {
    out.join("peer_pcg")
}

/// Builds the hand-written CUDA; without nvcc, in a rehearsal, as a program of the host.
pub fn build(out: &Path, extent: Extent) -> Result<(), String> {
    let source = sources("cuda").join("pcg.cu");
    let mut command = match extent {
        Extent::Whole => {
            let mut nvcc = Command::new("nvcc");
            nvcc.args(["-O3", "-std=c++17", "-use_fast_math", "-arch=native"]);
            nvcc
        }
        Extent::Quick => {
            let mut host = Command::new("c++");
            host.args(["-O2", "-std=c++17", "-DSERIAL", "-x", "c++"]);
            host
        }
    };
    let done = command.arg(&source).arg("-o").arg(program(out)).output();
    match done {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(e) => Err(format!("{:?}: {e}", command.get_program())),
    }
}

/// A line that a peer prints: a name, a value to agree on, seconds.
struct Line {
    name: String,
    value: f64,
    seconds: Vec<f64>,
}

fn run(command: &mut Command, energy: &str, numbers: [usize; 3]) -> Result<Vec<Line>, String> {
    let text = format!("{command:?}");
    command.arg(energy).args(numbers.map(|n| n.to_string()));
    let done = command.output().map_err(|e| format!("{text}: {e}"))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        let last: Vec<&str> = words.lines().rev().take(3).collect();
        return Err(format!("{text}: {}", last.into_iter().rev().collect::<Vec<_>>().join(" ")));
    }
    let line = |line: &str| {
        let mut fields = line.split_whitespace();
        let name = fields.next()?.to_string();
        let numbers: Vec<f64> = fields.map(|f| f.parse().ok()).collect::<Option<_>>()?;
        let (value, seconds) = numbers.split_first()?;
        (!seconds.is_empty()).then(|| Line { name, value: *value, seconds: seconds.to_vec() })
    };
    Ok(String::from_utf8_lossy(&done.stdout).lines().filter_map(line).collect())
}

/// An energy's name, and its problem of so many pixels in each direction.
type Meeting = (&'static str, fn(usize) -> Setting);

/// Problems on which sides meet.
const PROBLEMS: [Meeting; 2] = [("laplacian", laplacian), ("image_warping", image_warping)];

/// Our side of a problem with the diagonal as preconditioner: r.z and seconds of an iteration.
fn ours(facts: &mut Facts, what: &str, setting: Setting, extent: Extent) -> Done<(f64, f64)> {
    let options = CompileOptions { preconditioner: Preconditioner::Jacobi, ..on_device() };
    let mut planned = Planned::new(facts, what, setting, options, extent)?;
    let rz = planned.residual(CHECKED)?;
    Ok((rz, planned.iteration(facts, what)?))
}

/// Adds the seconds of a peer, and how they compare with ours.
fn compared(facts: &mut Facts, what: &str, line: &Line, each: usize, own: f64) {
    let times: Vec<f64> = line.seconds.iter().map(|s| s * 1e6 / each as f64).collect();
    facts.add_many(format!("{what}, {}: iteration", line.name), times, "us");
    let theirs = facts.all.last().map_or(f64::NAN, |f| f.value);
    facts.add(format!("{what}, {} / sumsq", line.name), theirs * 1e-6 / own, "x");
}

/// Hand-written CUDA, in three kernels and in two sweeps, launched one by one and as a graph.
pub fn cuda(facts: &mut Facts, out: &Path, extent: Extent) -> Done<()> {
    if !program(out).is_file() {
        facts.note("hand-written CUDA: not built, see peer_build.log");
        return Ok(());
    }
    for n in extent.of(vec![512, 8192], vec![48]) {
        for (name, make) in PROBLEMS {
            let what = format!("{name} {n} x {n}, diagonal");
            let (rz, own) = ours(facts, &format!("{what}, sumsq"), make(n), extent)?;
            pcg(facts, &mut Command::new(program(out)), (name, n), (&what, rz, own), extent)?;
        }
    }
    Ok(())
}

/// PCG in JAX.
pub fn jax(facts: &mut Facts, _: &Path, extent: Extent) -> Done<()> {
    for n in extent.of(vec![512, 4096], vec![48]) {
        for (name, make) in PROBLEMS {
            let what = format!("{name} {n} x {n}, diagonal");
            let (rz, own) = ours(facts, &format!("{what}, sumsq"), make(n), extent)?;
            let mut python = Command::new("python3");
            // What it takes beforehand is not there for others.
            python.env("XLA_PYTHON_CLIENT_PREALLOCATE", "false").arg(sources("jax").join("pcg.py"));
            pcg(facts, &mut python, (name, n), (&what, rz, own), extent)?;
        }
    }
    Ok(())
}

/// A peer's PCG, held against our r.z.
fn pcg(
    facts: &mut Facts,
    command: &mut Command,
    (name, n): (&str, usize),
    (what, rz, own): (&str, f64, f64),
    extent: Extent,
) -> Done<()> {
    let (iterations, times) = extent.of(WHOLE, QUICK);
    let lines = match run(command, name, [n, iterations, times]) {
        Ok(lines) => lines,
        Err(words) => {
            facts.note(format!("left out: {words}"));
            return Ok(());
        }
    };
    for line in lines {
        let apart = (line.value / rz - 1.0).abs();
        facts.add(format!("{what}, {}: r.z apart behind {CHECKED} iterations", line.name), apart, "");
        if apart.is_nan() || apart > AGREEMENT {
            return Err(format!(
                "{what}, {}: r.z is {}, ours {rz}: not the same work",
                line.name, line.value
            )
            .into());
        }
        compared(facts, what, &line, iterations, own);
    }
    Ok(())
}

/// Products by cuSPARSE, against a whole iteration of ours.
pub fn cupy(facts: &mut Facts, _: &Path, extent: Extent) -> Done<()> {
    for (name, make) in PROBLEMS {
        for n in extent.of(vec![512, 2048], vec![48]) {
            let what = format!("{name} {n} x {n}, cuSPARSE");
            let (_, own) = ours(facts, &format!("{name} {n} x {n}, diagonal, sumsq"), make(n), extent)?;
            let (products, times) = extent.of(WHOLE, QUICK);
            let mut python = Command::new("python3");
            python.arg(sources("cupy").join("products.py"));
            if extent == Extent::Quick {
                python.env("SUMSQ_REHEARSAL", "1");
            }
            match run(&mut python, name, [n, products, times]) {
                Ok(lines) => lines.iter().for_each(|l| compared(facts, &what, l, products, own)),
                Err(words) => facts.note(format!("left out: {words}")),
            }
        }
    }
    Ok(())
}
