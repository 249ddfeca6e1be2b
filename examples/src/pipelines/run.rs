//! An application made ready, and run on pictures and arrays.

use super::algorithm::Algorithm;
use super::application::Planes;
use super::gradient::GradientError;
use super::pictures::PictureError;
use sumsq::codegen::compile::{Compiled, Signature};
use sumsq::codegen::lower::{LowerOptions, lower};
use sumsq::codegen::runtime::{Buffer, BufferError, BufferSpec, Element, Pool, Scalar, profile};
use sumsq::codegen::{Error, Layout, Limits, ScalarType, Schedule, Target};
use sumsq::{ArrayData, NamedArray};

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

/// Values of an input or output: dense in memory, the first dimension the fastest.
#[derive(Clone, PartialEq, Debug)]
pub struct Planar {
    /// Number of coordinates of each dimension, from 0 on.
    pub extents: Vec<i32>,
    /// The values.
    pub values: Values,
}

/// Values as they came, or are handed out.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
}

/// Calls `$run` with the values as a slice of their type.
macro_rules! with_values {
    ($values:expr, $v:ident => $run:expr) => {
        match $values {
            Values::U8($v) => $run,
            Values::U16($v) => $run,
            Values::F32($v) => $run,
            Values::F64($v) => $run,
            Values::Int($v) => $run,
        }
    };
}

impl Values {
    fn extend(&mut self, more: Values) {
        match (self, more) {
            (Values::U8(a), Values::U8(b)) => a.extend(b),
            (Values::U16(a), Values::U16(b)) => a.extend(b),
            (Values::F32(a), Values::F32(b)) => a.extend(b),
            (Values::F64(a), Values::F64(b)) => a.extend(b),
            (Values::Int(a), Values::Int(b)) => a.extend(b),
            // All planes of an output have one type.
            _ => {}
        }
    }

