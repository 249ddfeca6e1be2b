//! `sumsq_problem`: numbers by name, with their sizes checked where they come in.

use crate::element::{Element, view, view_mut};
use crate::failure::{Failure, Result};
use crate::instance::Instance;
use std::ffi::c_void;
use sumsq::energy::Energy;
use sumsq::energy::model::SpaceId;
use sumsq::{ArrayData, Backend, Cancel, DataError, DeviceArray, NamedArray, Options, Precision, Solver};

/// The object behind a handle.
pub struct Problem {
    pub instance: Instance,
    /// Ends the solve in progress.
    pub cancel: Cancel,
    /// Defaults of a solve.
    options: Options,
    /// Extents of the energy's dims, as far as set.
    dims: Vec<Option<usize>>,
    /// Set, but not looked at by a solve yet.
    pending: Vec<NamedArray>,
}

/// Shape of a declared name, slowest first.
enum Shape {
    Fixed(Vec<usize>),
    /// Rows of so many indices, one row per edge.
    Edges(usize),
}

impl Problem {
    pub fn new(solver: Solver, options: Options) -> Problem {
        // Extents that the energy fixes are nobody's to set, and in no shape.
        let dims = vec![None; solver.energy().dims.len()];
        Problem { instance: Instance::new(solver), cancel: Cancel::default(), options, dims, pending: vec![] }
    }

    fn energy(&self) -> &Energy {
        self.instance.solver().energy()
    }

    pub fn set_dim(&mut self, name: &str, extent: i64) -> Result<()> {
        let named = self.energy().dims.iter().position(|d| d.name == name && d.fixed.is_none());
        let index = named.ok_or_else(|| Failure::argument(format!("the energy declares no dim `{name}`")))?;
        let bad =
            || Failure::data(format!("dim `{name}`: expected an extent from 1 to 2147483647, came {extent}"));
        let value = i32::try_from(extent).ok().filter(|&e| e > 0).ok_or_else(bad)? as usize;
        if self.dims[index].is_some_and(|known| known != value) {
            self.instance.clear();
            self.pending.clear();
        }
        self.dims[index] = Some(value);
        Ok(())
    }

    /// # Safety
    /// `data` is null or can be read for `bytes` bytes.
    pub unsafe fn set(
        &mut self,
        name: &str,
        element: Element,
        data: *const c_void,
        bytes: usize,
    ) -> Result<()> {
        if data.is_null() {
            return Err(Failure::argument(format!("the data of `{name}` are a null pointer")));
        }
        let shape = self.counted(name, element, bytes)?;
        // SAFETY: not null, and readable by the contract.
        let data = element.decode(unsafe { view(data.cast(), bytes) }?)?;
        self.pending.retain(|a| a.name != name);
        self.pending.push(NamedArray { name: name.to_string(), shape, data });
        Ok(())
    }

    /// Takes an unknown or an array in the memory of the solver's GPU, where it stays.
    pub fn bind(&mut self, name: &str, array: DeviceArray) -> Result<()> {
        self.check_bindable(name, &array)?;
        self.pending.retain(|a| a.name != name);
        let shape = array.shape().to_vec();
        self.pending.push(NamedArray { name: name.to_string(), shape, data: ArrayData::Device(array) });
        Ok(())
    }

    /// Checks what [`Problem::bind`] would refuse.
    pub fn check_bindable(&self, name: &str, array: &DeviceArray) -> Result<()> {
        self.check_shape(name, array.shape())?;
        let e = self.energy();
        if !e.unknowns.iter().chain(&e.arrays).any(|f| f.name == name) {
            return Err(Failure::argument(format!("`{name}` is read on the host: set it by sumsq_set")));
        }
        if !self.is_unknown(name) {
            return Ok(());
        }
        let not_writable = |source| DataError::Pointer { name: name.to_string(), source };
        Ok(array.check_writable().map_err(not_writable)?)
    }

    /// The number of the GPU that the solver runs on; an error on the CPU.
    pub fn device(&self) -> Result<usize> {
        let compile = &self.options.compile;
        let cpu = || {
            Failure::argument("the solver runs on the CPU: compile it with the backend SUMSQ_BACKEND_CUDA")
        };
        (compile.backend == Backend::Cuda).then_some(compile.device).ok_or_else(cpu)
    }

    /// The type of unknowns.
    pub fn element(&self) -> Element {
        if self.options.compile.precision == Precision::F32 { Element::Float32 } else { Element::Float64 }
    }

    /// Tells whether the energy declares an unknown of this name.
    pub fn is_unknown(&self, name: &str) -> bool {
        self.energy().unknowns.iter().any(|u| u.name == name)
    }

    /// Checks extents, slowest first: one channel may be left out.
    pub fn check_shape(&self, name: &str, came: &[usize]) -> Result<()> {
        let plain = came.strip_suffix(&[1]).unwrap_or(came);
        let fits = |expected: &[usize]| came == expected || plain == expected;
        let (fits, expected) = match self.shape(name)? {
            Shape::Fixed(shape) => (fits(&shape), format!("{shape:?}")),
            Shape::Edges(dims) => (
                matches!(came, [_, n] if *n == dims) || (came.len() == 1 && dims == 1),
                format!("[edges, {dims}]"),
            ),
        };
        if fits {
            return Ok(());
        }
        Err(Failure::data(format!("`{name}`: expected the shape {expected}, came {came:?}")))
    }

