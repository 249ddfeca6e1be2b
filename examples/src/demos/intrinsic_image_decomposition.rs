//! Intrinsic images: a photograph is taken apart into the colours of things (with sparse gradients, by an L_p norm that is
//! re-weighted after every step) and the light on them.

use super::run::{Run, decode};
use super::{DemoError, Problem, floats, param, rows};
use crate::panels;
use crate::render::srgb;
use image::imageops::{self, FilterType};
use image::{Rgb, RgbImage};
use sumsq::{NamedArray, Options, SolveOptions};

/// Photograph by the JPEG XL Project Authors.
const PHOTOGRAPH: &[u8] = include_bytes!("../../../data/optical_flow/frame1.png");

/// Weights of agreement, of sparse reflectance, of smooth shading, and of shading that follows brightness, as the square roots
/// that the energy takes; and the exponent of sparseness.
const W_FIT_SQRT: f32 = 20.0;
const W_REFLECTANCE_SQRT: f32 = 1.0;
const W_SHADING_SQRT: f32 = 2.0;
const W_GREY_SQRT: f32 = 0.1;
const P: f32 = 0.8;
/// Linear light below this is noise.
const DARKEST: f32 = 0.005;

/// Takes the photograph apart.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::new(decode(PHOTOGRAPH)?.to_rgb8());
    let solution = run.solve(&scene.problem())?;
    run.picture("", &scene.picture(&solution)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::new(decode(PHOTOGRAPH)?.to_rgb8()).problem())
}

/// A photograph.
#[derive(Clone, Debug)]
pub struct Scene {
    photograph: RgbImage,
}

impl Scene {
    /// Of any photograph.
    pub fn new(photograph: RgbImage) -> Scene {
        Scene { photograph }
    }

    /// The problem: reflectance and shading of every pixel, started with all brightness in the light.
    pub fn problem(&self) -> Problem {
        let (width, height) = (self.photograph.width() as usize, self.photograph.height() as usize);
        let log: Vec<[f32; 3]> =
            self.photograph.pixels().map(|p| p.0.map(|c| linear(c).max(DARKEST).ln())).collect();
        let shading: Vec<f32> = log.iter().map(|i| (i[0] + i[1] + i[2]) / 3.0).collect();
        let reflectance: Vec<[f32; 3]> = log.iter().zip(&shading).map(|(i, s)| i.map(|i| i - s)).collect();
        Problem {
            energy: "intrinsic_image_decomposition",
            text: include_str!("../../energies/intrinsic_image_decomposition.t"),
            inputs: vec![
                floats("R", &[height, width, 3], reflectance.into_flattened()),
                floats("S", &[height, width], shading),
                floats("I", &[height, width, 3], log.into_flattened()),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_reflectanceSqrt", W_REFLECTANCE_SQRT),
                param("w_shadingSqrt", W_SHADING_SQRT),
                param("w_greySqrt", W_GREY_SQRT),
                param("p", P),
            ],
            options: Options {
                solve: SolveOptions {
                    iterations: Some(12),
                    linear_iterations: Some(200),
                    function_tolerance: Some(1e-3),
                    ..SolveOptions::default()
                },
                ..Options::default()
            },
        }
    }

    fn picture(&self, solution: &[NamedArray]) -> Result<RgbImage, DemoError> {
        let size = self.photograph.dimensions();
        let count = (size.0 * size.1) as usize;
        let reflectance = exposed(&rows::<3>(solution, "R", count)?, size);
        let shading: Vec<[f32; 3]> = rows::<1>(solution, "S", count)?.iter().map(|s| [s[0]; 3]).collect();
        let shading = exposed(&shading, size);
        let large =
            |picture: &RgbImage| imageops::resize(picture, 2 * size.0, 2 * size.1, FilterType::CatmullRom);
        let [photograph, reflectance, shading] = [&self.photograph, &reflectance, &shading].map(large);
        let panels = [("photograph", &photograph), ("reflectance", &reflectance), ("shading", &shading)];
        Ok(panels::row(&panels)?)
    }
}

/// Logarithms as a picture whose brightest hundredth is white.
fn exposed(log: &[[f32; 3]], (width, height): (u32, u32)) -> RgbImage {
    let mut brightest: Vec<f32> = log.iter().map(|c| c[0].max(c[1]).max(c[2])).collect();
    brightest.sort_by(f32::total_cmp);
    let white = brightest.get(brightest.len() * 99 / 100).copied().unwrap_or(0.0);
    RgbImage::from_fn(width, height, |x, y| {
        Rgb(log[(y * width + x) as usize].map(|c| srgb((c - white).exp())))
    })
}

/// The inverse of the sRGB transfer function.
fn linear(encoded: u8) -> f32 {
    let encoded = f32::from(encoded) / 255.0;
    if encoded <= 0.04045 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_is_encoded_and_decoded_alike() {
        assert!((0..=255).all(|c| srgb(linear(c)) == c));
    }
}