    /// Adds floats to floats.
    fn add(&mut self, more: &Values) {
        match (self, more) {
            (Values::F32(a), Values::F32(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (Values::F64(a), Values::F64(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            // Slopes are floats of one type.
            _ => {}
        }
    }

    /// Bits of the samples of pictures that have such values.
    pub fn bits(&self) -> u32 {
        if matches!(self, Values::U8(_)) { 8 } else { 16 }
    }
}

impl Planar {
    /// Plane `c` of the third dimension, or the last one.
    fn plane(&self, c: usize) -> Planar {
        let extents: Vec<i32> = self.extents.iter().copied().take(2).collect();
        let n = extents.iter().map(|&n| n.max(0) as usize).product::<usize>();
        let of = with_values!(&self.values, v => v.len().checked_div(n).unwrap_or(1).saturating_sub(1));
        let part = c.min(of) * n..(c.min(of) + 1) * n;
        let values = match &self.values {
            Values::U8(v) => Values::U8(v[part].to_vec()),
            Values::U16(v) => Values::U16(v[part].to_vec()),
            Values::F32(v) => Values::F32(v[part].to_vec()),
            Values::F64(v) => Values::F64(v[part].to_vec()),
            Values::Int(v) => Values::Int(v[part].to_vec()),
        };
        Planar { extents, values }
    }

    /// The values of a buffer.
    fn of(buffer: &Buffer) -> Planar {
        let spec = buffer.spec();
        let values = match spec.ty {
            ScalarType::U8 => Values::U8(buffer.to_vec()),
            ScalarType::U16 => Values::U16(buffer.to_vec()),
            ScalarType::F32 => Values::F32(buffer.to_vec()),
            ScalarType::F64 | ScalarType::F16 => Values::F64(buffer.to_vec()),
            _ => Values::Int(buffer.to_vec()),
        };
        Planar { extents: spec.extents.clone(), values }
    }

    /// Slopes over the domain of `spec` as those of an input of these extents, whose edge was repeated.
    fn folded(self, extents: &[i32], spec: &BufferSpec) -> Planar {
        let domain: Vec<(i32, i32)> = spec.min.iter().copied().zip(self.extents.iter().copied()).collect();
        let values = match self.values {
            Values::F32(v) => Values::F32(folded(&v, extents, &domain)),
            Values::F64(v) => Values::F64(folded(&v, extents, &domain)),
            // Slopes are floats.
            values => values,
        };
        Planar { extents: extents.to_vec(), values }
    }

    /// An array by its shape: the last axis the fastest; of a picture the channels, which come last, the slowest.
    ///
    /// # Errors
    /// An array on a device.
    pub fn of_array(array: &NamedArray, picture: bool) -> Result<Planar, PipelineError> {
        let values = match &array.data {
            ArrayData::F32(v) => Values::F32(v.clone()),
            ArrayData::F64(v) => Values::F64(v.clone()),
            ArrayData::Bytes(v) => Values::U8(v.clone()),
            ArrayData::Int(v, _) => Values::Int(v.clone()),
            ArrayData::Bool(v) => Values::U8(v.iter().map(|&b| u8::from(b)).collect()),
            ArrayData::Device(_) => {
                return Err(PipelineError::Given("arrays on a device are not taken".into()));
            }
        };
        let mut extents: Vec<i32> =
            array.shape.iter().rev().map(|&n| i32::try_from(n).unwrap_or(i32::MAX)).collect();
        if !picture || extents.len() != 3 {
            return Ok(Planar { extents, values });
        }
        let channels = extents.remove(0) as usize;
        extents.push(channels as i32);
        let values = match values {
            Values::U8(v) => Values::U8(apart(&v, channels)),
            Values::U16(v) => Values::U16(apart(&v, channels)),
            Values::F32(v) => Values::F32(apart(&v, channels)),
            Values::F64(v) => Values::F64(apart(&v, channels)),
            Values::Int(v) => Values::Int(apart(&v, channels)),
        };
        Ok(Planar { extents, values })
    }

    /// The array of this name that it is, of a picture H x W x C.
    pub fn into_array(self, name: &str, picture: bool) -> NamedArray {
        let shape = shape(&self.extents, picture);
        let mut values = self.values;
        if picture && shape.len() == 3 {
            let pixels = shape[..2].iter().product::<usize>();
            // Planes taken apart into as many pieces as there are pixels: pixel after pixel.
            values = match values {
                Values::U8(v) => Values::U8(apart(&v, pixels)),
                Values::U16(v) => Values::U16(apart(&v, pixels)),
                Values::F32(v) => Values::F32(apart(&v, pixels)),
                Values::F64(v) => Values::F64(apart(&v, pixels)),
                Values::Int(v) => Values::Int(apart(&v, pixels)),
            };
        }
        let data = match values {
            Values::U8(v) => ArrayData::Bytes(v),
            Values::U16(v) => ArrayData::Int(v.into_iter().map(i64::from).collect(), "uint16"),
            Values::F32(v) => ArrayData::F32(v),
            Values::F64(v) => ArrayData::F64(v),
            Values::Int(v) => ArrayData::Int(v, "int64"),
        };
        NamedArray { name: name.to_string(), shape, data }
    }

    /// As a buffer of type `ty` over `domain`, `(min, extent)` per dimension; beyond its own ends the nearest values.
    fn buffer(&self, ty: ScalarType, domain: &[(i32, i32)]) -> Result<Buffer, PipelineError> {
        let (min, extents): (Vec<i32>, Vec<i32>) = domain.iter().copied().unzip();
        let spec = BufferSpec::new(ty, &extents).layout(Layout::Strided).starting_at(&min);
        let buffer = Buffer::new(spec)?;
        with_values!(&self.values, v => if min.iter().all(|&m| m == 0) && extents == self.extents {
            buffer.copy_from(v)?;
        } else {
            buffer.copy_from(&continued(v, &self.extents, domain))?;
        });
        Ok(buffer)
    }
}

/// The shape of an array of these extents: the last axis the fastest; of a picture H x W x C.
pub(super) fn shape(extents: &[i32], picture: bool) -> Vec<usize> {
    let mut shape: Vec<usize> = extents.iter().rev().map(|&n| n.max(0) as usize).collect();
    if picture && shape.len() == 3 {
        shape.rotate_left(1);
    }
    shape
}

/// Each `count`-th value, then each one after those, and so on: a transpose.
fn apart<T: Copy>(values: &[T], count: usize) -> Vec<T> {
    (0..count).flat_map(|c| values.iter().skip(c).step_by(count.max(1)).copied()).collect()
}

/// Values over a larger domain: outside of their own the nearest.
fn continued<T: Element>(values: &[T], extents: &[i32], domain: &[(i32, i32)]) -> Vec<T> {
    places(extents, domain).into_iter().map(|o| values[o]).collect()
}

/// For each point of a larger domain the place of the nearest one of `extents`.
fn places(extents: &[i32], domain: &[(i32, i32)]) -> Vec<usize> {
    let mut offsets = vec![0usize];
    let mut stride = 1;
    // From the first dimension to the last: the offsets of all points of the dimensions so far.
    for (&n, &(min, extent)) in extents.iter().zip(domain) {
        let place = |x: i32| x.clamp(0, (n - 1).max(0)) as usize * stride;
        offsets = (min..min + extent).flat_map(|x| offsets.iter().map(move |o| o + place(x))).collect();
        stride *= n.max(0) as usize;
    }
    offsets
}

/// The transpose of [`continued`]: values over `domain` onto those of `extents`, each beyond an end added to the nearest.
fn folded<T: Copy + std::ops::AddAssign + Default>(
    values: &[T],
    extents: &[i32],
    domain: &[(i32, i32)],
) -> Vec<T> {
    let mut sums = vec![T::default(); extents.iter().map(|&n| n.max(0) as usize).product()];
    for (&v, to) in values.iter().zip(places(extents, domain)) {
        sums[to] += v;
    }
    sums
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
    /// Inputs of the wrong rank; sizes for which there is no output.
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
            all.push((name.to_string(), input.buffer(ty.unwrap_or(ScalarType::F32), domain)?));
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

    /// Runs on these inputs, in the order of the slots and then of the weights; the outputs by name, then `d.` and the name of each input and
    /// parameter that there is a slope by. Where the application takes planes, it runs for each plane of inputs that have one dimension more.
    ///
    /// # Errors
    /// As of [`Prepared::buffers`], and what the engine refuses.
    pub fn run(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        if !self.algorithm.runs_by_planes(inputs) {
            return self.run_once(pool, inputs);
        }
        let planes = inputs.iter().map(|input| input.extents.get(2).copied().unwrap_or(1)).max().unwrap_or(1);
        let mut all: Vec<(String, Planar)> = vec![];
        for c in 0..planes {
            let inputs: Vec<Planar> = inputs.iter().map(|input| input.plane(c as usize)).collect();
            for (k, (name, plane)) in self.run_once(pool, &inputs)?.into_iter().enumerate() {
                match all.get_mut(k) {
                    // All planes have the same parameters.
                    Some((_, sum)) if plane.extents.is_empty() => sum.values.add(&plane.values),
                    Some((_, whole)) => whole.values.extend(plane.values),
                    None => all.push((name, plane)),
                }
            }
        }
        let planar = all.iter_mut().filter(|(_, output)| !output.extents.is_empty());
        planar.for_each(|(_, output)| output.extents.push(planes));
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
