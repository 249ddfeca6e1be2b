//! Problems to measure: those of the demos and cases at their natural sizes, and as large as wanted, made here.

use sumsq::{ArrayData, NamedArray, Options, SolveOptions};
use sumsq_examples::demos::{Demo, arap_mesh_deformation};
use sumsq_tests::Case;

/// An energy with inputs.
pub struct Setting {
    /// The energy's name.
    pub energy: &'static str,
    /// The text of its file.
    pub text: String,
    /// Unknowns, arrays, params and graphs.
    pub inputs: Vec<NamedArray>,
    /// Options of the demo.
    pub options: Options,
    /// Elements of the unknowns: pixels, voxels, vertices.
    pub elements: usize,
}

/// An energy that is measured.
#[derive(Clone, Copy)]
pub struct Energy {
    /// Its name.
    pub name: &'static str,
    /// Least bytes that a PCG iteration moves per element, where they are known.
    pub bytes: Option<f64>,
    /// Width of the large problem, or vertices of it.
    pub large: usize,
}

/// The energies, those with goals first.
pub const ENERGIES: [Energy; 11] = [
    Energy { name: "laplacian", bytes: Some(32.0), large: 8192 },
    Energy { name: "image_warping", bytes: Some(208.0), large: 8192 },
    Energy { name: "poisson_image_editing", bytes: Some(192.0), large: 8192 },
    Energy { name: "optical_flow", bytes: Some(120.0), large: 8192 },
    Energy { name: "arap_mesh_deformation", bytes: None, large: 1 << 22 },
    Energy { name: "shape_from_shading", bytes: Some(74.0), large: 8192 },
    Energy { name: "volumetric_mesh_deformation", bytes: Some(480.0), large: 256 },
    Energy { name: "intrinsic_image_decomposition", bytes: Some(256.0), large: 8192 },
    Energy { name: "cotangent_mesh_smoothing", bytes: None, large: 1 << 22 },
    Energy { name: "embedded_deformation", bytes: None, large: 1 << 22 },
    Energy { name: "robust_nonrigid_alignment", bytes: None, large: 1 << 22 },
];

/// Numbers in [0, 1) that repeat: the peers make the same.
pub fn noise(i: usize) -> f32 {
    ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32
}

fn floats(name: &str, shape: &[usize], values: Vec<f32>) -> NamedArray {
    NamedArray { name: name.into(), shape: shape.to_vec(), data: ArrayData::F32(values) }
}

