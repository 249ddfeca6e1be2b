//! Demosaicking (Li et al. 2018, section 5.2.1 and table 2): filters trained on photographs and patterns, by Adam and by Levenberg-Marquardt; results
//! on others, beside bilinear means and AHD. Writes the filters into `data/demosaicking`.
//!
//! `SUMSQ_FILTERS` names the number of filters of those that are trained; the others are as they lie there. With `SUMSQ_FURTHER` these are
//! trained on from what lies there as well.

use super::{THREADS, published, root};
use crate::report::Report;
use std::error::Error;
use std::time::{Duration, Instant};
use sumsq::codegen::runtime::Pool;
use sumsq::pipeline_energy::{Descent, FirstOrder, PipelineSolver};
use sumsq::{CompileOptions, Control, Iteration, Precision, SolveOptions};
use sumsq_examples::demosaicking::{Demosaicker, Scene, Set, energy, estimates, moire};
use sumsq_examples::pipelines::{Filters, Picture};

type Failed = Box<dyn Error>;

/// Photographs for training. Of each kind, large ones and small ones, every other by name, but that of the project is a test.
pub(super) const TRAINING: [&str; 8] = [
    "photos/aitzgorri_by_Aitzol_Berasategi.jpg",
    "photos/friends_by_Aitzol_Berasategi.jpg",
    "photos/Picture_0B_by_freespace.jpg",
    "photos/sunset_by_Aitzol_Berasategi.jpg",
    "photos/Wine_by_Jakkub_Mede.jpg",
    "astronaut.png",
    "coffee.png",
    "tmshre_riaphotographs_srgb8.png",
];
/// Photographs for the comparison.
pub(super) const TESTS: [&str; 7] = [
    "flower_2268x1512.png",
    "photos/life_by_Aitzol_Berasategi.jpg",
    "photos/picosdeeuropa_by_Aitzol_Berasategi.jpg",
    "seeding_5312x2988.jpg",
    "chelsea.png",
    "cvo9xd_keong_macan_srgb8.png",
    "u76c0g_bliznaca_srgb8.png",
];
/// Pieces of a photograph at most, patterns and their size, and the seeds of those of the tests.
const PIECES: usize = 28;
const PATTERNS: [u64; 6] = [100, 101, 102, 103, 104, 105];
const PATTERN: usize = 128;
const TEST_PATTERNS: [u64; 4] = [0, 1, 2, 3];
const TEST_PATTERN: usize = 256;
/// Numbers of filters, and the seconds that their training may take.
const COUNTS: [(i32, u64); 3] = [(2, 120), (9, 200), (15, 600)];
/// Products in a step of Levenberg-Marquardt at most.
const PRODUCTS: usize = 40;

fn scenes(names: &[&str]) -> Result<Vec<Scene>, Failed> {
    let scene = |name: &&str| Ok(Scene::of(&Picture::read(&published("data/image").join(name))?));
    names.iter().map(scene).collect()
}

/// The set that filters are trained on: of each photograph the most detailed pieces, and patterns.
fn training(pool: &Pool) -> Result<Set, Failed> {
    let mut pieces = vec![];
    for scene in scenes(&TRAINING)? {
        pieces.extend(Set::pieces(&scene).into_iter().take(PIECES));
    }
    for seed in PATTERNS {
        pieces.extend(Set::pieces(&moire(seed, PATTERN)));
    }
    let ahd = Demosaicker::new("demosaic_ahd")?;
    let weighed = |scene: Scene| {
        let error = scene.error(&ahd.run(pool, &scene.mosaic())?);
        Ok::<(Scene, f64), Failed>((scene, error))
    };
    Ok(Set::of(&pieces.into_iter().map(weighed).collect::<Result<Vec<_>, _>>()?)?)
}

/// The course of a training: seconds, and the ratio that was reached by then.
type Course = Vec<(f64, f64)>;

/// Trains by Levenberg-Marquardt from these filters on.
fn by_lm(
    solver: &PipelineSolver,
    set: &Set,
    start: &Filters,
    limit: Duration,
) -> Result<(Filters, Course), Failed> {
    let buffers = start.buffers()?;
    let options = SolveOptions {
        max_time: Some(limit),
        linear_iterations: Some(PRODUCTS),
        function_tolerance: Some(2e-5),
        ..SolveOptions::default()
    };
    let (mut course, started) = (vec![], Instant::now());
    let mut observe = |step: &Iteration| {
        let point = (started.elapsed().as_secs_f64(), set.psnr(step.energy));
        println!(
            "  {}: {:.0} s, {:.3} dB, {} products",
            step.iteration, point.0, point.1, step.linear_iterations
        );
        course.push(point);
        Control::Continue
    };
    let report = solver.solve_with(&set.with(&buffers), &mut [], &options, &mut observe)?;
    course.insert(0, (0.0, set.psnr(report.energy_initial)));
    Ok((Filters::of(start.count, &buffers), course))
}

