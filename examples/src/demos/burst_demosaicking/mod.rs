//! Joint alignment and demosaicking of a burst of raw frames: one sharp colour picture whose mosaics, warped by homographies, are the frames
//! (Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, equation 1). Unknown are the picture
//! and the homographies.
//!
//! The energy is a pipeline (`energy`): bilinear samples at coordinates that are themselves unknown. The burst is synthetic (`synthetic`),
//! so that picture and homographies are known. The start is one frame alone, demosaicked, and an alignment from coarse to fine
//! (`align`).

mod align;
mod application;
mod energy;
mod homography;
mod sampling;
mod synthetic;

use super::DemoError;
use super::run::Run;
use crate::demosaicking::Demosaicker;
use crate::panels;
use crate::pipelines::{Planar, Values};
pub use align::align;
pub(crate) use application::APPLICATION;
pub use energy::{
    Reconstruction, WEIGHT, certified, energy, reconstruct, reconstruct_by_adam, solve_options,
};
pub use homography::Homography;
use image::{Rgb, RgbImage};
use sumsq::Iteration;
use sumsq::codegen::runtime::Pool;
pub use synthetic::Burst;

/// Reconstructs the burst.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let burst = Burst::of_seeding()?;
    let aligned = align(&burst, &mut |label, report| run.reported(label, report))?;
    let single = burst.demosaicked(0);
    let start = Reconstruction::of(&burst, &single, aligned.clone());
    let mut observe = |step: &Iteration| run.observe("reconstruct", step);
    let (end, report) = reconstruct(&burst, &start, WEIGHT, &solve_options(), &mut observe)?;
    run.reported("reconstruct", report);
    let ahd = by_ahd(&burst)?;
    let unit = "of 1, root mean square";
    let picture = end.coarse(&burst);
    let result = burst.error(&picture);
    run.measure(
        "error of the picture: one frame, bilinear, and the burst",
        unit,
        burst.error(&single),
        result,
    );
    run.measure("error of the picture: one frame, by AHD, and the burst", unit, burst.error(&ahd), result);
    let still = vec![Homography::default(); aligned.len()];
    run.measure(
        "corners, before and after alignment",
        "pixels, mean",
        burst.corners(&still),
        burst.corners(&aligned),
    );
    run.measure(
        "corners, aligned and reconstructed",
        "pixels, mean",
        burst.corners(&aligned),
        burst.corners(&end.homographies),
    );
    run.picture("", &panel(&burst, [&single, &ahd, &picture])?)?;
    run.plot()
}

/// Side of the piece of the picture that is shown large.
const PIECE: u32 = 160;
/// Pixels that one of its pixels becomes.
const LARGE: u32 = 3;

/// The first frame alone, demosaicked by AHD.
pub fn by_ahd(burst: &Burst) -> Result<Vec<f32>, DemoError> {
    let values = Values::F32(burst.frames[..burst.width * burst.height].to_vec());
    let mosaic = Planar { extents: vec![burst.width as i32, burst.height as i32], values };
    Ok(Demosaicker::new("demosaic_ahd")?.run(&Pool::with_all_cores(), &mosaic)?.values)
}

/// Pieces of one frame's mosaic, of that frame demosaicked in two ways, of the result and of the truth; errors below.
fn panel(burst: &Burst, pictures: [&Vec<f32>; 3]) -> Result<RgbImage, DemoError> {
    let piece = |picture: &[f32]| large(burst, &|x, y, c| picture[burst.at(x, y, c)]);
    let error = |picture: &[f32]| {
        let off = |x, y, c| 6.0 * (picture[burst.at(x, y, c)] - burst.truth[burst.at(x, y, c)]).abs();
        large(burst, &off)
    };
    let mosaic =
        large(burst, &|x, y, c| if c == synthetic::channel(x, y) { burst.raw(0, x, y) } else { 0.0 });
    let truth = piece(&burst.truth);
    let [bilinear, ahd, end] = pictures.map(|picture| piece(picture));
    let [bilinear_off, ahd_off, end_off] = pictures.map(|picture| error(picture));
    let above = [("one frame, bilinear", &bilinear), ("one frame, by AHD", &ahd), ("the burst", &end)];
    let below =
        [("error, 6 times", &bilinear_off), ("error, 6 times", &ahd_off), ("error, 6 times", &end_off)];
    let known = [("a raw frame", &mosaic), ("truth", &truth)];
    Ok(panels::column(&[panels::row(&above)?, panels::row(&below)?, panels::row(&known)?]))
}

/// A piece of a picture up and left of its middle, where its details are, enlarged.
fn large(burst: &Burst, value: &dyn Fn(usize, usize, usize) -> f32) -> RgbImage {
    let first = |n: usize| (n as u32).saturating_sub(2 * PIECE) / 2;
    let (left, top) = (first(burst.width), first(burst.height));
    let at = |i: u32, first: u32, n: usize| ((i / LARGE + first) as usize).min(n - 1);
    RgbImage::from_fn(PIECE * LARGE, PIECE * LARGE, |x, y| {
        let (x, y) = (at(x, left, burst.width), at(y, top, burst.height));
        Rgb([0, 1, 2].map(|c| (255.0 * value(x, y, c)).round().clamp(0.0, 255.0) as u8))
    })
}
