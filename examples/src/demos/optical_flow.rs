//! Optical flow (Horn and Schunck, "Determining optical flow", 1981) from coarse to fine: each level of a pyramid starts from the
//! flow of the one above, and smoothness is relaxed in passes. One compiled solver serves all sizes.

use super::run::{Run, decode};
use super::{DemoError, Problem, floats, param, rows};
use crate::panels;
use crate::pyramid::Grey;
use image::{Rgb, RgbImage};
use sumsq::{Method, Options, ProblemData, SolveOptions};

/// Made of a photograph by the JPEG XL Project Authors.
const FRAMES: [&[u8]; 2] = [
    include_bytes!("../../../data/optical_flow/frame1.png"),
    include_bytes!("../../../data/optical_flow/frame2.png"),
];
const TRUTH: &[u8] = include_bytes!("../../../data/optical_flow/flow.png");

/// Levels of the pyramid, and passes on each, with their weights of smoothness.
const LEVELS: usize = 4;
const W_REG: [f32; 2] = [0.6, 0.2];
/// Weight of brightness, which is between 0 and 1.
const W_FIT: f32 = 4.0;

/// Finds the flow.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::flowers()?;
    let flow = scene.solve(run)?;
    let still = vec![[0.0; 2]; scene.truth.len()];
    run.measure("end-point error, mean", "pixels", scene.error(&still), scene.error(&flow));
    run.picture("", &scene.picture(&flow)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    let scene = Scene::flowers()?;
    Ok(Scene::problem(&scene.grey, &vec![[0.0; 2]; scene.truth.len()]))
}

/// Two pictures, and where the pixels of the first went.
#[derive(Clone, Debug)]
pub struct Scene {
    frames: [RgbImage; 2],
    grey: [Grey; 2],
    truth: Vec<[f32; 2]>,
}

impl Scene {
    /// A bunch of flowers that turns and is bent.
    pub fn flowers() -> Result<Scene, DemoError> {
        let [a, b] = FRAMES.map(|bytes| decode(bytes).map(|frame| frame.to_rgb8()));
        let frames = [a?, b?];
        let truth = decode(TRUTH)?.to_rgb16();
        if frames.iter().any(|frame| frame.dimensions() != truth.dimensions()) {
            return Err(DemoError::Data("the frames and their flow differ in size".into()));
        }
        // 16-bit codes: 32768 is no motion, 256 a pixel.
        let motion = |code: u16| (f32::from(code) - 32768.0) / 256.0;
        let truth = truth.pixels().map(|p| [motion(p.0[0]), motion(p.0[1])]).collect();
        let grey = [grey(&frames[0]), grey(&frames[1])];
        Ok(Scene { frames, grey, truth })
    }

    /// The problem on one level, started at `flow` (in pixels of that level).
    fn problem(levels: &[Grey; 2], flow: &[[f32; 2]]) -> Problem {
        let [from, to] = levels;
        let shape = [from.height, from.width];
        let [dx, dy] = to.gradient();
        Problem {
            energy: "optical_flow",
            text: include_str!("../../energies/optical_flow.t"),
            inputs: vec![
                floats("X", &[from.height, from.width, 2], flow.as_flattened().to_vec()),
                floats("I", &shape, from.values.clone()),
                floats("I_hat", &shape, to.values.clone()),
                floats("I_hat_dx", &shape, dx.values),
                floats("I_hat_dy", &shape, dy.values),
                param("w_fit", W_FIT),
                param("w_reg", W_REG[0]),
            ],
            // The derivative images are smoother than the derivative of the bilinear interpolation, so that near the end steps
            // do not lower E as predicted, and a trust region would collapse.
            options: Options {
                solve: SolveOptions {
                    method: Method::GaussNewton,
                    iterations: Some(6),
                    linear_iterations: Some(50),
                    ..SolveOptions::default()
                },
                ..Options::default()
            },
        }
    }

    /// Coarse to fine, smooth to less smooth.
    fn solve(&self, run: &mut Run<'_>) -> Result<Vec<[f32; 2]>, DemoError> {
        let mut pyramid = vec![self.grey.clone().map(|grey| grey.smooth())];
        for level in 1..LEVELS {
            pyramid.push(pyramid[level - 1].clone().map(|grey| grey.half()));
        }
        let coarsest = &pyramid[LEVELS - 1];
        let mut flow = vec![[0.0; 2]; coarsest[0].values.len()];
        let start = Scene::problem(coarsest, &flow);
        let (solver, data) = start.compile()?;
        let mut planned = solver.plan(&data)?;
        for (level, pictures) in pyramid.iter().enumerate().rev() {
            let problem = Scene::problem(pictures, &flow);
            let mut data = ProblemData::bind(solver.energy(), &problem.inputs)?;
            planned.rebind(&data)?;
            for w_reg in W_REG {
                data.update(solver.energy(), &[param("w_reg", w_reg)])?;
                planned.set_arrays(&data)?;
                let label = format!("{} x {}, w_reg {w_reg}", pictures[0].width, pictures[0].height);
                run.pass(&label, &mut planned, &mut data, &problem.options.solve)?;
            }
            let solution = data.unknown_arrays(problem.options.compile.precision);
            flow = rows::<2>(&solution, "X", pictures[0].values.len())?;
            if let Some(finer) = level.checked_sub(1).map(|finer| &pyramid[finer][0]) {
                flow = doubled(&flow, &pictures[0], finer);
            }
        }
        Ok(flow)
    }

