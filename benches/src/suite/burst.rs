//! Joint alignment and demosaicking of a burst (equation 1 of Li et al. 2018): Levenberg-Marquardt against the paper's 300 steps of Adam, by time to the
//! same energy; the weight of the prior, on a burst that is not the demo's; the result beside one frame by AHD.

use super::root;
use crate::report::Report;
use std::error::Error;
use std::time::Instant;
use sumsq_examples::demos::burst_demosaicking::{
    Burst, Reconstruction, WEIGHT, align, by_ahd, reconstruct, reconstruct_by_adam, solve_options,
};
use sumsq_examples::demosaicking::decibels;

type Failed = Box<dyn Error>;

/// Frames of a burst, and their size.
const FRAMES: usize = 13;
const SIZE: [usize; 2] = [104, 96];
/// Weights of the prior that are tried.
const WEIGHTS: [f32; 4] = [0.5, 1.0, 2.0, 4.0];
/// Steps of Adam in the paper.
const ADAM: usize = 300;

fn burst(file: &str, corner: [usize; 2]) -> Result<Burst, Failed> {
    Ok(Burst::of(&image::open(root().join("data").join(file))?.to_rgb8(), corner, SIZE, FRAMES))
}

fn start(burst: &Burst) -> Result<Reconstruction, Failed> {
    let homographies = align(burst, &mut |_, _| {})?;
    Ok(Reconstruction::of(burst, &burst.demosaicked(0), homographies))
}

/// Runs all of it.
pub fn run() -> Result<Report, Failed> {
    let [width, height] = SIZE;
    let setting = format!("bursts of {FRAMES} frames of {width} x {height}, float32, all cores");
    let mut report = Report::new("burst", setting);
    let psnr = |burst: &Burst, picture: &[f32]| decibels(burst.error(picture).powi(2));

    let other = burst("image_warping/tulips.png", [40, 50])?;
    let from = start(&other)?;
    for weight in WEIGHTS {
        let (end, _) = reconstruct(&other, &from, weight, &solve_options(), &mut |_| {})?;
        report.note(format!("tulips, weight {weight}: {:.2} dB", psnr(&other, &end.coarse(&other))));
    }

    let field = burst("pipelines/seeding.jpg", [2000, 1200])?;
    let from = start(&field)?;
    report.fact("one frame, bilinear", psnr(&field, &from.coarse(&field)), "dB");
    report.fact("one frame, AHD", psnr(&field, &by_ahd(&field)?), "dB");
    let (slow, course) = reconstruct_by_adam(&field, &from, WEIGHT, ADAM)?;
    let (goal, seconds) = match (course.energies.last(), course.seconds.last()) {
        (Some(e), Some(s)) => (*e, *s),
        _ => return Err("Adam took no step".into()),
    };
    report.fact("Adam, 300 steps: E", goal, "");
    report.fact("Adam, 300 steps", seconds, "s");
    report.fact("Adam, 300 steps: picture", psnr(&field, &slow.coarse(&field)), "dB");
    report.fact("Adam, 300 steps: corners off", field.corners(&slow.homographies), "pixels");

    let (started, mut reached) = (Instant::now(), None);
    let mut products = 0;
    let mut observe = |step: &sumsq::Iteration| {
        let passed = started.elapsed().as_secs_f64();
        products += step.linear_iterations;
        println!("  step {}: E {:.6}, {passed:.2} s, {products} products", step.iteration, step.energy);
        if reached.is_none() && step.energy <= goal {
            reached = Some((passed, step.iteration, products));
        }
    };
    let (end, solve) = reconstruct(&field, &from, WEIGHT, &solve_options(), &mut observe)?;
    report.fact("LM: E", solve.energy_final, "");
    report.fact("LM, with compilation", started.elapsed().as_secs_f64(), "s");
    report.fact("LM, compilation", solve.seconds.compile, "s");
    report.fact("LM: picture", psnr(&field, &end.coarse(&field)), "dB");
    report.fact("LM: corners off, after alignment", field.corners(&from.homographies), "pixels");
    report.fact("LM: corners off, after the solve", field.corners(&end.homographies), "pixels");
    if let Some((passed, steps, products)) = reached {
        let passed = passed - solve.seconds.compile;
        report.note(format!(
            "LM is below Adam's E after {steps} steps and {products} products: {passed:.1} s, {:.3} of Adam's time, both without compilation",
            passed / seconds
        ));
    } else {
        report.note("LM does not come to Adam's E");
    }
    Ok(report)
}
