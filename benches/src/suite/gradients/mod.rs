//! Gradients: the layers of table 1, the convolutions of sections 4.2 and 4.3 and the demosaicking of section 5.2 of Li et al. 2018, forward alone and
//! with J^T w, against JAX, jitted, PyTorch and Halide on the CPU.
//! `SUMSQ_CASES` names what the names of those that run contain.

mod convolution;
mod framework;
mod halide;

use super::THREADS;
use super::convolution::{Ready, of_layer};
use super::pipeline_library::RawArgument;
use crate::harness::{compare_within, time};
use crate::memory::{forget_peak, peak};
use crate::report::Report;
use framework::{FRAMEWORKS, Framework};
use halide::{Halide, Side};
use std::cell::RefCell;
use std::error::Error;
use std::time::{Duration, Instant};
use sumsq::codegen::Target;
use sumsq::codegen::runtime::{Buffer, Pool};
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::pipelines::{Algorithm, Application, Planar, Prepared, Values};

/// Time for the pairs of one comparison.
const BUDGET: Duration = Duration::from_secs(20);

type Failed = Box<dyn Error>;

/// A thing that is measured: an application, and its inputs by shape.
struct Case {
    application: &'static Application,
    /// Parameters that are not as by default.
    parameters: &'static [(&'static str, &'static str)],
    inputs: &'static [(&'static str, &'static [usize])],
    /// The dimension of an input that is two for Halide, and of how many the inner one is.
    runs: Option<(&'static str, usize, i32)>,
    /// Do the frameworks have it?
    in_frameworks: bool,
}

fn find(name: &str) -> Result<&'static Application, String> {
    Application::find(name).ok_or_else(|| format!("there is no {name}"))
}

/// Sizes of table 1: of the bilateral slice's images of four channels one is the guide; its grid is eight deep.
fn cases() -> Result<Vec<Case>, Failed> {
    Ok(vec![
        Case {
            application: &convolution::APPLICATION,
            parameters: &[],
            inputs: &[("image", &[1604, 2562]), ("kernel", &[5, 3])],
            runs: None,
            in_frameworks: true,
        },
        Case {
            application: find("spatial_transformer")?,
            parameters: &[],
            inputs: &[("input", &[4, 16, 512, 512]), ("theta", &[4, 2, 3])],
            runs: None,
            in_frameworks: true,
        },
        Case {
            application: find("flow_warp")?,
            parameters: &[],
            inputs: &[("input", &[4, 64, 512, 512]), ("flow", &[4, 2, 512, 512])],
            runs: None,
            in_frameworks: true,
        },
        Case {
            application: find("bilateral_slice")?,
            parameters: &[],
            inputs: &[
                ("grid", &[4, 12, 8, 64, 64]),
                ("guide", &[4, 1024, 1024]),
                ("input", &[4, 3, 1024, 1024]),
            ],
            // A map's factors for an output: Halide 21 derives c * 4 + ci wrongly.
            runs: Some(("grid", 3, 4)),
            in_frameworks: true,
        },
        Case {
            application: find("demosaic_learned")?,
            parameters: &[("filters", "9")],
            inputs: &[
                ("mosaic", &[1024, 1024]),
                ("green", &[9, 5, 5]),
                ("edges", &[9, 5, 5]),
                ("beside", &[3, 2]),
                ("below", &[2, 3]),
                ("diagonal", &[2, 2]),
            ],
            runs: None,
            in_frameworks: false,
        },
    ])
}

pub fn run() -> Result<Report, Failed> {
    let setting = format!(
        "time of sumsq / time of JAX, jitted, of PyTorch, or of Halide 21, {THREADS} threads each, float32; with gradient: outputs and J^T 1 for all inputs"
    );
    let mut report = Report::new("gradients", setting);
    let wanted = report.wanted("SUMSQ_CASES");
    let halide = match Halide::load() {
        Ok(halide) => Some(halide),
        Err(why) => {
            report.note(format!("not compared with Halide: {why}"));
            None
        }
    };
    // First, while nothing else has left memory behind.
    if "bilateral_slice".contains(&wanted) {
        memory_of_slices(&mut report)?;
    }
    for case in cases()?.iter().filter(|case| case.application.name.contains(&wanted)) {
        measure(&mut report, case, halide.as_ref())?;
    }
    for (name, layer) in of_layer()?.iter().filter(|(name, _)| name.contains(&wanted)) {
        report.fact(&format!("{name}, compiled in"), layer.seconds, "s");
        halide.iter().try_for_each(|halide| halide.against(&mut report, &side_of_layer(name, layer)))?;
    }
    Ok(report)
}

