//! Numbers in C memory: element types, and copies in and out that need no alignment.

use crate::failure::{Failure, Result};
use std::slice;
use sumsq::ArrayData;
use sumsq::codegen::ScalarType;
use sumsq::energy::model::{ElementType, IntegerType};

/// Type of one number in memory. The discriminants are `sumsq_type` of the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
#[repr(i32)]
pub enum Element {
    Float32 = 1,
    Float64 = 2,
    Bool = 3,
    Int8 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    Uint8 = 8,
    Uint16 = 9,
    Uint32 = 10,
    Uint64 = 11,
}

use Element::*;
const ALL: [Element; 11] = [Float32, Float64, Bool, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64];

impl Element {
    /// The declared type; `opt_float` is a double if `double` says so, else a float.
    pub fn declared(element: ElementType, double: bool) -> Element {
        match element {
            ElementType::OptFloat if double => Float64,
            ElementType::OptFloat | ElementType::Float => Float32,
            ElementType::Double => Float64,
            ElementType::Uint8 => Uint8,
            ElementType::Int(integer) => match integer {
                IntegerType::Bool => Bool,
                IntegerType::Int8 => Int8,
                IntegerType::Int16 => Int16,
                IntegerType::Int32 => Int32,
                IntegerType::Int64 => Int64,
                IntegerType::Uint16 => Uint16,
                IntegerType::Uint32 => Uint32,
                IntegerType::Uint64 => Uint64,
            },
        }
    }

    /// The enumerator of the header.
    pub fn from_code(code: i32) -> Result<Element> {
        let known = ALL.into_iter().find(|e| *e as i32 == code);
        known.ok_or_else(|| Failure::argument(format!("{code} is no sumsq_type")))
    }

    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Bool | Int8 | Uint8 => 1,
            Int16 | Uint16 => 2,
            Float32 | Int32 | Uint32 => 4,
            Float64 | Int64 | Uint64 => 8,
        }
    }

    /// The type that a GPU takes them as; a bool as the byte that it is.
    pub fn scalar(self) -> ScalarType {
        match self {
            Float32 => ScalarType::F32,
            Float64 => ScalarType::F64,
            Int8 => ScalarType::I8,
            Int16 => ScalarType::I16,
            Int32 => ScalarType::I32,
            Int64 => ScalarType::I64,
            Bool | Uint8 => ScalarType::U8,
            Uint16 => ScalarType::U16,
            Uint32 => ScalarType::U32,
            Uint64 => ScalarType::U64,
        }
    }

    /// The numbers that `bytes`, a multiple of [`Element::bytes`], hold in the machine's byte order. A uint64 above 2^63 - 1
    /// does not fit the solver's integers.
    pub fn decode(self, bytes: &[u8]) -> Result<ArrayData> {
        Ok(match self {
            Float32 => ArrayData::F32(each(bytes, f32::from_ne_bytes).collect()),
            Float64 => ArrayData::F64(each(bytes, f64::from_ne_bytes).collect()),
            Bool => ArrayData::Bool(bytes.iter().map(|&b| b != 0).collect()),
            Int8 => ArrayData::Int(each(bytes, i8::from_ne_bytes).map(i64::from).collect(), "int8"),
            Int16 => ArrayData::Int(each(bytes, i16::from_ne_bytes).map(i64::from).collect(), "int16"),
            Int32 => ArrayData::Int(each(bytes, i32::from_ne_bytes).map(i64::from).collect(), "int32"),
            Int64 => ArrayData::Int(each(bytes, i64::from_ne_bytes).collect(), "int64"),
            Uint8 => ArrayData::Bytes(bytes.to_vec()),
            Uint16 => ArrayData::Int(each(bytes, u16::from_ne_bytes).map(i64::from).collect(), "uint16"),
            Uint32 => ArrayData::Int(each(bytes, u32::from_ne_bytes).map(i64::from).collect(), "uint32"),
            Uint64 => {
                let values: std::result::Result<Vec<i64>, _> =
                    each(bytes, u64::from_ne_bytes).map(i64::try_from).collect();
                let values = values.map_err(|_| Failure::data("a uint64 is above 2^63 - 1"))?;
                ArrayData::Int(values, "uint64")
            }
        })
    }

    /// Writes `values`, rounded to this type, which is a float type, to as many [`Element::bytes`].
    pub fn encode(self, values: &[f64], to: &mut [u8]) -> Result<()> {
        match self {
            Float32 => pack(values, to, |v| (v as f32).to_ne_bytes()),
            Float64 => pack(values, to, f64::to_ne_bytes),
            _ => return Err(Failure::argument("unknowns are read as SUMSQ_FLOAT32 or SUMSQ_FLOAT64")),
        }
        Ok(())
    }
}

fn pack<const N: usize>(values: &[f64], to: &mut [u8], write: impl Fn(f64) -> [u8; N]) {
    let (chunks, _) = to.as_chunks_mut::<N>();
    chunks.iter_mut().zip(values).for_each(|(to, &v)| *to = write(v));
}

fn each<'a, T, const N: usize>(
    bytes: &'a [u8],
    read: fn([u8; N]) -> T,
) -> impl Iterator<Item = T> + use<'a, T, N> {
    bytes.as_chunks::<N>().0.iter().map(move |&chunk| read(chunk))
}

/// Memory of the caller as bytes.
///
/// # Safety
/// `pointer` is not null, `len` bytes from it can be read and nobody writes them as long as the result lives.
pub unsafe fn view<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8]> {
    // SAFETY: by the contract; u8 needs no alignment, and the length fits an isize.
    possible(len).map(|()| unsafe { slice::from_raw_parts(pointer, len) })
}

/// Memory of the caller to write to.
///
/// # Safety
/// `pointer` is not null, `len` bytes from it can be written and nobody else uses them as long as the result lives.
pub unsafe fn view_mut<'a>(pointer: *mut u8, len: usize) -> Result<&'a mut [u8]> {
    // SAFETY: by the contract; u8 needs no alignment, and the length fits an isize.
    possible(len).map(|()| unsafe { slice::from_raw_parts_mut(pointer, len) })
}

fn possible(len: usize) -> Result<()> {
    match isize::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::data(format!("{len} bytes are more than memory can hold"))),
    }
}
