//! Another solver as a program of its own, run once per solve, and what a solve looks like from outside.

use serde_json::Value;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use sumsq::{ArrayData, Control, NamedArray, Problem, ProblemData, SolveError, SolveOptions};

/// Values of E over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectory {
    /// E at the start.
    pub initial: f64,
    /// After each accepted step: seconds since the start, and E.
    pub points: Vec<(f64, f64)>,
    /// Steps, rejected ones included.
    pub steps: usize,
    /// Iterations of the linear solver, or factorisations.
    pub linear: usize,
    /// Seconds of the whole solve.
    pub seconds: f64,
    /// Seconds of set-up that are not in the others.
    pub set_up: f64,
    /// Of the seconds of the solve, those that code for another preconditioner took.
    pub growth: f64,
    /// Reason for its end, in the solver's own words.
    pub termination: String,
}

impl Trajectory {
    /// A solve of sumsq that ends at an energy. Its set-up is that of the preconditioner in all steps, which its seconds hold as well.
    pub fn of(
        problem: &mut Problem,
        data: &mut ProblemData,
        options: &SolveOptions,
        target: f64,
    ) -> Result<Trajectory, SolveError> {
        let mut points = vec![];
        let start = Instant::now();
        let report = problem.solve_with(data, options, &mut |step| {
            if step.accepted {
                points.push((start.elapsed().as_secs_f64(), step.energy));
            }
            if step.energy <= target { Control::Abort } else { Control::Continue }
        })?;
        Ok(Trajectory {
            initial: report.energy_initial,
            points,
            steps: report.iterations.len(),
            linear: report.linear_iterations_total,
            seconds: start.elapsed().as_secs_f64(),
            set_up: report.iterations.iter().map(|step| step.setup_seconds).sum(),
            growth: report.seconds.growth,
            termination: report.termination.name().into(),
        })
    }

    /// Returns the time at which E was first no larger than `target`.
    pub fn time_to(&self, target: f64) -> Option<f64> {
        self.points.iter().find(|(_, energy)| *energy <= target).map(|(seconds, _)| *seconds)
    }

    /// The lowest E seen.
    pub fn lowest(&self) -> f64 {
        self.points.iter().map(|p| p.1).fold(self.initial, f64::min)
    }

    /// From what a peer prints.
    fn parse(printed: &str) -> Option<Trajectory> {
        let v: Value = serde_json::from_str(printed).ok()?;
        let steps = v["steps"].as_array()?;
        let accepted = steps.iter().filter(|s| s["accepted"] == Value::Bool(true));
        let points = accepted.map(|s| Some((s["seconds"].as_f64()?, s["energy"].as_f64()?)));
        Some(Trajectory {
            initial: v["initial"].as_f64()?,
            points: points.collect::<Option<_>>()?,
            steps: steps.len(),
            linear: steps.iter().map(|s| s["linear"].as_u64()).sum::<Option<u64>>()? as usize,
            seconds: steps.last().map_or(Some(0.0), |s| s["seconds"].as_f64())?,
            set_up: v["build"].as_f64()? + v["preprocess"].as_f64()?,
            growth: 0.0,
            termination: v["termination"].as_str()?.to_lowercase(),
        })
    }
}

/// The program of a peer.
#[derive(Clone, Debug)]
pub struct Peer {
    name: &'static str,
    program: PathBuf,
}

impl Peer {
    /// The peer of that name, where `cargo xtask setup --peers` puts it: `peers/NAME` in the folder of build artifacts.
    pub fn find(name: &'static str) -> Result<Peer, Box<dyn Error>> {
        let own = std::env::current_exe()?;
        let program = own.ancestors().nth(2).unwrap_or(&own).join("peers").join(name);
        if program.is_file() {
            return Ok(Peer { name, program });
        }
        Err(format!(
            "the peer {name} is not built, {} is missing: run `cargo xtask setup --peers`",
            program.display()
        )
        .into())
    }

    /// One solve of the problem in `file`.
    pub fn solve(
        &self,
        energy: &str,
        file: &Path,
        arguments: &[(&str, String)],
        threads: usize,
    ) -> Result<Trajectory, Box<dyn Error>> {
        let mut command = Command::new(&self.program);
        command.arg(energy).arg(file).arg("--threads").arg(threads.to_string());
        for (name, value) in arguments {
            command.arg(format!("--{name}")).arg(value);
        }
        // The BLAS under a direct solver has threads of its own.
        command.env("OPENBLAS_NUM_THREADS", threads.to_string()).env("OMP_NUM_THREADS", threads.to_string());
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} failed on {energy} ({})", self.name, output.status).into());
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        Trajectory::parse(&printed)
            .ok_or_else(|| format!("{} printed something else than a trajectory", self.name).into())
    }
}

/// Writes a problem as peers read it: a line `sumsq problem 1`, then per array a line `NAME TYPE COUNT` and its elements in C
/// order as they lie in memory; TYPE is i32 for int32 and int64 (dims, indices), else f64.
///
/// Every peer reads the same bytes, and float32 inputs are float64 without loss.
pub fn write_problem(path: &Path, arrays: &[NamedArray]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "sumsq problem 1")?;
    for NamedArray { name, data, .. } in arrays {
        let kind = if matches!(data.dtype(), "int32" | "int64") { "i32" } else { "f64" };
        writeln!(file, "{name} {kind} {}", data.len())?;
        let mut real = |v: f64| file.write_all(&v.to_ne_bytes());
        match data {
            ArrayData::F32(v) => v.iter().try_for_each(|v| real(f64::from(*v)))?,
            ArrayData::F64(v) => v.iter().try_for_each(|v| real(*v))?,
            ArrayData::Bool(v) => v.iter().try_for_each(|v| real(f64::from(u8::from(*v))))?,
            ArrayData::Bytes(v) => v.iter().try_for_each(|v| real(f64::from(*v)))?,
            ArrayData::Device(_) => data.doubles().into_iter().try_for_each(&mut real)?,
            ArrayData::Int(v, _) if kind == "f64" => v.iter().try_for_each(|v| real(*v as f64))?,
            ArrayData::Int(v, _) => v.iter().try_for_each(|v| {
                let narrow = i32::try_from(*v).map_err(io::Error::other)?;
                file.write_all(&narrow.to_ne_bytes())
            })?,
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{"version": "2.1.0", "initial": 8.0, "build": 0.5, "preprocess": 0.25, "residuals": 4,
        "unknowns": 2, "termination": "CONVERGENCE", "jacobian": 0.1, "linear_solver": 0.1, "steps": [
        {"seconds": 0.1, "energy": 4.0, "accepted": true, "linear": 3},
        {"seconds": 0.2, "energy": 9.0, "accepted": false, "linear": 5},
        {"seconds": 0.4, "energy": 1.0, "accepted": true, "linear": 2}]}"#;

    #[test]
    fn rejected_steps_count_but_are_no_points() {
        let t = Trajectory::parse(PRINTED).unwrap();
        assert_eq!((t.initial, t.steps, t.linear, t.seconds, t.set_up), (8.0, 3, 10, 0.4, 0.75));
        assert_eq!(t.points, [(0.1, 4.0), (0.4, 1.0)]);
        assert_eq!(
            (t.time_to(4.0), t.time_to(3.9), t.time_to(0.5), t.lowest()),
            (Some(0.1), Some(0.4), None, 1.0)
        );
        assert_eq!(Trajectory::parse(&PRINTED.replace("initial", "first")), None);
    }
}
