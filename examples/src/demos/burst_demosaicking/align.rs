//! Alignment of each frame to the first, from coarse to fine, by grey pictures of half the resolution: eight unknowns, a residual per
//! pixel.

use super::homography::{Homography, moved};
use super::sampling::Sampler;
use super::synthetic::Burst;
use crate::demos::DemoError;
use crate::pyramid::Grey;
use sumsq::codegen::runtime::{Buffer, BufferSpec};
use sumsq::codegen::{Expr, Input, Pipeline, ScalarType::F32, Source, Var};
use sumsq::energy::losses::LossKind;
use sumsq::pipeline_energy::{Loss, PipelineEnergy, PipelineSolver};
use sumsq::{CompileOptions, Precision, Report, SolveOptions};

/// Shorter side of the coarsest pictures, at least.
const COARSEST: usize = 24;
/// Difference of grey from which a pixel counts as an outlier.
const OUTLIER: f64 = 0.1;

/// The homographies that take pixels of frames 1, 2... to the first.
pub fn align(burst: &Burst, report: &mut dyn FnMut(&str, Report)) -> Result<Vec<Homography>, DemoError> {
    let solver = solver()?;
    let first = pyramid(burst, 0);
    let mut found = vec![];
    for frame in 1..=burst.homographies.len() {
        let other = pyramid(burst, frame);
        let mut h = Homography::default();
        for (level, (a, b)) in first.iter().zip(&other).enumerate().rev() {
            // Pixels of level 0 are two pixels of a frame wide.
            let factor = (2 << level) as f64;
            let (next, last) = fit(&solver, a, b, h.scaled(1.0 / factor))?;
            h = next.scaled(factor);
            if level == 0 {
                report(&format!("align frame {frame}"), last);
            }
        }
        found.push(h);
    }
    Ok(found)
}

/// Grey pictures of a frame, from half its resolution on.
fn pyramid(burst: &Burst, frame: usize) -> Vec<Grey> {
    let (width, height) = (burst.width / 2, burst.height / 2);
    let mean = |x: usize, y: usize| {
        let corners = [(0, 0), (1, 0), (0, 1), (1, 1)];
        corners.map(|(dx, dy)| burst.raw(frame, 2 * x + dx, 2 * y + dy)).iter().sum::<f32>() / 4.0
    };
    // Smoothed: between pixels what is sharp and what is noise would be blurred by sampling, and seem to fit better there.
    let mut levels = vec![Grey::from_fn(width, height, mean).smooth()];
    while let Some(last) = levels.last().filter(|g| g.width.min(g.height) >= 2 * COARSEST) {
        levels.push(last.half());
    }
    levels
}

/// Residual: the first picture where a homography takes a pixel of the other, less that pixel.
fn solver() -> Result<PipelineSolver, DemoError> {
    let [x, y] = ["x", "y"].map(Var::new);
    let mut p = Pipeline::new("alignment");
    let homography = p.input(Input::new("homography", &[F32], 1));
    let first = p.input(Input::new("first", &[F32], 2));
    let other = p.input(Input::new("other", &[F32], 2));
    let (width, height) = (other.extent(0), other.extent(1));
    let [u, v] = moved(&|k| homography.of(k), [&x.expr(), &y.expr()], [&width, &height]);
    let extents = [first.extent(0), first.extent(1)];
    let (sample, seen) = Sampler::Cubic.sample(&[u, v], [&extents[0], &extents[1]], |u, v| first.of((u, v)));
    let apart = sample - other.of((x, y));
    p.define("apart", [x, y], Expr::select(seen, apart, Expr::constant(F32, 0.0)));
    let loss = Loss::Robust { kind: LossKind::Cauchy, scale: OUTLIER, second_order: false };
    let energy = PipelineEnergy::new(p).unknown("homography").residual_over(
        "apart",
        &[(0.into(), width), (0.into(), height)],
        loss,
    );
    let options = CompileOptions { precision: Precision::F32, ..CompileOptions::default() };
    let size: &[i32] = &[640, 360];
    Ok(energy
        .compile(&options, &[("first", size), ("other", size), ("apart", size), ("homography", &[8])])?)
}

fn fit(
    solver: &PipelineSolver,
    a: &Grey,
    b: &Grey,
    start: Homography,
) -> Result<(Homography, Report), DemoError> {
    let picture = |g: &Grey| {
        let b = Buffer::new(BufferSpec::new(F32, &[g.width as i32, g.height as i32]))?;
        b.copy_from(&g.values)?;
        Ok::<Buffer, DemoError>(b)
    };
    let (first, other) = (picture(a)?, picture(b)?);
    let homography = Buffer::new(BufferSpec::new(F32, &[8]))?;
    homography.copy_from(&start.0)?;
    let buffers = [("first", &first), ("other", &other), ("homography", &homography)];
    let options =
        SolveOptions { iterations: Some(20), function_tolerance: Some(1e-5), ..SolveOptions::default() };
    let report = solver.solve(&buffers, &mut [], &options)?;
    let mut numbers = [0.0f64; 8];
    homography.copy_to(&mut numbers)?;
    Ok((Homography(numbers), report))
}