/// The most memory that slices of four images of 2048 x 2048 pixels take with their gradient, beside that of the arrays themselves.
fn memory_of_slices(report: &mut Report) -> Result<(), Failed> {
    let application = find("bilateral_slice")?;
    let of = |inputs| Case { application, parameters: &[], inputs, runs: None, in_frameworks: false };
    let ready = |case: &Case| {
        let made = case.inputs.iter().map(|(name, shape)| Planar::of_array(&made(name, shape), false));
        Ours::new(case, &made.collect::<Result<Vec<_>, _>>()?, true, Some("gradient"))
    };
    // Memory of the compiler is there already.
    drop(ready(&of(&[
        ("grid", &[1, 12, 8, 8, 8]),
        ("guide", &[1, 128, 128]),
        ("input", &[1, 3, 128, 128]),
    ]))?);
    let before = forget_peak();
    let ours = ready(&of(&[
        ("grid", &[4, 12, 8, 128, 128]),
        ("guide", &[4, 2048, 2048]),
        ("input", &[4, 3, 2048, 2048]),
    ]))?;
    forget_peak();
    ours.run()?;
    let taken = peak().saturating_sub(before) as f64;
    let arrays: usize = ours.buffers.iter().map(|(_, b)| b.bytes()).sum();
    report.fact("bilateral_slice, 2048 x 2048 x 4, with gradient: arrays", arrays as f64 / 1e9, "GB");
    report.fact(
        "bilateral_slice, 2048 x 2048 x 4, with gradient: peak of memory / arrays",
        taken / arrays as f64,
        "x",
    );
    Ok(())
}

/// The slopes of a layer by its input.
fn side_of_layer<'a>(name: &'a str, layer: &'a Ready) -> Side<'a> {
    let read = ["kernel", "w"].map(|name| layer.buffer(name));
    let slope = layer.buffer("slope");
    let arguments = read.into_iter().chain([slope]).flatten().map(RawArgument::of).collect();
    let outputs = slope.into_iter().map(|slope| ("slope", slope)).collect();
    Side { name, run: Box::new(move || layer.run()), arguments, outputs }
}

/// Made-up numbers: in [0, 1), but for maps near the identity and flows of up to ten pixels.
fn made(name: &str, shape: &[usize]) -> NamedArray {
    let mut state = 0x2545_f491u32;
    let value = |k: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let v = (state >> 8) as f32 / (1 << 24) as f32;
        match name {
            "theta" => 0.2 * v - 0.1 + f32::from([0, 4].contains(&(k % 6))),
            "flow" => 20.0 * v - 10.0,
            _ => v,
        }
    };
    let values = (0..shape.iter().product()).map(value).collect();
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data: ArrayData::F32(values) }
}

/// Ours, made ready: with its gradient or without.
struct Ours {
    prepared: Prepared,
    buffers: Vec<(String, Buffer)>,
    pool: Pool,
    /// Seconds that it took to compile.
    seconds: f64,
}

impl Ours {
    /// Under the application's schedule of a name, or the first one where none is named or there.
    fn new(case: &Case, inputs: &[Planar], gradient: bool, name: Option<&str>) -> Result<Ours, Failed> {
        let own = case.parameters.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let setup = case.application.setup(&own.collect::<Vec<_>>(), 8)?;
        let algorithm = match gradient {
            true => Algorithm::with_gradient(case.application, setup)?,
            false => Algorithm::new(case.application, setup),
        };
        let schedule = match name.and_then(|name| case.application.schedule(name)) {
            Some(schedule) => schedule?,
            None => algorithm.first_schedule(inputs)?,
        };
        let given = [inputs, &algorithm.weights(&[], inputs)?].concat();
        let start = Instant::now();
        let prepared = Prepared::new(algorithm, &schedule, &Target::host())?;
        let seconds = start.elapsed().as_secs_f64();
        let buffers = prepared.buffers(&given)?;
        Ok(Ours { prepared, buffers, pool: Pool::new(THREADS), seconds })
    }

    /// As Halide is compared with it: arguments are the inputs, the weights of the output, the output, and the slopes in the order of the inputs.
    fn side(&self, case: &Case) -> Side<'_> {
        let algorithm = &self.prepared.algorithm;
        let gradient = algorithm.gradient.iter();
        let slots = algorithm.application.slots.iter().map(|slot| slot.name);
        let read = slots.chain(gradient.clone().flat_map(|g| g.weights.iter().map(|w| &*w.input)));
        let outputs = gradient.clone().flat_map(|g| g.weights.iter().map(|w| &*w.output));
        let written = outputs.chain(gradient.flat_map(|g| g.slopes.iter().map(|s| &*s.output)));
        let find = |name: &str| self.buffers.iter().find(|(known, _)| known == name).map(|(n, b)| (&**n, b));
        let outputs: Vec<(&str, &Buffer)> = written.filter_map(find).collect();
        let lent = |(name, buffer)| match case.runs {
            Some((of, d, inner)) if str::ends_with(name, of) => RawArgument::of(buffer).split(d, inner),
            _ => RawArgument::of(buffer),
        };
        let arguments = read.filter_map(find).chain(outputs.clone()).map(lent).collect();
        Side { name: case.application.name, run: Box::new(move || self.run()), arguments, outputs }
    }

    fn run(&self) -> Result<(), Failed> {
        let named: Vec<(&str, &Buffer)> = self.buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
        Ok(self.prepared.compiled().run(&self.pool, &named, &self.prepared.params())?)
    }
}

