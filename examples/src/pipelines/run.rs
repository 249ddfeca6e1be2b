//! An application made ready, and run on pictures and arrays.

use super::application::{Application, Planes, Slot};
use super::pictures::{Picture, PictureError};
use super::setup::Setup;
use sumsq::codegen::compile::{Compiled, Signature};
use sumsq::codegen::lower::{LowerOptions, lower};
use sumsq::codegen::runtime::{Buffer, BufferError, BufferSpec, Element, Pool, Scalar};
use sumsq::codegen::{Error, Layout, Pipeline, ScalarType, Schedule, Target};
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
        let mut shape: Vec<usize> = self.extents.iter().rev().map(|&n| n.max(0) as usize).collect();
        let mut values = self.values;
        if picture && shape.len() == 3 {
            let channels = shape.remove(0);
            let pixels = shape.iter().product::<usize>();
            shape.push(channels);
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

/// Each `count`-th value, then each one after those, and so on: a transpose.
fn apart<T: Copy>(values: &[T], count: usize) -> Vec<T> {
    (0..count).flat_map(|c| values.iter().skip(c).step_by(count.max(1)).copied()).collect()
}

/// Values over a larger domain: outside of their own the nearest.
fn continued<T: Element>(values: &[T], extents: &[i32], domain: &[(i32, i32)]) -> Vec<T> {
    let mut offsets = vec![0usize];
    let mut stride = 1;
    // From the first dimension to the last: the offsets of all points of the dimensions so far.
    for (&n, &(min, extent)) in extents.iter().zip(domain) {
        let place = |x: i32| x.clamp(0, (n - 1).max(0)) as usize * stride;
        offsets = (min..min + extent).flat_map(|x| offsets.iter().map(move |o| o + place(x))).collect();
        stride *= n.max(0) as usize;
    }
    offsets.into_iter().map(|o| values[o]).collect()
}

/// An application compiled for a machine.
pub struct Prepared {
    /// The application.
    pub application: &'static Application,
    /// Its parameters and the depth of its pictures.
    pub setup: Setup,
    /// Its algorithm.
    pub pipeline: Pipeline,
    compiled: Compiled,
}

impl Prepared {
    /// Compiles it under a schedule.
    ///
    /// # Errors
    /// A schedule that the algorithm or the machine refuses.
    pub fn new(
        application: &'static Application,
        setup: Setup,
        schedule: &Schedule,
        target: &Target,
    ) -> Result<Prepared, PipelineError> {
        let pipeline = (application.build)(&setup);
        let compiled = Compiled::new(&pipeline, schedule, target)?;
        Ok(Prepared { application, setup, pipeline, compiled })
    }

    /// The same with code that counts which Func takes how much time and memory ([`sumsq::codegen::runtime::profile`]).
    ///
    /// # Errors
    /// As of [`Prepared::new`].
    pub fn profiled(self, schedule: &Schedule, target: &Target) -> Result<Prepared, PipelineError> {
        let options = LowerOptions { profile: true, ..LowerOptions::default() };
        let lowered = lower(&self.pipeline, schedule, &options)?;
        let signature = Signature::of(&self.pipeline, schedule)?;
        Ok(Prepared { compiled: Compiled::from_lowered(&lowered, signature, target)?, ..self })
    }

    /// The code.
    pub fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The parameters that are bound when it runs.
    pub fn params(&self) -> Vec<(&str, Scalar)> {
        let params = self.compiled.signature().params.iter();
        params.map(|(name, &ty)| (&**name, scalar(ty, self.setup.real(name)))).collect()
    }

    /// The inputs in the order of the slots, as buffers over what the pipeline reads, and zeroed outputs: each with its name. What lies
    /// beyond a picture is its edge, repeated.
    ///
    /// # Errors
    /// Inputs of the wrong rank; sizes for which there is no output.
    pub fn buffers(&self, inputs: &[Planar]) -> Result<Vec<(String, Buffer)>, PipelineError> {
        let slots = self.application.slots;
        for (slot, input) in slots.iter().zip(inputs) {
            self.check_rank(slot, input)?;
        }
        let sizes: Vec<Vec<i32>> = inputs.iter().map(|input| input.extents.clone()).collect();
        let extents = (self.application.extents)(&self.setup, &sizes).map_err(PipelineError::Given)?;
        let whole = |n: &[i32]| n.iter().map(|&n| (0, n)).collect::<Vec<(i32, i32)>>();
        let outputs: Vec<(String, ScalarType)> = self.outputs();
        let over = slots.iter().map(|s| s.name).zip(sizes.iter().map(|n| whole(n)));
        let over = over.chain(outputs.iter().map(|(name, _)| (name.as_str(), whole(&extents))));
        let domains: Vec<(&str, Vec<(i32, i32)>)> = over.collect();
        let borrowed: Vec<(&str, &[(i32, i32)])> = domains.iter().map(|(n, d)| (*n, d.as_slice())).collect();
        let required = self.compiled.required_regions_over(&borrowed, &self.params())?;
        let mut all = vec![];
        for (slot, input) in slots.iter().zip(inputs) {
            let mut domain = whole(&input.extents);
            if let Some(region) = required.get(slot.name).filter(|_| slot.planes != Planes::Array) {
                grow(&mut domain, region);
            }
            let ty = self.pipeline.inputs.get(slot.name).and_then(|i| i.types.first().copied());
            all.push((slot.name.to_string(), input.buffer(ty.unwrap_or(ScalarType::F32), &domain)?));
        }
        for (name, ty) in outputs {
            let spec = BufferSpec::new(ty, &extents).layout(Layout::Strided);
            all.push((name, Buffer::new(spec)?));
        }
        Ok(all)
    }

    fn check_rank(&self, slot: &Slot, input: &Planar) -> Result<(), PipelineError> {
        let dims = self.pipeline.inputs.get(slot.name).map_or(0, |i| i.dims);
        if input.extents.len() == dims {
            return Ok(());
        }
        let came = input.extents.len();
        Err(PipelineError::Given(format!("{}: expected {dims} dimensions, came {came}", slot.name)))
    }

    /// Names and types of the outputs.
    fn outputs(&self) -> Vec<(String, ScalarType)> {
        let written = self.compiled.signature().buffers.iter().filter(|b| b.written);
        written.map(|b| (b.name.to_string(), b.ty)).collect()
    }

    /// Runs on these inputs, in the order of the slots; the outputs by name. Where the application takes planes, it runs for each plane
    /// of inputs that have one dimension more.
    ///
    /// # Errors
    /// As of [`Prepared::buffers`], and what the engine refuses.
    pub fn run(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        let each = self.application.slots.first().is_some_and(|slot| slot.planes == Planes::Each);
        let planes = inputs.iter().map(|input| input.extents.get(2).copied().unwrap_or(1)).max().unwrap_or(1);
        if !each || !inputs.iter().any(|input| input.extents.len() == 3) {
            return self.run_once(pool, inputs);
        }
        let mut all: Vec<(String, Planar)> = vec![];
        for c in 0..planes {
            let inputs: Vec<Planar> = inputs.iter().map(|input| input.plane(c as usize)).collect();
            for (k, (name, plane)) in self.run_once(pool, &inputs)?.into_iter().enumerate() {
                match all.get_mut(k) {
                    Some((_, whole)) => whole.values.extend(plane.values),
                    None => all.push((name, plane)),
                }
            }
        }
        all.iter_mut().for_each(|(_, output)| output.extents.push(planes));
        Ok(all)
    }

    fn run_once(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        let buffers = self.buffers(inputs)?;
        let bound: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
        self.compiled.run(pool, &bound, &self.params())?;
        let outputs = &buffers[inputs.len()..];
        Ok(outputs.iter().map(|(name, b)| (name.clone(), Planar::of(b))).collect())
    }

    /// A picture as the input of a slot: the file's values for integers, 0 to 1 for floats.
    ///
    /// # Errors
    /// A picture for a slot of arrays; one whose samples the application does not hold.
    pub fn taken(&self, slot: &Slot, picture: &Picture) -> Result<Planar, PipelineError> {
        let name = self.application.name;
        if slot.planes == Planes::Array {
            let text = format!("{name}: {} is no picture: give it with --inputs", slot.name);
            return Err(PipelineError::Given(text));
        }
        if slot.planes == Planes::One && picture.channels > 1 {
            let text = format!(
                "{name}: {} is one plane, and the picture has {} channels",
                slot.name, picture.channels
            );
            return Err(PipelineError::Given(text));
        }
        let input = self.pipeline.inputs.get(slot.name);
        let ty = input.and_then(|i| i.types.first()).copied().unwrap_or(ScalarType::F32);
        if ty == ScalarType::U8 && picture.bits > 8 {
            let text = format!("{name} takes pictures of 8 bits a sample, and this one has {}", picture.bits);
            return Err(PipelineError::Given(text));
        }
        let samples = samples(picture, slot.planes);
        let count = samples.len() / (picture.width * picture.height);
        let values = match ty.is_float() {
            true => {
                let white = f32::from(picture.white());
                Values::F32(samples.into_iter().map(|v| f32::from(v) / white).collect())
            }
            false => Values::U16(samples),
        };
        let mut extents = vec![picture.width as i32, picture.height as i32];
        if count > 1 || input.is_some_and(|i| i.dims > 2) {
            extents.push(count as i32);
        }
        Ok(Planar { extents, values })
    }

    /// The first output as a picture with the depth of the one that it was made of, its kind of channels, and its transparency where that is no
    /// channel of the output.
    ///
    /// # Errors
    /// An output that is no picture.
    pub fn shown(
        &self,
        outputs: &[(String, Planar)],
        of: Option<&Picture>,
    ) -> Result<Picture, PipelineError> {
        let no_picture =
            || PipelineError::Given("the output is no picture: write it to an .npz file".to_string());
        let (_, output) = outputs.first().ok_or_else(no_picture)?;
        let (bits, samples): (u32, Vec<u16>) = match &output.values {
            Values::U8(v) => (8, v.iter().map(|&v| v.into()).collect()),
            Values::U16(v) => (of.map_or(16, |p| p.bits), v.clone()),
            Values::F32(v) => {
                let bits = of.map_or(8, |p| p.bits);
                let white = ((1u32 << bits) - 1) as f32;
                (bits, v.iter().map(|v| (v.clamp(0.0, 1.0) * white).round() as u16).collect())
            }
            _ => return Err(no_picture()),
        };
        let extent = |d: usize| output.extents.get(d).map_or(1, |&n| n.max(0) as usize);
        if output.extents.len() > 3 || extent(2) > 4 {
            return Err(no_picture());
        }
        let made = Picture { width: extent(0), height: extent(1), channels: extent(2), bits, samples };
        let colour = self.application.slots.first().is_some_and(|slot| slot.planes == Planes::Colour);
        Ok(match of {
            Some(of) if colour => like(made, of),
            _ => made,
        })
    }
}

/// The samples that an input of such planes takes of a picture.
fn samples(picture: &Picture, planes: Planes) -> Vec<u16> {
    let gray = picture.channels < 3;
    let colours = || (0..3).flat_map(|c| picture.plane(if gray { 0 } else { c }).iter().copied());
    match planes {
        Planes::Colour => colours().collect(),
        Planes::Transparent if picture.channels.is_multiple_of(2) => {
            colours().chain(picture.plane(picture.channels - 1).iter().copied()).collect()
        }
        Planes::Transparent => {
            let opaque = std::iter::repeat_n(picture.white(), picture.width * picture.height);
            colours().chain(opaque).collect()
        }
        Planes::Each | Planes::One | Planes::All | Planes::Array => picture.samples.clone(),
    }
}

/// A picture of three colours with the channels of the one that it was made of: gray again, and as transparent.
fn like(mut made: Picture, of: &Picture) -> Picture {
    if made.channels != 3 {
        return made;
    }
    if of.channels < 3 {
        made.samples.truncate(made.width * made.height);
        made.channels = 1;
    }
    let same = (made.width, made.height, made.bits) == (of.width, of.height, of.bits);
    if same && of.channels.is_multiple_of(2) {
        made.samples.extend(of.plane(of.channels - 1));
        made.channels += 1;
    }
    made
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
