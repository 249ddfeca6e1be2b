//! Shape from shading (Wu, Zollhoefer, Niessner, Stamminger, Izadi and Theobalt, "Real-time shading-based refinement for consumer
//! depth cameras", 2014): the depth map of a cheap camera takes its details from the photograph.

use super::run::{Run, decode};
use super::{DemoError, Problem, floats, param, rows};
use crate::geometry::{Vec3, unit};
use crate::io::Mesh;
use crate::panels;
use crate::render::{View, render};
use image::{DynamicImage, Rgb, RgbImage};
use std::collections::BTreeSet;
use sumsq::{ArrayData, NamedArray, Options, SolveOptions};

const DEPTH: &[u8] = include_bytes!("../../../data/shape_from_shading/skull_depth.png");
const TRUTH: &[u8] = include_bytes!("../../../data/shape_from_shading/skull_truth.png");
const INTENSITY: &[u8] = include_bytes!("../../../data/shape_from_shading/skull_intensity.png");

/// Focal length of the camera, in pixels.
const FOCAL: f32 = 574.0528;
/// Pixels of the camera, and of those the first of the pictures, outside of which nothing is seen.
const FRAME: [usize; 2] = [640, 480];
const CORNER: [usize; 2] = [44, 72];
/// The light as 9 spherical harmonics.
const LIGHT: [f32; 9] = [
    0.7819526,
    -0.04460528,
    0.23650174,
    -0.54673797,
    -0.08151183,
    -0.02340018,
    -0.006_160_321,
    -0.29867816,
    0.13398302,
];
/// Weights of the measurement, of smoothness and of shading.
const W_P: f32 = 1000.0;
const W_S: f32 = 2000.0;
const W_G: f32 = 1.0;
/// Neighbours with depths further apart, in metres, belong to different surfaces.
const JUMP: f32 = 0.01;
/// Across a crease, where they are further apart than this, shading is not compared.
const CREASE: f32 = 0.004;

/// Refines the skull.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::skull()?;
    let refined: Vec<f32> =
        rows::<1>(&run.solve(&scene.problem())?, "X", scene.depth.len())?.into_flattened();
    let (before, after) = (scene.depth_error(&scene.depth), scene.depth_error(&refined));
    run.measure("depth error, rms", "mm", before, after);
    let [before, after] = [&scene.depth, &refined].map(|depth| scene.normal_error(depth));
    run.measure("error of the surface's normals, mean", "degrees", before, after);
    run.picture("", &scene.picture(&refined)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::skull()?.problem())
}

/// A depth map, a photograph, and the truth. Depths are in metres, 0 where there is none.
#[derive(Clone, Debug)]
pub struct Scene {
    width: usize,
    height: usize,
    /// Principal point, in pixels.
    centre: [f32; 2],
    depth: Vec<f32>,
    intensity: Vec<f32>,
    truth: Vec<f32>,
}

impl Scene {
    /// A dog's skull.
    pub fn skull() -> Result<Scene, DemoError> {
        let photograph = decode(INTENSITY)?;
        let (width, height) = (photograph.width() as usize, photograph.height() as usize);
        let intensity = photograph.to_luma8().pixels().map(|p| f32::from(p.0[0]) / 255.0).collect();
        let [depth, truth] = [DEPTH, TRUTH].map(|bytes| decode(bytes).map(|picture| depths(&picture)));
        let centre = [0, 1].map(|k| FRAME[k] as f32 / 2.0 - CORNER[k] as f32);
        let scene = Scene { width, height, centre, depth: depth?, intensity, truth: truth? };
        if scene.depth.len() != width * height || scene.truth.len() != width * height {
            return Err(DemoError::Data("the skull's pictures differ in size".into()));
        }
        Ok(scene)
    }

