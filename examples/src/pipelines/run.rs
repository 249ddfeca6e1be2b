//! An application made ready, and run on pictures and arrays.

use super::algorithm::Algorithm;
use super::application::Planes;
use super::gradient::GradientError;
use super::pictures::PictureError;
use super::planar::Planar;
use sumsq::codegen::compile::{Compiled, Signature};
use sumsq::codegen::lower::{LowerOptions, lower};
use sumsq::codegen::runtime::{Buffer, BufferError, BufferSpec, Pool, Scalar, profile};
use sumsq::codegen::{Error, Layout, Limits, ScalarType, Schedule, Target};

/// Reasons why an application does not run.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The schedule, the machine or the buffers do not fit the algorithm.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A buffer cannot be made.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// A picture cannot be taken or made.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// The application has no gradient.
    #[error(transparent)]
    Gradient(#[from] GradientError),
    /// Something was given that the application does not take: in words.
    #[error("{0}")]
    Given(String),
}

/// Code of an algorithm, lowered as the options say; no cache is asked.
fn compiled(
    algorithm: &Algorithm,
    schedule: &Schedule,
    target: &Target,
    options: &LowerOptions,
) -> Result<Compiled, Error> {
    let lowered = lower(&algorithm.pipeline, schedule, options)?;
    let signature = Signature::of(&algorithm.pipeline, schedule)?;
    Compiled::from_lowered_within(&lowered, signature, target, &options.limits)
}

/// An application compiled for a machine.
pub struct Prepared {
    /// Its algorithm.
    pub algorithm: Algorithm,
    compiled: Compiled,
    is_profiled: bool,
}

impl Prepared {
    /// Compiles an algorithm under a schedule.
    ///
    /// # Errors
    /// A schedule that the algorithm or the machine refuses.
    pub fn new(
        algorithm: Algorithm,
        schedule: &Schedule,
        target: &Target,
    ) -> Result<Prepared, PipelineError> {
        let compiled = Compiled::new(&algorithm.pipeline, schedule, target)?;
        Ok(Prepared { algorithm, compiled, is_profiled: false })
    }

    /// As [`Prepared::new`], within limits of what compiling takes; no cache is asked.
    ///
    /// # Errors
    /// As of [`Prepared::new`]; what exceeds the limits.
    pub fn within(
        algorithm: Algorithm,
        schedule: &Schedule,
        target: &Target,
        limits: Limits,
    ) -> Result<Prepared, PipelineError> {
        let options = LowerOptions { limits, ..LowerOptions::default() };
        let compiled = compiled(&algorithm, schedule, target, &options)?;
        Ok(Prepared { algorithm, compiled, is_profiled: false })
    }

    /// The same with code that counts which Func takes how much time and memory ([`sumsq::codegen::runtime::profile`]).
    ///
    /// # Errors
    /// As of [`Prepared::new`].
    pub fn profiled(self, schedule: &Schedule, target: &Target) -> Result<Prepared, PipelineError> {
        let options = LowerOptions { profile: true, ..LowerOptions::default() };
        let compiled = compiled(&self.algorithm, schedule, target, &options)?;
        Ok(Prepared { compiled, is_profiled: true, ..self })
    }

    /// The code.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The parameters that are bound when it runs.
    pub fn params(&self) -> Vec<(&str, Scalar)> {
        let params = self.compiled.signature().params.iter();
        params.map(|(name, &ty)| (&**name, scalar(ty, self.algorithm.setup.real(name)))).collect()
    }

    /// The inputs in the order of the slots and then of the weights, as buffers over what the pipeline reads, and zeroed outputs: each with
    /// its name. What lies beyond a picture is its edge, repeated.
    ///
    /// # Errors
    /// Inputs of the wrong rank, or with values that the pipeline's types do not have; sizes for which there is no output.
    pub fn buffers(&self, inputs: &[Planar]) -> Result<Vec<(String, Buffer)>, PipelineError> {
        let slots = self.algorithm.application.slots;
        let extents = self.algorithm.extents(inputs)?;
        let whole = |n: &[i32]| n.iter().map(|&n| (0, n)).collect::<Vec<(i32, i32)>>();
        let gradient = self.algorithm.gradient.as_ref();
        let weights = gradient.iter().flat_map(|g| g.weights.iter().map(|w| &*w.input));
        let names = slots.iter().map(|slot| slot.name).chain(weights);
        let mut given: Vec<(&str, Vec<(i32, i32)>)> =
            names.zip(inputs).map(|(name, input)| (name, whole(&input.extents))).collect();
        let outputs = self.outputs();
        let domain_of = |given: &[(&str, Vec<(i32, i32)>)], name: &str| {
            let Some(slope) = gradient.and_then(|g| g.slope(name)) else { return whole(&extents) };
            given.iter().find(|(input, _)| *input == &*slope.of).map_or_else(Vec::new, |(_, d)| d.clone())
        };
        let asked = outputs.iter().map(|(name, _)| (name.as_str(), domain_of(&given, name)));
        let domains: Vec<(&str, Vec<(i32, i32)>)> = given.iter().cloned().chain(asked).collect();
        let borrowed: Vec<(&str, &[(i32, i32)])> = domains.iter().map(|(n, d)| (*n, d.as_slice())).collect();
        let required = self.compiled.required_regions_over(&borrowed, &self.params())?;
        for (slot, (_, domain)) in slots.iter().zip(&mut given) {
            if let Some(region) = required.get(slot.name).filter(|_| slot.planes != Planes::Array) {
                grow(domain, region);
            }
        }
        let mut all = vec![];
        for ((name, domain), input) in given.iter().zip(inputs) {
            let ty = self.algorithm.pipeline.inputs.get(*name).and_then(|i| i.types.first().copied());
            all.push((name.to_string(), input.buffer(name, ty.unwrap_or(ScalarType::F32), domain)?));
        }
        for (name, ty) in outputs {
            let (min, extents): (Vec<i32>, Vec<i32>) = domain_of(&given, &name).into_iter().unzip();
            let spec = BufferSpec::new(ty, &extents).layout(Layout::Strided).starting_at(&min);
            all.push((name, Buffer::new(spec)?));
        }
        Ok(all)
    }