/// The text of `examples/energies/NAME.t`.
fn text(name: &str) -> String {
    let path = sumsq_tests::workspace_root().join("examples/energies").join(format!("{name}.t"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Smoothing of noise, from 0 on.
pub fn laplacian(n: usize) -> Setting {
    let inputs =
        vec![floats("X", &[n, n], vec![0.0; n * n]), floats("A", &[n, n], (0..n * n).map(noise).collect())];
    let options = Options::default();
    Setting { energy: "laplacian", text: text("laplacian"), inputs, options, elements: n * n }
}

/// A square without a mask, slightly turned everywhere, dragged at every 64th pixel of every 64th row.
pub fn image_warping(n: usize) -> Setting {
    let rest: Vec<f32> = (0..n * n).flat_map(|i| [(i % n) as f32, (i / n) as f32]).collect();
    let mut constraints = vec![-1.0f32; 2 * n * n];
    for y in (32..n).step_by(64) {
        for x in (32..n).step_by(64) {
            let i = y * n + x;
            constraints[2 * i] = x as f32 + 3.0 * noise(2 * i);
            constraints[2 * i + 1] = y as f32 + 3.0 * noise(2 * i + 1);
        }
    }
    let inputs = vec![
        floats("Offset", &[n, n, 2], rest.clone()),
        floats("Angle", &[n, n], (0..n * n).map(|i| 0.1 * noise(i)).collect()),
        floats("UrShape", &[n, n, 2], rest),
        floats("Constraints", &[n, n, 2], constraints),
        floats("Mask", &[n, n], vec![0.0; n * n]),
        floats("w_fitSqrt", &[], vec![10.0]),
        floats("w_regSqrt", &[], vec![0.1]),
    ];
    let options = Options::default();
    Setting { energy: "image_warping", text: text("image_warping"), inputs, options, elements: n * n }
}

/// The problem of a demo, of the case of 512 x 512 pixels, or of the dog of 17,000 vertices.
pub fn natural(name: &str) -> Setting {
    let problem = match name {
        "laplacian" => return laplacian(512),
        "image_warping" => {
            let case = Case::open("image_warping");
            let options = Options {
                solve: SolveOptions { iterations: Some(100), ..SolveOptions::default() },
                ..Options::default()
            };
            let elements = case.arrays.iter().find(|a| a.name == "Angle").map_or(0, |a| a.data.len());
            let text = text(name);
            return Setting { energy: "image_warping", text, inputs: case.arrays, options, elements };
        }
        "arap_mesh_deformation" => arap_mesh_deformation::Scene::dog_17k().map(|scene| scene.problem()),
        _ => Demo::find(name).unwrap_or_else(|| panic!("no demo {name}")).problem(),
    };
    let problem = problem.unwrap_or_else(|e| panic!("{name}: {e}"));
    // The first input is an unknown; where it has channels, these are its last dim.
    let is_mesh = problem.inputs.iter().any(|a| a.name.contains('.'));
    let shape = &problem.inputs[0].shape;
    let dims = if is_mesh { 1 } else { dims(name) };
    let elements = shape[..dims].iter().product();
    Setting {
        energy: problem.energy,
        text: problem.text.into(),
        inputs: problem.inputs,
        options: problem.options,
        elements,
    }
}

fn dims(name: &str) -> usize {
    if name == "volumetric_mesh_deformation" { 3 } else { 2 }
}

/// The large problem of an energy: made, or a natural one again and again, `n` elements wide, or of so many vertices.
pub fn large(name: &str, n: usize) -> Setting {
    match name {
        "laplacian" => return laplacian(n),
        "image_warping" => return image_warping(n),
        _ => {}
    }
    let mut s = natural(name);
    if s.inputs.iter().any(|a| a.name.contains('.')) {
        let copies = n.div_ceil(s.elements);
        let elements = s.elements;
        s.inputs.iter_mut().for_each(|a| copied(a, elements, copies));
        s.elements *= copies;
    } else {
        let dims = dims(name);
        s.inputs.iter_mut().filter(|a| a.shape.len() >= dims).for_each(|a| tiled(a, dims, n));
        s.elements = n.pow(dims as u32);
    }
    s
}

/// As many copies of a mesh beside each other.
fn copied(a: &mut NamedArray, elements: usize, copies: usize) {
    if a.shape.is_empty() || (a.shape[0] != elements && !a.name.contains('.')) {
        return;
    }
    a.shape[0] *= copies;
    match &mut a.data {
        ArrayData::F32(v) => *v = v.repeat(copies),
        ArrayData::F64(v) => *v = v.repeat(copies),
        ArrayData::Int(v, _) if a.name.contains('.') => {
            let one = std::mem::take(v);
            *v = (0..copies * elements)
                .step_by(elements)
                .flat_map(|o| one.iter().map(move |i| i + o as i64))
                .collect();
        }
        other => panic!("{} is {}", a.name, other.dtype()),
    }
}

/// The array again and again along its first `dims` dims, each then `n` wide.
fn tiled(a: &mut NamedArray, dims: usize, n: usize) {
    let old = a.shape.clone();
    let channels: usize = old[dims..].iter().product();
    a.shape[..dims].fill(n);
    match &mut a.data {
        ArrayData::F32(v) => *v = tiles(v, &old[..dims], channels, n),
        ArrayData::F64(v) => *v = tiles(v, &old[..dims], channels, n),
        ArrayData::Bytes(v) => *v = tiles(v, &old[..dims], channels, n),
        other => panic!("{} is {}", a.name, other.dtype()),
    }
}

fn tiles<T: Copy>(from: &[T], dims: &[usize], channels: usize, n: usize) -> Vec<T> {
    let width = dims[dims.len() - 1];
    let mut to = Vec::with_capacity(n.pow(dims.len() as u32) * channels);
    for row in 0..n.pow(dims.len() as u32 - 1) {
        let (mut at, mut stride, mut rest) = (0, 1, row);
        for &d in dims[..dims.len() - 1].iter().rev() {
            at += rest % n % d * stride;
            (rest, stride) = (rest / n, stride * d);
        }
        let line = &from[at * width * channels..][..width * channels];
        let end = to.len() + n * channels;
        while to.len() < end {
            to.extend_from_slice(&line[..line.len().min(end - to.len())]);
        }
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::ProblemData;

    #[test]
    fn every_energy_has_a_large_problem() {
        for e in ENERGIES {
            let n = if e.large > 10_000 { 40_000 } else { 24 };
            for s in [natural(e.name), large(e.name, n)] {
                let energy = sumsq::energy::Energy::from_text(s.energy, &s.text).unwrap();
                ProblemData::bind(&energy, &s.inputs).unwrap_or_else(|e| panic!("{}: {e}", s.energy));
                assert!(s.elements >= 100, "{}: {}", s.energy, s.elements);
            }
        }
    }

    #[test]
    fn tiles_repeat() {
        let from: Vec<u8> = (0..12).collect();
        assert_eq!(tiles(&from, &[2, 3], 2, 4)[..8], [0, 1, 2, 3, 4, 5, 0, 1]);
        assert_eq!(tiles(&from, &[2, 3], 2, 4)[8..16], [6, 7, 8, 9, 10, 11, 6, 7]);
        let cube = tiles(&from, &[2, 2, 3], 1, 3);
        assert_eq!((cube.len(), &cube[9..12], &cube[18..21]), (27, &from[6..9], &from[..3]));
    }

    #[test]
    fn a_mesh_is_copied_with_its_edges() {
        let (one, three) = (natural("arap_mesh_deformation"), large("arap_mesh_deformation", 40_000));
        assert_eq!(three.elements, 3 * one.elements);
        let edges = |s: &Setting| match &s.inputs.iter().find(|a| a.name == "G.v1").unwrap().data {
            ArrayData::Int(v, _) => v.clone(),
            _ => panic!("indices"),
        };
        let (one_edges, three_edges) = (edges(&one), edges(&three));
        assert_eq!(three_edges.len(), 3 * one_edges.len());
        assert_eq!(three_edges[one_edges.len() + 7], one_edges[7] + one.elements as i64);
    }
}
