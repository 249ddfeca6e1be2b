//! Joint alignment and demosaicking of a burst of raw frames: one sharp colour picture whose mosaics, warped by homographies, are the frames
//! (Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, equation 1). Unknown are the picture
//! and the homographies.
//!
//! The energy is a pipeline (`energy`): bilinear samples at coordinates that are themselves unknown. The burst is synthetic (`synthetic`),
//! so that picture and homographies are known. The start is one frame alone, demosaicked, and an alignment from coarse to fine
//! (`align`).

mod align;
mod energy;
mod homography;
mod synthetic;

use super::DemoError;
use super::run::Run;
use crate::panels;
pub use align::align;
pub use energy::{Reconstruction, certified, energy, reconstruct, solve_options};
pub use homography::Homography;
use image::{Rgb, RgbImage};
use sumsq::Iteration;
pub use synthetic::Burst;

/// Reconstructs the burst.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let burst = Burst::of_seeding()?;
    let aligned = align(&burst, &mut |label, report| run.reported(label, report))?;
    let start = Reconstruction { picture: burst.demosaicked(0), homographies: aligned.clone() };
    let mut observe = |step: &Iteration| run.observe("reconstruct", step);
    let (end, report) = reconstruct(&burst, &start, &solve_options(), &mut observe)?;
    run.reported("reconstruct", report);
    run.measure(
        "error of the picture",
        "of 1, root mean square",
        burst.error(&start.picture),
        burst.error(&end.picture),
    );
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
    run.picture("", &panel(&burst, &start, &end)?)?;
    run.plot()
}

/// Side of the piece of the picture that is shown large.
const PIECE: u32 = 160;
/// Pixels that one of its pixels becomes.
const LARGE: u32 = 3;

/// One frame's mosaic, that frame demosaicked, the result and the truth, a piece of each; errors below.
fn panel(burst: &Burst, start: &Reconstruction, end: &Reconstruction) -> Result<RgbImage, DemoError> {
    let piece = |picture: &[f32]| large(burst, &|x, y, c| picture[burst.at(x, y, c)]);
    let error = |picture: &[f32]| {
        let off = |x, y, c| 4.0 * (picture[burst.at(x, y, c)] - burst.truth[burst.at(x, y, c)]).abs();
        large(burst, &off)
    };
    let mosaic =
        large(burst, &|x, y, c| if c == synthetic::channel(x, y) { burst.raw(0, x, y) } else { 0.0 });
    let panels = [mosaic, piece(&start.picture), piece(&end.picture), piece(&burst.truth)];
    let above = [
        ("a raw frame", &panels[0]),
        ("that frame, demosaicked", &panels[1]),
        ("the burst", &panels[2]),
        ("truth", &panels[3]),
    ];
    let errors = [error(&start.picture), error(&end.picture)];
    let below = [("its error, 4 times", &errors[0]), ("the burst's error, 4 times", &errors[1])];
    Ok(panels::column(&[panels::row(&above)?, panels::row(&below)?]))
}

/// The middle piece of a picture, enlarged.
fn large(burst: &Burst, value: &dyn Fn(usize, usize, usize) -> f32) -> RgbImage {
    let first = |n: usize| (n as u32).saturating_sub(PIECE) / 2;
    let (left, top) = (first(burst.width), first(burst.height));
    let at = |i: u32, first: u32, n: usize| ((i / LARGE + first) as usize).min(n - 1);
    RgbImage::from_fn(PIECE * LARGE, PIECE * LARGE, |x, y| {
        let (x, y) = (at(x, left, burst.width), at(y, top, burst.height));
        Rgb([0, 1, 2].map(|c| (255.0 * value(x, y, c)).round().clamp(0.0, 255.0) as u8))
    })
}
