//! The buffers of a pipeline: what is declared of them, and the parameters that describe what is bound.

use crate::expr::{Expr, Name, Part};
use crate::types::{ScalarType, Type};
use serde::{Deserialize, Serialize};

/// `(min, extent)` of each dimension, none where there is no boundary.
pub type Domain = Vec<Option<(Expr, Expr)>>;

/// Rows of planar and record buffers, and of intermediate storage, start at multiples of this many elements, and of 64 bytes:
/// whoever makes a buffer guarantees it, and vectorising relies on it. The largest record has as many slots.
pub const PITCH: i64 = 16;

/// Layout of the elements of a Func or input in memory. Coordinates `(c0, c1, ...)` of tuple element `k` are at
/// `origin + c0*stride0 + c1*stride1 + ...`; dimension 0 is the fastest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Layout {
    /// One buffer per tuple element; stride0 = 1.
    #[default]
    Planar,
    /// One buffer; each element is a record of this many slots (>= tuple size, 4, 8 or 16), channels innermost:
    /// stride0 = the slots, element k adds k. All tuple elements have one type.
    Record(u8),
    /// One buffer per tuple element, anywhere in memory: minimum, extent and stride of every dimension are those of the buffer
    /// that is bound, as far as no [`Constraint`] fixes them. No alignment, no pads, no halo.
    Strided,
}

/// Fixed parts of one dimension of a [`Layout::Strided`] buffer: expressions over parameters and the sizes of buffers, which
/// the code relies on and which are checked before every run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Constraint {
    /// First coordinate, i32.
    pub min: Option<Expr>,
    /// Number of coordinates, i32.
    pub extent: Option<Expr>,
    /// Distance of neighbours in elements, i64.
    pub stride: Option<Expr>,
}

impl Constraint {
    /// Nothing is fixed.
    pub fn new() -> Constraint {
        Constraint::default()
    }
    /// Fixes the first coordinate.
    pub fn min(mut self, e: impl Into<Expr>) -> Constraint {
        self.min = Some(e.into());
        self
    }
    /// Fixes the number of coordinates.
    pub fn extent(mut self, e: impl Into<Expr>) -> Constraint {
        self.extent = Some(e.into());
        self
    }
    /// Fixes the distance of neighbours.
    pub fn stride(mut self, e: impl Into<Expr>) -> Constraint {
        self.stride = Some(e.into().cast(ScalarType::I64));
        self
    }
    /// Returns what is fixed of dimension `d`.
    pub(crate) fn parts(&self, d: usize) -> impl Iterator<Item = (Part, &Expr)> {
        let all = [(Part::Min(d), &self.min), (Part::Extent(d), &self.extent), (Part::Step(d), &self.stride)];
        all.into_iter().filter_map(|(part, e)| Some((part, e.as_ref()?)))
    }
    /// Those of a buffer of `dims` dimensions of which nothing is said: neighbours in the first lie next to each other.
    pub fn defaults(dims: usize) -> Vec<Constraint> {
        let first = |d| if d == 0 { Constraint::new().stride(1) } else { Constraint::new() };
        (0..dims).map(first).collect()
    }
}

/// Shape of a buffer of a pipeline in memory, as its declaration says.
#[derive(Clone, Copy)]
pub struct Shape<'a> {
    /// Name of the input or output.
    pub name: &'a Name,
    /// Layout.
    pub layout: Layout,
    /// One per dimension if the layout is `Strided`, else none.
    pub constraints: &'a [Constraint],
}

impl Shape<'_> {
    /// First coordinate of dimension `d`: i32.
    pub fn min(&self, d: usize) -> Expr {
        match self.layout {
            Layout::Strided => self.fixed(d, |c| &c.min).unwrap_or_else(|| min_param(self.name.clone(), d)),
            _ => Expr::from(0),
        }
    }
    /// Number of coordinates of dimension `d`: i32.
    pub fn extent(&self, d: usize) -> Expr {
        self.fixed(d, |c| &c.extent).unwrap_or_else(|| extent_param(self.name.clone(), d))
    }
    /// Distance of neighbours in dimension `d`, in elements: i64.
    pub fn stride(&self, d: usize) -> Expr {
        match self.layout {
            Layout::Strided => {
                self.fixed(d, |c| &c.stride).unwrap_or_else(|| step_param(self.name.clone(), d))
            }
            Layout::Planar if d == 0 => Expr::int(Type::I64, 1),
            Layout::Record(slots) if d == 0 => Expr::int(Type::I64, slots as i64),
            _ => stride_param(self.name.clone(), d),
        }
    }
    fn fixed(&self, d: usize, part: impl Fn(&Constraint) -> &Option<Expr>) -> Option<Expr> {
        self.constraints.get(d).and_then(|c| part(c).clone())
    }
}

