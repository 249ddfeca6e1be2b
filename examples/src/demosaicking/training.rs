//! Training of the filters of learned demosaicking: the energy of what their pictures are off.
//!
//! Pieces of many scenes lie beside each other in one mosaic. Pixels near the border of a piece see its neighbours: they have no weight.

use super::{MARGIN, Scene, decibels};
use crate::pipelines::{Application, Filters, SetupError};
use sumsq::codegen::runtime::{Buffer, BufferError, BufferSpec};
use sumsq::codegen::{Input, Layout, ScalarType::F32, Source, Var};
use sumsq::pipeline_energy::{Loss, PipelineEnergy, PipelineEnergyError};

/// Side of a piece, in pixels.
const PIECE: usize = 64;
/// Pieces beside each other.
const ACROSS: usize = 8;
/// Square of an error that is too small to matter, in the weights of pieces.
const SMALL: f64 = 3e-5;

/// Reasons why nothing is trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// The application is not as it is expected.
    #[error("demosaic_learned: {0}")]
    Application(String),
    /// A parameter is not taken.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Memory.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The solver.
    #[error(transparent)]
    Energy(#[from] PipelineEnergyError),
}

/// Sum over pixels and channels of the squared error of the picture, times a weight squared: over unknown `green`, `edges`, `beside`, `below`,
/// `diagonal` ([`Filters::arrays`]); inputs are `mosaic` (x, y), `truth` (x, y, c) and `weight` (x, y).
///
/// # Errors
/// Another number of filters than 2, 9 or 15.
pub fn energy(count: i32) -> Result<PipelineEnergy, TrainingError> {
    let missing = |what: &str| TrainingError::Application(format!("there is no {what}"));
    let application = Application::find("demosaic_learned").ok_or_else(|| missing("application"))?;
    let setup = application.setup(&[("filters".into(), count.to_string())], 8)?;
    let mut p = (application.build)(&setup);
    let [x, y, c] = Var::all(["x", "y", "c"]);
    let truth = p.input(Input::strided("truth", &[F32], 3));
    let weight = p.input(Input::strided("weight", &[F32], 2));
    let output = p.funcs.get("output").cloned().ok_or_else(|| missing("output"))?;
    p.define("error", [x, y, c], (output.of((x, y, c)) - truth.of((x, y, c))) * weight.of((x, y)));
    let domain = [(0.into(), weight.extent(0)), (0.into(), weight.extent(1)), (0.into(), 3.into())];
    let energy = PipelineEnergy::new(p).residual_over("error", &domain, Loss::Squares);
    Ok(Filters::arrays(count).iter().fold(energy, |energy, (name, _)| energy.unknown(*name)))
}

/// Sizes for schedules, of pictures of this size.
pub fn estimates(count: i32, [width, height]: [usize; 2]) -> Vec<(&'static str, Vec<i32>)> {
    let (width, height) = (width as i32, height as i32);
    let pictures = ["output", "truth", "error"].map(|name| (name, vec![width, height, 3]));
    let planes = ["mosaic", "weight"].map(|name| (name, vec![width, height]));
    Filters::arrays(count).into_iter().chain(pictures).chain(planes).collect()
}

/// The pictures that filters are trained on.
pub struct Set {
    /// Of all pieces together, in pixels.
    pub width: usize,
    /// Of all pieces together, in pixels.
    pub height: usize,
    /// Sum of the squared weights of all values.
    pub weights: f64,
    buffers: [(&'static str, Buffer); 3],
}

impl Set {
    /// Pieces of equal size, each with the mean square of the error that is usual there: the larger, the less it counts.
    ///
    /// # Errors
    /// No memory.
    pub fn of(pieces: &[(Scene, f64)]) -> Result<Set, TrainingError> {
        let rows = pieces.len().div_ceil(ACROSS);
        let (width, height) = (ACROSS * PIECE, rows * PIECE);
        let piece = |x: usize, y: usize| pieces.get(y / PIECE * ACROSS + x / PIECE);
        let at = |x: usize, y: usize, c: usize| {
            piece(x, y).map_or(0.0, |(scene, _)| scene.at(x % PIECE, y % PIECE, c))
        };
        let truth = Scene::from_fn(width, height, at);
        let inside = |x: usize| (MARGIN..PIECE - MARGIN).contains(&(x % PIECE));
        let weight = |x: usize, y: usize| match piece(x, y) {
            Some((_, error)) if inside(x) && inside(y) => (error + SMALL).powf(-0.25) as f32,
            _ => 0.0,
        };
        let weight: Vec<f32> = (0..width * height).map(|i| weight(i % width, i / width)).collect();
        let weights = 3.0 * weight.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>();
        let buffer = |values: &[f32], extents: &[usize]| {
            let extents: Vec<i32> = extents.iter().map(|&n| n as i32).collect();
            let buffer = Buffer::new(BufferSpec::new(F32, &extents).layout(Layout::Strided))?;
            buffer.copy_from(values)?;
            Ok::<Buffer, TrainingError>(buffer)
        };
        let mosaic: Vec<f32> = (0..width * height)
            .map(|i| (i % width, i / width))
            .map(|(x, y)| truth.at(x, y, x % 2 + y % 2))
            .collect();
        let buffers = [
            ("mosaic", buffer(&mosaic, &[width, height])?),
            ("truth", buffer(&truth.values, &[width, height, 3])?),
            ("weight", buffer(&weight, &[width, height])?),
        ];
        Ok(Set { width, height, weights, buffers })
    }

    /// Pieces of a scene, none over another, the most detailed first.
    pub fn pieces(scene: &Scene) -> Vec<Scene> {
        let corners = |n: usize| (0..n / PIECE).map(|k| k * PIECE);
        let places = corners(scene.height).flat_map(|y| corners(scene.width).map(move |x| [x, y]));
        let detail = |s: &Scene| {
            let steps =
                (0..3 * PIECE * PIECE - PIECE - 1).map(|i| (s.values[i + PIECE + 1] - s.values[i]).abs());
            steps.sum::<f32>()
        };
        let mut all: Vec<(f32, Scene)> =
            places.map(|at| scene.part(at, [PIECE, PIECE])).map(|s| (detail(&s), s)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, s)| s).collect()
    }

    /// The inputs by name, with those of the filters.
    pub fn with<'a>(&'a self, filters: &'a [(&'static str, Buffer)]) -> Vec<(&'a str, &'a Buffer)> {
        self.buffers.iter().chain(filters).map(|(name, buffer)| (*name, buffer)).collect()
    }

    /// The ratio of the peak to the weighted mean square whose sum is an energy, in decibels.
    pub fn psnr(&self, energy: f64) -> f64 {
        decibels(energy / self.weights)
    }
}

impl Filters {
    /// Buffers by name.
    ///
    /// # Errors
    /// No memory.
    pub fn buffers(&self) -> Result<Vec<(&'static str, Buffer)>, BufferError> {
        let arrays = Filters::arrays(self.count).into_iter().zip(&self.values);
        let buffer = |((name, extents), values): ((&'static str, Vec<i32>), &Vec<f32>)| {
            let buffer = Buffer::new(BufferSpec::new(F32, &extents).layout(Layout::Strided))?;
            buffer.copy_from(values)?;
            Ok((name, buffer))
        };
        arrays.map(buffer).collect()
    }

    /// As a solve leaves them.
    pub fn of(count: i32, buffers: &[(&'static str, Buffer)]) -> Filters {
        Filters { count, values: buffers.iter().map(|(_, b)| b.to_vec()).collect() }
    }
}
