//! Deconvolution (Li et al. 2018, section 5.2.2): its numbers trained on some photographs, from published ones on, and the result on others. Writes the
//! numbers into `data/deconvolution`.

use super::demosaicking::{TESTS, TRAINING};
use super::{THREADS, published, root};
use crate::report::Report;
use std::error::Error;
use std::time::Instant;
use sumsq::Precision;
use sumsq_examples::deconvolution::{Blurred, Deconvolver, Parameters, Plane, SIDE, Training, motion};
use sumsq_examples::demosaicking::decibels;
use sumsq_examples::pipelines::Picture;

type Failed = Box<dyn Error>;

/// A photograph for the comparison besides those of demosaicking, in grey.
const GREY: &str = "camera.png";
/// Sizes of the sharp pieces: for training so many of each photograph, those with the most details; for the comparison one from the middle.
const PIECE: [usize; 2] = [142, 110];
const PIECES: usize = 4;
const TEST_PIECE: [usize; 2] = [206, 142];
/// Seeds of the first way of the camera and of its noise; each piece has a way of its own.
const WAY: u64 = 100;
const TEST_WAY: u64 = 7;
const NOISE: u64 = 1000;
/// Steps of Adam, pictures of each, and the length of the first step in logarithms; the last is a tenth of it.
const STEPS: usize = 40;
const EACH: usize = 4;
const RATE: f64 = 0.2;
/// Of linear systems, relative.
const TOLERANCE: f64 = 5e-6;

fn planes(names: &[&str]) -> Result<Vec<Plane>, Failed> {
    let plane = |name: &&str| Ok(Plane::of(&Picture::read(&published("data/image").join(name))?, None));
    names.iter().map(plane).collect()
}

fn blurred(sharp: impl IntoIterator<Item = Plane>, way: u64) -> Vec<Blurred> {
    let each = sharp.into_iter().zip(way..);
    each.map(|(plane, seed)| Blurred::of(plane, motion(seed, SIDE), NOISE + seed)).collect()
}

/// Trains, from the published numbers on.
fn train() -> Result<Parameters, Failed> {
    let deconvolver = Deconvolver::new(SIDE, PIECE, Precision::F32, Some(THREADS), TOLERANCE)?;
    let derivative = deconvolver.derivative()?;
    let pieces: Vec<Vec<Plane>> = planes(&TRAINING)?.iter().map(|p| p.detailed(PIECE, PIECES)).collect();
    // Pictures of a step are of different photographs.
    let in_turn = (0..PIECES).flat_map(|k| pieces.iter().filter_map(move |of| of.get(k)));
    let set = blurred(in_turn.cloned(), WAY);
    let mut training = Training::new(Parameters::published(3));
    let started = Instant::now();
    for step in 0..STEPS {
        let of: Vec<&Blurred> = (0..EACH).map(|k| &set[(step * EACH + k) % set.len()]).collect();
        let rate = RATE * (1.0 - 0.9 * step as f64 / STEPS as f64);
        let psnr = training.step((&deconvolver, &derivative), &of, rate)?;
        println!("  {step}: {psnr:.3} dB, {:.0} s", started.elapsed().as_secs_f64());
    }
    Ok(training.parameters)
}

/// Trains, tests, writes.
pub fn run() -> Result<Report, Failed> {
    let names = [&TESTS[..], &[GREY]].concat();
    let setting = format!(
        "PSNR in dB over {} photographs that nothing was trained on, each under a way of the camera of its own; {THREADS} threads",
        names.len()
    );
    let mut report = Report::new("deconvolution", setting);
    let trained = train()?;
    let folder = root().join("data/deconvolution");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("parameters.txt"), trained.text())?;
    let deconvolver = Deconvolver::new(SIDE, TEST_PIECE, Precision::F32, Some(THREADS), TOLERANCE)?;
    let ways = [Parameters::published(1), Parameters::published(3), trained];
    let tests = blurred(planes(&names)?.iter().map(|plane| plane.middle(TEST_PIECE)), TEST_WAY);
    report.note(format!("{:<44} {:>8} {:>8} {:>8} {:>8}", "", "blurred", "2 stages", "4 stages", "trained"));
    let mut means = [0.0; 4];
    for (name, of) in names.iter().zip(&tests) {
        let start: Vec<f64> = of.start().values.iter().map(|v| f64::from(*v)).collect();
        let mut line = vec![decibels(of.error(&start).0)];
        for by in &ways {
            line.push(decibels(of.error(&deconvolver.run(of, by)?.image()).0));
        }
        means.iter_mut().zip(&line).for_each(|(mean, v)| *mean += v / tests.len() as f64);
        report.note(row(name, &line));
    }
    report.note(row("mean", &means));
    Ok(report)
}

fn row(name: &str, figures: &[f64]) -> String {
    let figures: String = figures.iter().map(|v| format!(" {v:>8.2}")).collect();
    format!("{name:<44}{figures}")
}
