//! Smoothing of a noisy mesh with cotangent weights (Desbrun, Meyer, Schroeder and Barr, "Implicit fairing of irregular meshes
//! using diffusion and curvature flow", 1999), the weights recomputed while the mesh moves.

use super::{DemoError, Problem, Run, floats, graph, param, points};
use crate::geometry::{Vec3, flat, rms_distance, unit};
use crate::io::Mesh;
use crate::panels;
use crate::random::Random;
use crate::render::{View, normals, render};
use sumsq::{NamedArray, Options, SolveOptions};

const DOG: &[u8] = include_bytes!("../../../data/arap_mesh_deformation/dog_17k.ply");

/// Standard deviation of the noise along the normals, in mean lengths of the vertex's edges.
const NOISE: f32 = 0.3;
/// Weights of staying and of smoothness, as the square roots that the energy takes.
const W_FIT_SQRT: f32 = 1.0;
const W_REG_SQRT: f32 = 0.7;

/// Smooths the dog.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::noisy_dog()?;
    let smooth = scene.smoothed(&run.solve(&scene.problem())?)?;
    let rms = |mesh: &Mesh| 1e3 * rms_distance(&mesh.positions, &scene.clean.positions);
    run.measure("vertex error, rms", "mm", rms(&scene.noisy), rms(&smooth));
    let degrees = |mesh: &Mesh| normal_error(mesh, &scene.clean);
    run.measure("error of the triangles' normals, mean", "degrees", degrees(&scene.noisy), degrees(&smooth));
    run.mesh("", &smooth)?;
    run.picture("", &scene.picture(&smooth)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::noisy_dog()?.problem())
}

/// A mesh and a noisy copy.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The truth.
    pub clean: Mesh,
    /// The mesh that is smoothed: other positions, same triangles.
    pub noisy: Mesh,
}

impl Scene {
    /// The dog of the demo under noise.
    pub fn noisy_dog() -> Result<Scene, DemoError> {
        Ok(Scene::new(Mesh::from_ply(DOG).map_err(DemoError::Data)?))
    }

    /// Adds noise to a mesh.
    pub fn new(clean: Mesh) -> Scene {
        let mut random = Random::new(2017);
        let mut noisy = clean.clone();
        let directions = normals(&clean).into_iter().zip(edge_lengths(&clean));
        for (p, (normal, edge)) in noisy.positions.iter_mut().zip(directions) {
            *p += NOISE * edge * random.normal() as f32 * normal;
        }
        Scene { clean, noisy }
    }

    /// The problem: every vertex, started at its noisy position.
    pub fn problem(&self) -> Problem {
        let count = self.noisy.positions.len();
        let start = flat(&self.noisy.positions);
        let [v0, v1, v2, v3] = graph(&self.noisy.wedges());
        Problem {
            energy: "cotangent_mesh_smoothing",
            text: include_str!("../../energies/cotangent_mesh_smoothing.t"),
            inputs: vec![
                floats("X", &[count, 3], start.clone()),
                floats("A", &[count, 3], start),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_regSqrt", W_REG_SQRT),
                v0,
                v1,
                v2,
                v3,
            ],
            options: Options {
                solve: SolveOptions {
                    iterations: Some(60),
                    function_tolerance: Some(1e-4),
                    ..SolveOptions::default()
                },
                ..Options::default()
            },
        }
    }

    /// The mesh of a solution.
    pub fn smoothed(&self, solution: &[NamedArray]) -> Result<Mesh, DemoError> {
        Ok(self.noisy.at(points(solution, "X", self.noisy.positions.len())?))
    }

    fn picture(&self, smooth: &Mesh) -> Result<image::RgbImage, DemoError> {
        let view = View::of(&[&self.clean], Vec3::new(0.75, -1.0, 0.28), Vec3::z())
            .closer(Vec3::new(0.2, 0.0, 0.6), 0.42);
        let [noisy, smooth, clean] =
            [&self.noisy, smooth, &self.clean].map(|mesh| render(mesh, &[], &view, 560, 620));
        Ok(panels::row(&[("noisy", &noisy), ("smoothed", &smooth), ("ground truth", &clean)])?)
    }
}

/// Mean length of the edges at each vertex.
fn edge_lengths(mesh: &Mesh) -> Vec<f32> {
    let mut sums = vec![(0.0, 0.0); mesh.positions.len()];
    for [a, b] in mesh.directed_edges() {
        let (sum, count) = &mut sums[a as usize];
        *sum += (mesh.positions[a as usize] - mesh.positions[b as usize]).norm();
        *count += 1.0;
    }
    sums.into_iter().map(|(sum, count)| sum / f32::max(count, 1.0)).collect()
}

/// Mean angle between corresponding triangles' normals, in degrees.
fn normal_error(mesh: &Mesh, truth: &Mesh) -> f64 {
    let angles = mesh.triangles.iter().map(|corners| {
        let [a, b] = [mesh, truth].map(|mesh| unit(mesh.face_normal(corners)));
        f64::from(a.dot(&b).clamp(-1.0, 1.0).acos()).to_degrees()
    });
    angles.sum::<f64>() / mesh.triangles.len().max(1) as f64
}
