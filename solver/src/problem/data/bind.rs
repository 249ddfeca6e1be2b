//! Binding: every declared name finds its array, every shape agrees with every other.
//!
//! Order of work: names, then extents of dims (0-d keys first, then shapes in order of declaration), then index arrays,
//! whose range needs the extents.

use crate::problem::data::array::{check_finite, multi_index, tuple};
use crate::problem::data::{
    ArrayView, DataError, Declared, GraphData, NamedArray, Numbers, ProblemData, Source, Stamp, loss_scales,
};
use rustc_hash::FxHashMap;
use sumsq_energy::model::{
    ArrayId, Dim, DimId, ElementType, Energy, Field, Graph, Param, ParamId, SpaceId, UnknownId, Vertex,
};

/// Largest extent, edge count and scalar count of a field: indices are 32-bit signed.
const INDEX_MAX: usize = i32::MAX as usize;

impl<'a> ProblemData<'a> {
    /// Checks `arrays` against the declarations of `energy` and takes their numbers, which stay where they are.
    ///
    /// Dims are optional where a shape fixes them. Unknowns and params must be finite, arrays need not be. A name that the
    /// energy does not declare is a warning.
    ///
    /// # Errors
    /// Numbers that are missing, of another shape or type than declared, or out of range.
    pub fn bind(
        energy: &Energy,
        arrays: impl IntoIterator<Item = impl Into<ArrayView<'a>>>,
    ) -> Result<ProblemData<'a>, DataError> {
        let mut data = ProblemData::empty(energy);
        let changes = data.changes(energy, arrays, true)?;
        data.apply(changes);
        Ok(data)
    }

    /// Checks shapes against the declarations of `energy`, before there are any numbers. Names may be missing.
    ///
    /// # Errors
    /// Arrays that [`ProblemData::bind`] would refuse by their shapes alone.
    pub fn check_shapes<'s>(
        energy: &Energy,
        shapes: impl IntoIterator<Item = (&'s str, Vec<usize>)>,
    ) -> Result<(), DataError> {
        let mut binder = Binder::new(energy);
        for (name, shape) in shapes {
            binder.give(ArrayView::of_shape(name, shape))?;
        }
        binder.check_shapes()
    }

    /// As [`ProblemData::bind`], but the numbers are taken out of the list. On an error it is as it was.
    ///
    /// # Errors
    /// As for [`ProblemData::bind`].
    pub fn bind_taking(
        energy: &Energy,
        arrays: &mut Vec<NamedArray>,
    ) -> Result<ProblemData<'static>, DataError> {
        let mut data = ProblemData::empty(energy);
        let changes = data.changes(energy, &*arrays, true)?.emptied();
        data.apply(changes.filled(arrays));
        Ok(data)
    }

    /// Replaces the numbers of `arrays` by copies, which keep the extents of the problem. On an error nothing has changed.
    ///
    /// # Errors
    /// As for [`ProblemData::bind`].
    pub fn update<'b>(
        &mut self,
        energy: &Energy,
        arrays: impl IntoIterator<Item = impl Into<ArrayView<'b>>>,
    ) -> Result<(), DataError> {
        self.check_declared(energy)?;
        let changes = self.changes(energy, arrays, false)?;
        self.apply(changes.into_owned());
        Ok(())
    }

    /// As [`ProblemData::update`], but the numbers are taken out of the list. On an error it is as it was.
    ///
    /// # Errors
    /// As for [`ProblemData::bind`].
    pub fn update_taking(&mut self, energy: &Energy, arrays: &mut Vec<NamedArray>) -> Result<(), DataError> {
        self.check_declared(energy)?;
        let changes = self.changes(energy, &*arrays, false)?.emptied();
        self.apply(changes.filled(arrays));
        Ok(())
    }

    /// No numbers yet.
    fn empty(energy: &Energy) -> ProblemData<'a> {
        ProblemData {
            arrays: vec![None; energy.arrays.len()],
            params: vec![Vec::new(); energy.params.len()],
            param_stamps: vec![Stamp::next(); energy.params.len()],
            ..ProblemData::default()
        }
    }

    /// The changes that arrays make. `complete`: every declared name must be there.
    fn changes<'b>(
        &self,
        energy: &Energy,
        arrays: impl IntoIterator<Item = impl Into<ArrayView<'b>>>,
        complete: bool,
    ) -> Result<Changes<'b>, DataError> {
        let mut binder = Binder::new(energy);
        for array in arrays {
            let array: ArrayView<'b> = array.into();
            array.check()?;
            binder.give(array)?;
        }
        for (slot, &extent) in binder.dims.iter_mut().zip(&self.dims) {
            *slot = Some((extent, "the problem as bound".to_string()));
        }
        binder.bind_dim_keys()?;
        binder.run(self, complete)
    }

    fn apply(&mut self, changes: Changes<'a>) {
        let Changes { unknowns, arrays, params, graphs, integers, dims, warnings } = changes;
        let what = unknowns.iter().map(|(i, _)| Declared::Unknown(UnknownId(*i as u32)));
        let what = what.chain(arrays.iter().map(|(i, _)| Declared::Array(ArrayId(*i as u32))));
        let what: Vec<Declared> =
            what.chain(params.iter().map(|(i, _)| Declared::Param(ParamId(*i as u32)))).collect();
        self.integers.retain(|w| !what.contains(w));
        self.integers.extend(integers);
        if self.unknowns.is_empty() {
            self.unknowns = unknowns.into_iter().map(|(_, numbers)| numbers).collect();
        } else {
            unknowns.into_iter().for_each(|(i, numbers)| self.unknowns[i] = numbers);
        }
        arrays.into_iter().for_each(|(i, numbers)| self.arrays[i] = Some(numbers));
        for (i, values) in params {
            (self.params[i], self.param_stamps[i]) = (values, Stamp::next());
        }
        if let Some(graphs) = graphs {
            (self.graphs, self.graph_stamp) = (graphs, Stamp::next());
        }
        (self.dims, self.warnings) = (dims, warnings);
    }
}

