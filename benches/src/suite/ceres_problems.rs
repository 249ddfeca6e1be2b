//! The problems on which sumsq and Ceres meet.

use super::published;
use sumsq::{ArrayData, NamedArray};
use sumsq_examples::demos::{
    DemoError, Problem, arap_mesh_deformation, poisson_image_editing, shape_from_shading,
};
use sumsq_examples::io::{npz::Archive, picture};

/// As many steps as the time allows.
pub const NO_LIMIT: usize = 100_000;

/// The goal at which a side is done.
pub enum Goal {
    /// At each of these energies, from each of these first radii.
    Energies { targets: &'static [f64], radii: &'static [f64] },
    /// Within 1 percent of the lowest energy that any side finds within so many steps.
    Lowest { steps: usize },
}

/// A problem and what is to be shown on it.
pub struct Case {
    /// Name in reports.
    pub name: String,
    /// The energy's name.
    pub energy: &'static str,
    /// The text of its energy file.
    pub text: String,
    /// Unknowns, arrays, params, dims and graphs.
    pub inputs: Vec<NamedArray>,
    /// The goal at which a side is done.
    pub goal: Goal,
    /// Linear solvers of Ceres.
    pub linear: [Linear; 2],
}

/// A linear solver of Ceres.
#[derive(Clone, Copy)]
pub struct Linear {
    /// Its name.
    pub name: &'static str,
    /// The parameter blocks that suit it (`Blocks` in the peer's `instance.h`).
    pub blocks: &'static str,
    /// Ratio of times that sumsq is to reach.
    pub factor: f64,
}

