//! Conversions.

use super::halves::half_of;
use super::values::Result_;
use super::{one, two};
use half::f16;

pub fn conversions_between_whole_numbers() {
    macro_rules! of {
        ($($from:ident $name:literal),*) => {$(
            one(concat!("cvt.u16.", $name), |a: $from| a as u16);
            one(concat!("cvt.s16.", $name), |a: $from| a as i16);
            one(concat!("cvt.u32.", $name), |a: $from| a as u32);
            one(concat!("cvt.s32.", $name), |a: $from| a as i32);
            one(concat!("cvt.u64.", $name), |a: $from| a as u64);
            one(concat!("cvt.s64.", $name), |a: $from| a as i64);
            one(concat!("cvt.rn.f16.", $name), |a: $from| {
                let large = a as i128;
                if large.abs() > 1 << 40 { f16::from_f64(large as f64) } else { half_of(large << 48) }
            });
            one(concat!("cvt.rn.f32.", $name), |a: $from| a as f32);
            one(concat!("cvt.rn.f64.", $name), |a: $from| a as f64);
        )*};
    }
    of!(i8 "s8", u8 "u8", i16 "s16", u16 "u16", i32 "s32", u32 "u32", i64 "s64", u64 "u64");
}

/// The half nearest to a double, found among all of its sign.
fn nearest_half(a: f64) -> f16 {
    if a.is_nan() {
        return f16::NAN;
    }
    // Half of the distance to what would follow the largest.
    if a.abs() >= 65_520.0 {
        return if a > 0.0 { f16::INFINITY } else { f16::NEG_INFINITY };
    }
    let all = (0..0x7c00).map(|bits| f16::from_bits(bits | if a.is_sign_negative() { 0x8000 } else { 0 }));
    let further = |h: &f16, g: &f16| {
        let distances = (h.to_f64() - a).abs().total_cmp(&(g.to_f64() - a).abs());
        distances.then((h.to_bits() & 1).cmp(&(g.to_bits() & 1)))
    };
    all.min_by(further).unwrap()
}

pub fn conversions_from_floats() {
    one("cvt.f64.f32", |a: f32| f64::from(a));
    one("cvt.rn.f32.f64", |a: f64| a as f32);
    one("cvt.f32.f16", |a: f16| a.to_f32());
    one("cvt.f64.f16", |a: f16| a.to_f64());
    one("cvt.rn.f16.f32", f16::from_f32);
    one("cvt.rn.f16.f64", nearest_half);
    two("cvt.rn.f16x2.f32", |a: f32, b: f32| {
        u32::from(f16::from_f32(a).expected() as u16) << 16 | u32::from(f16::from_f32(b).expected() as u16)
    });
    macro_rules! whole {
        ($($mode:literal $f:ident),*) => {$(
            one(concat!("cvt.", $mode, ".f32.f32"), |a: f32| a.$f());
            one(concat!("cvt.", $mode, ".f64.f64"), |a: f64| a.$f());
            one(concat!("cvt.", $mode, ".f16.f16"), |a: f16| f16::from_f32(a.to_f32().$f()));
        )*};
    }
    whole!("rni" round_ties_even, "rzi" trunc, "rmi" floor, "rpi" ceil);
    // A NaN is zero, or the top bit alone where one side has 64 bits.
    macro_rules! clamped {
        ($($mode:literal $f:ident: $to:ident $name:literal),*) => {$(
            one(concat!("cvt.", $mode, ".", $name, ".f32"), |a: f32| {
                if a.is_nan() && $to::BITS == 64 { 1 << 63 } else { a.$f() as $to }
            });
            one(concat!("cvt.", $mode, ".", $name, ".f16"), |a: f16| {
                if a.is_nan() && $to::BITS == 64 { 1 << 63 } else { a.to_f32().$f() as $to }
            });
            one(concat!("cvt.", $mode, ".", $name, ".f64"), |a: f64| {
                if a.is_nan() { 1 << ($to::BITS - 1) } else { a.$f() as $to }
            });
        )*};
    }
    clamped!("rzi" trunc: i16 "s16", "rzi" trunc: u16 "u16", "rzi" trunc: i32 "s32", "rzi" trunc: u32 "u32");
    clamped!("rzi" trunc: i64 "s64", "rzi" trunc: u64 "u64", "rni" round_ties_even: i32 "s32", "rni" round_ties_even: i64 "s64");
    clamped!("rmi" floor: i32 "s32", "rpi" ceil: i32 "s32", "rmi" floor: i64 "s64");
}