/// Numbers that a binding brings, with the index of what they replace.
#[derive(Default)]
struct Changes<'a> {
    unknowns: Vec<(usize, Numbers<'a>)>,
    arrays: Vec<(usize, Numbers<'a>)>,
    params: Vec<(usize, Vec<f64>)>,
    /// `None`: as they were.
    graphs: Option<Vec<GraphData>>,
    /// Those of it that came as integers.
    integers: Vec<Declared>,
    dims: Vec<usize>,
    warnings: Vec<String>,
}

impl<'a> Changes<'a> {
    /// With copies of the numbers.
    fn into_owned(self) -> Changes<'static> {
        self.map(Numbers::into_owned)
    }

    /// Without the numbers, for [`Changes::filled`].
    fn emptied(self) -> Changes<'static> {
        self.map(Numbers::emptied)
    }

    /// With the numbers of the arrays that these changes were found from.
    fn filled(mut self, arrays: &mut Vec<NamedArray>) -> Self {
        for array in arrays.drain(..) {
            let mut all = self.unknowns.iter_mut().chain(&mut self.arrays);
            if let Some((_, numbers)) = all.find(|(_, numbers)| numbers.name == array.name) {
                numbers.source = Source::Own(array.data);
            }
        }
        self
    }

    fn map(self, own: fn(Numbers<'a>) -> Numbers<'static>) -> Changes<'static> {
        let all = |list: Vec<(usize, Numbers<'a>)>| list.into_iter().map(|(i, n)| (i, own(n))).collect();
        Changes {
            unknowns: all(self.unknowns),
            arrays: all(self.arrays),
            params: self.params,
            graphs: self.graphs,
            integers: self.integers,
            dims: self.dims,
            warnings: self.warnings,
        }
    }
}

/// Extents found so far and which names were used.
struct Binder<'e, 'a> {
    energy: &'e Energy,
    given: FxHashMap<String, ArrayView<'a>>,
    order: Vec<String>,
    /// Per dim: its extent and who said so.
    dims: Vec<Option<(usize, String)>>,
}

impl<'e, 'a> Binder<'e, 'a> {
    fn new(energy: &'e Energy) -> Binder<'e, 'a> {
        let fixed = |d: &Dim| Some((usize::try_from(d.fixed?).ok()?, "the energy".to_string()));
        let dims = energy.dims.iter().map(fixed).collect();
        Binder { energy, given: FxHashMap::default(), order: vec![], dims }
    }

    fn give(&mut self, array: ArrayView<'a>) -> Result<(), DataError> {
        let name = array.name.to_string();
        self.order.push(name.clone());
        match self.given.insert(name.clone(), array) {
            None => Ok(()),
            Some(_) => Err(DataError::Duplicate { name }),
        }
    }

