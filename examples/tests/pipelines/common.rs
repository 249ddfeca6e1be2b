//! What all applications are tested by.

use sumsq::codegen::runtime::Pool;
use sumsq::codegen::{Schedule, Target};
use sumsq_examples::pipelines::{Application, Planar, Prepared, Values};

/// Values that look like noise, the same in every run: in `[0, below)`.
pub fn noise(count: usize, below: u32) -> impl Iterator<Item = u32> {
    let mut state = 0x2545_f491u32;
    (0..count).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 7) % below
    })
}

/// An input of u16 below a limit.
pub fn whole_input(extents: &[i32], below: u32) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    Planar { extents: extents.to_vec(), values: Values::U16(noise(n, below).map(|v| v as u16).collect()) }
}

/// An input of floats in [0, 1].
pub fn real_input(extents: &[i32]) -> Planar {
    let n = extents.iter().product::<i32>() as usize;
    Planar {
        extents: extents.to_vec(),
        values: Values::F32(noise(n, 4097).map(|v| v as f32 / 4096.0).collect()),
    }
}

/// The values as numbers, with the offset of coordinates clamped to the domain.
pub struct Plain {
    extents: Vec<i32>,
    values: Vec<f64>,
}

impl Plain {
    /// Of an input or output.
    pub fn of(planar: &Planar) -> Plain {
        let values = match &planar.values {
            Values::U8(v) => v.iter().map(|&v| v.into()).collect(),
            Values::U16(v) => v.iter().map(|&v| v.into()).collect(),
            Values::F32(v) => v.iter().map(|&v| v.into()).collect(),
            Values::F64(v) => v.clone(),
            Values::Int(v) => v.iter().map(|&v| v as f64).collect(),
        };
        Plain { extents: planar.extents.clone(), values }
    }

    /// The value at these coordinates, or the nearest one.
    pub fn at(&self, at: &[i32]) -> f64 {
        let mut offset = 0;
        for (&x, &n) in at.iter().zip(&self.extents).rev() {
            offset = offset * n as usize + x.clamp(0, n - 1) as usize;
        }
        self.values[offset]
    }

    /// All points of a domain, the first coordinate the fastest.
    pub fn points(extents: &[i32]) -> Vec<Vec<i32>> {
        let mut all = vec![vec![]];
        for &n in extents.iter().rev() {
            all = all
                .iter()
                .flat_map(|tail: &Vec<i32>| (0..n).map(|x| [&[x], tail.as_slice()].concat()))
                .collect();
        }
        // Built from the last coordinate on: sorted by it, and by those before it.
        all.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        all
    }
}

/// How far an output may be from what the loops say.
#[derive(Clone, Copy, Debug)]
pub enum Within {
    /// Not at all.
    Exactly,
    /// One, where floats are cut to integers.
    One,
    /// This share of the range of the expected values.
    Range(f64),
}

/// Runs an application, set up with `params`, under the empty schedule and every schedule of the CPU, by one thread and by three, and compares
/// the first output with `expected`, x the fastest.
pub fn check(
    name: &str,
    params: &[(&str, &str)],
    bits: u32,
    inputs: &[Planar],
    expected: &[f64],
    within: Within,
) {
    let application = Application::find(name).expect("the application is listed");
    let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let schedules =
        application.schedules.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("gpu"));
    for schedule in std::iter::once("").chain(schedules) {
        let setup = application.setup(&given, bits).expect("the parameters are taken");
        let text = match schedule {
            "" => Schedule::new(),
            known => application.schedule(known).expect("it is listed").expect("it is a schedule"),
        };
        let prepared = Prepared::new(application, setup, &text, &Target::host());
        let prepared = prepared.unwrap_or_else(|e| panic!("{name}, schedule `{schedule}`: {e}"));
        for threads in [1, 3] {
            let outputs = prepared.run(&Pool::new(threads), inputs);
            let outputs = outputs.unwrap_or_else(|e| panic!("{name}, schedule `{schedule}`: {e}"));
            let came = Plain::of(&outputs[0].1);
            compare(&format!("{name}, schedule `{schedule}`, {threads} threads"), &came, expected, within);
        }
    }
}

fn compare(what: &str, came: &Plain, expected: &[f64], within: Within) {
    assert_eq!(came.values.len(), expected.len(), "{what}: number of values");
    let least = expected.iter().copied().fold(f64::INFINITY, f64::min);
    let most = expected.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let tolerance = match within {
        Within::Exactly => 0.0,
        Within::One => 1.0,
        Within::Range(share) => share * (most - least),
    };
    for (i, (a, b)) in came.values.iter().zip(expected).enumerate() {
        let near = (a - b).abs() <= tolerance || a.is_nan() && b.is_nan();
        assert!(near, "{what}: value {i} of extents {:?} is {a}, expected {b}", came.extents);
    }
}

/// Assembles the schedules of a GPU, where `ptxas` is found, for an application set up so.
pub fn assembles(name: &str, params: &[(&str, &str)]) {
    use sumsq::codegen::{compile, ptxas};
    let application = Application::find(name).expect("the application is listed");
    let given: Vec<(String, String)> = params.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let setup = application.setup(&given, 8).expect("the parameters are taken");
    let schedule = application.schedule("gpu").expect("a schedule of a GPU").expect("it is a schedule");
    let pipeline = (application.build)(&setup);
    let ptx = compile::ptx(&pipeline, &schedule, &Target::cuda(80)).expect("it is compiled");
    let kernels = ptxas::assemble(&ptx, 80).expect("ptxas is installed by `cargo xtask setup`");
    assert!(!kernels.is_empty());
}
