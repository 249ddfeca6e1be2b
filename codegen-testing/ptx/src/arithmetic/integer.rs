//! Integers and bits.

use super::{Arity, Pure, both_halves, integers, op};

/// The function of an instruction on integers or bits.
pub fn function(parts: &[&str]) -> Option<Arity> {
    of_halves(parts).or_else(|| of_words(parts))
}

fn of_words(parts: &[&str]) -> Option<Arity> {
    Some(match parts {
        ["add", t] => integers!(*t, |a, b| a.wrapping_add(b)),
        ["sub", t] => integers!(*t, |a, b| a.wrapping_sub(b)),
        ["mul", "lo", t] => integers!(*t, |a, b| a.wrapping_mul(b)),
        ["mad", "lo", t] => integers!(*t, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ["mul", "hi", t] => match *t {
            "s16" => op!(i16, |a, b| ((i32::from(a) * i32::from(b)) >> 16) as i16),
            "u16" => op!(u16, |a, b| ((u32::from(a) * u32::from(b)) >> 16) as u16),
            "s32" => op!(i32, |a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32),
            "u32" => op!(u32, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
            "s64" => op!(i64, |a, b| ((i128::from(a) * i128::from(b)) >> 64) as i64),
            "u64" => op!(u64, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64),
            _ => return None,
        },
        ["mad", "hi", t] => match *t {
            "s32" => op!(i32, |a, b, c| (((i64::from(a) * i64::from(b)) >> 32) as i32).wrapping_add(c)),
            "u32" => op!(u32, |a, b, c| (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c)),
            "s64" => op!(i64, |a, b, c| (((i128::from(a) * i128::from(b)) >> 64) as i64).wrapping_add(c)),
            "u64" => op!(u64, |a, b, c| (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c)),
            _ => return None,
        },
        ["mul", "wide", t] => match *t {
            "s16" => op!(i16, |a, b| i32::from(a) * i32::from(b)),
            "u16" => op!(u16, |a, b| u32::from(a) * u32::from(b)),
            "s32" => op!(i32, |a, b| i64::from(a) * i64::from(b)),
            "u32" => op!(u32, |a, b| u64::from(a) * u64::from(b)),
            _ => return None,
        },
        ["mad", "wide", t] => (
            match *t {
                "s16" => {
                    |a, b, c| (i32::from(a as i16) * i32::from(b as i16)).wrapping_add(c as i32) as u32 as u64
                }
                "u16" => |a, b, c| (u32::from(a as u16) * u32::from(b as u16)).wrapping_add(c as u32) as u64,
                "s32" => |a, b, c| (i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64) as u64,
                "u32" => |a, b, c| (u64::from(a as u32) * u64::from(b as u32)).wrapping_add(c),
                _ => return None,
            },
            3,
        ),
        ["div", t] => integers!(*t, |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        ["rem", t] => integers!(*t, |a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        ["min", t] => integers!(*t, |a, b| a.min(b)),
        ["max", t] => integers!(*t, |a, b| a.max(b)),
        ["min", "relu", "s32"] => op!(i32, |a, b| a.min(b).max(0)),
        ["max", "relu", "s32"] => op!(i32, |a, b| a.max(b).max(0)),
        ["neg", t] => integers!(*t, |a| a.wrapping_neg()),
        ["abs", "s16"] => op!(i16, |a| a.wrapping_abs()),
        ["abs", "s32"] => op!(i32, |a| a.wrapping_abs()),
        ["abs", "s64"] => op!(i64, |a| a.wrapping_abs()),
        ["and", "pred"] => op!(bool, |a, b| a & b),
        ["or", "pred"] => op!(bool, |a, b| a | b),
        ["xor", "pred"] => op!(bool, |a, b| a ^ b),
        ["not", "pred"] => op!(bool, |a| !a),
        ["mov", "pred"] => op!(bool, |a| a),
        ["and", t] => integers!(*t, |a, b| a & b),
        ["or", t] => integers!(*t, |a, b| a | b),
        ["xor", t] => integers!(*t, |a, b| a ^ b),
        ["not", t] => integers!(*t, |a| !a),
        ["mov", "f32"] => op!(u32, |a| a),
        ["mov", "f64"] => op!(u64, |a| a),
        ["mov", t] => integers!(*t, |a| a),
        ["selp", t] => (select(t)?, 3),
        ["shl", t] => (shift_left(t)?, 2),
        ["shr", t] => (shift_right(t)?, 2),
        ["shf", way, edge, "b32"] => (funnel(way, edge)?, 3),
        ["popc", "b32"] => op!(u32, |a| a.count_ones()),
        ["popc", "b64"] => op!(u64, |a| a.count_ones()),
        ["clz", "b32"] => op!(u32, |a| a.leading_zeros()),
        ["clz", "b64"] => op!(u64, |a| a.leading_zeros()),
        ["brev", "b32"] => op!(u32, |a| a.reverse_bits()),
        ["brev", "b64"] => op!(u64, |a| a.reverse_bits()),
        ["bfind", t] => match *t {
            "u32" => op!(u32, |a| 31u32.wrapping_sub(a.leading_zeros())),
            "s32" => op!(i32, |a| 31u32.wrapping_sub((if a < 0 { !a } else { a }).leading_zeros())),
            "u64" => op!(u64, |a| 63u32.wrapping_sub(a.leading_zeros())),
            "s64" => op!(i64, |a| 63u32.wrapping_sub((if a < 0 { !a } else { a }).leading_zeros())),
            _ => return None,
        },
        ["bfe", "u32"] => (|a, b, c| extract(a as u32 as u64, 32, false, b, c), 3),
        ["bfe", "s32"] => (|a, b, c| extract(a as u32 as u64, 32, true, b, c) as u32 as u64, 3),
        ["bfe", "u64"] => (|a, b, c| extract(a, 64, false, b, c), 3),
        ["bfe", "s64"] => (|a, b, c| extract(a, 64, true, b, c), 3),
        ["prmt", "b32"] => (permute, 3),
        _ => return None,
    })
}

/// The function of an instruction on both halves of a word.
fn of_halves(parts: &[&str]) -> Option<Arity> {
    Some(match parts {
        ["add", "s16x2" | "u16x2"] => (both_halves!(|a, b, _| (a as u16).wrapping_add(b as u16).into()), 2),
        ["min", "s16x2"] => (both_halves!(|a, b, _| (a as i16).min(b as i16) as u16 as u64), 2),
        ["max", "s16x2"] => (both_halves!(|a, b, _| (a as i16).max(b as i16) as u16 as u64), 2),
        ["min", "u16x2"] => (both_halves!(|a, b, _| a.min(b)), 2),
        ["max", "u16x2"] => (both_halves!(|a, b, _| a.max(b)), 2),
        _ => return None,
    })
}

/// The sum of two words and a carry, and the carry of that.
pub const ADD_32: (Pure, Pure) = (
    |a, b, c| (a as u32).wrapping_add(b as u32).wrapping_add(c as u32).into(),
    |a, b, c| u64::from((a & LOW) + (b & LOW) + c > LOW),
);
pub const ADD_64: (Pure, Pure) = (
    |a, b, c| a.wrapping_add(b).wrapping_add(c),
    |a, b, c| u64::from(a.overflowing_add(b).1 || a.wrapping_add(b).overflowing_add(c).1),
);

/// The difference of two words and a borrow, and the borrow of that.
pub const SUB_32: (Pure, Pure) = (
    |a, b, c| (a as u32).wrapping_sub(b as u32).wrapping_sub(c as u32).into(),
    |a, b, c| u64::from((a & LOW) < (b & LOW) + c),
);
pub const SUB_64: (Pure, Pure) = (
    |a, b, c| a.wrapping_sub(b).wrapping_sub(c),
    |a, b, c| u64::from(a.overflowing_sub(b).1 || a.wrapping_sub(b).overflowing_sub(c).1),
);

/// Bits of a narrow word.
const LOW: u64 = 0xffff_ffff;

/// A function of four words.
pub fn quad(op: &str) -> Option<fn([u64; 4]) -> u64> {
    Some(match op {
        "bfi.b32" => |[a, b, at, n]| insert(a, b, 32, at, n) as u32 as u64,
        "bfi.b64" => |[a, b, at, n]| insert(a, b, 64, at, n),
        "lop3.b32" => |[a, b, c, table]| {
            let bit = |k: u64| table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1;
            (0..32).fold(0, |all, k| all | bit(k) << k)
        },
        _ => return None,
    })
}

/// Bits of the divisor, if the instruction divides integers.
pub fn divides(op: &str) -> Option<u32> {
    let type_ = op.strip_prefix("div.").or(op.strip_prefix("rem."))?;
    match type_ {
        "s16" | "u16" => Some(16),
        "s32" | "u32" => Some(32),
        "s64" | "u64" => Some(64),
        _ => None,
    }
}

fn select(t: &str) -> Option<Pure> {
    Some(match t {
        "b16" | "s16" | "u16" | "f16" => |a, b, p| (if p & 1 != 0 { a } else { b }) & 0xffff,
        "b32" | "s32" | "u32" | "f32" => |a, b, p| (if p & 1 != 0 { a } else { b }) & 0xffff_ffff,
        "b64" | "s64" | "u64" | "f64" => |a, b, p| if p & 1 != 0 { a } else { b },
        _ => return None,
    })
}

/// The distance is 32 bits wide and clamped to the bits of the value.
fn shift_left(t: &str) -> Option<Pure> {
    Some(match t {
        "b16" => |a, n, _| (a as u16).checked_shl(n as u32).unwrap_or(0).into(),
        "b32" => |a, n, _| (a as u32).checked_shl(n as u32).unwrap_or(0).into(),
        "b64" => |a, n, _| a.checked_shl(n as u32).unwrap_or(0),
        _ => return None,
    })
}

fn shift_right(t: &str) -> Option<Pure> {
    Some(match t {
        "b16" | "u16" => |a, n, _| (a as u16).checked_shr(n as u32).unwrap_or(0).into(),
        "b32" | "u32" => |a, n, _| (a as u32).checked_shr(n as u32).unwrap_or(0).into(),
        "b64" | "u64" => |a, n, _| a.checked_shr(n as u32).unwrap_or(0),
        "s16" => |a, n, _| (a as i16 >> (n as u32).min(15)) as u16 as u64,
        "s32" => |a, n, _| (a as i32 >> (n as u32).min(31)) as u32 as u64,
        "s64" => |a, n, _| (a as i64 >> (n as u32).min(63)) as u64,
        _ => return None,
    })
}

/// A shift of the 64 bits `b:a`.
fn funnel(way: &str, edge: &str) -> Option<Pure> {
    Some(match (way, edge) {
        ("l", "wrap") => |a, b, n| joined(a, b) << (n & 31) >> 32,
        ("l", "clamp") => |a, b, n| ((u128::from(joined(a, b)) << (n as u32).min(32)) >> 32) as u32 as u64,
        ("r", "wrap") => |a, b, n| joined(a, b) >> (n & 31) & 0xffff_ffff,
        ("r", "clamp") => |a, b, n| joined(a, b) >> (n as u32).min(32) & 0xffff_ffff,
        _ => return None,
    })
}

fn joined(low: u64, high: u64) -> u64 {
    low & 0xffff_ffff | high << 32
}

/// A field of `n` bits from `at` on; beyond the word it holds zeros or copies of the sign.
fn extract(a: u64, bits: u64, signed: bool, at: u64, n: u64) -> u64 {
    let (at, n) = (at & 255, n & 255);
    if n == 0 {
        return 0;
    }
    let sign = signed && a >> (at + n - 1).min(bits - 1) & 1 != 0;
    let bit = |k: u64| if k < n && at + k < bits { a >> (at + k) & 1 != 0 } else { sign };
    (0..bits).fold(0, |all, k| all | u64::from(bit(k)) << k)
}

/// `b` with the low `n` bits of `a` at `at`.
fn insert(a: u64, b: u64, bits: u64, at: u64, n: u64) -> u64 {
    let (at, n) = (at & 255, n & 255);
    (0..n.min(bits.saturating_sub(at))).fold(b, |all, k| all & !(1 << (at + k)) | (a >> k & 1) << (at + k))
}

/// Bytes of `b:a` chosen by four digits; the top bit of a digit repeats the byte's sign instead.
fn permute(a: u64, b: u64, digits: u64) -> u64 {
    let bytes = joined(a, b).to_le_bytes();
    (0..4).fold(0, |all, k| {
        let digit = digits >> (4 * k);
        let byte = bytes[(digit & 7) as usize];
        let byte = if digit & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        all | u64::from(byte) << (8 * k)
    })
}