    /// Checks the shapes of what is given; dims that only a number says stay unknown.
    fn check_shapes(&mut self) -> Result<(), DataError> {
        let energy = self.energy;
        for dim in energy.dims.iter().filter(|d| d.fixed.is_none()) {
            self.given.get(dim.name.as_str()).map_or(Ok(()), |array| check_dim_shape(dim, array))?;
        }
        let views = energy.arrays.iter().filter(|f| f.view_of.is_none());
        let fields = energy.unknowns.iter().map(|f| ("unknown", f)).chain(views.map(|f| ("array", f)));
        for (kind, field) in fields {
            if let Some(array) = self.find(kind, &field.name, false, |b| b.expected_shape(field))? {
                self.check_field_shape(kind, field, &array)?;
            }
        }
        for param in &energy.params {
            let found = self.find("param", &param.name, false, |_| param_shape(param))?;
            found.map_or(Ok(()), |array| check_param_shape(param, &array))?;
        }
        for graph in &energy.graphs {
            for vertex in &graph.vertices {
                let (key, dims) = self.index_array(graph, vertex);
                let found = self.find("index array", &key, false, |_| index_shape(dims))?;
                found.map_or(Ok(()), |array| check_index_shape(&graph.name, &array, dims))?;
            }
        }
        self.resolved_dims().map_or(Ok(()), |dims| self.check_sizes(&dims))
    }

    /// Returns what the arrays change of `data`. `complete`: every declared name must be there.
    fn run(&mut self, data: &ProblemData<'_>, complete: bool) -> Result<Changes<'a>, DataError> {
        let mut changes = Changes::default();
        self.bind_fields(&mut changes, complete)?;
        self.bind_params(&mut changes, &data.params, complete)?;
        changes.dims = self.resolved_dims()?;
        self.check_sizes(&changes.dims)?;
        self.bind_graphs(&mut changes, &data.graphs, complete)?;
        changes.warnings = self.unused();
        Ok(changes)
    }

    fn bind_dim_keys(&mut self) -> Result<(), DataError> {
        for (index, dim) in self.energy.dims.iter().enumerate().filter(|(_, d)| d.fixed.is_none()) {
            let Some(array) = self.given.get(dim.name.as_str()) else { continue };
            if array.device().is_some() {
                return Err(DataError::OnDevice { kind: "dim", name: dim.name.clone() });
            }
            if !array.is_integer() {
                let (name, came) = (dim.name.clone(), array.dtype());
                return Err(DataError::Dtype { kind: "dim", name, expected: "a 0-d integer", came });
            }
            check_dim_shape(dim, array)?;
            let value = array.integers().next().unwrap_or(0);
            let by = format!("the key `{}`", dim.name);
            if !(1..=INDEX_MAX as i64).contains(&value) {
                return Err(DataError::DimRange { dim: dim.name.clone(), value: value.into(), by });
            }
            self.fix_dim(index, value as usize, &by)?;
        }
        Ok(())
    }

    /// Records that `by` says dim `index` is `extent`.
    fn fix_dim(&mut self, index: usize, extent: usize, by: &str) -> Result<(), DataError> {
        let dim = || self.energy.dims[index].name.clone();
        if !(1..=INDEX_MAX).contains(&extent) {
            return Err(DataError::DimRange { dim: dim(), value: extent as i128, by: by.to_string() });
        }
        match &self.dims[index] {
            Some((known, first)) if *known != extent => Err(DataError::DimConflict {
                dim: dim(),
                first: first.clone(),
                first_value: *known,
                second: by.to_string(),
                second_value: extent,
            }),
            Some(_) => Ok(()),
            None => {
                self.dims[index] = Some((extent, by.to_string()));
                Ok(())
            }
        }
    }

    fn bind_fields(&mut self, changes: &mut Changes<'a>, complete: bool) -> Result<(), DataError> {
        for (i, field) in self.energy.unknowns.iter().enumerate() {
            let Some(array) = self.find("unknown", &field.name, complete, |b| b.expected_shape(field))?
            else {
                continue;
            };
            self.check_field_shape("unknown", field, &array)?;
            note_integers(&array, Declared::Unknown(UnknownId(i as u32)), &mut changes.integers)?;
            check_finite("unknown", &array)?;
            check_writable(&array)?;
            changes.unknowns.push((i, Numbers::of(array)));
        }
        for (i, field) in self.energy.arrays.iter().enumerate().filter(|(_, f)| f.view_of.is_none()) {
            let Some(array) = self.find("array", &field.name, complete, |b| b.expected_shape(field))? else {
                continue;
            };
            self.check_field_shape("array", field, &array)?;
            note_integers(&array, Declared::Array(ArrayId(i as u32)), &mut changes.integers)?;
            check_declared_type(field, &array)?;
            changes.arrays.push((i, Numbers::of(array)));
        }
        Ok(())
    }

    fn bind_params(
        &mut self,
        changes: &mut Changes<'a>,
        known: &[Vec<f64>],
        complete: bool,
    ) -> Result<(), DataError> {
        let mut all = known.to_vec();
        for (i, param) in self.energy.params.iter().enumerate() {
            let Some(array) = self.find("param", &param.name, complete, |_| param_shape(param))? else {
                continue;
            };
            check_param_shape(param, &array)?;
            note_integers(&array, Declared::Param(ParamId(i as u32)), &mut changes.integers)?;
            check_finite("param", &array)?;
            all[i] = array.doubles().into_owned();
            changes.params.push((i, all[i].clone()));
        }
        loss_scales(self.energy, &all)?;
        Ok(())
    }

    /// The array of that name; missing is an error where the set must be `complete`.
    fn find(
        &self,
        kind: &'static str,
        name: &str,
        complete: bool,
        expected: impl Fn(&Self) -> String,
    ) -> Result<Option<ArrayView<'a>>, DataError> {
        match self.given.get(name) {
            Some(array) if array.device().is_some() && !["unknown", "array"].contains(&kind) => {
                Err(DataError::OnDevice { kind, name: name.to_string() })
            }
            Some(array) => Ok(Some(array.clone())),
            None if complete => Err(DataError::Missing {
                kind,
                name: name.to_string(),
                expected: format!("shape {}", expected(self)),
            }),
            None => Ok(None),
        }
    }

