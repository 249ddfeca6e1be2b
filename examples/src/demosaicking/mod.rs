//! Comparison and training of demosaicking: pictures whose colours are known at every pixel, their mosaics, and how far a result is off.
//!
//! Truth has no mosaic of its own: photographs are averaged over 4 x 4 pixels, since those of cameras are demosaicked already; patterns
//! that provoke moire are drawn.

mod moire;
mod training;

use crate::pipelines::{Algorithm, Application, Filters, Picture, PipelineError, Planar, Prepared, Values};
pub use moire::moire;
use sumsq::codegen::Target;
use sumsq::codegen::runtime::Pool;
pub use training::{Set, TrainingError, energy, estimates};

/// Pixels of a photograph along each side of a pixel.
pub const FINER: usize = 4;
/// Pixels at the border that are not compared.
pub const MARGIN: usize = 8;

/// A picture of known colours: three planes of values from 0 to 1, each row after row.
#[derive(Clone, PartialEq, Debug)]
pub struct Scene {
    /// Of the picture, in pixels, even.
    pub width: usize,
    /// Of the picture, in pixels, even.
    pub height: usize,
    /// Red, green, blue.
    pub values: Vec<f32>,
}

impl Scene {
    /// A photograph, averaged over [`FINER`] x [`FINER`] pixels.
    pub fn of(photograph: &Picture) -> Scene {
        let size = |n: usize| n / FINER / 2 * 2;
        let white = f32::from(photograph.white()) * (FINER * FINER) as f32;
        let mean = |x: usize, y: usize, c: usize| {
            let plane = photograph.plane(c.min(photograph.channels - 1));
            let row = |j: usize| &plane[(y * FINER + j) * photograph.width + x * FINER..][..FINER];
            (0..FINER).flat_map(row).map(|&v| f32::from(v)).sum::<f32>() / white
        };
        Scene::from_fn(size(photograph.width), size(photograph.height), mean)
    }

    /// The picture with these values at x, y, channel.
    pub fn from_fn(width: usize, height: usize, at: impl Fn(usize, usize, usize) -> f32) -> Scene {
        let points = (0..3 * width * height).map(|i| (i % width, i / width % height, i / (width * height)));
        Scene { width, height, values: points.map(|(x, y, c)| at(x, y, c)).collect() }
    }

    /// A channel at a pixel.
    pub fn at(&self, x: usize, y: usize, c: usize) -> f32 {
        self.values[(c * self.height + y) * self.width + x]
    }

    /// The part of this size that begins at (x, y), both even.
    pub fn part(&self, [x, y]: [usize; 2], [width, height]: [usize; 2]) -> Scene {
        Scene::from_fn(width, height, |i, j, c| self.at(x + i, y + j, c))
    }

    /// The values of an RGGB sensor.
    pub fn mosaic(&self) -> Planar {
        let pixels = (0..self.width * self.height).map(|i| (i % self.width, i / self.width));
        let values = pixels.map(|(x, y)| self.at(x, y, x % 2 + y % 2)).collect();
        Planar { extents: vec![self.width as i32, self.height as i32], values: Values::F32(values) }
    }

    /// Mean square of what another picture of this size is off, a margin apart; its values count from 0 to 1.
    pub fn error(&self, of: &Scene) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0f64);
        for c in 0..3 {
            for y in MARGIN..self.height.saturating_sub(MARGIN) {
                for x in MARGIN..self.width.saturating_sub(MARGIN) {
                    sum += f64::from(of.at(x, y, c).clamp(0.0, 1.0) - self.at(x, y, c)).powi(2);
                    count += 1.0;
                }
            }
        }
        sum / count.max(1.0)
    }

    /// The same as a ratio of the peak to it, in decibels.
    pub fn psnr(&self, of: &Scene) -> f64 {
        decibels(self.error(of))
    }
}

/// Minus ten times the decimal logarithm of a mean square.
pub fn decibels(square: f64) -> f64 {
    -10.0 * square.log10()
}

/// A way from mosaics to pictures: an application under its schedule of the CPU, and its filters if it has some.
pub struct Demosaicker {
    prepared: Prepared,
    filters: Option<Filters>,
}

impl Demosaicker {
    /// By an application without filters of its own: `demosaic_bilinear`, `demosaic_ahd`.
    ///
    /// # Errors
    /// An application that there is not, or that the engine refuses.
    pub fn new(name: &str) -> Result<Demosaicker, PipelineError> {
        Ok(Demosaicker { prepared: prepared(name, &[])?, filters: None })
    }

    /// By `demosaic_learned` with these filters.
    ///
    /// # Errors
    /// Filters of another number than 2, 9 or 15.
    pub fn with(filters: Filters) -> Result<Demosaicker, PipelineError> {
        let count = ("filters".to_string(), filters.count.to_string());
        Ok(Demosaicker { prepared: prepared("demosaic_learned", &[count])?, filters: Some(filters) })
    }

    /// The picture of a mosaic.
    ///
    /// # Errors
    /// A mosaic that is too small.
    pub fn run(&self, pool: &Pool, mosaic: &Planar) -> Result<Scene, PipelineError> {
        let mut inputs = vec![mosaic.clone()];
        if let Some(filters) = &self.filters {
            inputs.extend((0..filters.values.len()).map(|k| filters.array(k)));
        }
        let output = self.prepared.run(pool, &inputs)?.into_iter().next();
        match output {
            Some((_, Planar { extents, values: Values::F32(values) })) if extents.len() == 3 => {
                Ok(Scene { width: extents[0] as usize, height: extents[1] as usize, values })
            }
            _ => Err(PipelineError::Given("the output is no picture of floats".into())),
        }
    }
}

fn prepared(name: &str, given: &[(String, String)]) -> Result<Prepared, PipelineError> {
    let none = || PipelineError::Given(format!("there is no application {name}"));
    let application = Application::find(name).ok_or_else(none)?;
    let setup = application.setup(given, 8).map_err(|e| PipelineError::Given(e.to_string()))?;
    let schedule = application.schedule("hand").ok_or_else(none)??;
    Prepared::new(Algorithm::new(application, setup), &schedule, &Target::host())
}
