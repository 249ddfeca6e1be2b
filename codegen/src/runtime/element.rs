//! Element types at the border to Rust: typed slices in, buffer elements out.

use crate::expr::Expr;
use crate::types::{ScalarType, f16, nearest_half};

/// A number on its way between element types: wide enough for either kind.
#[derive(Clone, Copy, Debug)]
pub enum Wide {
    /// Any integer or bool; u64 as its bits.
    Int(i64),
    /// Any float.
    Float(f64),
}

/// Runs the expression with `$e` standing for the Rust type of a scalar type.
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
            S::Bool => with!($crate::runtime::element::BoolByte),
            S::I8 => with!(i8),
            S::I16 => with!(i16),
            S::I32 => with!(i32),
            S::I64 => with!(i64),
            S::U8 => with!(u8),
            S::U16 => with!(u16),
            S::F16 => with!($crate::types::f16),
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
pub(super) struct BoolByte(pub u8);

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

impl sealed::Sealed for f16 {}
impl Element for f16 {
    const TYPE: ScalarType = ScalarType::F16;
    #[inline]
    fn widen(self) -> Wide {
        Wide::Float(self.to_f64())
    }
    #[inline]
    fn narrow(w: Wide) -> f16 {
        match w {
            Wide::Int(v) => nearest_half(v as f64),
            Wide::Float(v) => nearest_half(v),
        }
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
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    F16(f16),
    F32(f32),
    F64(f64),
}

impl Scalar {
    /// The integer, if it is one; u64 beyond i64 is the greatest i64.
    pub fn as_int(self) -> Option<i64> {
        Some(match self {
            Scalar::Bool(v) => v as i64,
            Scalar::I8(v) => v as i64,
            Scalar::I16(v) => v as i64,
            Scalar::I32(v) => v as i64,
            Scalar::I64(v) => v,
            Scalar::U8(v) => v as i64,
            Scalar::U16(v) => v as i64,
            Scalar::U32(v) => v as i64,
            Scalar::U64(v) => i64::try_from(v).unwrap_or(i64::MAX),
            Scalar::F16(_) | Scalar::F32(_) | Scalar::F64(_) => return None,
        })
    }

    /// As a constant of an expression.
    pub fn constant(self) -> Expr {
        match self {
            Scalar::U64(v) => Expr::int(self.ty(), v as i64),
            Scalar::F16(v) => Expr::float(self.ty(), v.to_f64()),
            Scalar::F32(v) => Expr::float(self.ty(), v.into()),
            Scalar::F64(v) => Expr::float(self.ty(), v),
            v => Expr::int(self.ty(), v.as_int().unwrap_or(0)),
        }
    }
}

macro_rules! scalars {
    ($($v:ident $t:ty, $x:ident => $bits:expr;)*) => {
        impl Scalar {
            /// Its type.
            pub fn ty(self) -> ScalarType {
                match self { $( Scalar::$v(_) => ScalarType::$v, )* }
            }

            /// Its bits in the low bytes of a scalar slot of the entry point.
            pub fn slot(self) -> u64 {
                match self { $( Scalar::$v($x) => $bits, )* }
            }
        }
        $( impl From<$t> for Scalar { fn from(v: $t) -> Scalar { Scalar::$v(v) } } )*
    };
}
scalars! {
    Bool bool, v => v as u64;
    I8 i8, v => v as u8 as u64;
    I16 i16, v => v as u16 as u64;
    I32 i32, v => v as u32 as u64;
    I64 i64, v => v as u64;
    U8 u8, v => v as u64;
    U16 u16, v => v as u64;
    U32 u32, v => v as u64;
    U64 u64, v => v;
    F16 f16, v => v.to_bits() as u64;
    F32 f32, v => v.to_bits() as u64;
    F64 f64, v => v.to_bits();
}
