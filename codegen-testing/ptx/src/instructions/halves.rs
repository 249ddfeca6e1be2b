//! Halves.

use super::{one, run, three, two};
use half::f16;

/// A half from a whole multiple of 2^-48, rounded to the nearest, ties to even.
pub(super) fn half_of(exact: i128) -> f16 {
    let m = exact.unsigned_abs();
    let sign = if exact < 0 { 0x8000 } else { 0 };
    // The last bit of a half is 2^-24 at least: 24 of our bits, more where ten bits below the first do not suffice.
    let top = 128 - m.leading_zeros();
    let drop = top.saturating_sub(11).max(24);
    let (kept, rest) = (m >> drop, m & ((1 << drop) - 1));
    let up = rest > 1 << (drop - 1) || rest == 1 << (drop - 1) && kept & 1 == 1;
    let kept = (kept + u128::from(up)) as u32;
    // The exponent follows from the bits that were dropped; a carry into the next one is an addition.
    let bits = if drop == 24 { kept } else { ((drop - 24) << 10) + kept };
    f16::from_bits(sign | bits.min(0x7c00) as u16)
}

/// A finite half as a multiple of 2^-24.
fn units(a: f16) -> i128 {
    (a.to_f64() * f64::from(1 << 24)) as i128
}

/// The value of a * b + c, exact until it is rounded once.
fn fused(a: f16, b: f16, c: f16) -> f16 {
    if !(a.is_finite() && b.is_finite() && c.is_finite()) {
        return f16::from_f64(a.to_f64().mul_add(b.to_f64(), c.to_f64()));
    }
    match units(a) * units(b) + (units(c) << 24) {
        0 if c.is_sign_negative()
            && a.is_sign_negative() != b.is_sign_negative()
            && units(a) * units(b) == 0 =>
        {
            f16::NEG_ZERO
        }
        exact => half_of(exact),
    }
}

pub fn halves() {
    let one_half = f16::from_f32(1.0);
    two("add.rn.f16", |a: f16, b: f16| fused(a, one_half, b));
    two("sub.rn.f16", |a: f16, b: f16| fused(a, one_half, -b));
    two("mul.rn.f16", |a: f16, b: f16| {
        // The sign of a product of zeros is its own.
        let zero = if a.is_sign_negative() == b.is_sign_negative() { f16::ZERO } else { f16::NEG_ZERO };
        fused(a, b, zero)
    });
    three("fma.rn.f16", fused);
    one("neg.f16", |a: f16| f16::from_bits(a.to_bits() ^ 0x8000));
    one("abs.f16", |a: f16| f16::from_bits(a.to_bits() & 0x7fff));
    let smaller = |a: f16, b: f16| match a.to_f32().total_cmp(&b.to_f32()) {
        _ if a.is_nan() => b,
        _ if b.is_nan() => a,
        std::cmp::Ordering::Less => a,
        _ => b,
    };
    let larger = |a: f16, b: f16| if a.is_nan() || b.is_nan() { smaller(a, b) } else { -smaller(-a, -b) };
    two("min.f16", smaller);
    two("max.f16", larger);
    two("min.NaN.f16", |a: f16, b: f16| if a.is_nan() || b.is_nan() { f16::NAN } else { smaller(a, b) });
    two("max.NaN.f16", |a: f16, b: f16| if a.is_nan() || b.is_nan() { f16::NAN } else { larger(a, b) });
    two("setp.lt.f16", |a: f16, b: f16| a.to_f32() < b.to_f32());
    two("setp.geu.f16", |a: f16, b: f16| a.is_nan() || b.is_nan() || a.to_f32() >= b.to_f32());
    two("setp.neu.f16", |a: f16, b: f16| a.to_f32() != b.to_f32());
    three("selp.b16", |a: u16, b: u16, p: bool| if p { a } else { b });
    two("add.rn.f32.f16", |a: f16, b: f32| a.to_f32() + b);
    two("sub.rn.f32.f16", |a: f16, b: f32| a.to_f32() - b);
    three("fma.rn.f32.f16", |a: f16, b: f16, c: f32| a.to_f32().mul_add(b.to_f32(), c));
}

pub fn pairs_of_halves() {
    let pairs: Vec<u64> =
        [0x3c00_4000u64, 0x0001_7bff, 0x8000_0000, 0x7e00_3555, 0xbc01_fc00, 0x1234_9abc].to_vec();
    let mut rows = vec![];
    for a in &pairs {
        for b in &pairs {
            rows.extend(pairs.iter().map(|c| vec![*a, *b, *c]));
        }
    }
    let part = |word: u64, high: bool| if high { word >> 16 & 0xffff } else { word & 0xffff };
    for (paired, single, arity) in [
        ("add.rn.f16x2", "add.rn.f16", 2),
        ("sub.rn.f16x2", "sub.rn.f16", 2),
        ("mul.rn.f16x2", "mul.rn.f16", 2),
        ("fma.rn.f16x2", "fma.rn.f16", 3),
        ("min.f16x2", "min.f16", 2),
        ("max.f16x2", "max.f16", 2),
        ("neg.f16x2", "neg.f16", 1),
        ("abs.f16x2", "abs.f16", 1),
        ("add.s16x2", "add.s16", 2),
        ("add.u16x2", "add.u16", 2),
        ("min.s16x2", "min.s16", 2),
        ("max.s16x2", "max.s16", 2),
        ("min.u16x2", "min.u16", 2),
        ("max.u16x2", "max.u16", 2),
    ] {
        let rows: Vec<Vec<u64>> = rows.iter().map(|r| r[..arity].to_vec()).collect();
        let came = run(paired, &vec![32; arity], 32, &rows);
        for high in [false, true] {
            let parts: Vec<Vec<u64>> =
                rows.iter().map(|r| r.iter().map(|w| part(*w, high)).collect()).collect();
            for ((row, came), single_came) in
                rows.iter().zip(&came).zip(run(single, &vec![16; arity], 16, &parts))
            {
                assert_eq!(part(*came, high), single_came, "{paired} {row:x?}");
            }
        }
    }
}
