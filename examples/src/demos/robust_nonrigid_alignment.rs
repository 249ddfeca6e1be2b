//! Robust non-rigid alignment (after Li, Adams, Guibas and Pauly, "Robust single-view geometry and motion reconstruction", 2009):
//! a head is fitted to a one-sided, noisy, cluttered scan of another expression. Between passes each vertex looks for its point
//! of the scan anew; the machine code stays.

use super::{DemoError, Problem, Run, floats, graph, param, points, rows};
use crate::geometry::{Vec3, flat, rms_distance, rotate, unit};
use crate::io::Mesh;
use crate::panels;
use crate::random::Random;
use crate::render::{CLAY, View, normals, render};
use image::RgbImage;
use sumsq::{NamedArray, Options, SolveOptions};

const HEAD: &[u8] = include_bytes!("../../../data/robust_nonrigid_alignment/head.ply");
const SMILE: &[u8] = include_bytes!("../../../data/robust_nonrigid_alignment/head_smile.ply");
const OPEN: &[u8] = include_bytes!("../../../data/robust_nonrigid_alignment/head_open.ply");
/// Shares of the two expressions in the scanned one.
const EXPRESSION: [f32; 2] = [1.0, 0.1];
/// Turn of the scanned head about the vertical and then about the line through its ears (radians), and shifted.
const TURN: [f32; 2] = [0.2, 0.1];
const CENTRE: Vec3 = Vec3::new(0.0, 7.0, 0.5);
const SHIFT: Vec3 = Vec3::new(0.08, 0.05, -0.06);

/// Millimetres per unit of the model.
const MILLIMETRES: f64 = 100.0;
/// Standard deviation of the scan's noise along its normals, in units.
const NOISE: f64 = 0.004;
/// Clutter: patches of the scan around these points, with their radii, that stand off by the last number.
const CLUTTER: [(Vec3, f32, f32); 3] = [
    (Vec3::new(0.62, 6.8, 1.2), 0.24, 0.14),
    (Vec3::new(0.0, 7.95, 1.3), 0.4, 0.16),
    (Vec3::new(-0.3, 6.7, 1.1), 0.25, 0.15),
];

/// Rigidity falls from pass to pass.
const PASSES: usize = 14;
const W_REG_SQRT: [f32; 2] = [8.0, 0.7];
const W_FIT_SQRT: f32 = 1.0;
/// Distance to its tangent plane at which a vertex gives up its weight: sqrt(2) w_conf / w_fit. It falls, too.
const BELIEF: [f32; 2] = [0.25, 0.04];
/// Matches are sought this far, and between surfaces whose normals differ by less than 60 degrees.
const REACH: f32 = 0.3;
const LEAST_COSINE: f32 = 0.5;
/// Surfaces that lie farther than this before a point hide it, in units; and the tilt of the head (radians) at which the walls behind the slits of
/// its eyes are hidden, too.
const LEAST_DEPTH: f32 = 0.01;
const TILT: f32 = 0.175;

/// Fits the head.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::heads()?;
    let start = scene.problem();
    let (solver, mut data) = start.compile()?;
    let mut planned = solver.plan(&data)?;
    for pass in 0..PASSES {
        let solution = data.unknown_arrays(start.options.compile.precision);
        let moved = scene.moved(&solution)?;
        data.update(solver.energy(), &scene.matches(&moved, pass))?;
        planned.set_arrays(&data)?;
        run.pass(&format!("pass {}", pass + 1), &mut planned, &mut data, &start.options.solve)?;
    }
    let solution = data.unknown_arrays(start.options.compile.precision);
    let moved = scene.moved(&solution)?;
    let weights = rows::<1>(&solution, "RobustWeights", moved.positions.len())?;
    let rms = |mesh: &Mesh| MILLIMETRES * rms_distance(&mesh.positions, &scene.truth);
    run.measure("vertex error, rms", "mm", rms(&scene.head), rms(&moved));
    let seen = |mesh: &Mesh| MILLIMETRES * scene.error_where_seen(mesh);
    run.measure("vertex error where the scan shows the head, rms", "mm", seen(&scene.head), seen(&moved));
    run.mesh("", &moved)?;
    run.picture("", &scene.picture(&moved, &weights)?)?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::heads()?.problem())
}

/// A head, a scan that it is fitted to, and where its vertices should go.
#[derive(Clone, Debug)]
pub struct Scene {
    head: Mesh,
    /// True for the head's vertices that no scan from the front shows.
    hidden: Vec<bool>,
    truth: Vec<Vec3>,
    /// True if the scan shows the surface around a vertex, and without clutter.
    seen: Vec<bool>,
    scan: Mesh,
    points: Vec<Point>,
}

