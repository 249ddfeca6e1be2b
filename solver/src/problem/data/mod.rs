//! The numbers of a problem: named arrays from outside, checked against an energy's declarations.
//!
//! [`ProblemData::bind`] accepts a complete set of arrays, [`ProblemData::update`] replaces some of them between steps. Both
//! either succeed or leave an error that names the array, what was expected and what came.

mod bind;
mod error;

pub use crate::problem::data::error::DataError;

use crate::problem::options::Precision;
use sumsq_energy::model::{ArrayId, Energy, ParamId, SpaceId, UnknownId};

/// An array as it came, in C order.
#[derive(Clone, Debug)]
pub struct NamedArray {
    /// Its name: a declared name, or `G.v0` for an index array.
    pub name: String,
    /// Extents, slowest first; empty for a 0-d array.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: ArrayData,
}

/// Elements of an array; integers of every width as i64, the width kept for messages.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ArrayData {
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Values and the dtype's name, as in "uint8".
    Int(Vec<i64>, &'static str),
    Bool(Vec<bool>),
}

impl ArrayData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            ArrayData::F32(v) => v.len(),
            ArrayData::F64(v) => v.len(),
            ArrayData::Int(v, _) => v.len(),
            ArrayData::Bool(v) => v.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of the element type, as numpy spells it.
    pub fn dtype(&self) -> &'static str {
        match self {
            ArrayData::F32(_) => "float32",
            ArrayData::F64(_) => "float64",
            ArrayData::Int(_, name) => name,
            ArrayData::Bool(_) => "bool",
        }
    }
}

/// Index arrays of a graph, flattened to element numbers of the vertex's index space.
#[derive(Clone, Debug, Default)]
pub struct GraphData {
    /// Number of hyperedges.
    pub edges: usize,
    /// Per vertex slot: the element of each hyperedge.
    pub vertices: Vec<Vec<u32>>,
}

/// A declared set of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Declared {
    Unknown(UnknownId),
    Array(ArrayId),
    Param(ParamId),
}

/// All numbers of a problem, indexed by the ids of its energy, checked. Fields are in C order, channels innermost, in
/// float64 (float32 inputs are held exactly).
#[derive(Clone, Debug, Default)]
pub struct ProblemData {
    /// Extent of each dim.
    pub dims: Vec<usize>,
    /// Per unknown.
    pub unknowns: Vec<Vec<f64>>,
    /// Per array.
    pub arrays: Vec<Vec<f64>>,
    /// Per param.
    pub params: Vec<Vec<f64>>,
    /// Per graph.
    pub graphs: Vec<GraphData>,
    /// Unused names and the like.
    pub warnings: Vec<String>,
    /// Shape in which each unknown came, slowest first: the output has it too.
    pub unknown_shapes: Vec<Vec<usize>>,
    /// What came with an integer dtype: a narrower precision must hold it exactly (see [`ProblemData::check_exact`]).
    pub integers: Vec<Declared>,
}

impl ProblemData {
    /// Extents of an index space, fastest-varying first.
    pub fn extents(&self, energy: &Energy, space: SpaceId) -> Vec<usize> {
        energy.spaces[space.index()].iter().map(|d| self.dims[d.index()]).collect()
    }

    /// Number of elements of an index space.
    pub fn elements(&self, energy: &Energy, space: SpaceId) -> usize {
        self.extents(energy, space).iter().product()
    }

    /// Checks that `precision` holds every number that came as an integer exactly. ([`ProblemData::bind`] has done so for
    /// float64.)
    pub fn check_exact(&self, energy: &Energy, precision: Precision) -> Result<(), DataError> {
        if precision != Precision::F32 {
            return Ok(());
        }
        for &what in &self.integers {
            let (name, values) = self.declared(energy, what);
            if let Some(element) = values.iter().position(|&v| f64::from(v as f32) != v) {
                let (value, precision) = (values[element].to_string(), "float32");
                return Err(DataError::Inexact { name: name.to_string(), element, value, precision });
            }
        }
        Ok(())
    }

    /// Every unknown, named, in the shape in which it came: float32 for `f32`, else float64.
    pub fn unknown_arrays(&self, energy: &Energy, precision: Precision) -> Vec<NamedArray> {
        let data = |values: &[f64]| match precision {
            Precision::F32 => ArrayData::F32(values.iter().map(|&v| v as f32).collect()),
            _ => ArrayData::F64(values.to_vec()),
        };
        let named = energy.unknowns.iter().zip(&self.unknowns).zip(&self.unknown_shapes);
        named
            .map(|((u, values), shape)| NamedArray {
                name: u.name.clone(),
                shape: shape.clone(),
                data: data(values),
            })
            .collect()
    }

    fn declared<'a>(&'a self, energy: &'a Energy, what: Declared) -> (&'a str, &'a [f64]) {
        match what {
            Declared::Unknown(i) => (&energy.unknowns[i.index()].name, &self.unknowns[i.index()]),
            Declared::Array(i) => (&energy.arrays[i.index()].name, &self.arrays[i.index()]),
            Declared::Param(i) => (&energy.params[i.index()].name, &self.params[i.index()]),
        }
    }
}

#[cfg(test)]
mod tests;
