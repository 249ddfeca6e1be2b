//! Volumetric deformation: a lattice around a shape is deformed as rigidly as possible and takes the shape along (free-form
//! deformation, Sederberg and Parry 1986, with trilinear cells).

use super::handle::constraints;
use super::{DemoError, Problem, Run, floats, param, points};
use crate::geometry::{Vec3, flat, rotate, unit};
use crate::io::Mesh;
use crate::render::{View, render};
use crate::{panels, raster};
use image::{Rgb, RgbImage};
use sumsq::{Options, SolveOptions};

const HAND: &[u8] = include_bytes!("../../../data/volumetric_mesh_deformation/hand.ply");

/// Weights of handles and of rigidity, as the square roots that the energy takes.
const W_FIT_SQRT: f32 = 3.0;
const W_REG_SQRT: f32 = 1.0;

/// The part of the length, from the cut of the model, that is left out: the cut is slanting there.
const CUT: f32 = 0.28;
/// Cells along the longest side of the lattice.
const CELLS: usize = 20;
/// The last layers along the arm, which are posed; as many first ones are held.
const POSED: usize = 3;
/// Motion of the fingers: turned about the arm, then bent, in radians.
const TWIST: f32 = 1.2;
const BEND: f32 = 1.1;

/// Twists and bends the arm.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::hand()?;
    let solution = run.solve(&scene.problem())?;
    let moved = points(&solution, "Offset", scene.lattice.points().len())?;
    let deformed = scene.deformed(&moved);
    run.mesh("", &deformed)?;
    run.picture("", &scene.picture(&moved, &deformed)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::hand()?.problem())
}

/// A mesh in a lattice, and where some of its points go.
#[derive(Clone, Debug)]
pub struct Scene {
    mesh: Mesh,
    lattice: Lattice,
    targets: Vec<Option<Vec3>>,
}

impl Scene {
    /// The left hand and forearm, along y.
    pub fn hand() -> Result<Scene, DemoError> {
        let mesh = cut(upright(Mesh::from_ply(HAND).map_err(DemoError::Data)?));
        let lattice = Lattice::around(&mesh.positions, CELLS);
        let targets = (0..lattice.len()).map(|i| pose(&lattice, i)).collect();
        Ok(Scene { mesh, lattice, targets })
    }

    /// The problem: Offset and Angle of every lattice point, started at rest.
    pub fn problem(&self) -> Problem {
        let [w, h, d] = self.lattice.size;
        let rest = flat(&self.lattice.points());
        let shape = [d, h, w, 3];
        Problem {
            energy: "volumetric_mesh_deformation",
            text: include_str!("../../energies/volumetric_mesh_deformation.t"),
            inputs: vec![
                floats("Offset", &shape, rest.clone()),
                floats("Angle", &shape, vec![0.0; rest.len()]),
                floats("UrShape", &shape, rest),
                floats("Constraints", &shape, constraints(&self.targets)),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_regSqrt", W_REG_SQRT),
            ],
            options: Options {
                solve: SolveOptions { iterations: Some(100), ..SolveOptions::default() },
                ..Options::default()
            },
        }
    }

    /// The mesh where the lattice takes it.
    pub fn deformed(&self, moved: &[Vec3]) -> Mesh {
        self.mesh.at(self.mesh.positions.iter().map(|&p| self.lattice.interpolate(moved, p)).collect())
    }

    fn picture(&self, moved: &[Vec3], deformed: &Mesh) -> Result<RgbImage, DemoError> {
        let rest = self.lattice.points();
        let hull = |points: &[Vec3]| Mesh { positions: points.to_vec(), triangles: Vec::new() };
        let view = View::of(&[&hull(&rest), &hull(moved)], Vec3::new(0.5, -0.15, 1.0), Vec3::y());
        let draw = |mesh: &Mesh, points: &[Vec3]| {
            let mut picture = render(mesh, &[], &view, 620, 760);
            self.lattice.draw(points, &self.targets, &view, &mut picture);
            picture
        };
        let [before, after] = [draw(&self.mesh, &rest), draw(deformed, moved)];
        Ok(panels::row(&[("a hand in a lattice; blue points are posed", &before), ("deformed", &after)])?)
    }
}

/// Turns a mesh so that the way from its cut to its far end, along which it is longest, is +y.
fn upright(mesh: Mesh) -> Mesh {
    let count = mesh.positions.len() as f32;
    let centre = 1.0 / count * mesh.positions.iter().sum::<Vec3>();
    // A few power steps on the covariance.
    let mut axis = Vec3::new(1.0, -1.0, 1.0);
    for _ in 0..30 {
        let spread = mesh.positions.iter().map(|p| p - centre);
        axis = unit(spread.map(|arm| arm.dot(&axis) * arm).sum());
    }
    let up = Vec3::y();
    let angle = axis.dot(&up).clamp(-1.0, 1.0).acos();
    let turn = |p: &Vec3| rotate(axis.cross(&up), angle, p - centre);
    mesh.at(mesh.positions.iter().map(turn).collect())
}

/// Cuts the lower part off, square: triangles below go, and vertices of those that are cut move up to the cut.
fn cut(mut mesh: Mesh) -> Mesh {
    let low = mesh.positions.iter().map(|p| p[1]).fold(f32::INFINITY, f32::min);
    let high = mesh.positions.iter().map(|p| p[1]).fold(f32::NEG_INFINITY, f32::max);
    let cut = low + CUT * (high - low);
    mesh.triangles.retain(|corners| corners.iter().any(|&v| mesh.positions[v as usize][1] > cut));
    mesh.positions.iter_mut().for_each(|p| p[1] = p[1].max(cut));
    mesh
}

