//! The energy of a burst: sum over frames i and pixels of (M H_i R - I_i)^2 + lambda |grad R|, with |.| rounded off near 0.
//!
//! R has twice the resolution of a frame, whose pixels are means over four of its own. At the resolution of a frame R could not tell what a
//! pixel half a pixel further on sees: frames would disagree about details, and be moved to hide it.

use super::homography::{Homography, moved};
use super::sampling::Sampler;
use super::synthetic::Burst;
use crate::demos::DemoError;
use sumsq::codegen::runtime::{Buffer, BufferSpec};
use sumsq::codegen::{Expr, Func, Input, Pipeline, ScalarType::F32, Source, Var, boundary};
use sumsq::energy::losses::LossKind;
use sumsq::pipeline_energy::{Certificate, Course, Descent, Loss, PipelineEnergy, PipelineSolver};
use sumsq::{CompileOptions, Control, Iteration, Precision, Report, SolveOptions};

/// Weight of the prior's residuals. `cargo xtask bench burst` compares others on another burst than the demo's.
pub const WEIGHT: f32 = 1.0;
/// The size of a difference from which the prior counts by its first power: lambda = 2 WEIGHT^2 SCALE.
const SCALE: f64 = 0.002;

/// A picture, and where the pixels of frames 1, 2... lie in it.
#[derive(Clone, Debug)]
pub struct Reconstruction {
    /// Plane after plane, row by row: twice as wide and high as [`Burst::truth`].
    pub picture: Vec<f32>,
    /// As [`Burst::homographies`].
    pub homographies: Vec<Homography>,
}

impl Reconstruction {
    /// A picture of the size of a frame, each pixel divided into four, and an alignment.
    pub fn of(burst: &Burst, coarse: &[f32], homographies: Vec<Homography>) -> Reconstruction {
        let mut picture = vec![0.0; 4 * coarse.len()];
        for (row, values) in coarse.chunks(burst.width).zip(picture.chunks_mut(4 * burst.width)) {
            for (x, value) in values.iter_mut().enumerate() {
                *value = row[x % (2 * burst.width) / 2];
            }
        }
        Reconstruction { picture, homographies }
    }

    /// The picture in the size of a frame: means over four pixels.
    pub fn coarse(&self, burst: &Burst) -> Vec<f32> {
        let (width, finer) = (burst.width, 2 * burst.width);
        let rows = self.picture.chunks(2 * finer);
        let mean = |rows: &[f32], x: usize| {
            [0, 1, finer, finer + 1].iter().map(|i| rows[2 * x + i]).sum::<f32>() / 4.0
        };
        rows.flat_map(|rows| (0..width).map(move |x| mean(rows, x))).collect()
    }
}

/// The sensor's pattern: red at (0, 0), blue at (1, 1), green between.
pub(super) fn pattern(p: &mut Pipeline) -> Func {
    let [x, y] = Var::all(["x", "y"]);
    p.define("channel", [x, y], x % 2 + y % 2)
}

/// The middle of a pixel of a frame, in pixels of the picture.
fn finer_place(u: Expr) -> Expr {
    u * 2.0 + 0.5
}

/// The value of the picture, of this size, at a place for pixel (x, y) of a frame, less that of the frame; 0 where the place is not in it.
fn apart(picture: &Input, channel: &Func, place: &[Expr; 2], [width, height]: &[Expr; 2], of: Expr) -> Expr {
    let [x, y] = Var::all(["x", "y"]);
    let pixel = |u, v| picture.of((u, v, channel.of((x, y))));
    let (value, seen) = Sampler::Mean.sample(place, [width, height], pixel);
    Expr::select(seen, value - of, Expr::constant(F32, 0.0))
}