/// Memory given at run time. Its domain is `[0, extent_d)` in each dimension; around it lies a halo that may be
/// read (and holds zeros unless the owner says otherwise): `halo[d]` elements on either side of dimension d.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Unique in its pipeline.
    pub name: Name,
    /// Element type of each tuple element.
    pub types: Vec<ScalarType>,
    /// Number of dimensions.
    pub dims: usize,
    /// Layout in memory.
    pub layout: Layout,
    /// One per dimension if the layout is `Strided`, else none.
    pub constraints: Vec<Constraint>,
    /// Readable elements beyond the domain, on both sides, per dimension.
    pub halo: Vec<u32>,
    /// Inclusive bounds of the (integer) values, promised by whoever binds the buffer: makes data-dependent
    /// coordinates bounded.
    pub value_range: Option<(Expr, Expr)>,
    /// See [`Input::trusted`].
    pub(crate) trusted: bool,
}

impl Input {
    /// A planar input without halo.
    pub fn new(name: impl Into<Name>, types: &[ScalarType], dims: usize) -> Input {
        Input {
            name: name.into(),
            types: types.to_vec(),
            dims,
            layout: Layout::Planar,
            constraints: vec![],
            halo: vec![0; dims],
            value_range: None,
            trusted: false,
        }
    }
    /// An input anywhere in memory; neighbours in the first dimension lie next to each other unless that is constrained otherwise.
    pub fn strided(name: impl Into<Name>, types: &[ScalarType], dims: usize) -> Input {
        let constraints = Constraint::defaults(dims);
        Input { layout: Layout::Strided, constraints, ..Input::new(name, types, dims) }
    }
    /// Leaves out the check, at run time, that it is read inside of its domain and halo.
    ///
    /// # Safety
    /// Whatever is bound to the inputs, every coordinate at which the pipeline reads this one lies there.
    pub unsafe fn trusted(self) -> Input {
        Input { trusted: true, ..self }
    }
    /// Replaces what is fixed of dimension `d` of a strided input. One constraint too many, of a dimension that is not there or
    /// of another layout, is refused with the pipeline.
    pub fn constrain(mut self, d: usize, c: Constraint) -> Input {
        match self.constraints.get_mut(d) {
            Some(old) => *old = c,
            None => self.constraints.push(c),
        }
        self
    }
    /// Returns how it lies in memory.
    pub fn shape(&self) -> Shape<'_> {
        Shape { name: &self.name, layout: self.layout, constraints: &self.constraints }
    }
    /// First coordinate of dimension `d` at run time.
    pub fn min(&self, d: usize) -> Expr {
        self.shape().min(d)
    }
    /// Tuple element `value` at `args`. A pipeline that reads an element which is not there is refused.
    pub fn at(&self, args: &[Expr], value: usize) -> Expr {
        let ty = self.types.get(value).copied().unwrap_or(ScalarType::I32);
        Expr::call(self.name.clone(), ty, args.to_vec(), value)
    }
    /// Extent of dimension `d` at run time.
    pub fn extent(&self, d: usize) -> Expr {
        self.shape().extent(d)
    }
    /// `(min, extent)` of every dimension at run time, as boundary conditions want it.
    pub fn domain(&self) -> Domain {
        (0..self.dims).map(|d| Some((self.min(d), self.extent(d)))).collect()
    }
}

/// The run-time extent of dimension `d` of an input or output buffer, as an i32 parameter.
pub fn extent_param(name: impl Into<Name>, d: usize) -> Expr {
    Expr::part(name, Part::Extent(d))
}

/// The run-time first coordinate of dimension `d` of a strided buffer, as an i32 parameter.
pub fn min_param(name: impl Into<Name>, d: usize) -> Expr {
    Expr::part(name, Part::Min(d))
}

/// The run-time stride, in elements, of dimension `d` of a strided buffer, as an i64 parameter.
pub fn step_param(name: impl Into<Name>, d: usize) -> Expr {
    Expr::part(name, Part::Step(d))
}

/// The i64 parameter that holds the stride of dimension `d` >= 1 of a planar or record buffer, in elements. Unlike a
/// [`step_param`], it is a multiple of [`PITCH`].
pub fn stride_param(name: impl Into<Name>, d: usize) -> Expr {
    Expr::part(name, Part::Stride(d))
}

/// An output: Func `func` is computed over the domain of the buffer bound to it: `[0, extent_d)`, or
/// `[min_d, min_d + extent_d)` if it is strided.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// The Func.
    pub func: Name,
    /// Layout of the buffer.
    pub layout: Layout,
    /// One per dimension if the layout is `Strided`, else none.
    pub constraints: Vec<Constraint>,
    /// Halo of the buffer, as in [`Input`]; never written.
    pub halo: Vec<u32>,
}
