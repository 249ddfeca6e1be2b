//! PCG iterations of an energy, as a solve runs them.

use super::facts::Facts;
use super::problems::{ENERGIES, Energy, Setting, large, natural};
use super::{Done, Extent};
use std::time::{Duration, Instant};
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{Backend, CompileOptions, NamedArray, Options, Problem, ProblemData, Solver};

/// Iterations of a long and of a short run, whose difference is free of what a run costs by itself, and repetitions after one that does not
/// count.
const WHOLE: (usize, usize, usize) = (64, 4, 9);
/// Of large problems, whose unknowns are copied to the device for every run.
const LARGE: (usize, usize, usize) = (32, 4, 3);
const QUICK: (usize, usize, usize) = (4, 2, 1);
/// Elements beyond which a problem is large.
const LARGEST: usize = 1 << 21;

/// Microseconds.
pub const US: (&str, f64) = ("us", 1e-6);

/// A problem that is planned.
pub struct Planned {
    data: ProblemData<'static>,
    problem: Problem,
    options: Options,
    elements: usize,
    runs: (usize, usize, usize),
    /// r.z behind the last run.
    rz: f64,
}

impl Planned {
    /// Compiles and plans, and says how long that took.
    pub fn new(
        facts: &mut Facts,
        what: &str,
        s: Setting,
        compile: CompileOptions,
        extent: Extent,
    ) -> Done<Planned> {
        let start = Instant::now();
        let energy = sumsq::energy::Energy::from_text(s.energy, &s.text)?;
        let options = Options { compile, ..s.options };
        let solver = Solver::compile(energy, &options.compile)?;
        let compiled = start.elapsed();
        // Gigabytes, of a process that measures this and ends: kept as they are.
        let inputs: &'static [NamedArray] = Box::leak(s.inputs.into_boxed_slice());
        let data = ProblemData::bind(solver.energy(), inputs)?;
        let whole = if s.elements > LARGEST { LARGE } else { WHOLE };
        let start = Instant::now();
        let problem = solver.plan(&data)?;
        facts.times(format!("{what}: text to code"), &[compiled], ("s", 1.0));
        facts.times(format!("{what}: plan"), &[start.elapsed()], ("s", 1.0));
        Ok(Planned {
            data,
            problem,
            options,
            elements: s.elements,
            runs: extent.of(whole, QUICK),
            rz: f64::NAN,
        })
    }

    /// Times of runs of `n` iterations, but for the first run. Each begins at the start: a probe that has come to its end does one more.
    pub fn runs(&mut self, n: usize) -> Done<Vec<Duration>> {
        let mut times = vec![];
        for _ in 0..=self.runs.2 {
            let mut probe = self.problem.linear_probe(&self.data, &self.options.solve)?;
            let start = Instant::now();
            probe.iterate(n)?;
            times.push(start.elapsed());
            self.rz = probe.rz();
        }
        Ok(times.split_off(1))
    }

    /// Microseconds of an iteration: of long runs, and by the difference to short ones.
    pub fn iteration(&mut self, facts: &mut Facts, what: &str) -> Done<f64> {
        let (most, least, _) = self.runs;
        let (long, short) = (self.runs(most)?, self.runs(least)?);
        if !self.rz.is_finite() || self.rz <= 0.0 {
            facts.note(format!("{what}: r.z is {}, so that runs may have ended early", self.rz));
        }
        let each: Vec<Duration> = long.iter().map(|t| *t / most as u32).collect();
        facts.times(format!("{what}: iteration, in runs of {most}"), &each, US);
        let median = |mut v: Vec<Duration>| {
            v.sort();
            v[v.len() / 2]
        };
        let slope = median(long).saturating_sub(median(short)).as_secs_f64() / (most - least) as f64;
        facts.add(format!("{what}: iteration, without the start of a run"), slope * 1e6, "us");
        Ok(slope)
    }

    /// r.z behind `n` iterations.
    pub fn residual(&mut self, n: usize) -> Done<f64> {
        let mut probe = self.problem.linear_probe(&self.data, &self.options.solve)?;
        probe.iterate(n)?;
        Ok(probe.rz())
    }
}

/// Options for the device.
pub fn on_device() -> CompileOptions {
    CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() }
}

/// Iterations of all energies at their natural sizes.
pub fn naturals(facts: &mut Facts, extent: Extent) -> Done<()> {
    let mut failed = vec![];
    for e in ENERGIES {
        let setting = || if extent == Extent::Whole { natural(e.name) } else { tiny(e.name) };
        if let Err(error) = energy(facts, &e, "natural", setting(), extent) {
            facts.note(format!("{}: {error}", e.name));
            failed.push(e.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Iterations of one of the energies at its large size.
pub fn large_one(facts: &mut Facts, name: &str, extent: Extent) -> Done<()> {
    let e = ENERGIES.iter().find(|e| e.name == name).ok_or("no such energy")?;
    let start = Instant::now();
    let setting = if extent == Extent::Whole { large(name, e.large) } else { tiny(name) };
    facts.times(format!("{name}: inputs made"), &[start.elapsed()], ("s", 1.0));
    energy(facts, e, "large", setting, extent)
}

fn energy(facts: &mut Facts, e: &Energy, size: &str, setting: Setting, extent: Extent) -> Done<()> {
    let device = Device::shared(0)?;
    let what = format!("{}, {size} ({} elements)", e.name, setting.elements);
    let mut planned = Planned::new(facts, &what, setting, on_device(), extent)?;
    facts.add(format!("{what}: buffers"), planned.problem.buffer_bytes() as f64 / 1e6, "MB");
    let before = device.counts();
    let seconds = planned.iteration(facts, &what)?;
    let after = device.counts();
    let run = |n: u64| n as f64 / (2 * (planned.runs.2 + 1)) as f64;
    facts.add(format!("{what}: launches, a run with its start"), run(after.launches - before.launches), "");
    facts.add(format!("{what}: host waits, a run with its start"), run(after.waits - before.waits), "");
    // A difference of nothing is one of noise.
    let Some(bytes) = e.bytes.filter(|_| seconds > 0.0) else { return Ok(()) };
    let rate = bytes * planned.elements as f64 / seconds / 1e9;
    facts.add(format!("{what}: {bytes} bytes an element"), rate, "GB/s");
    if let Some(copy) = super::copy_rate() {
        facts.add(format!("{what}: share of copy"), 100.0 * rate / copy, "%");
    }
    Ok(())
}

/// A problem for the interpreter.
pub fn tiny(name: &str) -> Setting {
    match name {
        "laplacian" | "image_warping" => large(name, 16),
        _ if ENERGIES.iter().any(|e| e.name == name && e.large > 10_000) => natural(name),
        "volumetric_mesh_deformation" => large(name, 6),
        _ => large(name, 16),
    }
}