/// Checks that both sides agree, then times forward and with the gradient.
fn measure(report: &mut Report, case: &Case, halide: Option<&Halide>) -> Result<(), Failed> {
    let name = case.application.name;
    let arrays: Vec<NamedArray> = case.inputs.iter().map(|(name, shape)| made(name, shape)).collect();
    let inputs: Vec<Planar> = arrays.iter().map(|a| Planar::of_array(a, false)).collect::<Result<_, _>>()?;
    let pair = |[forward, both]: [Option<&str>; 2]| {
        let pair = (Ours::new(case, &inputs, false, forward)?, Ours::new(case, &inputs, true, both)?);
        // It is run here once: what it returns later is known.
        pair.0.run()?;
        pair.1.run()?;
        Ok::<_, Failed>(pair)
    };
    let compared = |label: &str, forward: &Ours, both: &Ours| {
        let label = format!("{name}: with gradient / forward, both sumsq{label}");
        let timed = |ours: &Ours| time(&mut || drop(ours.run()));
        compare_within(&label, &mut || timed(both), &mut || timed(forward), BUDGET)
    };
    let (forward, both) = pair([None, None])?;
    report.ratio(compared(", first schedules", &forward, &both));
    let (forward, both) = pair([Some("hand"), Some("gradient")])?;
    report.fact(&format!("{name}, compiled in"), both.seconds, "s, with the gradient");
    let ratio = compared("", &forward, &both);
    report.fact(&format!("{name}, forward: sumsq"), ratio.seconds.1 * 1e3, "ms");
    report.fact(&format!("{name}, with gradient: sumsq"), ratio.seconds.0 * 1e3, "ms");
    report.ratio(ratio);
    let with = |framework| against(report, framework, name, &arrays, [&forward, &both]);
    FRAMEWORKS.iter().filter(|_| case.in_frameworks).try_for_each(with)?;
    halide.iter().try_for_each(|halide| halide.against(report, &both.side(case)))
}

/// Checks that a framework agrees with ours, forward alone and with the gradient, and times both.
fn against(
    report: &mut Report,
    framework: &Framework,
    name: &str,
    arrays: &[NamedArray],
    [forward, both]: [&Ours; 2],
) -> Result<(), Failed> {
    let theirs = framework.name;
    let process = match framework.start(name, arrays)? {
        Ok(process) => RefCell::new(process),
        Err(why) => {
            report.note(format!("{name}: not compared with {theirs}: {why}"));
            return Ok(());
        }
    };
    report.fact(
        &format!("{name}, compiled in: {theirs}"),
        process.borrow().compiled,
        "s, forward and with the gradient",
    );
    agree(name, both, &process.borrow_mut().results()?)?;
    for (what, ours) in [("forward", forward), ("both", both)] {
        let label = if what == "both" { "with gradient" } else { what };
        // A peer that ended takes forever.
        let mut run = || process.borrow_mut().run(what).unwrap_or(Duration::MAX / 1024);
        let mut own = || time(&mut || drop(ours.run()));
        let ratio = compare_within(&format!("{name}, {label}: sumsq / {theirs}"), &mut own, &mut run, BUDGET);
        report.fact(&format!("{name}, {label}: {theirs}"), ratio.seconds.1 * 1e3, "ms");
        report.ratio(ratio);
    }
    Ok(())
}

/// Largest difference of each output, as a share of its greatest value, that sums in float32 may have.
const TOLERANCE: f64 = 2e-3;
/// Of so many values one may be farther off: slopes by places jump where these are whole numbers, on whose one side PyTorch's normalised coordinates
/// are rounded, ours on the other.
const JUMPS: usize = 10_000;

fn agree(name: &str, ours: &Ours, theirs: &[NamedArray]) -> Result<(), Failed> {
    let algorithm = &ours.prepared.algorithm;
    for (output, buffer) in &ours.buffers {
        let slope = algorithm.gradient.as_ref().and_then(|g| g.slope(output));
        let known = slope.map_or(output.clone(), |s| format!("d.{}", s.of));
        let Some(array) = theirs.iter().find(|a| a.name == known) else { continue };
        let Values::F32(expected) = Planar::of_array(array, false)?.values else { continue };
        differ(&expected, &buffer.to_vec()).map_err(|e| format!("{name}, {known}: {e}"))?;
    }
    Ok(())
}

/// In words how far values are from others, if they are too far.
fn differ(expected: &[f32], came: &[f32]) -> Result<(), String> {
    let most = expected.iter().fold(0.0, |m: f64, v| m.max(f64::from(v.abs())));
    let is_far = |(_, (a, b)): &(usize, (&f32, &f32))| {
        let apart = f64::from((**a - **b).abs());
        apart.is_nan() || apart > TOLERANCE * most
    };
    let pairs = || came.iter().zip(expected).enumerate().filter(is_far);
    let (all, far) = (expected.len(), pairs().count());
    if came.len() == all && far <= all / JUMPS {
        return Ok(());
    }
    let first = pairs().next().map(|(k, (a, b))| format!("; number {k} is {a}, not {b}"));
    Err(format!("{far} of {all} values are wrong, the greatest is {most}{}", first.unwrap_or_default()))
}
