//! Conversions.

use super::word::half_of;
use super::{Arity, Word, op};
use half::f16;

/// The function of a conversion, `[cvt, rounding, to, from]` or without a rounding.
pub fn function(parts: &[&str]) -> Option<Arity> {
    match parts {
        ["cvt", to, from] if !to.starts_with('f') && !from.starts_with('f') => between_integers(to, from),
        ["cvt", "f32", "f16"] => Some(op!(f16, |a| a.to_f32())),
        ["cvt", "f64", "f16"] => Some(op!(f16, |a| a.to_f64())),
        ["cvt", "f64", "f32"] => Some(op!(f32, |a| f64::from(a))),
        ["cvt", "rn", "f32", "f64"] => Some(op!(f64, |a| a as f32)),
        ["cvt", "rn", "f16", "f64"] => Some(op!(f64, |a| half_of(a))),
        ["cvt", "rn", "f16", "f32"] => Some(op!(f32, |a| f16::from_f32(a))),
        ["cvt", "rn", "f16x2", "f32"] => {
            Some((|a, b, _| f16::from_f32(f32::get(a)).put() << 16 | f16::from_f32(f32::get(b)).put(), 2))
        }
        ["cvt", "rn", to, from] if to.starts_with('f') => from_integer(to, from),
        ["cvt", mode, to, from] if to == from => to_whole(mode, to),
        ["cvt", mode, to, from] if from.starts_with('f') => to_integer(mode, to, from),
        _ => None,
    }
}

fn between_integers(to: &str, from: &str) -> Option<Arity> {
    macro_rules! from {
        ($to:ty) => {
            match from {
                "u8" | "b8" => op!(u8, |a| a as $to),
                "s8" => op!(i8, |a| a as $to),
                "u16" => op!(u16, |a| a as $to),
                "s16" => op!(i16, |a| a as $to),
                "u32" => op!(u32, |a| a as $to),
                "s32" => op!(i32, |a| a as $to),
                "u64" => op!(u64, |a| a as $to),
                "s64" => op!(i64, |a| a as $to),
                _ => return None,
            }
        };
    }
    // The value fills its register: of a signed byte with copies of the sign.
    macro_rules! signed_byte {
        ($($name:literal $from:ty),*) => { match from { $($name => op!($from, |a| a as i8 as i64),)* _ => return None } };
    }
    Some(match to {
        "s8" => {
            signed_byte!("u8" u8, "s8" i8, "u16" u16, "s16" i16, "u32" u32, "s32" i32, "u64" u64, "s64" i64)
        }
        "u8" => from!(u8),
        "u16" => from!(u16),
        "s16" => from!(i16),
        "u32" => from!(u32),
        "s32" => from!(i32),
        "u64" => from!(u64),
        "s64" => from!(i64),
        _ => return None,
    })
}

fn from_integer(to: &str, from: &str) -> Option<Arity> {
    macro_rules! from {
        (|$a:ident| $e:expr) => {
            match from {
                "u8" => op!(u8, |$a| $e),
                "s8" => op!(i8, |$a| $e),
                "u16" => op!(u16, |$a| $e),
                "s16" => op!(i16, |$a| $e),
                "u32" => op!(u32, |$a| $e),
                "s32" => op!(i32, |$a| $e),
                "u64" => op!(u64, |$a| $e),
                "s64" => op!(i64, |$a| $e),
                _ => return None,
            }
        };
    }
    Some(match to {
        // What double precision does not hold is infinite as a half.
        "f16" => from!(|a| half_of(a as f64)),
        "f32" => from!(|a| a as f32),
        "f64" => from!(|a| a as f64),
        _ => return None,
    })
}

/// Rounding of a float to a whole number of the same type.
fn to_whole(mode: &str, t: &str) -> Option<Arity> {
    Some(match (mode, t) {
        ("rni", "f32") => op!(f32, |a| a.round_ties_even()),
        ("rzi", "f32") => op!(f32, |a| a.trunc()),
        ("rmi", "f32") => op!(f32, |a| a.floor()),
        ("rpi", "f32") => op!(f32, |a| a.ceil()),
        ("rni", "f64") => op!(f64, |a| a.round_ties_even()),
        ("rzi", "f64") => op!(f64, |a| a.trunc()),
        ("rmi", "f64") => op!(f64, |a| a.floor()),
        ("rpi", "f64") => op!(f64, |a| a.ceil()),
        ("rni", "f16") => op!(f16, |a| half_of(a.to_f64().round_ties_even())),
        ("rzi", "f16") => op!(f16, |a| half_of(a.to_f64().trunc())),
        ("rmi", "f16") => op!(f16, |a| half_of(a.to_f64().floor())),
        ("rpi", "f16") => op!(f16, |a| half_of(a.to_f64().ceil())),
        _ => return None,
    })
}

/// Rounding to an integer, clamped to what its type holds. A NaN gives zero, or the top bit alone where one side has 64 bits.
fn to_integer(mode: &str, to: &str, from: &str) -> Option<Arity> {
    macro_rules! to {
        ($round:ident) => {
            match from {
                "f16" => to!($round, f16, |a| a.to_f64(), false),
                "f32" => to!($round, f32, |a| f64::from(a), false),
                "f64" => to!($round, f64, |a| a, true),
                _ => return None,
            }
        };
        ($round:ident, $from:ty, |$a:ident| $wide:expr, $double:expr) => {
            match to {
                "u16" => op!($from, |$a| clamp!($round, $wide, u16, $double)),
                "s16" => op!($from, |$a| clamp!($round, $wide, i16, $double)),
                "u32" => op!($from, |$a| clamp!($round, $wide, u32, $double)),
                "s32" => op!($from, |$a| clamp!($round, $wide, i32, $double)),
                "u64" => op!($from, |$a| clamp!($round, $wide, u64, true)),
                "s64" => op!($from, |$a| clamp!($round, $wide, i64, true)),
                _ => return None,
            }
        };
    }
    macro_rules! clamp {
        ($round:ident, $wide:expr, $to:ty, $top:expr) => {{
            let wide: f64 = $wide;
            if wide.is_nan() && $top { 1 << (<$to>::BITS - 1) } else { wide.$round() as $to }
        }};
    }
    Some(match mode {
        "rni" => to!(round_ties_even),
        "rzi" => to!(trunc),
        "rmi" => to!(floor),
        "rpi" => to!(ceil),
        _ => return None,
    })
}
