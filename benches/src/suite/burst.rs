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

/// Frames of a burst.
const FRAMES: usize = 13;
/// Size of those that weights are tried on.
const SMALL: [usize; 2] = [104, 96];
/// Sizes of the others, and where they begin in the photograph.
const SIZES: [([usize; 2], [usize; 2]); 3] =
    [(SMALL, [2000, 1200]), ([416, 384], [2000, 1200]), ([1040, 960], [1200, 800])];
/// Weights of the prior that are tried.
const WEIGHTS: [f32; 4] = [0.5, 1.0, 2.0, 4.0];
/// Steps of Adam in the paper.
const ADAM: usize = 300;

fn burst(file: &str, corner: [usize; 2], size: [usize; 2]) -> Result<Burst, Failed> {
    Ok(Burst::of(&image::open(root().join("data").join(file))?.to_rgb8(), corner, size, FRAMES))
}

fn start(burst: &Burst) -> Result<Reconstruction, Failed> {
    let homographies = align(burst, &mut |_, _| {})?;
    Ok(Reconstruction::of(burst, &burst.demosaicked(0), homographies))
}

fn psnr(burst: &Burst, picture: &[f32]) -> f64 {
    decibels(burst.error(picture).powi(2))
}

/// Runs all of it, or the sizes whose names contain `SUMSQ_CASES`.
pub fn run() -> Result<Report, Failed> {
    let mut report = Report::new("burst", format!("bursts of {FRAMES} frames, float32, all cores"));
    let wanted = report.wanted("SUMSQ_CASES");
    let other = burst("image_warping/tulips.png", [40, 50], SMALL)?;
    let from = start(&other)?;
    for weight in WEIGHTS.into_iter().filter(|_| wanted.is_empty()) {
        let (end, _) = reconstruct(&other, &from, weight, &solve_options(), &mut |_| {})?;
        report.note(format!("tulips, weight {weight}: {:.2} dB", psnr(&other, &end.coarse(&other))));
    }
    for (size, corner) in SIZES {
        let name = format!("{} x {}", size[0], size[1]);
        if name.contains(&wanted) {
            contest(&mut report, &name, &burst("pipelines/seeding.jpg", corner, size)?)?;
        }
    }
    Ok(report)
}

/// Adam against Levenberg-Marquardt on one burst.
fn contest(report: &mut Report, name: &str, field: &Burst) -> Result<(), Failed> {
    let from = start(field)?;
    let mut fact = |what: &str, value: f64, unit: &str| report.fact(&format!("{name}, {what}"), value, unit);
    fact("one frame, bilinear", psnr(field, &from.coarse(field)), "dB");
    fact("one frame, AHD", psnr(field, &by_ahd(field)?), "dB");
    let (slow, course) = reconstruct_by_adam(field, &from, WEIGHT, ADAM)?;
    let (goal, seconds) = match (course.energies.last(), course.seconds.last()) {
        (Some(e), Some(s)) => (*e, *s),
        _ => return Err("Adam took no step".into()),
    };
    fact("Adam, 300 steps: E", goal, "");
    fact("Adam, 300 steps", seconds, "s");
    fact("Adam, 300 steps: picture", psnr(field, &slow.coarse(field)), "dB");
    fact("Adam, 300 steps: corners off", field.corners(&slow.homographies), "pixels");

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
    let (end, solve) = reconstruct(field, &from, WEIGHT, &solve_options(), &mut observe)?;
    fact("LM: E", solve.energy_final, "");
    fact("LM, with compilation", started.elapsed().as_secs_f64(), "s");
    fact("LM, compilation", solve.seconds.compile, "s");
    fact("LM: picture", psnr(field, &end.coarse(field)), "dB");
    fact("LM: corners off, after alignment", field.corners(&from.homographies), "pixels");
    fact("LM: corners off, after the solve", field.corners(&end.homographies), "pixels");
    if let Some((passed, steps, products)) = reached {
        let passed = passed - solve.seconds.compile;
        let share = passed / seconds;
        report.note(format!(
            "{name}: LM is below Adam's E after {steps} steps and {products} products: {passed:.2} s, {share:.3} of \
             Adam's time, both without compilation"
        ));
    } else {
        report.note(format!("{name}: LM does not come to Adam's E"));
    }
    Ok(())
}
