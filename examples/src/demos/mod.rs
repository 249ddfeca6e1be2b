//! The demos: each builds a problem from real input and draws its solution.
//!
//! A demo's inputs are part of the program, so that it runs from anywhere. How a problem is solved is the caller's business.

pub mod arap_mesh_deformation;
pub mod image_warping;

use crate::io::FileError;
use crate::plot::PlotError;
use sumsq::{ArrayData, NamedArray, Options};

/// A problem, ready to be solved.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The energy's name, as in `examples/energies/<name>.t`.
    pub energy: &'static str,
    /// The text of its energy file.
    pub text: &'static str,
    /// Unknowns (at their start), arrays, params and graphs, by name.
    pub inputs: Vec<NamedArray>,
    /// What the solver is told.
    pub options: Options,
}

/// Why a demo has no pictures.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DemoError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Plot(#[from] PlotError),
    #[error("the demo's own data: {0}")]
    Data(String),
}

/// A float32 array.
fn floats(name: &str, shape: &[usize], values: Vec<f32>) -> NamedArray {
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data: ArrayData::F32(values) }
}

/// A 0-d float32 parameter.
fn param(name: &str, value: f32) -> NamedArray {
    floats(name, &[], vec![value])
}

/// An int32 index array.
fn indices(name: &str, values: impl Iterator<Item = u32>) -> NamedArray {
    let values: Vec<i64> = values.map(i64::from).collect();
    NamedArray { name: name.to_string(), shape: vec![values.len()], data: ArrayData::Int(values, "int32") }
}

/// The unknown of that name among a solution's, as rows of N numbers.
fn rows<const N: usize>(
    solution: &[NamedArray],
    name: &str,
    count: usize,
) -> Result<Vec<[f32; N]>, DemoError> {
    let found = solution.iter().find(|array| array.name == name);
    let values: Vec<f32> = match found.map(|array| &array.data) {
        Some(ArrayData::F32(values)) => values.clone(),
        Some(ArrayData::F64(values)) => values.iter().map(|&v| v as f32).collect(),
        _ => return Err(DemoError::Data(format!("the solution has no floats named `{name}`"))),
    };
    let rows: Vec<[f32; N]> = values.as_chunks::<N>().0.to_vec();
    if rows.len() == count && values.len() == N * count {
        Ok(rows)
    } else {
        Err(DemoError::Data(format!("`{name}` has {} numbers, expected {count} x {N}", values.len())))
    }
}
