//! Binding: every declared name finds its array, every shape agrees with every other.
//!
//! Order of work: names, then extents of dims (0-d keys first, then shapes in order of declaration), then index arrays,
//! whose range needs the extents.

use crate::assembled::loss_scales;
use crate::problem::data::{ArrayData, DataError, Declared, GraphData, NamedArray, ProblemData};
use rustc_hash::FxHashMap;
use sumsq_energy::model::{ArrayId, Dim, DimId, ElementType, Energy, Field, ParamId, SpaceId, UnknownId};

/// Largest extent, edge count and scalar count of a field: indices are 32-bit signed.
const INDEX_MAX: usize = i32::MAX as usize;

impl ProblemData {
    /// Checks `arrays` against the declarations of `energy` and takes their numbers.
    ///
    /// Dims are optional where a shape fixes them. Unknowns and params must be finite, arrays need not be. A name that the
    /// energy does not declare is a warning.
    pub fn bind(energy: &Energy, arrays: &[NamedArray]) -> Result<ProblemData, DataError> {
        let mut binder = Binder::new(energy, arrays)?;
        binder.bind_dim_keys()?;
        let data = ProblemData {
            unknowns: vec![Vec::new(); energy.unknowns.len()],
            arrays: vec![Vec::new(); energy.arrays.len()],
            params: vec![Vec::new(); energy.params.len()],
            unknown_shapes: vec![Vec::new(); energy.unknowns.len()],
            ..ProblemData::default()
        };
        binder.run(data, true)
    }

    /// Replaces the numbers of `arrays`, which keep the extents of the problem. On an error nothing has changed.
    pub fn update(&mut self, energy: &Energy, arrays: &[NamedArray]) -> Result<(), DataError> {
        let mut binder = Binder::new(energy, arrays)?;
        for (slot, &extent) in binder.dims.iter_mut().zip(&self.dims) {
            *slot = Some((extent, "the problem as bound".to_string()));
        }
        binder.bind_dim_keys()?;
        *self = binder.run(self.clone(), false)?;
        Ok(())
    }
}

/// Extents found so far and which names were used.
struct Binder<'a> {
    energy: &'a Energy,
    given: FxHashMap<&'a str, &'a NamedArray>,
    order: Vec<&'a str>,
    /// Per dim: its extent and who said so.
    dims: Vec<Option<(usize, String)>>,
}