    /// Mean distance to where the pixels really went.
    pub fn error(&self, flow: &[[f32; 2]]) -> f64 {
        let distance = |(a, b): (&[f32; 2], &[f32; 2])| f64::from((a[0] - b[0]).hypot(a[1] - b[1]));
        flow.iter().zip(&self.truth).map(distance).sum::<f64>() / self.truth.len().max(1) as f64
    }

    fn picture(&self, flow: &[[f32; 2]]) -> Result<RgbImage, DemoError> {
        let longest = self.truth.iter().map(|v| v[0].hypot(v[1])).fold(0.0, f32::max);
        let size = self.frames[0].dimensions();
        let [found, truth] = [flow, &self.truth].map(|flow| colour_coded(flow, size, longest));
        let still = vec![[0.0; 2]; flow.len()];
        let [unmoved, moved] = [&still[..], flow].map(|flow| self.difference(flow));
        let top =
            [("first frame", &self.frames[0]), ("second frame", &self.frames[1]), ("difference", &unmoved)];
        let bottom =
            [("flow found", &found), ("ground truth", &truth), ("difference along the flow", &moved)];
        Ok(panels::column(&[panels::row(&top)?, panels::row(&bottom)?]))
    }

    /// The second frame brought back along the flow, less the first one: grey where they agree.
    fn difference(&self, flow: &[[f32; 2]]) -> RgbImage {
        let [from, to] = &self.grey;
        RgbImage::from_fn(from.width as u32, from.height as u32, |x, y| {
            let i = y as usize * from.width + x as usize;
            let seen = sample(to, x as f32 + flow[i][0], y as f32 + flow[i][1]);
            Rgb([(128.0 + 255.0 * (seen - from.values[i])).clamp(0.0, 255.0) as u8; 3])
        })
    }
}

fn grey(picture: &RgbImage) -> Grey {
    let value = |x: usize, y: usize| {
        let [r, g, b] = picture.get_pixel(x as u32, y as u32).0.map(f32::from);
        (0.299 * r + 0.587 * g + 0.114 * b) / 255.0
    };
    Grey::from_fn(picture.width() as usize, picture.height() as usize, value)
}

/// Bilinear; outside the picture the nearest pixel.
fn sample(of: &Grey, x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (s, t) = (x - left, y - top);
    let at = |dx: isize, dy: isize| of.at(left as isize + dx, top as isize + dy);
    (1.0 - t) * ((1.0 - s) * at(0, 0) + s * at(1, 0)) + t * ((1.0 - s) * at(0, 1) + s * at(1, 1))
}

/// A flow on a level twice as fine, in its pixels.
fn doubled(flow: &[[f32; 2]], coarse: &Grey, fine: &Grey) -> Vec<[f32; 2]> {
    let channels =
        [0, 1].map(|c| Grey::from_fn(coarse.width, coarse.height, |x, y| flow[y * coarse.width + x][c]));
    let pixel = |i: usize| {
        let at = [i % fine.width, i / fine.width].map(|c| 0.5 * c as f32 - 0.25);
        [0, 1].map(|c| 2.0 * sample(&channels[c], at[0], at[1]))
    };
    (0..fine.values.len()).map(pixel).collect()
}

/// Direction as hue, length as saturation; `longest` is fully saturated.
fn colour_coded(flow: &[[f32; 2]], (width, height): (u32, u32), longest: f32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let [u, v] = flow[(y * width + x) as usize];
        let hue = 6.0 * (v.atan2(u) / std::f32::consts::TAU).rem_euclid(1.0);
        let saturation = (u.hypot(v) / longest.max(1e-6)).min(1.0);
        let channel = |shift: f32| {
            let t = (hue + shift).rem_euclid(6.0);
            let full = (t.min(4.0 - t)).clamp(0.0, 1.0);
            (255.0 * (1.0 - saturation * (1.0 - full))) as u8
        };
        Rgb([channel(2.0), channel(0.0), channel(4.0)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_takes_the_first_frame_to_the_second() {
        let scene = Scene::flowers().unwrap();
        let mean = |flow: &[[f32; 2]]| {
            let off = scene.difference(flow);
            off.pixels().map(|p| f64::from(p.0[0].abs_diff(128))).sum::<f64>() / flow.len() as f64
        };
        let still = vec![[0.0; 2]; scene.truth.len()];
        assert!(mean(&scene.truth) < 0.25 * mean(&still), "{} {}", mean(&scene.truth), mean(&still));
    }

    #[test]
    fn a_constant_flow_is_doubled() {
        let (coarse, fine) = (Grey::from_fn(8, 6, |_, _| 0.0), Grey::from_fn(15, 12, |_, _| 0.0));
        let flow = doubled(&[[1.5, -2.0]; 48], &coarse, &fine);
        assert!(flow.len() == 180 && flow.iter().all(|v| *v == [3.0, -4.0]));
    }

    #[test]
    fn directions_have_their_colours() {
        let flow = [[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]];
        let picture = colour_coded(&flow, (3, 1), 1.0);
        let [right, still, left] = [0, 1, 2].map(|x| picture.get_pixel(x, 0).0);
        assert_eq!((right, still, left), ([255, 0, 0], [255; 3], [0, 255, 255]));
    }
}