    /// The same in all that the camera saw.
    pub fn in_its_frame(&self) -> Scene {
        let [width, height] = FRAME;
        let wide = |values: &[f32]| {
            let mut all = vec![0.0; width * height];
            for (row, y) in values.chunks(self.width).zip(CORNER[1]..) {
                all[y * width + CORNER[0]..][..self.width].copy_from_slice(row);
            }
            all
        };
        let centre = FRAME.map(|n| n as f32 / 2.0);
        let [depth, intensity, truth] = [&self.depth, &self.intensity, &self.truth].map(|v| wide(v));
        Scene { width, height, centre, depth, intensity, truth }
    }

    /// The problem: the depth of every pixel, started at the measured one.
    pub fn problem(&self) -> Problem {
        let shape = [self.height, self.width];
        let mask = |name: &str, step: usize| {
            let along = |i: usize| {
                if step == 1 { i % self.width + 1 < self.width } else { i / self.width + 1 < self.height }
            };
            let kept = (0..self.depth.len()).map(|i| u8::from(along(i) && self.level(i, i + step)));
            NamedArray { name: name.into(), shape: shape.to_vec(), data: ArrayData::Bytes(kept.collect()) }
        };
        let mut inputs = vec![
            floats("X", &shape, self.smoothed()),
            floats("D_i", &shape, self.depth.clone()),
            floats("Im", &shape, self.intensity.clone()),
            mask("edgeMaskR", 1),
            mask("edgeMaskC", self.width),
            param("w_p", W_P),
            param("w_s", W_S),
            param("w_g", W_G),
            param("f_x", FOCAL),
            param("f_y", FOCAL),
            param("u_x", self.centre[0]),
            param("u_y", self.centre[1]),
        ];
        inputs.extend(LIGHT.iter().enumerate().map(|(k, &l)| param(&format!("L_{}", k + 1), l)));
        Problem {
            energy: "shape_from_shading",
            text: include_str!("../../energies/shape_from_shading.t"),
            inputs,
            options: Options {
                solve: SolveOptions {
                    iterations: Some(100),
                    function_tolerance: Some(1e-5),
                    ..SolveOptions::default()
                },
                ..Options::default()
            },
        }
    }

    /// The measured depth averaged over each pixel's surroundings, within its surface.
    fn smoothed(&self) -> Vec<f32> {
        let reach = 3isize;
        let value = |i: usize| {
            let (x, y) = ((i % self.width) as isize, (i / self.width) as isize);
            let near = (-reach..=reach).flat_map(|dy| (-reach..=reach).map(move |dx| (x + dx, y + dy)));
            let inside = near.filter(|&(x, y)| {
                (0..self.width as isize).contains(&x) && (0..self.height as isize).contains(&y)
            });
            let depths = inside.map(|(x, y)| (y as usize) * self.width + x as usize);
            let kept = depths.filter(|&j| self.joined(&self.depth, i, j)).map(|j| self.depth[j]);
            let (sum, count) = kept.fold((0.0, 0.0), |(sum, count), depth| (sum + depth, count + 1.0));
            if count > 0.0 { sum / count } else { self.depth[i] }
        };
        (0..self.depth.len()).map(value).collect()
    }

    /// Tells whether two pixels see the same surface.
    fn joined(&self, depth: &[f32], i: usize, j: usize) -> bool {
        depth[i] > 0.0 && depth[j] > 0.0 && (depth[i] - depth[j]).abs() < JUMP
    }

    /// Tells whether shading may be compared between two pixels.
    fn level(&self, i: usize, j: usize) -> bool {
        self.joined(&self.depth, i, j) && (self.depth[i] - self.depth[j]).abs() < CREASE
    }

    /// Root mean square of the error of a depth map, in millimetres.
    pub fn depth_error(&self, depth: &[f32]) -> f64 {
        let both = depth.iter().zip(&self.truth).filter(|(d, t)| **d > 0.0 && **t > 0.0);
        let (sum, count) =
            both.fold((0.0, 0.0), |(sum, count), (&d, &t)| (sum + f64::from(d - t).powi(2), count + 1.0));
        1e3 * (sum / f64::max(count, 1.0)).sqrt()
    }

