//! Singles and doubles.

use super::values::Value;
use super::{one, run, three, two};

pub fn singles_and_doubles() {
    fn unordered<T: PartialOrd>(a: T, b: T) -> bool {
        a.partial_cmp(&b).is_none()
    }
    macro_rules! of {
        ($($t:ident $name:literal $bits:ident $sign:expr),*) => {$(
            two(concat!("add.rn.", $name), |a: $t, b: $t| a + b);
            two(concat!("sub.rn.", $name), |a: $t, b: $t| a - b);
            two(concat!("mul.rn.", $name), |a: $t, b: $t| a * b);
            two(concat!("div.rn.", $name), |a: $t, b: $t| a / b);
            three(concat!("fma.rn.", $name), |a: $t, b: $t, c: $t| a.mul_add(b, c));
            one(concat!("rcp.rn.", $name), |a: $t| 1.0 / a);
            one(concat!("sqrt.rn.", $name), |a: $t| a.sqrt());
            one(concat!("neg.", $name), |a: $t| -a);
            one(concat!("abs.", $name), |a: $t| a.abs());
            two(concat!("copysign.", $name), |a: $t, b: $t| if a.is_sign_negative() { b.to_bits() | $sign } else { b.to_bits() & !$sign });
            two(concat!("min.", $name), |a: $t, b: $t| if a == b && a == 0.0 { $t::from_bits(a.to_bits() | b.to_bits()) } else { a.min(b) });
            two(concat!("max.", $name), |a: $t, b: $t| if a == b && a == 0.0 { $t::from_bits(a.to_bits() & b.to_bits()) } else { a.max(b) });
            two(concat!("setp.eq.", $name), |a: $t, b: $t| a == b);
            two(concat!("setp.ne.", $name), |a: $t, b: $t| !unordered(a, b) && a != b);
            two(concat!("setp.lt.", $name), |a: $t, b: $t| a < b);
            two(concat!("setp.le.", $name), |a: $t, b: $t| a <= b);
            two(concat!("setp.gt.", $name), |a: $t, b: $t| a > b);
            two(concat!("setp.ge.", $name), |a: $t, b: $t| a >= b);
            two(concat!("setp.equ.", $name), |a: $t, b: $t| unordered(a, b) || a == b);
            two(concat!("setp.neu.", $name), |a: $t, b: $t| a != b);
            two(concat!("setp.ltu.", $name), |a: $t, b: $t| unordered(a, b) || a < b);
            two(concat!("setp.leu.", $name), |a: $t, b: $t| unordered(a, b) || a <= b);
            two(concat!("setp.gtu.", $name), |a: $t, b: $t| unordered(a, b) || a > b);
            two(concat!("setp.geu.", $name), |a: $t, b: $t| unordered(a, b) || a >= b);
            two(concat!("setp.num.", $name), |a: $t, b: $t| !unordered(a, b));
            two(concat!("setp.nan.", $name), |a: $t, b: $t| unordered(a, b));
            one(concat!("testp.finite.", $name), |a: $t| a - a == 0.0);
            one(concat!("testp.infinite.", $name), |a: $t| a.abs() == $t::INFINITY);
            one(concat!("testp.number.", $name), |a: $t| a.abs() <= $t::INFINITY);
            one(concat!("testp.notanumber.", $name), |a: $t| !(a.is_finite() || a.is_infinite()));
            one(concat!("testp.normal.", $name), |a: $t| a == 0.0 || a.abs() >= $t::MIN_POSITIVE && a.abs() < $t::INFINITY);
            one(concat!("testp.subnormal.", $name), |a: $t| a != 0.0 && a.abs() < $t::MIN_POSITIVE);
            one(concat!("mov.", $name), |a: $t| a.to_bits());
        )*};
    }
    of!(f32 "f32" u32 1u32 << 31, f64 "f64" u64 1u64 << 63);
    two("min.NaN.f32", |a: f32, b: f32| match (a, b) {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        (0.0, 0.0) => f32::from_bits(a.to_bits() | b.to_bits()),
        _ => a.min(b),
    });
    two("max.NaN.f32", |a: f32, b: f32| match (a, b) {
        _ if a.is_nan() || b.is_nan() => f32::NAN,
        (0.0, 0.0) => f32::from_bits(a.to_bits() & b.to_bits()),
        _ => a.max(b),
    });
}

pub fn pairs_of_singles() {
    let values: Vec<u64> = f32::edges().into_iter().map(Value::to_word).collect();
    let pair = |k: usize| values[k % values.len()] | values[k * 7 % values.len()] << 32;
    let rows: Vec<Vec<u64>> = (0..200).map(|k| vec![pair(k), pair(k / 3), pair(k + 11)]).collect();
    for (op, arity) in [("add.rn.f32", 2), ("sub.rn.f32", 2), ("mul.rn.f32", 2), ("fma.rn.f32", 3)] {
        let rows: Vec<Vec<u64>> = rows.iter().map(|r| r[..arity].to_vec()).collect();
        let came = run(&format!("{op}x2"), &vec![64; arity], 64, &rows);
        for shift in [0, 32] {
            let parts: Vec<Vec<u64>> =
                rows.iter().map(|r| r.iter().map(|w| w >> shift & 0xffff_ffff).collect()).collect();
            let singles = run(op, &vec![32; arity], 32, &parts);
            assert!(
                came.iter().zip(singles).all(|(came, single)| came >> shift & 0xffff_ffff == single),
                "{op}"
            );
        }
    }
}
