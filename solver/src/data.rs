//! The numbers of a problem: named arrays from outside, checked against an energy's declarations.

use sumsq_energy::model::Energy;

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

/// Index arrays of a graph, flattened to element numbers of the vertex's index space.
#[derive(Clone, Debug, Default)]
pub struct GraphData {
    /// Number of hyperedges.
    pub edges: usize,
    /// Per vertex slot: the element of each hyperedge.
    pub vertices: Vec<Vec<u32>>,
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
}

impl ProblemData {
    /// Extents of an index space, fastest-varying first.
    pub fn extents(&self, energy: &Energy, space: sumsq_energy::model::SpaceId) -> Vec<usize> {
        energy.spaces[space.index()].iter().map(|d| self.dims[d.index()]).collect()
    }
    /// Number of elements of an index space.
    pub fn elements(&self, energy: &Energy, space: sumsq_energy::model::SpaceId) -> usize {
        self.extents(energy, space).iter().product()
    }
}