/// The middle of a triangle of the scan.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Vec3,
    normal: Vec3,
    /// True if the scan ends here. What lies beyond has its nearest point here too, but should not come here.
    rim: bool,
}

impl Scene {
    /// A neutral head, and a scan of a laughing one from the front.
    pub fn heads() -> Result<Scene, DemoError> {
        let read = |bytes| Mesh::from_ply(bytes).map_err(DemoError::Data);
        let (head, smile, open) = (read(HEAD)?, read(SMILE)?, read(OPEN)?);
        let blended = head.positions.iter().zip(smile.positions.iter().zip(&open.positions));
        let truth = blended.map(|(&p, (&smile, &open))| {
            let expression = EXPRESSION[0] * (smile - p) + EXPRESSION[1] * (open - p);
            let about = p + expression - CENTRE;
            CENTRE + SHIFT + rotate(Vec3::x(), TURN[1], rotate(Vec3::y(), TURN[0], about))
        });
        Ok(Scene::scanned(head.at(truth.collect()), head))
    }

    fn scanned(truth: Mesh, head: Mesh) -> Scene {
        let mut random = Random::new(2009);
        let normals = normals(&truth);
        let clutter = |p: Vec3| CLUTTER.iter().position(|&(centre, radius, _)| (p - centre).norm() < radius);
        let owner: Vec<Option<usize>> = truth.positions.iter().map(|&p| clutter(p)).collect();
        let moved = truth.positions.iter().zip(&normals).zip(&owner).map(|((&p, &normal), owner)| {
            let off = owner.map_or(0.0, |i| CLUTTER[i].2) + NOISE as f32 * random.normal() as f32;
            p + off * normal
        });
        let mut scan = truth.at(moved.collect());
        let facing = |corners: &[u32; 3]| corners.iter().all(|&v| normals[v as usize][2] > 0.05);
        let whole =
            |corners: &[u32; 3]| corners.iter().all(|&v| owner[v as usize] == owner[corners[0] as usize]);
        let covered = truth.covered(LEAST_DEPTH);
        let shown = |corners: &[u32; 3]| corners.iter().all(|&v| !covered[v as usize]);
        scan.triangles.retain(|corners| facing(corners) && whole(corners) && shown(corners));
        let mut seen = vec![false; truth.positions.len()];
        for &v in scan.triangles.as_flattened() {
            seen[v as usize] = owner[v as usize].is_none();
        }
        let middle = |corners: &[u32; 3]| {
            let [a, b, c] = corners.map(|v| scan.positions[v as usize]);
            1.0 / 3.0 * (a + (b + c))
        };
        let rim = scan.rim();
        let points = scan.triangles.iter().map(|corners| Point {
            at: middle(corners),
            normal: unit(scan.face_normal(corners)),
            rim: corners.iter().any(|&v| rim[v as usize]),
        });
        let points = points.collect();
        let hidden = hidden(&head);
        Scene { head, hidden, truth: truth.positions, seen, scan, points }
    }

    /// The problem of the first pass: every vertex started at rest.
    pub fn problem(&self) -> Problem {
        let count = self.head.positions.len();
        let rest = flat(&self.head.positions);
        let mut inputs = vec![
            floats("Offset", &[count, 3], rest.clone()),
            floats("Angle", &[count, 3], vec![0.0; 3 * count]),
            floats("UrShape", &[count, 3], rest),
            param("w_fitSqrt", W_FIT_SQRT),
        ];
        inputs.extend(graph(&self.head.directed_edges()));
        inputs.extend(self.matches(&self.head, 0));
        Problem {
            energy: "robust_nonrigid_alignment",
            text: include_str!("../../energies/robust_nonrigid_alignment.t"),
            inputs,
            options: Options {
                solve: SolveOptions {
                    iterations: Some(15),
                    function_tolerance: Some(1e-3),
                    ..SolveOptions::default()
                },
                ..Options::default()
            },
        }
    }

