//! Embedded deformation (Sumner, Schmid and Pauly, "Embedded deformation for shape manipulation", 2007): a coarse graph of nodes
//! with affine maps is deformed, and carries a fine mesh along.

use super::handle::{HELD, Handle, constraints, targets};
use super::{DemoError, Problem, Run, floats, graph, param, points, rows};
use crate::geometry::{Vec3, flat};
use crate::io::Mesh;
use crate::render::{CLAY, View, render};
use crate::{panels, raster};
use image::{Rgb, RgbImage};
use nalgebra::Matrix3;
use sumsq::{NamedArray, Options, SolveOptions};

const NODES: &[u8] = include_bytes!("../../../data/embedded_deformation/dog_2k.ply");
const DOG: &[u8] = include_bytes!("../../../data/arap_mesh_deformation/dog_10k.ply");

/// Weights of handles, of agreement between neighbours and of rotations, as the square roots that the energy takes.
const W_FIT_SQRT: f32 = 5.0;
const W_REG_SQRT: f32 = 1.0;
const W_ROT_SQRT: f32 = 0.05;

/// Nodes that carry a vertex.
const CARRIERS: usize = 5;

/// The dog faces +x, its left is +y, up is +z. It stretches, chest down.
const POSE: [Handle; 6] = [
    Handle { centre: Vec3::new(-0.53, 0.08, 0.01), radius: 0.05, ..HELD },
    Handle { centre: Vec3::new(-0.53, -0.08, 0.01), radius: 0.05, ..HELD },
    Handle { centre: Vec3::new(0.16, 0.053, 0.01), radius: 0.05, shift: Vec3::new(0.24, 0.01, 0.0), ..HELD },
    Handle {
        centre: Vec3::new(0.16, -0.053, 0.01),
        radius: 0.05,
        shift: Vec3::new(0.24, -0.01, 0.0),
        ..HELD
    },
    Handle {
        centre: Vec3::new(0.37, 0.0, 0.69),
        radius: 0.06,
        angle: -0.1,
        shift: Vec3::new(0.12, 0.0, -0.36),
        ..HELD
    },
    Handle {
        centre: Vec3::new(-0.716, 0.0, 0.336),
        radius: 0.03,
        angle: 1.3,
        shift: Vec3::new(-0.04, 0.05, 0.36),
        ..HELD
    },
];

/// Poses the dog by its nodes.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::dog()?;
    let solution = run.solve(&scene.problem())?;
    let deformed = scene.deformed(&solution)?;
    run.mesh("", &deformed)?;
    run.picture("", &scene.picture(&solution, &deformed)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::dog()?.problem())
}

/// A graph of nodes, where its handles go, and the mesh that it carries.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Nodes, joined by the edges of these triangles.
    nodes: Mesh,
    targets: Vec<Option<Vec3>>,
    mesh: Mesh,
    /// Per vertex of the mesh: its nodes and how much each of them counts, together 1.
    carriers: Vec<[(usize, f32); CARRIERS]>,
}

impl Scene {
    /// The dog with 10,002 vertices, carried by 2,002 nodes.
    pub fn dog() -> Result<Scene, DemoError> {
        let [nodes, mesh] = [NODES, DOG].map(Mesh::from_ply);
        let (nodes, mesh) = (nodes.map_err(DemoError::Data)?, mesh.map_err(DemoError::Data)?);
        let carriers = mesh.positions.iter().map(|&p| carriers(p, &nodes.positions)).collect();
        Ok(Scene { targets: targets(&POSE, &nodes.positions), nodes, mesh, carriers })
    }