    fn check_field_shape(
        &mut self,
        kind: &'static str,
        field: &Field,
        array: &ArrayView<'_>,
    ) -> Result<(), DataError> {
        let dims = self.shaped_dims(field);
        let (n, channels) = (dims.len(), usize::from(field.channels));
        let fits = match array.shape.len().checked_sub(n) {
            Some(0) => channels == 1,
            Some(1) => array.shape[n] == channels,
            _ => false,
        };
        if !fits {
            let (name, expected) = (field.name.clone(), self.expected_shape(field));
            return Err(DataError::Shape { kind, name, expected, came: tuple(&array.shape) });
        }
        let by = format!("{kind} `{}` of shape {}", field.name, tuple(&array.shape));
        for (d, dim) in dims.iter().enumerate() {
            self.fix_dim(dim.index(), array.shape[n - 1 - d], &by)?;
        }
        Ok(())
    }

    /// The dims in the shape of a field: none for a global.
    fn shaped_dims(&self, field: &Field) -> &'e [DimId] {
        if self.energy.is_global(field.space) { &[] } else { &self.energy.spaces[field.space.index()] }
    }

    /// `(H=48, W=64, 2)`: the names of extents, with their values where known.
    fn expected_shape(&self, field: &Field) -> String {
        let extent = |d: &sumsq_energy::model::DimId| {
            let name = &self.energy.dims[d.index()].name;
            match &self.dims[d.index()] {
                Some((value, _)) => format!("{name}={value}"),
                None => name.clone(),
            }
        };
        let mut parts: Vec<String> = self.shaped_dims(field).iter().rev().map(extent).collect();
        if field.channels > 1 {
            parts.push(field.channels.to_string());
        }
        tuple(&parts)
    }

    fn resolved_dims(&self) -> Result<Vec<usize>, DataError> {
        let dims = self.dims.iter().zip(&self.energy.dims);
        dims.map(|(found, dim)| match found {
            Some((extent, _)) => Ok(*extent),
            None => Err(DataError::MissingDim { name: dim.name.clone() }),
        })
        .collect()
    }

    /// Every field has fewer than 2^31 scalars.
    fn check_sizes(&self, dims: &[usize]) -> Result<(), DataError> {
        let declared = self.energy.unknowns.iter().chain(&self.energy.arrays);
        let declared = declared.map(|f| (f.space, usize::from(f.channels), &f.name));
        let computed = self.energy.computed.iter().map(|c| (c.space, c.values.len(), &c.name));
        for (space, channels, name) in declared.chain(computed) {
            let extents = self.extents(dims, space);
            if !is_countable(channels, &extents) {
                return Err(DataError::SpaceTooLarge {
                    space: self.energy.space_name(space),
                    field: name.clone(),
                    extents: tuple(&extents),
                });
            }
        }
        Ok(())
    }

    /// Extents of an index space, fastest-varying first.
    fn extents(&self, dims: &[usize], space: SpaceId) -> Vec<usize> {
        self.energy.spaces[space.index()].iter().map(|d| dims[d.index()]).collect()
    }

    fn bind_graphs(
        &mut self,
        changes: &mut Changes<'a>,
        known: &[GraphData],
        complete: bool,
    ) -> Result<(), DataError> {
        let (mut graphs, mut any) = (known.to_vec(), complete);
        graphs.resize_with(self.energy.graphs.len(), GraphData::default);
        for (graph, data) in self.energy.graphs.iter().zip(&mut graphs) {
            let vertices = &mut data.vertices;
            vertices.resize_with(graph.vertices.len(), Vec::new);
            for (slot, vertex) in graph.vertices.iter().enumerate() {
                let (key, dims) = self.index_array(graph, vertex);
                if let Some(array) = self.find("index array", &key, complete, |_| index_shape(dims))? {
                    check_index_shape(&graph.name, &array, dims)?;
                    vertices[slot] =
                        self.flatten_indices(&changes.dims, &graph.name, vertex.space, &array)?;
                    any = true;
                }
            }
            let key = |slot: usize| format!("{}.{}", graph.name, graph.vertices[slot].name);
            let edges = vertices.first().map_or(0, Vec::len);
            if let Some(slot) = vertices.iter().position(|v| v.len() != edges) {
                return Err(DataError::EdgeCount {
                    graph: graph.name.clone(),
                    first: key(0),
                    first_edges: edges,
                    second: key(slot),
                    edges: vertices[slot].len(),
                });
            }
            data.edges = edges;
        }
        changes.graphs = any.then_some(graphs);
        Ok(())
    }

    /// The name of an index array and the dims that it counts over.
    fn index_array(&self, graph: &Graph, vertex: &Vertex) -> (String, usize) {
        (format!("{}.{}", graph.name, vertex.name), self.energy.spaces[vertex.space.index()].len())
    }

    /// Element numbers of an index array; rows hold one index per dim, fastest-varying first.
    fn flatten_indices(
        &self,
        dims: &[usize],
        graph: &str,
        space: SpaceId,
        array: &ArrayView<'_>,
    ) -> Result<Vec<u32>, DataError> {
        if !array.is_integer() {
            let (name, came) = (array.name.to_string(), array.dtype());
            return Err(DataError::Dtype { kind: "index array", name, expected: "integers", came });
        }
        let extents = self.extents(dims, space);
        let dims = &self.energy.spaces[space.index()];
        let mut values = array.integers();
        let mut elements = Vec::with_capacity(array.shape[0]);
        for row in 0..array.shape[0] {
            let (mut element, mut stride) = (0, 1);
            for (&extent, dim) in extents.iter().zip(dims) {
                let value = values.next().unwrap_or(-1);
                if !(0..extent as i64).contains(&value) {
                    return Err(DataError::Index {
                        graph: graph.to_string(),
                        vertex: array.name.to_string(),
                        row,
                        dim: self.energy.dims[dim.index()].name.clone(),
                        last: extent - 1,
                        value,
                    });
                }
                element += value as usize * stride;
                stride *= extent;
            }
            elements.push(element as u32);
        }
        Ok(elements)
    }

    /// One warning per given name that the energy does not declare.
    fn unused(&self) -> Vec<String> {
        let e = self.energy;
        let mut declared: rustc_hash::FxHashSet<String> = rustc_hash::FxHashSet::default();
        declared.extend(e.dims.iter().map(|d| d.name.clone()));
        declared.extend(e.unknowns.iter().chain(&e.arrays).map(|f| f.name.clone()));
        declared.extend(e.params.iter().map(|p| p.name.clone()));
        for g in &e.graphs {
            declared.extend(g.vertices.iter().map(|v| format!("{}.{}", g.name, v.name)));
        }
        let view = |name: &str| e.arrays.iter().any(|a| a.name == name && a.view_of.is_some());
        let unused = self.order.iter().filter_map(|name| match declared.contains(name) {
            false => Some(format!("`{name}` is not declared by the energy and is not used")),
            true if view(name) => {
                Some(format!("`{name}` is a constant view of an unknown: its numbers are not used"))
            }
            true => None,
        });
        unused.collect()
    }
}