    /// Returns what changes before a pass: the matches of the mesh as it is, the weight of rigidity, and the weights of the vertices,
    /// which start where they are best for the distances now, but not at 0, where their derivative vanishes.
    fn matches(&self, moved: &Mesh, pass: usize) -> Vec<NamedArray> {
        let count = moved.positions.len();
        let t = pass as f32 / (PASSES - 1) as f32;
        let between = |[first, last]: [f32; 2]| first * (last / first).powf(t);
        let belief = between(BELIEF);
        let best = |distance: f32| (1.0 - (distance / belief).powi(2)).max(0.01).sqrt();
        let nothing = (Vec3::repeat(f32::NEG_INFINITY), Vec3::zeros());
        let found = moved.positions.iter().zip(self.found(moved)).map(|(&p, found)| match found {
            Some((point, normal)) => ((point, normal), best(normal.dot(&(p - point)))),
            None => (nothing, 1.0),
        });
        let ((points, normals), weights): ((Vec<Vec3>, Vec<Vec3>), Vec<f32>) = found.unzip();
        vec![
            floats("Constraints", &[count, 3], flat(&points)),
            floats("ConstraintNormals", &[count, 3], flat(&normals)),
            floats("RobustWeights", &[count], weights),
            param("w_confSqrt", W_FIT_SQRT * belief / std::f32::consts::SQRT_2),
            param("w_regSqrt", between(W_REG_SQRT)),
        ]
    }

    /// Returns what each vertex finds in the scan. The hidden ones look for nothing: the walls of an eye would find the lids before them, and
    /// come out of the head.
    fn found(&self, moved: &Mesh) -> Vec<Option<(Vec3, Vec3)>> {
        let vertices = moved.positions.iter().zip(normals(moved)).zip(&self.hidden);
        vertices.map(|((&p, n), hidden)| if *hidden { None } else { self.nearest(p, n) }).collect()
    }

    /// The nearest point of the scan whose normal agrees.
    fn nearest(&self, p: Vec3, normal: Vec3) -> Option<(Vec3, Vec3)> {
        let agreeing = self.points.iter().filter(|point| point.normal.dot(&normal) > LEAST_COSINE);
        let squared = agreeing.map(|point| ((p - point.at).norm_squared(), point));
        let (squared, nearest) = squared.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (squared < REACH * REACH && !nearest.rim).then_some((nearest.at, nearest.normal))
    }

    fn moved(&self, solution: &[NamedArray]) -> Result<Mesh, DemoError> {
        Ok(self.head.at(points(solution, "Offset", self.head.positions.len())?))
    }

    fn error_where_seen(&self, mesh: &Mesh) -> f64 {
        let pick = |points: &[Vec3]| -> Vec<Vec3> {
            points.iter().zip(&self.seen).filter(|(_, seen)| **seen).map(|(&p, _)| p).collect()
        };
        rms_distance(&pick(&mesh.positions), &pick(&self.truth))
    }

    fn picture(&self, moved: &Mesh, weights: &[[f32; 1]]) -> Result<RgbImage, DemoError> {
        let view = View::of(&[&self.head, moved], Vec3::new(0.35, 0.1, 1.0), Vec3::y());
        let draw = |mesh: &Mesh, colours: &[Vec3]| render(mesh, colours, &view, 440, 580);
        let trust: Vec<Vec3> = self
            .found(moved)
            .iter()
            .zip(weights)
            .map(|(found, weight)| if found.is_some() { blend(weight[0].abs().min(1.0)) } else { CLAY })
            .collect();
        let truth = self.head.at(self.truth.clone());
        let scan = Vec3::new(0.42, 0.5, 0.62);
        let (head, scan, fitted, weights, truth) = (
            draw(&self.head, &[]),
            draw(&self.scan, &vec![scan; self.scan.positions.len()]),
            draw(moved, &[]),
            draw(moved, &trust),
            draw(&truth, &[]),
        );
        Ok(panels::row(&[
            ("before", &head),
            ("scan", &scan),
            ("fitted", &fitted),
            ("belief in the scan", &weights),
            ("ground truth", &truth),
        ])?)
    }
}

/// Tells of each vertex whether others lie before it as seen from ahead, or from a little above or below. These are the walls of the eyes, which
/// are open through a slit, and of the mouth and nostrils.
fn hidden(mesh: &Mesh) -> Vec<bool> {
    let mut hidden = vec![false; mesh.positions.len()];
    for tilt in [-TILT, 0.0, TILT] {
        let tilted = mesh.positions.iter().map(|&p| rotate(Vec3::x(), tilt, p));
        let covered = mesh.at(tilted.collect()).covered(LEAST_DEPTH);
        hidden.iter_mut().zip(covered).for_each(|(hidden, covered)| *hidden |= covered);
    }
    hidden
}

/// From red (0) to green (1).
fn blend(t: f32) -> Vec3 {
    (1.0 - t) * Vec3::new(0.75, 0.08, 0.05) + t * Vec3::new(0.12, 0.5, 0.22)
}
