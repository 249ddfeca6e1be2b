//! The numbers of a problem: named arrays from outside, checked against an energy's declarations.
//!
//! [`ProblemData::bind`] accepts a complete set of arrays, [`ProblemData::update`] replaces some of them between steps. Both
//! either succeed or leave an error that names the array, what was expected and what came.

mod array;
mod bind;
mod error;
mod losses;

pub use crate::problem::data::array::{ArrayData, ArrayView, NamedArray, Slice};
pub use crate::problem::data::error::DataError;
pub use crate::problem::data::losses::{Formula, LossError, loss_scales};

use crate::problem::options::Precision;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use sumsq_codegen::runtime::cuda::DeviceArray;
use sumsq_codegen::runtime::{BufferError, View};
use sumsq_energy::model::{ArrayId, Energy, ParamId, SpaceId, UnknownId};

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
pub(crate) enum Declared {
    Unknown(UnknownId),
    Array(ArrayId),
    Param(ParamId),
}

/// Numbers of one declaration, in C order, channels innermost: of the caller, or a copy.
#[derive(Clone, Debug)]
pub(crate) struct Numbers<'a> {
    name: String,
    shape: Vec<usize>,
    source: Source<'a>,
    stamp: Stamp,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Caller(ArrayView<'a>),
    Own(ArrayData),
}

/// A number that differs from that of all other contents: who remembers it knows whether contents have changed since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stamp(u64);

impl Stamp {
    fn next() -> Stamp {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Stamp(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl<'a> Numbers<'a> {
    fn of(view: ArrayView<'a>) -> Numbers<'a> {
        let (name, shape) = (view.name.to_string(), view.shape.clone());
        Numbers { name, shape, source: Source::Caller(view), stamp: Stamp::next() }
    }

    /// Returns what contents these are.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The numbers, wherever they are.
    pub fn view(&self) -> ArrayView<'_> {
        match &self.source {
            Source::Caller(view) => view.clone(),
            Source::Own(data) => ArrayView::new(&self.name, &self.shape, data.slice()),
        }
    }

    /// The numbers in float64.
    pub fn doubles(&self) -> Cow<'_, [f64]> {
        match &self.source {
            Source::Caller(view) => view.doubles(),
            Source::Own(ArrayData::F64(v)) => Cow::Borrowed(v),
            Source::Own(data) => Cow::Owned(data.doubles()),
        }
    }

    /// As the engine copies them: see [`ArrayView::channels`].
    pub fn channels(
        &self,
        channels: usize,
        extents: &[usize],
        shaped: usize,
    ) -> Result<View<'_>, BufferError> {
        self.view().channels(channels, extents, shaped)
    }

    /// The array in the memory of a GPU, if the numbers are there.
    pub fn device(&self) -> Option<&DeviceArray> {
        match &self.source {
            Source::Caller(view) => view.device(),
            Source::Own(ArrayData::Device(array)) => Some(array),
            Source::Own(_) => None,
        }
    }

    /// A list of its own for other contents, which the caller writes.
    fn renew(&mut self) -> &mut [f64] {
        self.stamp = Stamp::next();
        if !matches!(self.source, Source::Own(ArrayData::F64(_))) {
            self.source = Source::Own(ArrayData::F64(vec![0.0; self.shape.iter().product()]));
        }
        match &mut self.source {
            Source::Own(ArrayData::F64(list)) => list,
            _ => unreachable!("it was just put there"),
        }
    }

    /// The same contents, which are not there yet.
    fn emptied(self) -> Numbers<'static> {
        let source = Source::Own(ArrayData::F64(vec![]));
        Numbers { name: self.name, shape: self.shape, source, stamp: self.stamp }
    }

    fn into_owned(self) -> Numbers<'static> {
        let source = match self.source {
            Source::Caller(view) => view.to_data(),
            Source::Own(data) => data,
        };
        Numbers { name: self.name, shape: self.shape, source: Source::Own(source), stamp: self.stamp }
    }
}