fn check_dim_shape(dim: &Dim, array: &ArrayView<'_>) -> Result<(), DataError> {
    if array.shape.is_empty() {
        return Ok(());
    }
    let (name, came) = (dim.name.clone(), tuple(&array.shape));
    Err(DataError::Shape { kind: "dim", name, expected: "()".to_string(), came })
}

/// `()`, or `(3,)` for three channels.
fn param_shape(param: &Param) -> String {
    if param.channels == 1 { "()".to_string() } else { tuple(&[param.channels]) }
}

fn check_param_shape(param: &Param, array: &ArrayView<'_>) -> Result<(), DataError> {
    let n = usize::from(param.channels);
    if array.shape == [n] || (n == 1 && array.shape.is_empty()) {
        return Ok(());
    }
    let (name, came) = (param.name.clone(), tuple(&array.shape));
    Err(DataError::Shape { kind: "param", name, expected: param_shape(param), came })
}

/// The shape of an index array over that many dims.
fn index_shape(dims: usize) -> String {
    if dims == 1 { "(E,)".to_string() } else { format!("(E, {dims})") }
}

fn check_index_shape(graph: &str, array: &ArrayView<'_>, dims: usize) -> Result<(), DataError> {
    let fits = match array.shape.as_slice() {
        [_] => dims == 1,
        [_, n] => *n == dims,
        _ => false,
    };
    if !fits {
        let (name, came) = (array.name.to_string(), tuple(&array.shape));
        return Err(DataError::Shape { kind: "index array", name, expected: index_shape(dims), came });
    }
    check_edges(graph, &array.name, &array.shape)
}

