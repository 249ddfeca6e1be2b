//! Arrays from outside: owned ones, and views of somebody's memory.

use crate::problem::data::error::DataError;
use std::borrow::Cow;
use sumsq_codegen::ScalarType;
use sumsq_codegen::runtime::cuda::DeviceArray;
use sumsq_codegen::runtime::{BufferError, Dimension, View};

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

/// Elements of an array. Integers but for bytes are held as i64, the width kept for messages.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ArrayData {
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Of dtype uint8.
    Bytes(Vec<u8>),
    /// Values and the dtype's name, as in "int32".
    Int(Vec<i64>, &'static str),
    Bool(Vec<bool>),
    /// In the memory of a GPU.
    Device(DeviceArray),
}

impl ArrayData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.slice().len()
    }

    /// Tells whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of the element type, as numpy spells it.
    pub fn dtype(&self) -> &'static str {
        match self {
            ArrayData::Int(_, name) => name,
            other => other.slice().dtype(),
        }
    }

    /// All elements, in float64.
    pub fn doubles(&self) -> Vec<f64> {
        self.slice().doubles().into_owned()
    }

    /// The elements, borrowed.
    pub fn slice(&self) -> Slice<'_> {
        match self {
            ArrayData::F32(v) => Slice::F32(v),
            ArrayData::F64(v) => Slice::F64(v),
            ArrayData::Bytes(v) => Slice::U8(v),
            ArrayData::Int(v, _) => Slice::I64(v),
            ArrayData::Bool(v) => Slice::Bool(v),
            ArrayData::Device(array) => Slice::Device(array),
        }
    }
}

/// Elements in somebody's memory.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Slice<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    Bool(&'a [bool]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    /// In the memory of a GPU.
    Device(&'a DeviceArray),
}

/// Runs the expression with `$v` standing for the typed slice: an empty one where the elements are on a GPU.
macro_rules! typed {
    ($slice:expr, $v:ident => $body:expr) => {
        match $slice {
            Slice::F32($v) => $body,
            Slice::F64($v) => $body,
            Slice::Bool($v) => $body,
            Slice::I8($v) => $body,
            Slice::I16($v) => $body,
            Slice::I32($v) => $body,
            Slice::I64($v) => $body,
            Slice::U8($v) => $body,
            Slice::U16($v) => $body,
            Slice::U32($v) => $body,
            Slice::U64($v) => $body,
            Slice::Device(_) => {
                let $v: &[f64] = &[];
                $body
            }
        }
    };
}

macro_rules! number {
    ($($t:ty, $slice:ident, $v:ident => $f64:expr, $i64:expr;)*) => { $(
        impl Number for $t {
            fn f64(self) -> f64 { let $v = self; $f64 }
            fn i64(self) -> i64 { let $v = self; $i64 }
        }
        impl<'a> From<&'a [$t]> for Slice<'a> {
            fn from(slice: &'a [$t]) -> Slice<'a> { Slice::$slice(slice) }
        }
    )* };
}

/// An element as float64 and, saturated, as an integer.
trait Number: Copy {
    fn f64(self) -> f64;
    fn i64(self) -> i64;
}

number! {
    f32, F32, v => f64::from(v), v as i64;
    f64, F64, v => v, v as i64;
    bool, Bool, v => f64::from(u8::from(v)), i64::from(v);
    i8, I8, v => f64::from(v), v.into();
    i16, I16, v => f64::from(v), v.into();
    i32, I32, v => f64::from(v), v.into();
    i64, I64, v => v as f64, v;
    u8, U8, v => f64::from(v), v.into();
    u16, U16, v => f64::from(v), v.into();
    u32, U32, v => f64::from(v), v.into();
    u64, U64, v => v as f64, i64::try_from(v).unwrap_or(i64::MAX);
}

impl<'a> From<&'a DeviceArray> for Slice<'a> {
    fn from(array: &'a DeviceArray) -> Slice<'a> {
        Slice::Device(array)
    }
}

