//! Elements of a `.npy`, from its bytes to typed arrays in C order.

use super::error::MemberError;
use super::header::Header;
use std::io::Read;
use sumsq::ArrayData;

/// Bytes that are decoded at a time: a multiple of every element's size.
const PIECE: usize = 1 << 16;

/// A dtype that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Element {
    kind: Kind,
    /// In bytes.
    pub size: usize,
    big_endian: bool,
    /// As NumPy spells it.
    pub name: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Float,
    Signed,
    Unsigned,
    Bool,
}

impl Element {
    /// The type that a string such as `<f8` names.
    pub fn of(descr: &[u8]) -> Result<Element, MemberError> {
        let refused = || MemberError::Dtype { descr: String::from_utf8_lossy(descr).into_owned() };
        let (order, kind) = descr.split_first().ok_or_else(refused)?;
        let (kind, size, name) = match kind {
            b"f4" => (Kind::Float, 4, "float32"),
            b"f8" => (Kind::Float, 8, "float64"),
            b"b1" => (Kind::Bool, 1, "bool"),
            b"i1" => (Kind::Signed, 1, "int8"),
            b"i2" => (Kind::Signed, 2, "int16"),
            b"i4" => (Kind::Signed, 4, "int32"),
            b"i8" => (Kind::Signed, 8, "int64"),
            b"u1" => (Kind::Unsigned, 1, "uint8"),
            b"u2" => (Kind::Unsigned, 2, "uint16"),
            b"u4" => (Kind::Unsigned, 4, "uint32"),
            b"u8" => (Kind::Unsigned, 8, "uint64"),
            [b'O', ..] => return Err(MemberError::Pickle),
            _ => return Err(refused()),
        };
        let big_endian = match order {
            b'<' => false,
            b'=' => cfg!(target_endian = "big"),
            b'>' => true,
            b'|' if size == 1 => false,
            _ => return Err(refused()),
        };
        Ok(Element { kind, size, big_endian, name })
    }

    /// Up to eight bytes as a number.
    fn word(self, bytes: &[u8]) -> u64 {
        let push = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        if self.big_endian { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
    }
}

/// Reads the elements that a header promises, into C order.
pub fn read(npy: &mut impl Read, header: &Header) -> Result<ArrayData, MemberError> {
    let Element { kind, size, name, .. } = header.element;
    Ok(match (kind, size) {
        (Kind::Float, 4) => ArrayData::F32(typed(npy, header, |w| Ok(f32::from_bits(w as u32)))?),
        (Kind::Float, _) => ArrayData::F64(typed(npy, header, |w| Ok(f64::from_bits(w)))?),
        (Kind::Bool, _) => ArrayData::Bool(typed(npy, header, |w| Ok(w != 0))?),
        (Kind::Unsigned, 1) => ArrayData::Bytes(typed(npy, header, |w| Ok(w as u8))?),
        (Kind::Unsigned, _) => {
            let value = |w| i64::try_from(w).map_err(|_| MemberError::TooLarge(w));
            ArrayData::Int(typed(npy, header, value)?, name)
        }
        (Kind::Signed, _) => {
            let unused = 64 - 8 * size as u32;
            ArrayData::Int(typed(npy, header, |w| Ok(((w << unused) as i64) >> unused))?, name)
        }
    })
}

/// Bytes of the elements that a header promises, as they are held: integers are wide.
pub fn held(header: &Header) -> u64 {
    let wide = match header.element.kind {
        Kind::Float | Kind::Bool => false,
        Kind::Signed => true,
        Kind::Unsigned => header.element.size > 1,
    };
    header.elements as u64 * if wide { size_of::<i64>() } else { header.element.size } as u64
}

fn typed<T: Copy>(
    npy: &mut impl Read,
    header: &Header,
    value: impl Fn(u64) -> Result<T, MemberError>,
) -> Result<Vec<T>, MemberError> {
    let element = header.element;
    let mut values = reserved(header)?;
    let mut piece = vec![0; PIECE.min(header.bytes)];
    let mut left = header.bytes;
    while left > 0 {
        let piece = &mut piece[..PIECE.min(left)];
        npy.read_exact(piece)?;
        for bytes in piece.chunks_exact(element.size) {
            values.push(value(element.word(bytes))?);
        }
        left -= piece.len();
    }
    if header.fortran && header.shape.len() > 1 { c_order(&values, header) } else { Ok(values) }
}

/// Room for the elements.
fn reserved<T>(header: &Header) -> Result<Vec<T>, MemberError> {
    let mut values = Vec::new();
    let refused = |_| MemberError::Memory { elements: header.elements, dtype: header.element.name };
    values.try_reserve_exact(header.elements).map_err(refused)?;
    Ok(values)
}

/// The elements of a Fortran-ordered array in C order: an odometer over the shape, whose last digit runs fastest.
fn c_order<T: Copy>(values: &[T], header: &Header) -> Result<Vec<T>, MemberError> {
    let mut ordered = reserved(header)?;
    let shape = &header.shape;
    let strides: Vec<usize> = shape
        .iter()
        .scan(1, |stride, &n| {
            let this = *stride;
            *stride *= n;
            Some(this)
        })
        .collect();
    let (mut digits, mut place) = (vec![0; shape.len()], 0);
    for _ in values {
        ordered.push(values[place]);
        for dim in (0..shape.len()).rev() {
            digits[dim] += 1;
            place += strides[dim];
            if digits[dim] < shape[dim] {
                break;
            }
            place -= digits[dim] * strides[dim];
            digits[dim] = 0;
        }
    }
    Ok(ordered)
}