/// The same by Adam. Responses of edges are larger than taps.
fn by_adam(
    solver: &PipelineSolver,
    set: &Set,
    start: &Filters,
    limit: Duration,
) -> Result<(Filters, Course), Failed> {
    let buffers = start.buffers()?;
    let method = FirstOrder::Adam { rate: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8 };
    let options = Descent {
        method,
        scales: &[("edges", 10.0)],
        iterations: usize::MAX,
        max_time: Some(limit),
        ..Descent::default()
    };
    let course = solver.descend(&set.with(&buffers), &mut [], &options)?;
    let points = course.seconds.iter().zip(&course.energies).map(|(s, e)| (*s, set.psnr(*e)));
    Ok((Filters::of(start.count, &buffers), points.collect()))
}

/// Some points of a course, in words.
fn told(course: &Course) -> String {
    let last = course.len().saturating_sub(1);
    let points = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256].into_iter().filter(|k| *k < last).chain([last]);
    let point = |k: usize| format!("{k}: {:.1} s {:.2}", course[k].0, course[k].1);
    points.map(point).collect::<Vec<_>>().join("; ")
}

/// Means of the ratios over photographs, and over patterns.
fn ratios(way: &Demosaicker, pool: &Pool, tests: &[Scene]) -> Result<(f64, f64), Failed> {
    let each = tests.iter().map(|scene| Ok(scene.psnr(&way.run(pool, &scene.mosaic())?)));
    let each = each.collect::<Result<Vec<f64>, Failed>>()?;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
    let list = each.iter().map(|r| format!("{r:.2}")).collect::<Vec<_>>().join(" ");
    println!("  {list}");
    let (photographs, patterns) = each.split_at(TESTS.len());
    Ok((mean(photographs), mean(patterns)))
}

/// Trains, tests, writes.
pub fn run() -> Result<Report, Failed> {
    let setting = format!(
        "PSNR in dB over {} photographs and {} patterns that no filter was trained on, each averaged over 4 x 4 pixels before it was made a mosaic; {THREADS} threads",
        TESTS.len(),
        TEST_PATTERNS.len()
    );
    let mut report = Report::new("demosaicking", setting);
    let wanted = std::env::var("SUMSQ_FILTERS").ok();
    let further = std::env::var_os("SUMSQ_FURTHER").is_some();
    report.is_partial = wanted.is_some() || further;
    let pool = Pool::new(THREADS);
    let tests = scenes(&TESTS)?.into_iter().chain(TEST_PATTERNS.map(|seed| moire(seed, TEST_PATTERN)));
    let tests: Vec<Scene> = tests.collect();
    let mut lines = vec![];
    let mut ahd = (0.0, 0.0);
    for name in ["demosaic_bilinear", "demosaic_ahd"] {
        ahd = ratios(&Demosaicker::new(name)?, &pool, &tests)?;
        lines.push((name.to_string(), ahd));
    }
    let set = training(&pool)?;
    println!("training on {} x {} pixels", set.width, set.height);
    let mut last = Filters::directions();
    for (count, seconds) in COUNTS {
        let limit = Duration::from_secs(seconds);
        let folder = root().join("data/demosaicking");
        let there = || -> Result<Filters, Failed> {
            let text = std::fs::read_to_string(folder.join(format!("filters_{count}.txt")))?;
            Ok(Filters::parse(count, &text)?)
        };
        if wanted.as_ref().is_none_or(|w| *w == count.to_string()) {
            let start = match further {
                true => there()?,
                false if count == last.count => last.clone(),
                false => last.grown(count),
            };
            let options = CompileOptions {
                threads: Some(THREADS),
                precision: Precision::F32,
                ..CompileOptions::default()
            };
            let sizes = estimates(count, [set.width, set.height]);
            let sizes: Vec<(&str, &[i32])> = sizes.iter().map(|(n, s)| (*n, s.as_slice())).collect();
            let solver = energy(count)?.compile(&options, &sizes)?;
            let before = ratios(&Demosaicker::with(start.clone())?, &pool, &tests)?;
            let so_far = if further { "so far" } else { "untrained" };
            lines.push((format!("{count} filters, {so_far}"), before));
            let (trained, course) = by_lm(&solver, &set, &start, limit)?;
            report.note(format!(
                "{count} filters by Levenberg-Marquardt, weighted PSNR of the training by steps: {}",
                told(&course)
            ));
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join(format!("filters_{count}.txt")), trained.text())?;
            lines.push((
                format!("{count} filters by LM"),
                ratios(&Demosaicker::with(trained.clone())?, &pool, &tests)?,
            ));
            if count == 2 {
                // As long as the other.
                let (adam, course) = by_adam(&solver, &set, &start, limit)?;
                report.note(format!("{count} filters by Adam: {}", told(&course)));
                lines.push((
                    format!("{count} filters by Adam"),
                    ratios(&Demosaicker::with(adam)?, &pool, &tests)?,
                ));
            }
            last = trained;
        } else {
            last = there()?;
            lines.push((
                format!("{count} filters, as they were"),
                ratios(&Demosaicker::with(last.clone())?, &pool, &tests)?,
            ));
        }
    }
    report.note(format!("{:<28} {:>12} {:>12} {:>12}", "", "photographs", "patterns", "beside AHD"));
    for (name, (photographs, patterns)) in lines {
        let more = (photographs - ahd.0, patterns - ahd.1);
        report.note(format!(
            "{name:<28} {photographs:>12.2} {patterns:>12.2} {:>+6.2} {:>+6.2}",
            more.0, more.1
        ));
    }
    Ok(report)
}
