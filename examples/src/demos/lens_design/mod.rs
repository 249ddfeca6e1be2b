//! A lens made shorter: G. Lange's of 1957, whose sensor moves from 10 to 6 behind its first surface, at the same focal length, field of view
//! and F-number
//! (Li et al., "Differentiable programming for image processing and deep learning in Halide", 2018, section 5.4). Unknown are the
//! curvatures, the gaps and the place of the stop.
//!
//! | file | what |
//! |---|---|
//! | `lens` | prescriptions, and the rays by which they are judged |
//! | `trace` | the ray tracer, a pipeline |
//! | `design` | the energy over it, its solver |
//! | `drawing` | sections and spots |
//! | `application` | the spots by the lens's numbers, for `sumsq pipeline` |

mod application;
mod design;
mod drawing;
mod lens;
mod trace;

use super::DemoError;
use super::run::Run;
use crate::panels;
pub(crate) use application::APPLICATION;
pub use design::{Designer, energy};
pub use lens::{Beams, Lens};
use std::time::Instant;
use sumsq::Iteration;
pub use trace::{LEAST, NUMBERS, trace};

/// Distance of the sensor from the first surface, before and after.
const LENGTHS: [f64; 2] = [10.0, 6.0];
/// Lengths on the way, the last one included; each is solved for from the lens before, in so many steps at most.
const STAGES: usize = 9;
const STEPS: usize = 50;
/// Steps straight from the first length to the last: of Levenberg and Marquardt, and of gradient descent.
const STRAIGHT: usize = 10;
const DESCENT: usize = 1000;

/// The points at which the rays of each field meet the sensor.
#[derive(Clone, PartialEq, Debug)]
pub struct Spots {
    /// By field, from the centre of the spot.
    pub fields: Vec<Vec<[f64; 2]>>,
    /// Heights of the centres.
    pub heights: Vec<f64>,
    /// Rays that do not arrive.
    pub lost: usize,
}

impl Spots {
    /// Those of a lens.
    ///
    /// # Errors
    /// A failure of the engine.
    pub fn of(lens: &Lens, beams: &Beams) -> Result<Spots, DemoError> {
        let ways = trace(lens, beams)?;
        let mut spots = Spots { fields: vec![], heights: vec![], lost: 0 };
        for of_field in &ways {
            let arrived = of_field.iter().filter(|way| !lost(way)).filter_map(|way| way.last());
            let points: Vec<[f64; 2]> = arrived.map(|r| [r[0], r[1]]).collect();
            let mean = |c: usize| points.iter().map(|p| p[c]).sum::<f64>() / points.len().max(1) as f64;
            let centre = [mean(0), mean(1)];
            spots.lost += of_field.len() - points.len();
            spots.fields.push(points.iter().map(|p| [p[0] - centre[0], p[1] - centre[1]]).collect());
            spots.heights.push(centre[1]);
        }
        Ok(spots)
    }

    /// Root mean square of the distances from the centres.
    pub fn size(&self) -> f64 {
        let all = self.fields.iter().flatten();
        (all.clone().map(|p| p[0] * p[0] + p[1] * p[1]).sum::<f64>() / all.count().max(1) as f64).sqrt()
    }

    /// The largest distance of a centre from where a lens of this focal length without distortion has it, as a share of its height.
    pub fn distortion(&self, focal: f64, beams: &Beams) -> f64 {
        let ideal = beams.fields.iter().map(|[tangent, _]| focal * tangent);
        let off =
            ideal.zip(&self.heights).filter(|(ideal, _)| *ideal > 0.0).map(|(i, h)| (h / i - 1.0).abs());
        off.fold(0.0, f64::max)
    }
}

/// Did a ray miss a surface, or was it totally reflected?
fn lost(way: &[[f64; NUMBERS]]) -> bool {
    way.last().is_none_or(|r| r[trace::SPARE] <= LEAST)
}

/// Makes the lens shorter: straight away, by Levenberg and Marquardt and by gradient descent, to compare the two; then length by length.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let start = Lens::lange(LENGTHS[0]);
    let beams = Beams::of(&start, 4, 8);
    // Rays between those that lenses are made for.
    let judge = Beams::of(&start, 9, 20);
    let last = LENGTHS[1];
    let designer = Designer::new(&start, &beams)?;
    let mut solve = |label: &str, from: &Lens, length: f64, steps: usize| {
        let mut observe = |step: &Iteration| run.observe(label, step);
        let (lens, report) = designer.solve(from, length, steps, &mut observe)?;
        let seconds = report.seconds.solve;
        run.reported(label, report);
        Ok::<(Lens, f64), DemoError>((lens, seconds))
    };
    let (straight, seconds) = solve("straight", &start, last, STRAIGHT)?;
    let mut short = start.clone();
    for stage in 1..=STAGES {
        let length = LENGTHS[0] + (last - LENGTHS[0]) * stage as f64 / STAGES as f64;
        short = solve(&format!("length {length:.2}"), &short, length, STEPS)?.0;
    }
    let began = Instant::now();
    let descended = designer.descend(&start, last, DESCENT)?.0;
    let descent = began.elapsed().as_secs_f64();

    let [before, straight, descended, after] = [
        Spots::of(&start, &judge)?,
        Spots::of(&straight, &judge)?,
        Spots::of(&descended, &judge)?,
        Spots::of(&short, &judge)?,
    ];
    let focal = start.focal();
    let spot = "units, root mean square";
    run.measure("spots by 1000 steps of descent and by 10 of LM", spot, descended.size(), straight.size());
    run.measure("seconds of the two", "s", descent, seconds);
    run.measure("length", "units", start.length(), short.length());
    run.measure("spots of the long lens and the short one", spot, before.size(), after.size());
    run.measure("focal length", "units", focal, short.focal());
    let distortion = [&before, &after].map(|spots| spots.distortion(focal, &judge));
    run.measure("distortion", "of the height", distortion[0], distortion[1]);

    let fan = Beams::fan(&start, 5);
    let sections = [drawing::section(&start, &fan, LENGTHS[0])?, drawing::section(&short, &fan, LENGTHS[0])?];
    let spots = [&before, &after].map(|s| drawing::spots(s, focal));
    let above = [("as published", &sections[0]), ("shorter", &sections[1])];
    let below = [
        ("its spots at 0, 10, 20 and 28 degrees, enlarged", &spots[0]),
        ("the same of the shorter", &spots[1]),
    ];
    run.picture("", &panels::column(&[panels::row(&above)?, panels::row(&below)?]))?;
    run.plot()
}
