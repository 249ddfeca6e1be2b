//! As-rigid-as-possible deformation of a mesh: some vertices are posed, the rest follows.

use super::handle::{HELD, Handle, constraints, targets};
use super::{DemoError, Problem, Run, floats, graph, param, points};
use crate::geometry::{Vec3, flat};
use crate::io::Mesh;
use crate::io::picture::side_by_side;
use crate::render::{CLAY, View, render};
use sumsq::{NamedArray, Options, SolveOptions};

const DOG: &[u8] = include_bytes!("../../../data/arap_mesh_deformation/dog_10k.ply");

/// Weights of handles and of rigidity, as the square roots that the energy takes.
const W_FIT_SQRT: f32 = 5.0;
const W_REG_SQRT: f32 = 1.0;

/// The dog faces +x, its left is +y, up is +z; the paws stand at z = 0. It gives the right paw, looks up and to its right, and
/// raises its tail.
const POSE: [Handle; 6] = [
    Handle { centre: Vec3::new(-0.53, 0.08, 0.01), radius: 0.045, ..HELD },
    Handle { centre: Vec3::new(-0.53, -0.08, 0.01), radius: 0.045, ..HELD },
    Handle { centre: Vec3::new(0.16, 0.053, 0.01), radius: 0.045, ..HELD },
    Handle {
        centre: Vec3::new(0.16, -0.053, 0.02),
        radius: 0.045,
        angle: -1.0,
        shift: Vec3::new(0.23, -0.02, 0.27),
        ..HELD
    },
    Handle {
        centre: Vec3::new(0.37, 0.0, 0.69),
        radius: 0.06,
        axis: Vec3::new(0.0, -0.5, -1.0),
        angle: 0.55,
        shift: Vec3::new(-0.03, -0.06, 0.03),
    },
    Handle {
        centre: Vec3::new(-0.716, 0.0, 0.336),
        radius: 0.03,
        angle: 1.3,
        shift: Vec3::new(0.02, 0.06, 0.33),
        ..HELD
    },
];

/// Poses the dog.
pub(super) fn play(run: &mut Run<'_>) -> Result<(), DemoError> {
    let scene = Scene::dog()?;
    let deformed = scene.deformed(&run.solve(&scene.problem())?)?;
    run.mesh("", &deformed)?;
    run.picture("", &scene.before_and_after(&deformed))?;
    run.plot()
}

/// Returns what the first solve is given.
pub(super) fn first() -> Result<Problem, DemoError> {
    Ok(Scene::dog()?.problem())
}

/// A mesh and where its handles go.
#[derive(Clone, Debug)]
pub struct Scene {
    mesh: Mesh,
    /// Per vertex: where it is dragged.
    targets: Vec<Option<Vec3>>,
}

impl Scene {
    /// The dog.
    pub fn dog() -> Result<Scene, DemoError> {
        Scene::posed(DOG)
    }

    /// The same dog with 17,000 vertices, for measurements.
    pub fn dog_17k() -> Result<Scene, DemoError> {
        Scene::posed(include_bytes!("../../../data/arap_mesh_deformation/dog_17k.ply"))
    }

    /// The same with four triangles for each, 68,000 vertices.
    pub fn dog_68k() -> Result<Scene, DemoError> {
        let Scene { mesh, .. } = Scene::dog_17k()?;
        Ok(Scene::of(mesh.subdivided()))
    }

    fn posed(ply: &[u8]) -> Result<Scene, DemoError> {
        Ok(Scene::of(Mesh::from_ply(ply).map_err(DemoError::Data)?))
    }

    fn of(mesh: Mesh) -> Scene {
        Scene { targets: targets(&POSE, &mesh.positions), mesh }
    }

    /// The problem: Offset and Angle of every vertex, started at rest. Each edge is in the graph in both directions.
    pub fn problem(&self) -> Problem {
        let count = self.mesh.positions.len();
        let rest = flat(&self.mesh.positions);
        let [v0, v1] = graph(&self.mesh.directed_edges());
        Problem {
            energy: "arap_mesh_deformation",
            text: include_str!("../../energies/arap_mesh_deformation.t"),
            inputs: vec![
                floats("Offset", &[count, 3], rest.clone()),
                floats("Angle", &[count, 3], vec![0.0; 3 * count]),
                floats("UrShape", &[count, 3], rest),
                floats("Constraints", &[count, 3], constraints(&self.targets)),
                param("w_fitSqrt", W_FIT_SQRT),
                param("w_regSqrt", W_REG_SQRT),
                v0,
                v1,
            ],
            options: Options {
                solve: SolveOptions { iterations: Some(100), ..SolveOptions::default() },
                ..Options::default()
            },
        }
    }

    /// The mesh with its vertices at the solution.
    fn deformed(&self, solution: &[NamedArray]) -> Result<Mesh, DemoError> {
        Ok(self.mesh.at(points(solution, "Offset", self.mesh.positions.len())?))
    }

    /// Both meshes from the same place; posed vertices are coloured.
    fn before_and_after(&self, deformed: &Mesh) -> image::RgbImage {
        let view = View::of(&[&self.mesh, deformed], Vec3::new(0.75, -1.0, 0.28), Vec3::z());
        let handle = Vec3::new(0.10, 0.28, 0.62);
        let colours: Vec<Vec3> =
            self.targets.iter().map(|target| if target.is_some() { handle } else { CLAY }).collect();
        let [before, after] = [&self.mesh, deformed].map(|mesh| render(mesh, &colours, &view, 800, 720));
        side_by_side(&before, &after, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::ArrayData;

    #[test]
    fn the_problem_has_the_conventions_of_the_energy() {
        let problem = Scene::dog().unwrap().problem();
        let get = |name: &str| problem.inputs.iter().find(|array| array.name == name).unwrap();
        assert_eq!(get("Offset").shape, [10_002, 3]);
        // A closed surface of genus 0: V - E + F = 2, so E = 3 V - 6, each in both directions.
        assert_eq!(get("G.v0").shape, [2 * (3 * 10_002 - 6)]);
        assert_eq!(get("G.v1").shape, get("G.v0").shape);
        let ArrayData::F32(constraints) = &get("Constraints").data else { panic!() };
        let posed = constraints.chunks(3).filter(|c| c[0] >= -999_999.9).count();
        let mesh = Scene::dog().unwrap().mesh;
        let own = POSE.map(|handle| mesh.positions.iter().filter(|&&p| handle.target(p).is_some()).count());
        assert!(own.iter().all(|&n| n >= 10), "{own:?}");
        assert_eq!(posed, own.iter().sum::<usize>(), "no vertex belongs to two handles");
        assert!(posed < mesh.positions.len() / 2, "{posed} are posed");
    }
}