    /// Mean angle between a depth map's normals and the true ones, in degrees.
    fn normal_error(&self, depth: &[f32]) -> f64 {
        let [surface, truth] = [depth, &self.truth].map(|depth| self.surface(depth));
        let common: BTreeSet<[u32; 3]> = truth.triangles.iter().copied().collect();
        let kept = surface.triangles.iter().filter(|corners| common.contains(*corners));
        let normal = |mesh: &Mesh, corners: &[u32; 3]| unit(mesh.face_normal(corners));
        let angle = |corners: &[u32; 3]| {
            normal(&surface, corners).dot(&normal(&truth, corners)).clamp(-1.0, 1.0).acos()
        };
        let (sum, count) =
            kept.fold((0.0, 0.0), |(sum, count), corners| (sum + f64::from(angle(corners)), count + 1.0));
        (sum / f64::max(count, 1.0)).to_degrees()
    }

    /// Surfaces above, errors below.
    fn picture(&self, refined: &[f32]) -> Result<RgbImage, DemoError> {
        let meshes = [&self.depth, refined, &self.truth].map(|depth| self.surface(depth));
        let view = View::of(&[&meshes[2]], Vec3::new(0.3, -0.25, -1.0), -Vec3::y());
        let [measured, result, truth] =
            meshes.map(|mesh| render(&mesh, &[], &view, self.width as u32, self.height as u32));
        let photograph = RgbImage::from_fn(self.width as u32, self.height as u32, |x, y| {
            Rgb([(255.0 * self.intensity[y as usize * self.width + x as usize]) as u8; 3])
        });
        let surfaces = [("measured depth", &measured), ("refined", &result), ("ground truth", &truth)];
        let [before, after] = [&self.depth, refined].map(|depth| self.errors(depth));
        let below = [
            ("photograph", &photograph),
            ("error, measured (2 mm: full red or blue)", &before),
            ("error, refined", &after),
        ];
        Ok(panels::column(&[panels::row(&surfaces)?, panels::row(&below)?]))
    }

    /// The surface that a depth map shows, in camera axes: x right, y down, z forward.
    fn surface(&self, depth: &[f32]) -> Mesh {
        let point = |i: usize| {
            let pixel = [(i % self.width) as f32 - self.centre[0], (i / self.width) as f32 - self.centre[1]];
            Vec3::new(pixel[0] / FOCAL * depth[i], pixel[1] / FOCAL * depth[i], depth[i])
        };
        let mut mesh = Mesh { positions: vec![Vec3::repeat(f32::NAN); depth.len()], triangles: Vec::new() };
        for i in (0..depth.len() - self.width).filter(|i| i % self.width + 1 < self.width) {
            let (right, below, across) = (i + 1, i + self.width, i + self.width + 1);
            for corners in [[i, below, right], [right, below, across]] {
                let [a, b, c] = corners;
                if self.joined(depth, a, b) && self.joined(depth, b, c) && self.joined(depth, c, a) {
                    corners.iter().for_each(|&v| mesh.positions[v] = point(v));
                    mesh.triangles.push(corners.map(|v| v as u32));
                }
            }
        }
        mesh
    }

    /// Too near is blue, too far is red.
    fn errors(&self, depth: &[f32]) -> RgbImage {
        RgbImage::from_fn(self.width as u32, self.height as u32, |x, y| {
            let i = y as usize * self.width + x as usize;
            if depth[i] <= 0.0 || self.truth[i] <= 0.0 {
                return Rgb([200; 3]);
            }
            let error = ((depth[i] - self.truth[i]) / 2e-3).clamp(-1.0, 1.0);
            let pale = |share: f32| (255.0 * (1.0 - share)) as u8;
            let (plus, minus) = (error.max(0.0), (-error).max(0.0));
            Rgb([pale(minus), pale(plus.max(minus)), pale(plus)])
        })
    }
}

/// Of a 16-bit picture: hundredths of a millimetre beyond 0.3 m, and 0 for none.
fn depths(picture: &DynamicImage) -> Vec<f32> {
    let depth = |code: u16| if code == 0 { 0.0 } else { (0.3 + f64::from(code) * 1e-5) as f32 };
    picture.to_luma16().pixels().map(|p| depth(p.0[0])).collect()
}