    /// Every number of an unknown, in C order.
    pub fn values(&self, name: &str) -> Result<Vec<f64>> {
        if !self.is_unknown(name) {
            return Err(Failure::argument(format!("the energy declares no unknown `{name}`")));
        }
        let pending = self.pending.iter().find(|a| a.name == name);
        let on_device = match pending {
            Some(NamedArray { data: ArrayData::Device(array), .. }) => Some(array),
            Some(_) => None,
            None => self.instance.data().and_then(|data| data.unknown_on_device(name)),
        };
        if let Some(array) = on_device {
            return Ok(array.to_vec()?);
        }
        let pending = pending.map(|a| a.data.doubles());
        let values = pending.or_else(|| Some(self.instance.data()?.unknown(name)?.into_owned()));
        values.ok_or_else(|| Failure::state(format!("unknown `{name}` was not set yet")))
    }

    /// The shape of an unknown.
    pub fn unknown_shape(&self, name: &str) -> Result<Vec<usize>> {
        match self.shape(name)? {
            Shape::Fixed(shape) => Ok(shape),
            Shape::Edges(_) => Err(Failure::argument(format!("the energy declares no unknown `{name}`"))),
        }
    }

    /// # Safety
    /// `data` is null or can be written for `bytes` bytes.
    pub unsafe fn get(&self, name: &str, element: Element, data: *mut c_void, bytes: usize) -> Result<()> {
        if data.is_null() {
            return Err(Failure::argument(format!("the memory for `{name}` is a null pointer")));
        }
        if !self.is_unknown(name) {
            return Err(Failure::argument(format!("the energy declares no unknown `{name}`")));
        }
        self.counted(name, element, bytes)?;
        let values = self.values(name)?;
        // SAFETY: not null, and writable by the contract.
        element.encode(&values, unsafe { view_mut(data.cast(), bytes) }?)
    }

    /// Hands to the instance what was set. On an error it stays pending.
    pub fn assign(&mut self) -> Result<()> {
        if self.instance.data().is_some() {
            return self.instance.assign(&mut self.pending);
        }

        let dims = self.energy().dims.iter().zip(&self.dims).filter(|(d, _)| d.fixed.is_none());
        let named = dims.filter_map(|(d, extent)| {
            let data = ArrayData::Int(vec![(*extent)? as i64], "int64");
            Some(NamedArray { name: d.name.clone(), shape: vec![], data })
        });
        let mut all: Vec<NamedArray> = named.collect();
        let set = all.len();
        all.append(&mut self.pending);
        self.instance.assign(&mut all).inspect_err(|_| self.pending = all.split_off(set))
    }

    /// Options of a solve: what was fixed when the energy was compiled must not differ.
    pub fn options(&self, wanted: Option<Options>) -> Result<Options> {
        let (compiled, wanted) = (&self.options, wanted.unwrap_or_else(|| self.options.clone()));
        if compiled.compile == wanted.compile {
            return Ok(wanted);
        }
        Err(Failure::argument(
            "options: precision, preconditioner, threads, losses, max_memory, target, backend and device are fixed when the energy is \
             compiled",
        ))
    }

    /// The shape of `bytes` bytes of `name`; an error if they are not what is declared.
    fn counted(&self, name: &str, element: Element, bytes: usize) -> Result<Vec<usize>> {
        let (shape, width) = (self.shape(name)?, element.bytes());
        match shape {
            Shape::Fixed(shape) => {
                let expected = shape.iter().try_fold(width, |n, &e| n.checked_mul(e));
                if expected == Some(bytes) {
                    return Ok(shape);
                }
                let expected = expected.map_or("too many".to_string(), |n| n.to_string());
                let message =
                    format!("`{name}`: expected {expected} bytes ({shape:?} of {element:?}), came {bytes}");
                Err(Failure::data(message))
            }
            Shape::Edges(dims) => {
                let row = width * dims;
                if !bytes.is_multiple_of(row) {
                    let message = format!("`{name}`: expected a multiple of {row} bytes, came {bytes}");
                    return Err(Failure::data(message));
                }
                Ok(if dims == 1 { vec![bytes / row] } else { vec![bytes / row, dims] })
            }
        }
    }

    fn shape(&self, name: &str) -> Result<Shape> {
        let e = self.energy();
        if let Some(f) = e.unknowns.iter().chain(&e.arrays).find(|f| f.name == name) {
            if let Some(u) = f.view_of {
                let unknown = &e.unknowns[u.index()].name;
                let message = format!("`{name}` is a constant view of `{unknown}`: set that");
                return Err(Failure::argument(message));
            }
            return self.field(f.space, f.channels).map(Shape::Fixed);
        }
        if let Some(p) = e.params.iter().find(|p| p.name == name) {
            return Ok(Shape::Fixed(if p.channels == 1 { vec![] } else { vec![p.channels.into()] }));
        }
        let vertices = e.graphs.iter().flat_map(|g| g.vertices.iter().map(move |v| (g, v)));
        let named = |g: &str, v: &str| name.strip_prefix(g).and_then(|n| n.strip_prefix('.')) == Some(v);
        let vertex = vertices.into_iter().find(|(g, v)| named(&g.name, &v.name));
        match vertex {
            Some((_, v)) => Ok(Shape::Edges(e.spaces[v.space.index()].len())),
            None => Err(Failure::argument(format!("the energy declares no `{name}`"))),
        }
    }

    fn field(&self, space: SpaceId, channels: u16) -> Result<Vec<usize>> {
        let e = self.energy();
        let dims = e.spaces[space.index()].iter().rev().map(|d| d.index());
        let given = dims.filter(|&d| e.dims[d].fixed.is_none());
        let unset = |d: usize| Failure::state(format!("set dim `{}` first", e.dims[d].name));
        let mut shape = given.map(|d| self.dims[d].ok_or_else(|| unset(d))).collect::<Result<Vec<_>>>()?;
        if channels > 1 {
            shape.push(channels.into());
        }
        Ok(shape)
    }
}
