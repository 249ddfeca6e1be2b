//! Our side of the image pipelines: the applications of the examples, with their schedule for CPUs.

use super::pipeline_arrays::{Argument, Array, Elements, with_elements};
use super::pipeline_cases::Case;
use std::error::Error;
use std::time::Instant;
use sumsq::codegen::runtime::{Buffer, BufferError, Dimension, Pool, View};
use sumsq::codegen::{Schedule, Target};
use sumsq_examples::pipelines::{Algorithm, Application, Prepared};

/// A compiled application of ours.
pub struct Ours {
    prepared: Prepared,
    pool: Pool,
    /// Seconds that it took to compile: the median of [`COMPILED`] times.
    pub seconds: f64,
}

/// Times that it is compiled; as `kCompiled` in `peers/halide/pipelines/main.cc`.
const COMPILED: usize = 3;

/// Ours of this case, if there is one, under `schedule` or else its own for CPUs.
///
/// # Errors
/// Parameters or a schedule that do not fit the application.
pub fn ours(
    case: &Case,
    schedule: Option<&Schedule>,
    threads: usize,
) -> Result<Option<Ours>, Box<dyn Error>> {
    // resize_KERNEL_TYPE_WAY[_LAYOUT] is one application with parameters.
    let parts: Vec<&str> = case.name.split('_').collect();
    let (name, variant) = match parts[..] {
        ["resize", kernel, ty, way, ref layout @ ..] => {
            let ty = if ty == "f32" { "float" } else { "sample" };
            let layout = layout.first().copied().unwrap_or("planar");
            ("resize", vec![("kernel", kernel), ("type", ty), ("way", way), ("layout", layout)])
        }
        _ => (&case.name[..], vec![]),
    };
    let Some(application) = Application::find(name) else { return Ok(None) };
    let variant = variant.into_iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let known = |name: &str| application.parameters.iter().any(|p| p.name == name);
    let given = case.arguments.iter().filter_map(|argument| match argument {
        Argument::Whole(name, v) if known(name) => Some((name.to_string(), v.to_string())),
        Argument::Real(name, v) if known(name) => Some((name.to_string(), v.to_string())),
        _ => None,
    });
    let setup = application.setup(&given.chain(variant).collect::<Vec<_>>(), bits(case))?;
    let schedule = match schedule {
        Some(schedule) => schedule.clone(),
        None => application.schedule(application.by_hand(&Target::host(), &setup)).ok_or("no schedule")??,
    };
    let (mut all, mut times) = (vec![], vec![]);
    for _ in 0..COMPILED {
        let start = Instant::now();
        let algorithm = Algorithm::new(application, setup.clone());
        all.push(Prepared::new(algorithm, &schedule, &Target::host())?);
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (prepared, seconds) = (all.remove(0), times[COMPILED / 2]);
    Ok(Some(Ours { prepared, pool: Pool::new(threads), seconds }))
}

/// Bits that samples of the first input use.
fn bits(case: &Case) -> u32 {
    match (&case.name[..], &case.arguments.first()) {
        ("blur", _) => 12,
        ("camera_pipe", _) => 10,
        (_, Some(Argument::Input(Array { elements: Elements::U8(_), .. }))) => 8,
        _ => 16,
    }
}

impl Ours {
    /// Names of our outputs, in the order of the description.
    fn outputs(&self) -> impl Iterator<Item = &str> {
        self.prepared.compiled().signature().buffers.iter().filter(|b| b.written).map(|b| &*b.name)
    }

    /// Makes inputs as large as our vectors read them, for all sides: they round up where there is no boundary.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn grow(&self, arguments: &mut [Argument]) -> Result<(), Box<dyn Error>> {
        let mut domains = vec![];
        let mut outputs = self.outputs();
        for argument in arguments.iter() {
            match argument {
                Argument::Input(array) => domains.push((array.name, array.domain())),
                Argument::Output(array) => {
                    domains.push((outputs.next().unwrap_or(array.name), array.domain()))
                }
                Argument::Whole(..) | Argument::Real(..) => {}
            }
        }
        let domains: Vec<(&str, &[(i32, i32)])> = domains.iter().map(|(name, d)| (*name, &d[..])).collect();
        let required = self.prepared.compiled().required_regions_over(&domains, &self.prepared.params())?;
        for argument in arguments {
            if let Argument::Input(array) = argument
                && let Some(region) = required.get(array.name)
            {
                array.grow(region);
            }
        }
        Ok(())
    }

    /// Runs it on these arguments.
    ///
    /// # Errors
    /// What the engine refuses.
    pub fn run(&self, arguments: &mut [Argument]) -> Result<(), String> {
        self.try_run(arguments).map_err(|e| e.to_string())
    }

    fn try_run(&self, arguments: &mut [Argument]) -> Result<(), Box<dyn Error>> {
        let mut views = vec![];
        let mut outputs = self.outputs();
        for argument in arguments {
            match argument {
                Argument::Input(array) => views.push((array.name, view(array, false)?)),
                Argument::Output(array) => {
                    views.push((outputs.next().unwrap_or(array.name), view(array, true)?));
                }
                Argument::Whole(..) | Argument::Real(..) => {}
            }
        }
        let buffers: Vec<(&str, &Buffer)> = views.iter().map(|(name, view)| (*name, &**view)).collect();
        Ok(self.prepared.compiled().run(&self.pool, &buffers, &self.prepared.params())?)
    }
}

/// The array where it lies.
fn view(array: &mut Array, written: bool) -> Result<View<'_>, BufferError> {
    let domain = array.domain().into_iter().zip(array.strides());
    let dims: Vec<Dimension> = domain.map(|((min, n), stride)| Dimension::new(min, n, stride)).collect();
    with_elements!(&mut array.elements, v => if written { View::new(v, &dims) } else { View::reading(v, &dims) })
}
