//! Element types at the border to Rust: typed slices in, buffer elements out.

use crate::types::ScalarType;

/// A number on its way between element types: wide enough for either kind.
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    /// Any integer or bool; u64 as its bits.
    Int(i64),
    /// Any float.
    Float(f64),
}

/// Runs the expression with `$e` standing for the Rust type of a scalar type. f16 has none and is treated as its bits.
macro_rules! with_element {
    ($ty:expr, $e:ident => $body:expr) => {{
        use $crate::types::ScalarType as S;
        macro_rules! with {
            ($t:ty) => {{
                type $e = $t;
                $body
            }};
        }
        match $ty {
            S::Bool => with!(BoolByte),
            S::I8 => with!(i8),
            S::I16 => with!(i16),
            S::I32 => with!(i32),
            S::I64 => with!(i64),
            S::U8 => with!(u8),
            S::U16 | S::F16 => with!(u16),
            S::U32 => with!(u32),
            S::U64 => with!(u64),
            S::F32 => with!(f32),
            S::F64 => with!(f64),
        }
    }};
}
pub(super) use with_element;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose values are elements of a buffer. Conversions are those of `as`: to integers they truncate and
/// saturate, or wrap from wider integers.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The corresponding scalar type.
    const TYPE: ScalarType;
    /// To the wide form.
    fn widen(self) -> Wide;
    /// From the wide form.
    fn narrow(w: Wide) -> Self;
}

macro_rules! element {
    ($($t:ident $s:ident $wide:ident $w:ident),*) => { $(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const TYPE: ScalarType = ScalarType::$s;
            #[inline]
            fn widen(self) -> Wide { Wide::$wide(self as $w) }
            #[inline]
            fn narrow(w: Wide) -> $t { match w { Wide::Int(v) => v as $t, Wide::Float(v) => v as $t } }
        }
    )* };
}
element!(i8 I8 Int i64, i16 I16 Int i64, i32 I32 Int i64, i64 I64 Int i64, u8 U8 Int i64, u16 U16 Int i64,
    u32 U32 Int i64, u64 U64 Int i64, f32 F32 Float f64, f64 F64 Float f64);

/// A bool element in memory: one byte, 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct BoolByte(pub u8);

impl sealed::Sealed for BoolByte {}
impl Element for BoolByte {
    const TYPE: ScalarType = ScalarType::Bool;
    #[inline]
    fn widen(self) -> Wide {
        Wide::Int((self.0 != 0) as i64)
    }
    #[inline]
    fn narrow(w: Wide) -> BoolByte {
        BoolByte(match w {
            Wide::Int(v) => (v != 0) as u8,
            Wide::Float(v) => (v != 0.0) as u8,
        })
    }
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const TYPE: ScalarType = ScalarType::Bool;
    #[inline]
    fn widen(self) -> Wide {
        Wide::Int(self as i64)
    }
    #[inline]
    fn narrow(w: Wide) -> bool {
        BoolByte::narrow(w).0 != 0
    }
}

/// A typed scalar: the value of a run-time parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool(bool),
    I32(i32),
    I64(i64),
    U32(u32),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// Its type.
    pub fn ty(self) -> ScalarType {
        match self {
            Scalar::Bool(_) => ScalarType::Bool,
            Scalar::I32(_) => ScalarType::I32,
            Scalar::I64(_) => ScalarType::I64,
            Scalar::U32(_) => ScalarType::U32,
            Scalar::U64(_) => ScalarType::U64,
            Scalar::F32(_) => ScalarType::F32,
            Scalar::F64(_) => ScalarType::F64,
        }
    }

    /// Its bits in the low bytes of a scalar slot of the entry point.
    pub fn slot(self) -> u64 {
        match self {
            Scalar::Bool(v) => v as u64,
            Scalar::I32(v) => v as u32 as u64,
            Scalar::I64(v) => v as u64,
            Scalar::U32(v) => v as u64,
            Scalar::U64(v) => v,
            Scalar::F32(v) => v.to_bits() as u64,
            Scalar::F64(v) => v.to_bits(),
        }
    }
}

macro_rules! scalar_from {
    ($($t:ident $v:ident),*) => { $(
        impl From<$t> for Scalar { fn from(v: $t) -> Scalar { Scalar::$v(v) } }
    )* };
}
scalar_from!(bool Bool, i32 I32, i64 I64, u32 U32, u64 U64, f32 F32, f64 F64);