/// Returns where a lattice point is put: the first layers stay, the last ones are twisted and bent.
fn pose(lattice: &Lattice, index: usize) -> Option<Vec3> {
    let [w, h, _] = lattice.size;
    let layer = index / w % h;
    let p = lattice.point(index);
    if layer < POSED {
        return Some(p);
    }
    let length = lattice.cell * (h - 1) as f32;
    let sides = Vec3::new(lattice.cell * (w - 1) as f32, length, lattice.cell * (lattice.size[2] - 1) as f32);
    let pivot = lattice.origin + 0.5 * sides;
    let twisted = rotate(Vec3::y(), TWIST, p - pivot);
    (layer + POSED >= h).then(|| pivot + rotate(Vec3::z(), BEND, twisted))
}

/// A regular lattice of cubic cells.
#[derive(Clone, Debug)]
struct Lattice {
    origin: Vec3,
    cell: f32,
    /// Points along each axis, x fastest in memory.
    size: [usize; 3],
}

impl Lattice {
    /// Encloses the points, with `cells` cells along the longest side.
    fn around(points: &[Vec3], cells: usize) -> Lattice {
        let bound = |from: f32, pick: fn(f32, f32) -> f32| {
            points.iter().fold(Vec3::repeat(from), |bound, p| bound.zip_map(p, pick))
        };
        let (low, high) = (bound(f32::INFINITY, f32::min), bound(f32::NEG_INFINITY, f32::max));
        let extent = high - low;
        let cell = extent.iter().copied().fold(0.0, f32::max) / cells as f32;
        let size = extent.map(|side| (side / cell).ceil() as usize + 1);
        let origin = 0.5 * (low + high) - size.map(|points| 0.5 * cell * (points - 1) as f32);
        Lattice { origin, cell, size: size.into() }
    }

    fn len(&self) -> usize {
        self.size.iter().product()
    }

    fn point(&self, index: usize) -> Vec3 {
        let [w, h, _] = self.size;
        let at = [index % w, index / w % h, index / (w * h)].map(|step| step as f32);
        self.origin + self.cell * Vec3::from(at)
    }

    fn points(&self) -> Vec<Vec3> {
        (0..self.len()).map(|i| self.point(i)).collect()
    }

    /// Returns where `p` goes when the lattice points go to `moved`.
    fn interpolate(&self, moved: &[Vec3], p: Vec3) -> Vec3 {
        let [w, h, _] = self.size;
        let at = (p - self.origin) / self.cell;
        let base = [0, 1, 2].map(|axis| (at[axis].max(0.0) as usize).min(self.size[axis].saturating_sub(2)));
        let share = |corner: usize| {
            let step = [corner & 1, corner >> 1 & 1, corner >> 2];
            let weight: f32 = (0..3)
                .map(|axis| {
                    let t = at[axis] - base[axis] as f32;
                    if step[axis] == 1 { t } else { 1.0 - t }
                })
                .product();
            let [x, y, z] = [0, 1, 2].map(|axis| base[axis] + step[axis]);
            weight * moved[x + w * (y + h * z)]
        };
        (0..8).map(share).sum()
    }

    /// The lines on its outside, and its posed points.
    fn draw(&self, at: &[Vec3], posed: &[Option<Vec3>], view: &View, picture: &mut RgbImage) {
        let (width, height) = picture.dimensions();
        let strides = [1, self.size[0], self.size[0] * self.size[1]];
        let coordinates = |i: usize| [0, 1, 2].map(|axis| i / strides[axis] % self.size[axis]);
        let outer = |axis: usize, c: [usize; 3]| {
            (0..3)
                .filter(|&other| other != axis && (c[other] == 0 || c[other] + 1 == self.size[other]))
                .count()
        };
        for i in 0..self.len() {
            let c = coordinates(i);
            for axis in (0..3).filter(|&axis| c[axis] + 1 < self.size[axis] && outer(axis, c) >= 1) {
                let [a, b] = [i, i + strides[axis]].map(|v| view.project(at[v], width, height).0);
                let (radius, grey) = if outer(axis, c) == 2 { (0.9, 70) } else { (0.15, 150) };
                raster::stroke(picture, a, b, radius, Rgb([grey, grey + 6, grey + 18]));
            }
        }
        for (i, _) in
            posed.iter().enumerate().filter(|(i, to)| to.is_some() && outer(3, coordinates(*i)) >= 1)
        {
            let p = view.project(at[i], width, height).0;
            raster::stroke(picture, p, p, 1.6, Rgb([24, 92, 200]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affine_motion_of_the_lattice_moves_the_mesh_alike() {
        let scene = Scene::hand().unwrap();
        let map = |p: Vec3| Vec3::new(p[0] + 0.5 * p[1] + 1.0, p[1] - 2.0, 0.25 * p[2] - p[0]);
        let moved: Vec<Vec3> = scene.lattice.points().into_iter().map(map).collect();
        let deformed = scene.deformed(&moved);
        for (&p, &q) in scene.mesh.positions.iter().zip(&deformed.positions) {
            assert!((map(p) - q).norm() < 1e-4);
        }
    }

    #[test]
    fn the_lattice_encloses_the_mesh_with_its_long_side_along_y() {
        let scene = Scene::hand().unwrap();
        let [w, h, d] = scene.lattice.size;
        assert_eq!(h, CELLS + 1);
        assert!(w < h && d < h && w > 3 && d > 3, "{w} {h} {d}");
        let far = scene.lattice.point(scene.lattice.len() - 1);
        for p in &scene.mesh.positions {
            assert!((0..3).all(|i| scene.lattice.origin[i] <= p[i] + 1e-4 && p[i] <= far[i] + 1e-4));
        }
        assert_eq!(scene.problem().inputs[0].shape, [d, h, w, 3]);
    }
}
