//! Choice of the arrays of an archive that an energy needs.

use crate::engine;
use crate::failure::{Failure, warn};
use std::collections::BTreeSet;
use std::path::Path;
use sumsq::energy::Energy;
use sumsq::{MemoryLimit, NamedArray, ProblemData, SolveError};
use sumsq_examples::io::npz::Archive;

/// Reads the arrays that the energy declares, if they fit into the memory; warns of the others without reading them.
pub fn read(path: &Path, energy: &Energy, limit: Option<MemoryLimit>) -> Result<Vec<NamedArray>, Failure> {
    read_declared(path, energy, &declared(energy), limit)
}

/// Reads arrays keyed by unknown.
pub fn read_unknowns(path: &Path, energy: &Energy) -> Result<Vec<NamedArray>, Failure> {
    read_declared(path, energy, &energy.unknowns.iter().map(|field| field.name.clone()).collect(), None)
}

/// Reads the arrays that are wanted, once all of their shapes are known to fit, and they themselves into the memory.
fn read_declared(
    path: &Path,
    energy: &Energy,
    wanted: &BTreeSet<String>,
    limit: Option<MemoryLimit>,
) -> Result<Vec<NamedArray>, Failure> {
    let archive = Archive::open(path).map_err(Failure::input)?;
    let (found, unused): (Vec<String>, Vec<String>) =
        archive.names().into_iter().partition(|name| wanted.contains(name));
    for name in unused {
        warn(&format!("{}: `{name}` is not declared by the energy and is not used", path.display()));
    }
    let shape = |name| Ok((String::as_str(name), archive.shape(name).map_err(Failure::input)?));
    let shapes: Vec<(&str, Vec<usize>)> = found.iter().map(shape).collect::<Result<_, Failure>>()?;
    ProblemData::check_shapes(energy, shapes).map_err(Failure::input)?;
    let bytes = found.iter().map(|name| archive.bytes(name).map_err(Failure::input));
    let inputs = bytes.sum::<Result<u64, Failure>>()?;
    if let Some(limit) = MemoryLimit::bytes(limit, 0).filter(|&limit| inputs > limit) {
        return Err(engine::failure(SolveError::Memory { inputs, buffers: 0, limit }));
    }
    found.iter().map(|name| archive.read(name).map_err(Failure::input)).collect()
}

/// Every key that can mean something: dims, unknowns, arrays, params, and the index array of each vertex, as in `G.v0`.
fn declared(energy: &Energy) -> BTreeSet<String> {
    let fields = energy.unknowns.iter().chain(&energy.arrays).map(|field| field.name.clone());
    let dims = energy.dims.iter().map(|dim| dim.name.clone());
    let params = energy.params.iter().map(|param| param.name.clone());
    let vertices = energy
        .graphs
        .iter()
        .flat_map(|graph| graph.vertices.iter().map(move |vertex| format!("{}.{}", graph.name, vertex.name)));
    fields.chain(dims).chain(params).chain(vertices).collect()
}