impl<'a> Slice<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Slice::Device(array) => array.shape().iter().product(),
            host => typed!(host, v => v.len()),
        }
    }

    /// Tells whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Name of the element type, as numpy spells it.
    pub fn dtype(&self) -> &'static str {
        match self {
            Slice::F32(_) => "float32",
            Slice::F64(_) => "float64",
            Slice::Bool(_) => "bool",
            Slice::I8(_) => "int8",
            Slice::I16(_) => "int16",
            Slice::I32(_) => "int32",
            Slice::I64(_) => "int64",
            Slice::U8(_) => "uint8",
            Slice::U16(_) => "uint16",
            Slice::U32(_) => "uint32",
            Slice::U64(_) => "uint64",
            Slice::Device(array) => match array.ty() {
                ScalarType::Bool => "bool",
                ScalarType::I8 => "int8",
                ScalarType::I16 => "int16",
                ScalarType::I32 => "int32",
                ScalarType::I64 => "int64",
                ScalarType::U8 => "uint8",
                ScalarType::U16 => "uint16",
                ScalarType::U32 => "uint32",
                ScalarType::U64 => "uint64",
                ScalarType::F16 => "float16",
                ScalarType::F32 => "float32",
                ScalarType::F64 => "float64",
            },
        }
    }

    /// Tells whether the elements are integers, not bools.
    pub fn is_integer(&self) -> bool {
        match self {
            Slice::F32(_) | Slice::F64(_) | Slice::Bool(_) => false,
            Slice::Device(array) => array.ty().is_int(),
            _ => true,
        }
    }

    fn doubles(&self) -> Cow<'a, [f64]> {
        match *self {
            Slice::F64(v) => Cow::Borrowed(v),
            // Whoever wants to know why asks the array.
            Slice::Device(array) => {
                let lost = |_| vec![f64::NAN; array.shape().iter().product()];
                Cow::Owned(array.to_vec().unwrap_or_else(lost))
            }
            other => typed!(other, v => v.iter().map(|&x| Number::f64(x)).collect()),
        }
    }
}

/// A named array in somebody's memory: elements, shape and, where it is not in C order, strides.
#[derive(Clone, Debug)]
pub struct ArrayView<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) shape: Vec<usize>,
    /// In elements, slowest dimension first; `None`: C order.
    strides: Option<Vec<isize>>,
    slice: Slice<'a>,
    dtype: &'static str,
}

impl<'a> From<&'a NamedArray> for ArrayView<'a> {
    fn from(array: &'a NamedArray) -> ArrayView<'a> {
        let view = ArrayView::new(&array.name, &array.shape, array.data.slice());
        ArrayView { dtype: array.data.dtype(), ..view }
    }
}

impl<'a> ArrayView<'a> {
    /// A shape without elements.
    pub(super) fn of_shape(name: &'a str, shape: Vec<usize>) -> ArrayView<'a> {
        ArrayView { shape, ..ArrayView::new(name, &[], &[0.0f32; 0][..]) }
    }

    /// The elements of `slice` in C order, `shape` slowest first.
    pub fn new(name: &'a str, shape: &[usize], slice: impl Into<Slice<'a>>) -> ArrayView<'a> {
        let slice = slice.into();
        let (name, dtype) = (Cow::Borrowed(name), slice.dtype());
        let strides = if let Slice::Device(array) = slice { Some(array.strides().to_vec()) } else { None };
        ArrayView { name, shape: shape.to_vec(), strides, slice, dtype }
    }