/// A graph has an edge, and fewer than 2^31.
fn check_edges(graph: &str, vertex: &str, shape: &[usize]) -> Result<(), DataError> {
    let (graph, vertex) = (graph.to_string(), vertex.to_string());
    match shape[0] {
        0 => Err(DataError::NoEdges { graph, vertex, shape: tuple(shape) }),
        edges if edges > INDEX_MAX => Err(DataError::TooManyEdges { graph, vertex, edges }),
        _ => Ok(()),
    }
}

/// Tells whether 32-bit indices reach all scalars of a field.
fn is_countable(channels: usize, extents: &[usize]) -> bool {
    extents.iter().try_fold(channels, |n, &e| n.checked_mul(e)).is_some_and(|n| n <= INDEX_MAX)
}

/// Notes in `integers` what came as integers, which float64 must hold.
fn note_integers(
    array: &ArrayView<'_>,
    what: Declared,
    integers: &mut Vec<Declared>,
) -> Result<(), DataError> {
    if array.is_integer() && array.device().is_none() {
        integers.push(what);
    }
    match array.inexact() {
        None => Ok(()),
        Some((element, value)) => {
            let name = array.name.to_string();
            Err(DataError::Inexact { name, element, value, precision: "float64" })
        }
    }
}

/// An unknown on a GPU is written to where it is.
fn check_writable(array: &ArrayView<'_>) -> Result<(), DataError> {
    let done = array.device().map_or(Ok(()), |array| array.check_writable());
    done.map_err(|source| DataError::Pointer { name: array.name.to_string(), source })
}

/// Floats given for an array declared with an integer type must be values of that type.
fn check_declared_type(field: &Field, array: &ArrayView<'_>) -> Result<(), DataError> {
    let (declared, fits): (_, fn(f64) -> bool) = match field.element {
        ElementType::OptFloat | ElementType::Float | ElementType::Double => return Ok(()),
        ElementType::Uint8 => ("uint8", |v| v.fract() == 0.0 && (0.0..=255.0).contains(&v)),
        ElementType::Int(_) => ("integer", |v| v.fract() == 0.0),
    };
    match array.misfit(fits) {
        None => Ok(()),
        Some((i, value)) => Err(DataError::DeclaredType {
            name: field.name.clone(),
            element: multi_index(&array.shape, i),
            declared,
            value,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_where_32_bit_indices_do() {
        assert!(is_countable(1, &[INDEX_MAX]) && !is_countable(1, &[INDEX_MAX, 2]));
        assert!(is_countable(64, &[(1 << 25) - 1]) && !is_countable(64, &[1 << 25]));
        assert!(is_countable(1, &[1 << 16, (1 << 15) - 1]) && !is_countable(1, &[1 << 16, 1 << 15]));
        assert!(!is_countable(2, &[usize::MAX, usize::MAX]));
        assert_eq!(check_edges("G", "G.a", &[INDEX_MAX]), Ok(()));
        let error = check_edges("G", "G.a", &[INDEX_MAX + 1, 2]).unwrap_err().to_string();
        assert!(error.contains("graph `G`") && error.contains("2147483648"), "{error}");
    }
}