/// All numbers of a problem, checked against the declarations of its energy. They stay where they are, in the memory of the caller, until a plan
/// copies them; unknowns that a solve has found are copies in float64, but for those in the memory of a GPU, where a solve writes what it has found. What
/// is there is not looked at when it is bound; where it is asked for here and the GPU does not hand it out it is NaN.
#[derive(Clone, Debug, Default)]
pub struct ProblemData<'a> {
    dims: Vec<usize>,
    unknowns: Vec<Numbers<'a>>,
    /// `None` for constant views, whose numbers are those of their unknowns.
    arrays: Vec<Option<Numbers<'a>>>,
    params: Vec<Vec<f64>>,
    param_stamps: Vec<Stamp>,
    graphs: Vec<GraphData>,
    graph_stamp: Stamp,
    warnings: Vec<String>,
    /// Arrays that came with an integer dtype: a narrower precision must hold it exactly (see [`ProblemData::check_exact`]).
    integers: Vec<Declared>,
}

impl<'a> ProblemData<'a> {
    /// Extent of each dim, in order of declaration.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Unused names and the like.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The graphs, in order of declaration.
    pub fn graphs(&self) -> &[GraphData] {
        &self.graphs
    }

    /// Per param, in order of declaration, its channels.
    pub fn params(&self) -> &[Vec<f64>] {
        &self.params
    }