    /// An array in the memory of a GPU, with its own shape and strides.
    pub fn on_device(name: &'a str, array: &'a DeviceArray) -> ArrayView<'a> {
        ArrayView::new(name, array.shape(), array)
    }

    /// The array in the memory of a GPU, if it is there.
    pub(crate) fn device(&self) -> Option<&'a DeviceArray> {
        if let Slice::Device(array) = self.slice { Some(array) } else { None }
    }

    /// With the distance of neighbours in elements per dimension, slowest first. The element of least address is the first of the slice.
    pub fn strided(self, strides: &[isize]) -> ArrayView<'a> {
        ArrayView { strides: Some(strides.to_vec()), ..self }
    }

    /// Name of the element type, as numpy spells it.
    pub fn dtype(&self) -> &'static str {
        self.dtype
    }

    pub(super) fn is_integer(&self) -> bool {
        self.slice.is_integer()
    }

    /// Bytes of the slice.
    pub(super) fn bytes(&self) -> usize {
        if let Slice::Device(array) = self.slice {
            return array.bytes();
        }
        typed!(self.slice, v => size_of_val(v))
    }

    /// Checks that the slice holds every element.
    pub(super) fn check(&self) -> Result<(), DataError> {
        let count = self.shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
        let fits = match &self.strides {
            _ if let Slice::Device(array) = self.slice => array.shape() == self.shape,
            None => count == Some(self.slice.len()),
            Some(_) => count == Some(0) || self.reach().is_some_and(|(_, needed)| needed <= self.slice.len()),
        };
        if fits {
            return Ok(());
        }
        Err(DataError::Length {
            name: self.name.to_string(),
            shape: tuple(&self.shape),
            expected: count.map_or("too many".to_string(), |n| n.to_string()),
            came: self.slice.len(),
        })
    }

    /// Place of the first element and number of places from the least to the greatest.
    fn reach(&self) -> Option<(usize, usize)> {
        let strides = self.strides.as_ref().filter(|s| s.len() == self.shape.len())?;
        let (mut before, mut behind) = (0usize, 0usize);
        for (&stride, &extent) in strides.iter().zip(&self.shape) {
            let reach = stride.unsigned_abs().checked_mul(extent.max(1) - 1)?;
            let end = if stride < 0 { &mut before } else { &mut behind };
            *end = end.checked_add(reach)?;
        }
        Some((before, before.checked_add(behind)?.checked_add(1)?))
    }

    /// The places of all elements, in C order.
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        let count: usize = self.shape.iter().product();
        let first = self.reach().map_or(0, |r| r.0) as isize;
        let place = move |flat: usize| match &self.strides {
            None => flat,
            Some(strides) => {
                let mut rest = flat;
                let steps = self.shape.iter().zip(strides).rev().map(|(&extent, &stride)| {
                    let at = rest % extent;
                    rest /= extent;
                    at as isize * stride
                });
                (first + steps.sum::<isize>()) as usize
            }
        };
        (0..count).map(place)
    }

    /// The first element in C order that does not fit, and its value.
    pub(super) fn misfit(&self, fits: impl Fn(f64) -> bool) -> Option<(usize, f64)> {
        fn dense<T: Number>(values: &[T], fits: impl Fn(f64) -> bool) -> Option<(usize, f64)> {
            // Whole pieces first, without a branch per element.
            const PIECE: usize = 1024;
            let all = |piece: &[T]| piece.iter().fold(true, |ok, &v| ok & fits(v.f64()));
            let piece = values.chunks(PIECE).position(|piece| !all(piece))? * PIECE;
            let at = piece + values[piece..].iter().position(|&v| !fits(v.f64()))?;
            Some((at, values[at].f64()))
        }
        // What is on a GPU is not looked at.
        if self.strides.is_none() || self.device().is_some() {
            return typed!(self.slice, v => dense(v, fits));
        }
        let mut values =
            typed!(self.slice, v => self.places().map(|p| v[p].f64()).collect::<Vec<f64>>()).into_iter();
        let at = values.clone().position(|v| !fits(v))?;
        values.nth(at).map(|v| (at, v))
    }

    /// The first integer in C order that float64 does not hold, and its text.
    pub(super) fn inexact(&self) -> Option<(usize, String)> {
        // The cast back is done in i128: i64::MAX rounds up to 2^63, which i64 would saturate.
        match self.slice {
            Slice::I64(v) => {
                let mut values = self.places().map(|p| v[p]).enumerate();
                values.find(|&(_, x)| (x as f64) as i128 != i128::from(x)).map(|(i, x)| (i, x.to_string()))
            }
            Slice::U64(v) => {
                let mut values = self.places().map(|p| v[p]).enumerate();
                values.find(|&(_, x)| (x as f64) as i128 != i128::from(x)).map(|(i, x)| (i, x.to_string()))
            }
            _ => None,
        }
    }

    /// All elements in C order, saturated to integers.
    pub(super) fn integers(&self) -> Box<dyn Iterator<Item = i64> + '_> {
        typed!(self.slice, v => Box::new(self.places().map(move |p| v[p].i64())))
    }

    /// All elements in C order, in float64.
    pub(crate) fn doubles(&self) -> Cow<'a, [f64]> {
        match &self.strides {
            Some(_) if self.device().is_some() => self.slice.doubles(),
            None => self.slice.doubles(),
            Some(_) => typed!(self.slice, v => self.places().map(|p| v[p].f64()).collect()),
        }
    }

    /// A copy of the elements in C order.
    pub(super) fn to_data(&self) -> ArrayData {
        match self.slice {
            Slice::Device(array) => ArrayData::Device(array.clone()),
            Slice::F32(v) => ArrayData::F32(self.places().map(|p| v[p]).collect()),
            Slice::Bool(v) => ArrayData::Bool(self.places().map(|p| v[p]).collect()),
            Slice::U8(v) => ArrayData::Bytes(self.places().map(|p| v[p]).collect()),
            _ if self.is_integer() => ArrayData::Int(self.integers().collect(), self.dtype),
            _ => ArrayData::F64(self.doubles().into_owned()),
        }
    }

    /// The elements as the engine copies them: dimensions are the channels, then `extents`, fastest first. The shape has the first `shaped`
    /// of these, slowest first, and behind them the channels or nothing; the others are of one element.
    pub(crate) fn channels(
        &self,
        channels: usize,
        extents: &[usize],
        shaped: usize,
    ) -> Result<View<'a>, BufferError> {
        let dense = || {
            let mut step = 1;
            let mut strides: Vec<isize> = self
                .shape
                .iter()
                .rev()
                .map(|&e| {
                    let this = step;
                    step *= e as isize;
                    this
                })
                .collect();
            strides.reverse();
            strides
        };
        let mut strides = self.strides.clone().unwrap_or_else(dense);
        let channel = if strides.len() > shaped { strides.pop().unwrap_or(1) } else { 1 };
        let mut dims = vec![Dimension::new(0, channels as i32, channel as i64)];
        let rows = strides.iter().rev().map(|&s| s as i64).chain(std::iter::repeat(0));
        dims.extend(extents.iter().zip(rows).map(|(&e, s)| Dimension::new(0, e as i32, s)));
        match self.slice {
            Slice::Device(array) => array.view(&array.acquire()?, &dims),
            host => typed!(host, v => View::reading(v, &dims)),
        }
    }
}

/// Refuses numbers that are not finite.
pub(super) fn check_finite(kind: &'static str, array: &ArrayView<'_>) -> Result<(), DataError> {
    match array.misfit(f64::is_finite) {
        None => Ok(()),
        Some((i, value)) => Err(DataError::NotFinite {
            kind,
            name: array.name.to_string(),
            element: multi_index(&array.shape, i),
            value,
        }),
    }
}

/// `(48, 64)`, and `(7,)` with a single entry, as numpy prints shapes.
pub(super) fn tuple(parts: &[impl ToString]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    if parts.len() == 1 { format!("({},)", parts[0]) } else { format!("({})", parts.join(", ")) }
}

/// `[3, 4, 1]`: where in an array of that shape the `flat`-th element in C order lies.
pub(super) fn multi_index(shape: &[usize], mut flat: usize) -> String {
    let mut index = vec![0; shape.len()];
    for (i, &extent) in index.iter_mut().zip(shape).rev() {
        *i = flat % extent;
        flat /= extent;
    }
    format!("{index:?}")
}
