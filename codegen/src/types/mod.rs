//! Scalar and vector types of expressions.

pub use half::f16;

use serde::{Deserialize, Serialize};
use std::fmt;

/// The element type of an expression or buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ScalarType {
    /// One byte in memory, 0 or 1.
    Bool,
    /// Two's complement, 1 byte.
    I8,
    /// Two's complement, 2 bytes.
    I16,
    /// Two's complement, 4 bytes: coordinates.
    I32,
    /// Two's complement, 8 bytes: flat offsets.
    I64,
    /// Unsigned, 1 byte.
    U8,
    /// Unsigned, 2 bytes.
    U16,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// IEEE half, 2 bytes: 1 sign, 5 exponent and 10 stored significand bits; the greatest finite value is 65504.
    F16,
    /// IEEE single, 4 bytes.
    F32,
    /// IEEE double, 8 bytes.
    F64,
}

impl ScalarType {
    /// Every type.
    pub const ALL: [ScalarType; 12] = {
        use ScalarType::*;
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64]
    };

    /// Size of one element in memory, in bytes.
    pub const fn bytes(self) -> usize {
        use ScalarType::*;
        match self {
            Bool | I8 | U8 => 1,
            I16 | U16 | F16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 => 8,
        }
    }

    /// True for f16, f32 and f64.
    pub const fn is_float(self) -> bool {
        matches!(self, ScalarType::F16 | ScalarType::F32 | ScalarType::F64)
    }

    /// True for signed and unsigned integers, not for bool.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, ScalarType::Bool)
    }

    /// True for i8 to i64.
    pub const fn is_signed(self) -> bool {
        matches!(self, ScalarType::I8 | ScalarType::I16 | ScalarType::I32 | ScalarType::I64)
    }

    /// Is `v` a value of this integer type?
    pub const fn has(self, v: i64) -> bool {
        self.is_int() && self.wrap(v) == v && !(v < 0 && matches!(self, ScalarType::U64))
    }

    /// Wraps an integer to this type's range (two's complement); bool keeps whether it is non-zero.
    pub const fn wrap(self, v: i64) -> i64 {
        use ScalarType::*;
        match self {
            Bool => (v != 0) as i64,
            I8 => v as i8 as i64,
            I16 => v as i16 as i64,
            I32 => v as i32 as i64,
            U8 => v as u8 as i64,
            U16 => v as u16 as i64,
            U32 => v as u32 as i64,
            _ => v,
        }
    }

    /// Number of bits of an element's value: 1 for bool.
    pub const fn bits(self) -> u32 {
        match self {
            ScalarType::Bool => 1,
            ty => 8 * ty.bytes() as u32,
        }
    }

    /// Least value of an integer type or bool (u64 as its bits).
    pub const fn least(self) -> i64 {
        if self.is_signed() { i64::MIN >> (64 - self.bits()) } else { 0 }
    }

    /// Greatest value of an integer type or bool (u64 as its bits: -1).
    pub const fn greatest(self) -> i64 {
        match self {
            ScalarType::U64 => -1,
            ty if ty.is_signed() => i64::MAX >> (64 - ty.bits()),
            ty => ((1u64 << ty.bits()) - 1) as i64,
        }
    }

    /// The type of the same kind with twice the width; none for 64 bits and bool.
    pub const fn wider(self) -> Option<ScalarType> {
        use ScalarType::*;
        Some(match self {
            I8 => I16,
            I16 => I32,
            I32 => I64,
            U8 => U16,
            U16 => U32,
            U32 => U64,
            F16 => F32,
            F32 => F64,
            Bool | I64 | U64 | F64 => return None,
        })
    }

    /// The signed integer type of the same width; itself for floats and bool.
    pub const fn signed(self) -> ScalarType {
        use ScalarType::*;
        match self {
            U8 => I8,
            U16 => I16,
            U32 => I32,
            U64 => I64,
            ty => ty,
        }
    }

    /// The unsigned integer type of the same width; itself for floats and bool.
    pub const fn unsigned(self) -> ScalarType {
        use ScalarType::*;
        match self {
            I8 => U8,
            I16 => U16,
            I32 => U32,
            I64 => U64,
            ty => ty,
        }
    }

    /// The nearest value of a float type, ties to even; other types leave `v` alone.
    pub fn round(self, v: f64) -> f64 {
        match self {
            ScalarType::F32 => v as f32 as f64,
            ScalarType::F16 => nearest_half(v).to_f64(),
            _ => v,
        }
    }

    /// Float to integer or bool: truncates and saturates, NaN gives 0; bool is whether `v` is not 0 (NaN is not).
    pub const fn saturate(self, v: f64) -> i64 {
        use ScalarType::*;
        match self {
            I8 => v as i8 as i64,
            I16 => v as i16 as i64,
            I32 => v as i32 as i64,
            I64 => v as i64,
            U8 => v as u8 as i64,
            U16 => v as u16 as i64,
            U32 => v as u32 as i64,
            U64 => v as u64 as i64,
            Bool => (v != 0.0) as i64,
            F16 | F32 | F64 => 0,
        }
    }

    /// The name in text: `i32`, `f64`, `bool`.
    pub const fn name(self) -> &'static str {
        use ScalarType::*;
        match self {
            Bool => "bool",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F16 => "f16",
            F32 => "f32",
            F64 => "f64",
        }
    }
}

/// The nearest half, ties to even; a NaN keeps its sign. By way of the f32 that is rounded to odd, whose 24 bits keep what decides the
/// rounding to 11: on CPUs that convert f32 alone, `f16::from_f64` rounds twice.
pub fn nearest_half(v: f64) -> f16 {
    let near = v as f32;
    let back = f64::from(near);
    // Neither holds for a NaN.
    let (below, above) = (back < v, back > v);
    let (beyond, inexact) = (back.abs() > v.abs(), below | above);
    f16::from_f32(f32::from_bits((near.to_bits() - u32::from(beyond)) | u32::from(inexact)))
}

/// The type of an expression: an element type and a number of lanes (1 for a scalar).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Type {
    /// Element type.
    pub scalar: ScalarType,
    /// Number of lanes; 1 is a scalar.
    pub lanes: u16,
}

impl Type {
    /// `bool`
    pub const BOOL: Type = Type::of(ScalarType::Bool);
    /// `i32`, the type of coordinates.
    pub const I32: Type = Type::of(ScalarType::I32);
    /// `i64`, the type of flat offsets.
    pub const I64: Type = Type::of(ScalarType::I64);
    /// `f32`
    pub const F32: Type = Type::of(ScalarType::F32);
    /// `f64`
    pub const F64: Type = Type::of(ScalarType::F64);

    /// The scalar type with one lane.
    pub const fn of(scalar: ScalarType) -> Type {
        Type { scalar, lanes: 1 }
    }

    /// The same lanes of another element type.
    pub const fn of_element(self, scalar: ScalarType) -> Type {
        Type { scalar, lanes: self.lanes }
    }

    /// The same element type with `lanes` lanes.
    pub const fn with_lanes(self, lanes: u16) -> Type {
        Type { scalar: self.scalar, lanes }
    }

    /// `bool` with this type's lanes.
    pub const fn as_bool(self) -> Type {
        self.of_element(ScalarType::Bool)
    }
}

impl From<ScalarType> for Type {
    fn from(s: ScalarType) -> Type {
        Type::of(s)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => f.write_str(self.scalar.name()),
            n => write!(f, "{}x{n}", self.scalar.name()),
        }
    }
}