    /// The unknown of that name, in C order, channels innermost; `None` where there is none.
    pub fn unknown(&self, name: &str) -> Option<Cow<'_, [f64]>> {
        self.unknowns.iter().find(|u| u.name == name).map(Numbers::doubles)
    }

    /// The unknown of that name in the memory of a GPU; `None` where it is not there.
    pub fn unknown_on_device(&self, name: &str) -> Option<&DeviceArray> {
        self.unknowns.iter().find(|u| u.name == name)?.device()
    }

    /// The array of that name, in C order, channels innermost; `None` where there is none.
    pub fn array(&self, name: &str) -> Option<Cow<'_, [f64]>> {
        self.arrays.iter().flatten().find(|a| a.name == name).map(Numbers::doubles)
    }

    /// Every unknown in order of declaration, each in C order, channels innermost.
    pub fn unknowns(&self) -> Vec<Cow<'_, [f64]>> {
        self.unknowns.iter().map(Numbers::doubles).collect()
    }

    /// All unknown scalars: the unknowns one after the other.
    pub fn x(&self) -> Vec<f64> {
        self.unknowns().concat()
    }

    /// Replaces the unknown of that name by as many finite numbers, in C order: its own, if it was in the memory of a GPU.
    ///
    /// # Errors
    /// There is no such unknown, the numbers are not as many, or one is not finite.
    pub fn set_unknown(&mut self, name: &str, values: &[f64]) -> Result<(), DataError> {
        let unknown = self.unknowns.iter_mut().find(|u| u.name == name);
        let unknown = unknown.ok_or_else(|| DataError::Undeclared { kind: "unknown", name: name.into() })?;
        let view = ArrayView::new(name, &unknown.shape, values);
        view.check()?;
        array::check_finite("unknown", &view)?;
        unknown.renew().copy_from_slice(values);
        Ok(())
    }

    /// Replaces all unknowns, as [`ProblemData::x`] lists them.
    ///
    /// # Errors
    /// As for [`ProblemData::set_unknown`].
    pub fn set_x(&mut self, x: &[f64]) -> Result<(), DataError> {
        ArrayView::new("x", &[self.unknown_lengths().iter().sum()], x).check()?;
        let mut rest = x;
        for (u, length) in self.unknown_lengths().into_iter().enumerate() {
            let (own, others) = rest.split_at(length);
            let name = self.unknowns[u].name.clone();
            self.set_unknown(&name, own)?;
            rest = others;
        }
        Ok(())
    }

    /// Bytes that the numbers take, wherever they are.
    pub fn bytes(&self) -> u64 {
        let numbers = self.unknowns.iter().chain(self.arrays.iter().flatten());
        let numbers: usize = numbers.map(|n| n.view().bytes()).sum();
        let indices: usize = self.graphs.iter().flat_map(|g| &g.vertices).map(|v| size_of_val(&v[..])).sum();
        (numbers + indices) as u64
    }

    /// Extents of an index space, fastest-varying first.
    pub fn extents(&self, energy: &Energy, space: SpaceId) -> Vec<usize> {
        energy.spaces[space.index()].iter().map(|d| self.dims[d.index()]).collect()
    }

    /// Number of elements of an index space.
    pub fn elements(&self, energy: &Energy, space: SpaceId) -> usize {
        self.extents(energy, space).iter().product()
    }

    /// Checks that these are numbers for what `energy` declares.
    pub(crate) fn check_declared(&self, energy: &Energy) -> Result<(), DataError> {
        let graphs = || self.graphs.iter().zip(&energy.graphs);
        let fits = self.dims.len() == energy.dims.len()
            && self.unknowns.iter().map(|u| &u.name).eq(energy.unknowns.iter().map(|u| &u.name))
            && self.arrays.iter().map(Option::is_none).eq(energy.arrays.iter().map(|a| a.view_of.is_some()))
            && self
                .arrays
                .iter()
                .zip(&energy.arrays)
                .all(|(n, a)| n.as_ref().is_none_or(|n| n.name == a.name))
            && self.params.iter().map(Vec::len).eq(energy.params.iter().map(|p| usize::from(p.channels)))
            && self.graphs.len() == energy.graphs.len()
            && graphs().all(|(data, graph)| data.vertices.len() == graph.vertices.len());
        if fits { Ok(()) } else { Err(DataError::OtherEnergy) }
    }

    /// Checks that `precision` holds every number that came as an integer exactly. ([`ProblemData::bind`] has done so for
    /// float64.)
    ///
    /// # Errors
    /// The first number that it does not hold, or numbers of another energy.
    pub fn check_exact(&self, energy: &Energy, precision: Precision) -> Result<(), DataError> {
        self.check_declared(energy)?;
        if precision != Precision::F32 {
            return Ok(());
        }
        let misfit = |values: &[f64]| {
            let element = values.iter().position(|&v| f64::from(v as f32) != v)?;
            Some((element, values[element].to_string()))
        };
        for &what in &self.integers {
            let (name, found) = match what {
                Declared::Unknown(i) => {
                    (&energy.unknowns[i.index()].name, misfit(&self.unknowns[i.index()].doubles()))
                }
                Declared::Array(i) => {
                    let numbers = self.arrays[i.index()].as_ref();
                    (&energy.arrays[i.index()].name, numbers.and_then(|n| misfit(&n.doubles())))
                }
                Declared::Param(i) => (&energy.params[i.index()].name, misfit(&self.params[i.index()])),
            };
            if let Some((element, value)) = found {
                return Err(DataError::Inexact { name: name.clone(), element, value, precision: "float32" });
            }
        }
        Ok(())
    }

    /// Every unknown, named, in the shape in which it came: float32 for `f32`, else float64.
    pub fn unknown_arrays(&self, precision: Precision) -> Vec<NamedArray> {
        let data = |values: Cow<'_, [f64]>| match precision {
            Precision::F32 => ArrayData::F32(values.iter().map(|&v| v as f32).collect()),
            _ => ArrayData::F64(values.into_owned()),
        };
        let array = |u: &Numbers<'_>| NamedArray {
            name: u.name.clone(),
            shape: u.shape.clone(),
            data: data(u.doubles()),
        };
        self.unknowns.iter().map(array).collect()
    }

    /// The same numbers, in memory of their own.
    pub fn into_owned(self) -> ProblemData<'static> {
        ProblemData {
            unknowns: self.unknowns.into_iter().map(Numbers::into_owned).collect(),
            arrays: self.arrays.into_iter().map(|a| a.map(Numbers::into_owned)).collect(),
            dims: self.dims,
            params: self.params,
            param_stamps: self.param_stamps,
            graphs: self.graphs,
            graph_stamp: self.graph_stamp,
            warnings: self.warnings,
            integers: self.integers,
        }
    }

    /// The unknowns, in order of declaration.
    pub(crate) fn unknown_numbers(&self) -> &[Numbers<'a>] {
        &self.unknowns
    }

    /// The arrays, in order of declaration; `None` for constant views.
    pub(crate) fn array_numbers(&self) -> &[Option<Numbers<'a>>] {
        &self.arrays
    }

    /// Returns what contents the params are.
    pub(crate) fn param_stamps(&self) -> &[Stamp] {
        &self.param_stamps
    }

    /// Returns what contents the graphs are.
    pub(crate) fn graph_stamp(&self) -> Stamp {
        self.graph_stamp
    }

    /// Numbers of each unknown.
    pub(crate) fn unknown_lengths(&self) -> Vec<usize> {
        self.unknowns.iter().map(|u| u.shape.iter().product()).collect()
    }

    /// The list of an unknown for what a solve has found.
    pub(crate) fn new_unknown(&mut self, unknown: usize) -> &mut [f64] {
        self.unknowns[unknown].renew()
    }
}

#[cfg(test)]
mod tests;