/// Adds the residuals of frames of this size at the places that homographies say: `of_others(x, y, n)`.
pub(super) fn of_others(
    p: &mut Pipeline,
    channel: &Func,
    [picture, homography, frames]: [&Input; 3],
    size: [&Expr; 2],
) -> Func {
    let [x, y, n] = Var::all(["x", "y", "n"]);
    let there = moved(&|k| homography.of((k, n)), [&x.expr(), &y.expr()], size);
    let place = p.define_tuple("place", [x, y, n], there.map(finer_place).to_vec());
    let there = [0, 1].map(|d| place.at(&[x, y, n].map(Expr::from), d));
    let value = apart(picture, channel, &there, &size.map(|n| n * 2), frames.of((x, y, n)));
    p.define("of_others", [x, y, n], value)
}

/// The energy with a prior of this weight, over unknown `picture` (x, y, channel) and `homography` (number, frame).
pub fn energy(weight: f32) -> PipelineEnergy {
    let [x, y, c] = ["x", "y", "c"].map(Var::new);
    let mut p = Pipeline::new("burst_demosaicking");
    let picture = p.input(Input::strided("picture", &[F32], 3));
    let homography = p.input(Input::strided("homography", &[F32], 2));
    let first = p.input(Input::strided("first", &[F32], 2));
    let frames = p.input(Input::strided("frames", &[F32], 3));
    let (width, height) = (first.extent(0), first.extent(1));
    let finer = [&width * 2, &height * 2];
    let channel = pattern(&mut p);
    let here = [x, y].map(|v| finer_place(v.expr().cast(F32)));
    p.define("of_first", [x, y], apart(&picture, &channel, &here, &finer, first.of((x, y))));
    of_others(&mut p, &channel, [&picture, &homography, &frames], [&width, &height]);

    let [across, down, _] = <[_; 3]>::try_from(picture.domain()).unwrap_or_default();
    let near = p.func(boundary::repeat_edge("near", &picture, &[across, down, None]));
    let change = |dx: i32, dy: i32| (near.of((x + dx, y + dy, c)) - near.of((x, y, c))) * weight;
    p.define_tuple("prior", [x, y, c], vec![change(1, 0), change(0, 1)]);

    let extents = |e: [Expr; 3]| e.map(|e| (Expr::from(0), e));
    let others = extents([width.clone(), height.clone(), frames.extent(2)]);
    let pixels = [(Expr::from(0), width), (Expr::from(0), height)];
    let [across, down] = finer;
    let finer = extents([across, down, Expr::from(3)]);
    let prior = Loss::Robust { kind: LossKind::Huber, scale: f64::from(weight) * SCALE, second_order: false };
    PipelineEnergy::new(p)
        .unknown("picture")
        .unknown("homography")
        .residual_over("of_first", &pixels, Loss::Squares)
        .residual_over("of_others", &others, Loss::Squares)
        .residual_over("prior", &finer, prior)
}

/// The buffers of a burst and a reconstruction, by name.
struct Buffers {
    picture: Buffer,
    homography: Buffer,
    first: Buffer,
    frames: Buffer,
}

impl Buffers {
    /// Copies.
    fn new(burst: &Burst, start: &Reconstruction) -> Result<Buffers, DemoError> {
        let (width, height, others) =
            (burst.width as i32, burst.height as i32, burst.homographies.len() as i32);
        let new = |extents: &[i32], values: &[f32]| {
            let b = Buffer::new(BufferSpec::new(F32, extents))?;
            b.copy_from(values)?;
            Ok::<Buffer, DemoError>(b)
        };
        let (first, rest) = burst.frames.split_at(burst.width * burst.height);
        let numbers: Vec<f32> = start.homographies.iter().flat_map(|h| h.0.map(|a| a as f32)).collect();
        Ok(Buffers {
            picture: new(&[2 * width, 2 * height, 3], &start.picture)?,
            homography: new(&[8, others], &numbers)?,
            first: new(&[width, height], first)?,
            frames: new(&[width, height, others], rest)?,
        })
    }