    /// Names and types of the outputs.
    fn outputs(&self) -> Vec<(String, ScalarType)> {
        let written = self.compiled.signature().buffers.iter().filter(|b| b.written);
        written.map(|b| (b.name.to_string(), b.ty)).collect()
    }

    /// The inputs of each run that these are for: of one, or where the application takes planes of one for each plane of inputs that have one
    /// dimension more.
    pub fn runs(&self, inputs: &[Planar]) -> Vec<Vec<Planar>> {
        let Some(planes) = self.algorithm.planes(inputs) else { return vec![inputs.to_vec()] };
        (0..planes as usize).map(|c| inputs.iter().map(|input| input.plane(c)).collect()).collect()
    }

    /// Runs on these inputs ([`Prepared::runs`]), in the order of the slots and then of the weights; the outputs by name, then `d.` and the name of
    /// each input and parameter that there is a slope by.
    ///
    /// # Errors
    /// As of [`Prepared::buffers`], and what the engine refuses.
    pub fn run(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        if self.algorithm.planes(inputs).is_none() {
            return self.run_once(pool, inputs);
        }
        let (runs, mut all) = (self.runs(inputs), Vec::<(String, Planar)>::new());
        for inputs in &runs {
            for (k, (name, plane)) in self.run_once(pool, inputs)?.into_iter().enumerate() {
                match all.get_mut(k) {
                    // All planes have the same parameters.
                    Some((_, sum)) if plane.extents.is_empty() => sum.values.add(&plane.values),
                    Some((_, whole)) => whole.values.extend(plane.values),
                    None => all.push((name, plane)),
                }
            }
        }
        let planar = all.iter_mut().filter(|(_, output)| !output.extents.is_empty());
        planar.for_each(|(_, output)| output.extents.push(runs.len() as i32));
        Ok(all)
    }

    fn run_once(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        let buffers = self.buffers(inputs)?;
        let bound: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
        let run = || self.compiled.run(pool, &bound, &self.params());
        // Counted is a second run, when the memory has been touched; what it leaves is not looked at.
        if self.is_profiled {
            profile::uncounted(run)?
        } else {
            run()?
        }
        let (slots, gradient) = (self.algorithm.application.slots, self.algorithm.gradient.as_ref());
        let outputs = buffers[inputs.len()..].iter().map(|(name, buffer)| {
            let Some(slope) = gradient.and_then(|g| g.slope(name)) else {
                return (name.clone(), Planar::of(buffer));
            };
            let of = slots.iter().zip(inputs).find(|(slot, _)| slot.name == &*slope.of);
            let extents = of.map_or(vec![], |(_, input)| input.extents.clone());
            (format!("d.{}", slope.of), Planar::of(buffer).folded(&extents, buffer.spec()))
        });
        let outputs = outputs.collect();
        if self.is_profiled {
            run()?;
        }
        Ok(outputs)
    }
}

/// A number as a scalar of type `ty`: integers are truncated and saturated.
fn scalar(ty: ScalarType, v: f64) -> Scalar {
    match ty {
        ScalarType::Bool => Scalar::Bool(v != 0.0),
        ScalarType::I8 => Scalar::I8(v as i8),
        ScalarType::I16 => Scalar::I16(v as i16),
        ScalarType::I32 => Scalar::I32(v as i32),
        ScalarType::I64 => Scalar::I64(v as i64),
        ScalarType::U8 => Scalar::U8(v as u8),
        ScalarType::U16 => Scalar::U16(v as u16),
        ScalarType::U32 => Scalar::U32(v as u32),
        ScalarType::U64 => Scalar::U64(v as u64),
        ScalarType::F16 | ScalarType::F32 => Scalar::F32(v as f32),
        ScalarType::F64 => Scalar::F64(v),
    }
}

/// Makes a domain hold a region, given by its first and last coordinates, too.
fn grow(domain: &mut [(i32, i32)], region: &[(i64, i64)]) {
    for ((min, extent), &(first, last)) in domain.iter_mut().zip(region) {
        let end = (*min + *extent).max(i32::try_from(last + 1).unwrap_or(i32::MAX));
        *min = (*min).min(i32::try_from(first).unwrap_or(i32::MIN));
        *extent = end.saturating_sub(*min);
    }
}
