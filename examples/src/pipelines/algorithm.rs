//! An application's algorithm for given parameters, with its gradient or without; pictures on the way into it and out of it.

use super::application::{Application, Planes, Slot};
use super::gradient::Gradient;
use super::pictures::Picture;
use super::planar::{Planar, Values};
use super::run::PipelineError;
use super::setup::Setup;
use sumsq::codegen::compile::{cache, first_schedule};
use sumsq::codegen::gradient::{gpu_schedule, work};
use sumsq::codegen::{Error, Pipeline, ScalarType, Schedule};

/// An application's algorithm.
pub struct Algorithm {
    /// The application.
    pub application: &'static Application,
    /// Its parameters and the depth of its pictures.
    pub setup: Setup,
    /// Its outputs, and its slopes if it has a gradient.
    pub pipeline: Pipeline,
    /// J^T w, where the pipeline computes that, too.
    pub gradient: Option<Gradient>,
}

impl Algorithm {
    /// The outputs alone.
    pub fn new(application: &'static Application, setup: Setup) -> Algorithm {
        Algorithm { application, pipeline: (application.build)(&setup), setup, gradient: None }
    }

    /// The outputs and J^T w.
    ///
    /// # Errors
    /// An application without outputs of floats, or without inputs and parameters of floats.
    pub fn with_gradient(
        application: &'static Application,
        setup: Setup,
    ) -> Result<Algorithm, PipelineError> {
        let mut algorithm = Algorithm::new(application, setup);
        algorithm.gradient = Some(Gradient::add_to(&mut algorithm.pipeline)?);
        Ok(algorithm)
    }

    /// A schedule made from the sizes of these inputs, in the order of the slots; without inputs for large ones.
    ///
    /// # Errors
    /// Sizes for which there is no output.
    pub fn first_schedule(&self, inputs: &[Planar]) -> Result<Schedule, PipelineError> {
        let make = |sizes: &[(&str, &[i32])]| first_schedule(&self.pipeline, sizes, cache().as_ref());
        self.of_sizes(inputs, make)
    }

    /// The same for a GPU; with `atomics` sums at places that data chooses are of all threads at once, in an order that no run has to repeat.
    ///
    /// # Errors
    /// As of [`Algorithm::first_schedule`].
    pub fn first_gpu_schedule(&self, inputs: &[Planar], atomics: bool) -> Result<Schedule, PipelineError> {
        self.of_sizes(inputs, |sizes| gpu_schedule(&self.pipeline, sizes, atomics))
    }

    /// Operations and reads of a run on these inputs, and bytes of the inputs and outputs.
    ///
    /// # Errors
    /// Sizes for which there is no output, or from which those of the Funcs do not follow.
    pub fn work(&self, inputs: &[Planar]) -> Result<(u64, u64), PipelineError> {
        let params = self.pipeline.params.keys().map(|name| (&**name, self.setup.real(name)));
        let params: Vec<(&str, f64)> = params.collect();
        let each = self.of_sizes(inputs, |sizes| {
            let bytes = |(name, extents): &(&str, &[i32])| {
                let own = self.pipeline.inputs.get(*name).map(|input| input.types.clone());
                let types = own.or_else(|| Some(self.pipeline.funcs.get(*name)?.types()));
                let element: u64 = types.iter().flatten().map(|ty| ty.bytes() as u64).sum();
                extents.iter().fold(element, |n, &m| n.saturating_mul(m.max(0) as u64))
            };
            Ok((work(&self.pipeline, sizes, &params)?, sizes.iter().map(bytes).fold(0, u64::saturating_add)))
        });
        let (operations, bytes) = each?;
        let planes = self.planes(inputs).unwrap_or(1).max(0) as u64;
        Ok((operations.saturating_mul(planes), bytes.saturating_mul(planes)))
    }

    fn of_sizes<T>(
        &self,
        inputs: &[Planar],
        make: impl Fn(&[(&str, &[i32])]) -> Result<T, Error>,
    ) -> Result<T, PipelineError> {
        let sizes = self.sizes(inputs)?;
        let mut all: Vec<(&str, &[i32])> = vec![];
        let extents;
        if !inputs.is_empty() {
            extents = self.extents(inputs)?;
            let outputs = self.pipeline.outputs.iter().map(|o| (&*o.func, extents.as_slice()));
            let slots = self.application.slots.iter().map(|s| s.name).zip(sizes.iter().map(Vec::as_slice));
            all = outputs.chain(slots).collect();
            if let Some(gradient) = &self.gradient {
                all = gradient.estimates(all, &extents);
            }
        }
        Ok(make(&all)?)
    }

    /// The number of planes, where there is one dimension more than the inputs have, so that each is computed by itself.
    pub(super) fn planes(&self, inputs: &[Planar]) -> Option<i32> {
        let each = self.application.slots.first().is_some_and(|slot| slot.planes == Planes::Each);
        let planes = inputs.iter().filter_map(|input| input.extents.get(2).copied());
        planes.max().filter(|_| each && inputs.iter().any(|input| input.extents.len() == 3))
    }

    /// The extents of the inputs, in the order of the slots; of one plane, where each is computed by itself.
    fn sizes(&self, inputs: &[Planar]) -> Result<Vec<Vec<i32>>, PipelineError> {
        let by_planes = self.planes(inputs).is_some();
        let size = |(slot, input): (&Slot, &Planar)| {
            let mut extents = input.extents.clone();
            extents.truncate(if by_planes && extents.len() == 3 { 2 } else { extents.len() });
            let dims = self.pipeline.inputs.get(slot.name).map_or(0, |i| i.dims);
            if extents.len() == dims {
                return Ok(extents);
            }
            let came = input.extents.len();
            Err(PipelineError::Given(format!("{}: expected {dims} dimensions, came {came}", slot.name)))
        };
        self.application.slots.iter().zip(inputs).map(size).collect()
    }

    /// The extents of the outputs by the inputs, in the order of the slots: of one plane, where each is computed by itself.
    pub(super) fn extents(&self, inputs: &[Planar]) -> Result<Vec<i32>, PipelineError> {
        (self.application.extents)(&self.setup, &self.sizes(inputs)?).map_err(PipelineError::Given)
    }

    /// A picture as the input of a slot: the file's values for integers, those of 8 bits as 16 bits beside pictures of 16; 0 to 1 for floats.
    ///
    /// # Errors
    /// A picture for a slot of arrays; one of colours for a slot of one plane.
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
        let mut samples = samples(picture, slot.planes);
        let count = samples.len() / (picture.width * picture.height);
        let values = match ty.is_float() {
            true => {
                let white = f32::from(picture.white());
                Values::F32(samples.into_iter().map(|v| f32::from(v) / white).collect())
            }
            false => {
                // Beside a picture of 16 bits: as much of their white.
                if picture.bits == 8 && self.setup.bits == 16 {
                    samples.iter_mut().for_each(|v| *v *= 257);
                }
                Values::U16(samples)
            }
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