    /// The problem: Offset and RotMatrix of every node, started at rest. Each edge is in the graph in both directions.
    pub fn problem(&self) -> Problem {
        let count = self.nodes.positions.len();
        let rest = flat(&self.nodes.positions);
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0].repeat(count);
        let [v0, v1] = graph(&self.nodes.directed_edges());
        Problem {
            energy: "embedded_deformation",
            text: include_str!("../../energies/embedded_deformation.t"),
            inputs: vec![
                floats("Offset", &[count, 3], rest.clone()),
                floats("RotMatrix", &[count, 9], identity),
                floats("UrShape", &[count, 3], rest),
                floats("Constraints", &[count, 3], constraints(&self.targets)),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_regSqrt", W_REG_SQRT),
                param("w_rotSqrt", W_ROT_SQRT),
                v0,
                v1,
            ],
            options: Options {
                solve: SolveOptions { iterations: Some(100), ..SolveOptions::default() },
                ..Options::default()
            },
        }
    }

    /// The mesh where its nodes take it: p' = sum w (R (p - g) + g') over its nodes g.
    pub fn deformed(&self, solution: &[NamedArray]) -> Result<Mesh, DemoError> {
        let offsets = points(solution, "Offset", self.nodes.positions.len())?;
        let matrices = rows::<9>(solution, "RotMatrix", self.nodes.positions.len())?;
        let carried = |(&p, carriers): (&Vec3, &[(usize, f32); CARRIERS])| {
            let carry = |&(node, weight): &(usize, f32)| {
                let turned = Matrix3::from_row_slice(&matrices[node]) * (p - self.nodes.positions[node]);
                weight * (offsets[node] + turned)
            };
            carriers.iter().map(carry).sum()
        };
        Ok(self.mesh.at(self.mesh.positions.iter().zip(&self.carriers).map(carried).collect()))
    }

    /// The nodes and the mesh, before and after.
    fn picture(&self, solution: &[NamedArray], deformed: &Mesh) -> Result<RgbImage, DemoError> {
        let view = View::of(&[&self.mesh, deformed], Vec3::new(0.75, -1.0, 0.28), Vec3::z());
        let moved = points(solution, "Offset", self.nodes.positions.len())?;
        let graph = [&self.nodes.positions, &moved].map(|at| self.draw_nodes(at, &view));
        let [before, after] = [&self.mesh, deformed].map(|mesh| render(mesh, &[], &view, 560, 500));
        let [nodes_before, nodes_after] = graph;
        let top = panels::row(&[("nodes and handles", &nodes_before), ("nodes, deformed", &nodes_after)])?;
        let bottom = panels::row(&[("mesh", &before), ("mesh, carried along", &after)])?;
        Ok(panels::column(&[top, bottom]))
    }

    fn draw_nodes(&self, at: &[Vec3], view: &View) -> RgbImage {
        let mesh = self.nodes.at(at.to_vec());
        let colours: Vec<Vec3> =
            self.targets.iter().map(|t| if t.is_some() { HANDLE } else { CLAY }).collect();
        let mut picture = render(&mesh, &colours, view, 560, 500);
        let normals = crate::render::normals(&mesh);
        for [a, b] in mesh.directed_edges() {
            let [a, b] = [a, b].map(|v| v as usize);
            if a < b && view.faces(normals[a]) && view.faces(normals[b]) {
                let [a, b] = [a, b].map(|v| view.project(at[v], 560, 500).0);
                raster::stroke(&mut picture, a, b, 0.3, Rgb([60, 66, 78]));
            }
        }
        picture
    }
}

const HANDLE: Vec3 = Vec3::new(0.10, 0.28, 0.62);

/// The nearest nodes of a point, weighted by (1 - distance / that of the next one)^2.
fn carriers(p: Vec3, nodes: &[Vec3]) -> [(usize, f32); CARRIERS] {
    let distance = |node: &Vec3| (node - p).norm();
    let mut nearest: Vec<(usize, f32)> = nodes.iter().map(distance).enumerate().collect();
    nearest.select_nth_unstable_by(CARRIERS, |a, b| a.1.total_cmp(&b.1));
    let reach = nearest[CARRIERS].1;
    let weight = |d: f32| (1.0 - d / reach).powi(2) + 1e-6;
    let sum: f32 = nearest[..CARRIERS].iter().map(|n| weight(n.1)).sum();
    std::array::from_fn(|i| (nearest[i].0, weight(nearest[i].1) / sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_rest_the_mesh_stays() {
        let scene = Scene::dog().unwrap();
        let at_rest = scene.deformed(&scene.problem().inputs).unwrap();
        let worst = at_rest.positions.iter().zip(&scene.mesh.positions).map(|(a, b)| (a - b).norm_squared());
        assert!(worst.fold(0.0, f32::max) < 1e-11);
    }

    #[test]
    fn every_handle_holds_nodes_of_its_own() {
        let scene = Scene::dog().unwrap();
        let held =
            |handle: &Handle| scene.nodes.positions.iter().filter(|&&p| handle.target(p).is_some()).count();
        let own: Vec<usize> = POSE.iter().map(held).collect();
        assert!(own.iter().all(|&n| n >= 3), "{own:?}");
        assert_eq!(own.iter().sum::<usize>(), scene.targets.iter().flatten().count());
    }
}
