//! Mistakes in the arrays of a problem.

use crate::problem::data::losses::LossError;
use sumsq_codegen::error::PointerError;
use thiserror::Error;

/// Reason why the arrays do not fit the energy. Every message says what was expected and what came.
#[derive(Clone, PartialEq, Debug, Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum DataError {
    #[error("{kind} `{name}` is missing: expected {expected}")]
    Missing { kind: &'static str, name: String, expected: String },

    #[error("dim `{name}` is missing: expected a 0-d integer, or an array whose shape fixes it")]
    MissingDim { name: String },

    #[error("these numbers were bound to another energy: it declares other names")]
    OtherEnergy,

    #[error("the energy declares no {kind} `{name}`")]
    Undeclared { kind: &'static str, name: String },

    #[error("`{name}` was given twice: expected one array of that name")]
    Duplicate { name: String },

    #[error("{kind} `{name}` has the wrong shape: expected {expected}, came {came}")]
    Shape { kind: &'static str, name: String, expected: String, came: String },

    #[error("{kind} `{name}` has the wrong type: expected {expected}, came {came}")]
    Dtype { kind: &'static str, name: String, expected: &'static str, came: &'static str },

    #[error("`{name}` of shape {shape}: expected {expected} elements, came {came}")]
    Length { name: String, shape: String, expected: String, came: usize },

    #[error(
        "dim `{dim}` is {first_value} by {first}, but {second_value} by {second}: expected the same extent"
    )]
    DimConflict { dim: String, first: String, first_value: usize, second: String, second_value: usize },

    #[error("dim `{dim}`: expected an extent from 1 to 2147483647, came {value} (by {by})")]
    DimRange { dim: String, value: i128, by: String },

    #[error(
        "index space {space} is too large: expected fewer than 2^31 scalars in `{field}`, came {extents}"
    )]
    SpaceTooLarge { space: String, field: String, extents: String },

    #[error("{kind} `{name}`, element {element}: expected a finite number, came {value}")]
    NotFinite { kind: &'static str, name: String, element: String, value: f64 },

    #[error(
        "`{name}`, element {element} in C order: expected an integer that {precision} holds exactly, came {value}"
    )]
    Inexact { name: String, element: usize, value: String, precision: &'static str },

    #[error(
        "array `{name}`, element {element}: expected a value of its declared type {declared}, came {value}"
    )]
    DeclaredType { name: String, element: String, declared: &'static str, value: f64 },

    #[error("graph `{graph}` has no edges: expected at least one, came `{vertex}` of shape {shape}")]
    NoEdges { graph: String, vertex: String, shape: String },

    #[error("graph `{graph}` is too large: expected at most 2147483647 edges, came {edges} (by `{vertex}`)")]
    TooManyEdges { graph: String, vertex: String, edges: usize },

    #[error(
        "graph `{graph}`: expected the same number of edges at every vertex, came {first_edges} at `{first}` and \
         {edges} at `{second}`"
    )]
    EdgeCount { graph: String, first: String, first_edges: usize, second: String, edges: usize },

    #[error(
        "graph `{graph}`, vertex `{vertex}`, row {row}: expected an index from 0 to {last} along dim `{dim}`, came {value}"
    )]
    Index { graph: String, vertex: String, row: usize, dim: String, last: usize, value: i64 },

    #[error(
        "{kind} `{name}` is on a GPU: expected numbers of the host (unknowns and arrays may be on a GPU)"
    )]
    OnDevice { kind: &'static str, name: String },

    #[error("`{name}`: {source}")]
    Pointer { name: String, source: PointerError },

    #[error(transparent)]
    Loss(#[from] LossError),
}