    /// By name.
    fn named(&self) -> [(&'static str, &Buffer); 4] {
        let Buffers { picture, homography, first, frames } = self;
        [("picture", picture), ("homography", homography), ("first", first), ("frames", frames)]
    }

    /// The unknowns.
    fn reconstruction(&self) -> Reconstruction {
        let numbers: Vec<f64> = self.homography.to_vec();
        let homographies = numbers.as_chunks::<8>().0.iter().copied().map(Homography).collect();
        Reconstruction { picture: self.picture.to_vec(), homographies }
    }
}

/// Sizes for schedules.
fn estimates(burst: &Burst) -> [(&'static str, Vec<i32>); 7] {
    let (width, height, others) = (burst.width as i32, burst.height as i32, burst.homographies.len() as i32);
    [
        ("picture", vec![2 * width, 2 * height, 3]),
        ("homography", vec![8, others]),
        ("first", vec![width, height]),
        ("frames", vec![width, height, others]),
        ("of_first", vec![width, height]),
        ("of_others", vec![width, height, others]),
        ("prior", vec![2 * width, 2 * height, 3]),
    ]
}

/// The energy, compiled for bursts of this size.
fn solver(burst: &Burst, weight: f32) -> Result<PipelineSolver, DemoError> {
    let estimates = estimates(burst);
    let estimates: Vec<(&str, &[i32])> = estimates.iter().map(|(n, s)| (*n, &s[..])).collect();
    let options = CompileOptions { precision: Precision::F32, ..CompileOptions::default() };
    Ok(energy(weight).compile(&options, &estimates)?)
}

/// Options of [`reconstruct`] in the demo. The prior's slope alone is in J^T J, not its curvature: each step bounds it from above, and steps that
/// are solved roughly come as near to the minimum as exact ones, with a quarter of the products (`cargo xtask bench burst`).
pub fn solve_options() -> SolveOptions {
    SolveOptions {
        iterations: Some(24),
        function_tolerance: Some(1e-4),
        forcing: 0.6,
        ..SolveOptions::default()
    }
}

/// Solves from `start`, with a prior of this weight.
pub fn reconstruct(
    burst: &Burst,
    start: &Reconstruction,
    weight: f32,
    options: &SolveOptions,
    observe: &mut dyn FnMut(&Iteration),
) -> Result<(Reconstruction, Report), DemoError> {
    let solver = solver(burst, weight)?;
    let buffers = Buffers::new(burst, start)?;
    let mut callback = |step: &Iteration| {
        observe(step);
        Control::Continue
    };
    let report = solver.solve_with(&buffers.named(), &mut [], options, &mut callback)?;
    Ok((buffers.reconstruction(), report))
}

/// The same by Adam in so many steps, at the rate of the paper for the picture; in pixels the homographies' is of the same size.
pub fn reconstruct_by_adam(
    burst: &Burst,
    start: &Reconstruction,
    weight: f32,
    iterations: usize,
) -> Result<(Reconstruction, Course), DemoError> {
    let solver = solver(burst, weight)?;
    let buffers = Buffers::new(burst, start)?;
    let course = solver.descend(&buffers.named(), &mut [], &Descent { iterations, ..Descent::default() })?;
    Ok((buffers.reconstruction(), course))
}

/// The derivatives of the energy beside finite differences, a little away from what is true of `burst`, in a picture of so many
/// times its contrast. With much of it, differences of pixels lie seldom where the prior changes; with little, pixels that come into view
/// change the energy less.
pub fn certified(burst: &Burst, contrast: f32) -> Result<Certificate, DemoError> {
    let homographies = burst.homographies.iter().map(|h| Homography(h.0.map(|a| a + 0.1))).collect();
    let picture: Vec<f32> = burst.demosaicked(0).iter().map(|v| contrast * v).collect();
    let start = Reconstruction::of(burst, &picture, homographies);
    let buffers = Buffers::new(burst, &start)?;
    Ok(energy(WEIGHT).check(&buffers.named(), &[], None)?)
}