impl<'a> Binder<'a> {
    fn new(energy: &'a Energy, arrays: &'a [NamedArray]) -> Result<Binder<'a>, DataError> {
        let mut given = FxHashMap::default();
        for array in arrays {
            check_length(array)?;
            if given.insert(array.name.as_str(), array).is_some() {
                return Err(DataError::Duplicate { name: array.name.clone() });
            }
        }
        let order = arrays.iter().map(|a| a.name.as_str()).collect();
        let fixed = |d: &Dim| Some((usize::try_from(d.fixed?).ok()?, "the energy".to_string()));
        let dims = energy.dims.iter().map(fixed).collect();
        Ok(Binder { energy, given, order, dims })
    }

    /// Takes every number into `data`. `complete`: every declared name must be there.
    fn run(&mut self, mut data: ProblemData, complete: bool) -> Result<ProblemData, DataError> {
        self.bind_fields(&mut data, complete)?;
        self.bind_params(&mut data, complete)?;
        data.dims = self.resolved_dims()?;
        self.check_sizes(&data)?;
        self.bind_graphs(&mut data, complete)?;
        data.warnings = self.unused();
        Ok(data)
    }

    fn bind_dim_keys(&mut self) -> Result<(), DataError> {
        for (index, dim) in self.energy.dims.iter().enumerate().filter(|(_, d)| d.fixed.is_none()) {
            let Some(array) = self.given.get(dim.name.as_str()) else { continue };
            let ArrayData::Int(values, _) = &array.data else {
                let (name, came) = (dim.name.clone(), array.data.dtype());
                return Err(DataError::Dtype { kind: "dim", name, expected: "a 0-d integer", came });
            };
            if !array.shape.is_empty() {
                let (name, came) = (dim.name.clone(), tuple(&array.shape));
                return Err(DataError::Shape { kind: "dim", name, expected: "()".to_string(), came });
            }
            let value = values[0];
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

    fn bind_fields(&mut self, data: &mut ProblemData, complete: bool) -> Result<(), DataError> {
        for (i, field) in self.energy.unknowns.iter().enumerate() {
            let Some(array) = self.find("unknown", &field.name, complete, |b| b.expected_shape(field))?
            else {
                continue;
            };
            self.check_field_shape("unknown", field, array)?;
            let what = Declared::Unknown(UnknownId(i as u32));
            data.unknowns[i] = convert(array, what, &mut data.integers)?;
            data.unknown_shapes[i] = array.shape.clone();
            check_finite("unknown", array, &data.unknowns[i])?;
        }
        for (i, field) in self.energy.arrays.iter().enumerate() {
            if let Some(u) = field.view_of {
                data.arrays[i] = data.unknowns[u.index()].clone();
                continue;
            }
            let Some(array) = self.find("array", &field.name, complete, |b| b.expected_shape(field))? else {
                continue;
            };
            self.check_field_shape("array", field, array)?;
            data.arrays[i] = convert(array, Declared::Array(ArrayId(i as u32)), &mut data.integers)?;
            check_declared_type(field, array, &data.arrays[i])?;
        }
        Ok(())
    }

    fn bind_params(&mut self, data: &mut ProblemData, complete: bool) -> Result<(), DataError> {
        for (i, param) in self.energy.params.iter().enumerate() {
            let n = usize::from(param.channels);
            let expected = if n == 1 { "()".to_string() } else { tuple(&[n]) };
            let Some(array) = self.find("param", &param.name, complete, |_| expected.clone())? else {
                continue;
            };
            if !(array.shape == [n] || (n == 1 && array.shape.is_empty())) {
                let (name, came) = (param.name.clone(), tuple(&array.shape));
                return Err(DataError::Shape { kind: "param", name, expected, came });
            }
            data.params[i] = convert(array, Declared::Param(ParamId(i as u32)), &mut data.integers)?;
            check_finite("param", array, &data.params[i])?;
        }
        loss_scales(&self.energy, &data.params)?;
        Ok(())
    }

    /// The array of that name; missing is an error where the set must be `complete`.
    fn find(
        &self,
        kind: &'static str,
        name: &str,
        complete: bool,
        expected: impl Fn(&Self) -> String,
    ) -> Result<Option<&'a NamedArray>, DataError> {
        match self.given.get(name) {
            Some(array) => Ok(Some(array)),
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
        array: &NamedArray,
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
    fn shaped_dims(&self, field: &Field) -> &'a [DimId] {
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
    fn check_sizes(&self, data: &ProblemData) -> Result<(), DataError> {
        for field in self.energy.unknowns.iter().chain(&self.energy.arrays) {
            let extents = data.extents(&self.energy, field.space);
            let scalars = extents.iter().try_fold(usize::from(field.channels), |n, &e| n.checked_mul(e));
            if scalars.is_none_or(|n| n > INDEX_MAX) {
                return Err(DataError::SpaceTooLarge {
                    space: self.energy.space_name(field.space),
                    field: field.name.clone(),
                    extents: tuple(&extents),
                });
            }
        }
        Ok(())
    }

    fn bind_graphs(&mut self, data: &mut ProblemData, complete: bool) -> Result<(), DataError> {
        data.graphs.resize_with(self.energy.graphs.len(), GraphData::default);
        for (g, graph) in self.energy.graphs.iter().enumerate() {
            let mut vertices = std::mem::take(&mut data.graphs[g].vertices);
            vertices.resize_with(graph.vertices.len(), Vec::new);
            for (slot, vertex) in graph.vertices.iter().enumerate() {
                let key = format!("{}.{}", graph.name, vertex.name);
                let dims = self.energy.spaces[vertex.space.index()].len();
                let expected = if dims == 1 { "(E,)".to_string() } else { format!("(E, {dims})") };
                if let Some(array) = self.find("index array", &key, complete, |_| expected.clone())? {
                    check_index_shape(&graph.name, array, dims, expected)?;
                    vertices[slot] = self.flatten_indices(data, &graph.name, vertex.space, array)?;
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
            data.graphs[g] = GraphData { edges, vertices };
        }
        Ok(())
    }

    /// Element numbers of an index array; rows hold one index per dim, fastest-varying first.
    fn flatten_indices(
        &self,
        data: &ProblemData,
        graph: &str,
        space: SpaceId,
        array: &NamedArray,
    ) -> Result<Vec<u32>, DataError> {
        let ArrayData::Int(values, _) = &array.data else {
            let (name, came) = (array.name.clone(), array.data.dtype());
            return Err(DataError::Dtype { kind: "index array", name, expected: "integers", came });
        };
        let dims = &self.energy.spaces[space.index()];
        let extents = data.extents(&self.energy, space);
        let mut elements = Vec::with_capacity(array.shape[0]);
        for (row, index) in values.chunks_exact(extents.len().max(1)).enumerate() {
            let (mut element, mut stride) = (0, 1);
            for ((&value, &extent), dim) in index.iter().zip(&extents).zip(dims) {
                if !(0..extent as i64).contains(&value) {
                    return Err(DataError::Index {
                        graph: graph.to_string(),
                        vertex: array.name.clone(),
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
        let unused = self.order.iter().filter_map(|&name| match declared.contains(name) {
            false => Some(format!("`{name}` is not declared by the energy and is not used")),
            true if view(name) => {
                Some(format!("`{name}` is a constant view of an unknown: its numbers are not used"))
            }
            true => None,
        });
        unused.collect()
    }
}

fn check_length(array: &NamedArray) -> Result<(), DataError> {
    let expected = array.shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
    if expected == Some(array.data.len()) {
        return Ok(());
    }
    Err(DataError::Length {
        name: array.name.clone(),
        shape: tuple(&array.shape),
        expected: expected.map_or("too many".to_string(), |n| n.to_string()),
        came: array.data.len(),
    })
}

fn check_index_shape(
    graph: &str,
    array: &NamedArray,
    dims: usize,
    expected: String,
) -> Result<(), DataError> {
    let fits = match array.shape.as_slice() {
        [_] => dims == 1,
        [_, n] => *n == dims,
        _ => false,
    };
    if !fits || array.shape[0] > INDEX_MAX {
        let (name, came) = (array.name.clone(), tuple(&array.shape));
        return Err(DataError::Shape { kind: "index array", name, expected, came });
    }
    if array.shape[0] == 0 {
        let (vertex, shape) = (array.name.clone(), tuple(&array.shape));
        return Err(DataError::NoEdges { graph: graph.to_string(), vertex, shape });
    }
    Ok(())
}

/// The numbers of `array` in float64; integers must survive that. Notes in `integers` what came as integers.
fn convert(array: &NamedArray, what: Declared, integers: &mut Vec<Declared>) -> Result<Vec<f64>, DataError> {
    integers.retain(|&w| w != what);
    match &array.data {
        ArrayData::F32(v) => Ok(v.iter().map(|&x| f64::from(x)).collect()),
        ArrayData::F64(v) => Ok(v.clone()),
        ArrayData::Bool(v) => Ok(v.iter().map(|&x| f64::from(u8::from(x))).collect()),
        ArrayData::Int(v, _) => {
            integers.push(what);
            // The cast back is done in i128: i64::MAX rounds up to 2^63, which i64 would saturate.
            if let Some(element) = v.iter().position(|&x| (x as f64) as i128 != i128::from(x)) {
                let (name, value) = (array.name.clone(), v[element].to_string());
                return Err(DataError::Inexact { name, element, value, precision: "float64" });
            }
            Ok(v.iter().map(|&x| x as f64).collect())
        }
    }
}

fn check_finite(kind: &'static str, array: &NamedArray, values: &[f64]) -> Result<(), DataError> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(i) => Err(DataError::NotFinite {
            kind,
            name: array.name.clone(),
            element: multi_index(&array.shape, i),
            value: values[i],
        }),
    }
}

/// Floats given for an array declared with an integer type must be values of that type.
fn check_declared_type(field: &Field, array: &NamedArray, values: &[f64]) -> Result<(), DataError> {
    let (declared, fits): (_, fn(f64) -> bool) = match field.element {
        ElementType::OptFloat | ElementType::Float | ElementType::Double => return Ok(()),
        ElementType::Uint8 => ("uint8", |v| v.fract() == 0.0 && (0.0..=255.0).contains(&v)),
        ElementType::Int(_) => ("integer", |v| v.fract() == 0.0),
    };
    match values.iter().position(|&v| !fits(v)) {
        None => Ok(()),
        Some(i) => Err(DataError::DeclaredType {
            name: field.name.clone(),
            element: multi_index(&array.shape, i),
            declared,
            value: values[i],
        }),
    }
}

/// `(48, 64)`, and `(7,)` with a single entry, as numpy prints shapes.
fn tuple(parts: &[impl ToString]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) }
}

/// `[3, 4, 1]`: where in an array of that shape the `flat`-th element in C order lies.
fn multi_index(shape: &[usize], mut flat: usize) -> String {
    let mut index = vec![0; shape.len()];
    for (i, &extent) in index.iter_mut().zip(shape).rev() {
        *i = flat % extent;
        flat /= extent;
    }
    format!("{index:?}")
}
