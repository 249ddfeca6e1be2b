//! An application made ready, and run on pictures and arrays.

use super::application::{Application, Planes, Slot};
use super::pictures::{Picture, PictureError};
use super::setup::Setup;
use sumsq::codegen::compile::Compiled;
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
    /// What was given is not what the application takes: in words.
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

impl Planar {
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
    fn of_array(array: &NamedArray, picture: bool) -> Result<Planar, PipelineError> {
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
    /// What it was set up for.
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

    /// Runs once on these inputs, in the order of the slots; the outputs by name.
    ///
    /// # Errors
    /// As of [`Prepared::buffers`], and what the engine refuses.
    pub fn run(&self, pool: &Pool, inputs: &[Planar]) -> Result<Vec<(String, Planar)>, PipelineError> {
        let buffers = self.buffers(inputs)?;
        let bound: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
        self.compiled.run(pool, &bound, &self.params())?;
        let outputs = &buffers[inputs.len()..];
        Ok(outputs.iter().map(|(name, b)| (name.clone(), Planar::of(b))).collect())
    }

    /// The input of a slot that an array is.
    ///
    /// # Errors
    /// An array on a device.
    pub fn array(&self, slot: &Slot, array: &NamedArray) -> Result<Planar, PipelineError> {
        Planar::of_array(array, slot.planes != Planes::Array)
    }

    /// Runs on pictures, one per slot in their order: each plane by itself where the application says so.
    ///
    /// # Errors
    /// As of [`Prepared::run`]; too few or too many pictures; one whose samples the application does not hold.
    pub fn run_on_pictures(&self, pool: &Pool, pictures: &[Picture]) -> Result<Picture, PipelineError> {
        let slots = self.application.slots;
        self.check_pictures(pictures)?;
        let first = &pictures[0];
        if slots[0].planes == Planes::Each {
            let planes = (0..first.channels).map(|c| {
                let inputs: Result<Vec<Planar>, _> = pictures
                    .iter()
                    .map(|p| self.planes(p, &slots[0], c.min(p.channels - 1)..c.min(p.channels - 1) + 1))
                    .collect();
                let outputs = self.run(pool, &inputs?)?;
                self.picture(&outputs, first)
            });
            return joined(planes.collect::<Result<Vec<Picture>, _>>()?);
        }
        let inputs: Result<Vec<Planar>, _> =
            slots.iter().zip(pictures).map(|(slot, p)| self.planes(p, slot, 0..p.channels)).collect();
        let made = self.picture(&self.run(pool, &inputs?)?, first)?;
        Ok(match slots[0].planes {
            Planes::Colour => like(made, first),
            _ => made,
        })
    }

    fn check_pictures(&self, pictures: &[Picture]) -> Result<(), PipelineError> {
        let slots = self.application.slots;
        let given = |text: String| Err(PipelineError::Given(text));
        if let Some(slot) = slots.iter().find(|s| s.planes == Planes::Array) {
            return given(format!(
                "{} takes arrays: give {} with --inputs",
                self.application.name, slot.name
            ));
        }
        if slots.len() != pictures.len() {
            let (n, came) = (slots.len(), pictures.len());
            return given(format!("{} takes {n} pictures, came {came}", self.application.name));
        }
        for (slot, picture) in slots.iter().zip(pictures) {
            let ty = self.pipeline.inputs.get(slot.name).and_then(|i| i.types.first());
            if ty == Some(&ScalarType::U8) && picture.bits > 8 {
                return given(format!(
                    "{} takes 8 bits a sample, and the picture has {}",
                    self.application.name, picture.bits
                ));
            }
        }
        Ok(())
    }

    /// Some channels of a picture as the input of a slot: the file's values for integers, 0 to 1 for floats.
    fn planes(
        &self,
        picture: &Picture,
        slot: &Slot,
        channels: std::ops::Range<usize>,
    ) -> Result<Planar, PipelineError> {
        let input = self.pipeline.inputs.get(slot.name);
        let float = input.and_then(|i| i.types.first()).is_some_and(|ty| ty.is_float());
        let mut samples: Vec<u16> = vec![];
        let mut count = channels.len();
        match slot.planes {
            Planes::Colour | Planes::Transparent => {
                let gray = picture.channels < 3;
                (0..3).for_each(|c| samples.extend(picture.plane(if gray { 0 } else { c })));
                count = 3;
                if slot.planes == Planes::Transparent {
                    count = 4;
                    match picture.channels {
                        2 | 4 => samples.extend(picture.plane(picture.channels - 1)),
                        _ => samples
                            .extend(std::iter::repeat_n(picture.white(), picture.width * picture.height)),
                    }
                }
            }
            _ => channels.for_each(|c| samples.extend(picture.plane(c))),
        }
        let values = match float {
            true => {
                let white = f32::from(picture.white());
                Values::F32(samples.into_iter().map(|v| f32::from(v) / white).collect())
            }
            false => Values::U16(samples),
        };
        let mut extents = vec![picture.width as i32, picture.height as i32];
        if input.is_some_and(|i| i.dims > 2) {
            extents.push(count as i32);
        }
        Ok(Planar { extents, values })
    }

    /// The first output as a picture of the depth of `like`, or its own.
    fn picture(&self, outputs: &[(String, Planar)], like: &Picture) -> Result<Picture, PipelineError> {
        let (_, output) = outputs.first().ok_or_else(|| PipelineError::Given("there is no output".into()))?;
        let mut bits = like.bits;
        let samples: Vec<u16> = match &output.values {
            Values::U8(v) => {
                bits = 8;
                v.iter().map(|&v| v.into()).collect()
            }
            Values::U16(v) => v.clone(),
            Values::F32(v) => {
                let white = f32::from(like.white());
                v.iter().map(|v| (v.clamp(0.0, 1.0) * white).round() as u16).collect()
            }
            _ => {
                return Err(PipelineError::Given(
                    "the output is no picture: write it to an .npz file".into(),
                ));
            }
        };
        let extent = |d: usize| output.extents.get(d).map_or(1, |&n| n.max(0) as usize);
        if output.extents.len() > 3 {
            return Err(PipelineError::Given("the output is no picture: write it to an .npz file".into()));
        }
        Ok(Picture { width: extent(0), height: extent(1), channels: extent(2), bits, samples })
    }
}

/// The planes of several pictures, as one.
fn joined(planes: Vec<Picture>) -> Result<Picture, PipelineError> {
    let channels = planes.iter().map(|p| p.channels).sum();
    let samples = planes.iter().flat_map(|p| p.samples.iter().copied()).collect();
    let first = planes.into_iter().next().ok_or(PictureError::Channels(0))?;
    Ok(Picture { channels, samples, ..first })
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
    if same && of.channels % 2 == 0 {
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