/// Both linear solvers over these blocks, with the ratios that sumsq is to reach.
fn linear(blocks: [&'static str; 2], [cgnr, cholesky]: [f64; 2]) -> [Linear; 2] {
    [
        Linear { name: "cgnr", blocks: blocks[0], factor: cgnr },
        Linear { name: "cholesky", blocks: blocks[1], factor: cholesky },
    ]
}

/// Blocks of all unknowns of an element, for both.
const ELEMENTS: [&str; 2] = ["element", "element"];

/// The problems, or which of them lack their inputs: all inputs are part of the project, but for those of the two published
/// problems, which may not be.
pub fn cases() -> Vec<Result<Case, String>> {
    vec![
        image_warping(),
        dog(),
        finer_dog(),
        tulips_in_coffee(),
        skull(),
        published_poisson_image_editing(),
        published_shape_from_shading(),
    ]
}

/// The inputs of a demo, with the dims that it leaves to its arrays.
fn with_dims(problem: Problem, dims: &[(&str, usize)]) -> Vec<NamedArray> {
    problem.inputs.into_iter().chain(dims.iter().map(|&(name, value)| dim(name, value))).collect()
}

/// Two dragged shapes in 512 x 512 pixels.
pub fn image_warping() -> Result<Case, String> {
    let inputs = super::image_warping_512()?;
    Ok(Case {
        name: "image_warping 512 x 512".into(),
        energy: "image_warping",
        text: energy_file("image_warping")?,
        inputs,
        goal: Goal::Energies { targets: &[200.0, 100.0, 80.0], radii: &[1e4, 1e5, 1e6] },
        linear: linear(ELEMENTS, [80.0, 30.0]),
    })
}

/// A posed mesh.
pub fn dog() -> Result<Case, String> {
    arap_case(arap_mesh_deformation::Scene::dog_17k(), [25.0, 20.0])
}

/// The same with four triangles for each.
pub fn finer_dog() -> Result<Case, String> {
    arap_case(arap_mesh_deformation::Scene::dog_68k(), [10.0, 10.0])
}

fn arap_case(
    scene: Result<arap_mesh_deformation::Scene, DemoError>,
    factors: [f64; 2],
) -> Result<Case, String> {
    let scene = scene.map_err(|e| e.to_string())?;
    let problem = scene.problem();
    let vertices = problem.inputs[0].shape[0];
    Ok(Case {
        name: format!("arap_mesh_deformation, {vertices} vertices"),
        energy: problem.energy,
        text: energy_file(problem.energy)?,
        inputs: with_dims(problem, &[("N", vertices)]),
        goal: Goal::Lowest { steps: NO_LIMIT },
        linear: linear(ELEMENTS, factors),
    })
}

/// One photograph cloned into another, inside of an ellipse.
pub fn tulips_in_coffee() -> Result<Case, String> {
    let scene = poisson_image_editing::Scene::tulips_in_coffee().map_err(|e| e.to_string())?;
    let (width, height) = (scene.target.width() as usize, scene.target.height() as usize);
    let inputs = with_dims(scene.problem(), &[("W", width), ("H", height)]);
    poisson_case(format!("poisson_image_editing {width} x {height}, tulips"), inputs)
}

fn poisson_case(name: String, inputs: Vec<NamedArray>) -> Result<Case, String> {
    Ok(Case {
        name,
        energy: "poisson_image_editing",
        text: energy_file("poisson_image_editing")?,
        inputs,
        goal: Goal::Lowest { steps: NO_LIMIT },
        linear: linear(["element", "unknown"], [70.0, 45.0]),
    })
}

/// A rendered skull, its depth refined by its picture.
pub fn skull() -> Result<Case, String> {
    let scene = shape_from_shading::Scene::skull().map_err(|e| e.to_string())?.in_its_frame();
    let problem = scene.problem();
    let (height, width) = (problem.inputs[0].shape[0], problem.inputs[0].shape[1]);
    let inputs = with_dims(problem, &[("W", width), ("H", height)]);
    shading_case(format!("shape_from_shading {width} x {height}, skull"), inputs, [72.0, 115.0])
}

/// Both sides creep on for thousands of steps, since the energy jumps where pixels become discontinuous; 50 steps are both sides'
/// default.
fn shading_case(name: String, inputs: Vec<NamedArray>, factors: [f64; 2]) -> Result<Case, String> {
    Ok(Case {
        name,
        energy: "shape_from_shading",
        text: energy_file("shape_from_shading")?,
        inputs,
        goal: Goal::Lowest { steps: 50 },
        linear: linear(ELEMENTS, factors),
    })
}

/// One photograph cloned into another, where the mask is white.
fn published_poisson_image_editing() -> Result<Case, String> {
    let read = |name: &str| {
        let path = published(&format!("data/opt/{name}.png"));
        picture::read(&path).map(|p| p.to_rgba8()).map_err(|e| e.to_string())
    };
    let (into, from, mask) = (read("poisson0")?, read("poisson1")?, read("poisson_mask")?);
    let (width, height) = (into.width() as usize, into.height() as usize);
    let floats = |name: &str, channels, values: Vec<f32>| NamedArray {
        name: name.into(),
        shape: if channels == 1 { vec![height, width] } else { vec![height, width, channels] },
        data: ArrayData::F32(values),
    };
    let inputs = vec![
        floats("X", 4, into.iter().map(|&v| f32::from(v)).collect()),
        floats("T", 4, from.iter().map(|&v| f32::from(v)).collect()),
        floats("M", 1, mask.pixels().map(|p| f32::from(255 - p.0[0])).collect()),
        dim("W", width),
        dim("H", height),
    ];
    poisson_case(format!("poisson_image_editing {width} x {height}, published"), inputs)
}

/// A scanned relief, its depth refined by its picture.
fn published_shape_from_shading() -> Result<Case, String> {
    let archive = Archive::open(&published("data/rgbd/opt_sfs_relief.npz")).map_err(|e| e.to_string())?;
    let read = |name: &str| archive.read(name).map_err(|e| e.to_string());
    let renamed = |name: &str, array: NamedArray| NamedArray { name: name.into(), ..array };
    let (measured, image) = (read("depth")?, read("intensity")?);
    let (height, width) = (measured.shape[0], measured.shape[1]);
    // Minus infinity stands for no measurement; the energy asks for a depth that is not positive.
    let depth =
        numbers(&measured)?.iter().map(|&d| if d.is_finite() { d } else { 0.0 }).collect::<Vec<f32>>();
    let depth = |name: &str| NamedArray {
        name: name.into(),
        data: ArrayData::F32(depth.clone()),
        ..measured.clone()
    };
    let mut inputs = vec![
        depth("X"),
        depth("D_i"),
        renamed("Im", image),
        renamed("edgeMaskR", read("edge_mask_r")?),
        renamed("edgeMaskC", read("edge_mask_c")?),
        dim("W", width),
        dim("H", height),
    ];
    let lights: Vec<String> = (1..=9).map(|k| format!("L_{k}")).collect();
    let lights: Vec<&str> = lights.iter().map(String::as_str).collect();
    for (array, names) in [
        ("K", &["f_x", "f_y", "u_x", "u_y"][..]),
        ("L", &lights),
        ("w_fit_reg_shade", &["w_p", "w_s", "w_g"]),
    ] {
        let values = numbers(&read(array)?)?;
        let param = |(name, value): (&&str, f32)| NamedArray {
            name: name.to_string(),
            shape: vec![],
            data: ArrayData::F32(vec![value]),
        };
        inputs.extend(names.iter().zip(values).map(param));
    }
    shading_case(format!("shape_from_shading {width} x {height}, published"), inputs, [105.0, 294.0])
}

/// The elements of a float32 array.
fn numbers(array: &NamedArray) -> Result<Vec<f32>, String> {
    match &array.data {
        ArrayData::F32(values) => Ok(values.clone()),
        other => Err(format!("{} is {}, expected float32", array.name, other.dtype())),
    }
}

/// The text of `examples/energies/NAME.t`.
fn energy_file(name: &str) -> Result<String, String> {
    let path = super::root().join(format!("examples/energies/{name}.t"));
    std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

fn dim(name: &str, value: usize) -> NamedArray {
    NamedArray { name: name.into(), shape: vec![], data: ArrayData::Int(vec![value as i64], "int32") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::ProblemData;
    use sumsq::energy::Energy;

    /// The project has what it needs for a problem of each kind, of the size of the published one.
    #[test]
    fn a_problem_of_each_kind_has_its_inputs() {
        let cases = [image_warping(), dog(), tulips_in_coffee(), skull()].map(Result::unwrap);
        let sizes = ["512 x 512", "16952 vertices", "448 x 320", "640 x 480"];
        for (case, size) in cases.iter().zip(sizes) {
            assert!(case.name.contains(size), "{}", case.name);
            let energy = Energy::from_text(case.energy, &case.text).unwrap();
            ProblemData::bind(&energy, &case.inputs).unwrap();
        }
    }
}
