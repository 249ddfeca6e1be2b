//! Arithmetic of floats.

use super::word::half_of;
use super::{Arity, Word, both_halves, both_words, floats, op};
use half::f16;

/// Floats with operations that round once, to nearest even.
trait Float: Word + PartialOrd {
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn fma(self, b: Self, c: Self) -> Self;
    fn is_nan(self) -> bool;
    fn is_negative(self) -> bool;
    fn nan() -> Self;
}

macro_rules! native {
    ($t:ty, $nan:expr) => {
        impl Float for $t {
            fn add(self, b: Self) -> Self {
                self + b
            }
            fn sub(self, b: Self) -> Self {
                self - b
            }
            fn mul(self, b: Self) -> Self {
                self * b
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn is_nan(self) -> bool {
                <$t>::is_nan(self)
            }
            fn is_negative(self) -> bool {
                self.is_sign_negative()
            }
            fn nan() -> Self {
                <$t>::from_bits($nan)
            }
        }
    };
}
native!(f32, 0x7fff_ffff);
native!(f64, 0x7ff8_0000_0000_0000);

impl Float for f16 {
    // Sums and products of halves are exact in double precision.
    fn add(self, b: Self) -> Self {
        half_of(self.to_f64() + b.to_f64())
    }
    fn sub(self, b: Self) -> Self {
        half_of(self.to_f64() - b.to_f64())
    }
    fn mul(self, b: Self) -> Self {
        half_of(self.to_f64() * b.to_f64())
    }
    fn fma(self, b: Self, c: Self) -> Self {
        half_of(sum_to_odd(self.to_f64() * b.to_f64(), c.to_f64()))
    }
    fn is_nan(self) -> bool {
        f16::is_nan(self)
    }
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    fn nan() -> Self {
        f16::from_bits(0x7fff)
    }
}

/// A sum rounded to odd, which may be rounded again to fewer bits as if it were exact.
fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let of_b = sum - a;
    let error = (a - (sum - of_b)) + (b - of_b);
    if error == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    if (error > 0.0) == (sum > 0.0) {
        f64::from_bits(sum.to_bits() + 1)
    } else {
        f64::from_bits(sum.to_bits() - 1)
    }
}

fn minimum<T: Float>(a: T, b: T) -> T {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => T::nan(),
        (true, false) => b,
        (false, true) => a,
        _ if a < b || a == b && a.is_negative() => a,
        _ => b,
    }
}

fn maximum<T: Float>(a: T, b: T) -> T {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => T::nan(),
        (true, false) => b,
        (false, true) => a,
        _ if a > b || a == b && !a.is_negative() => a,
        _ => b,
    }
}

/// The function of an instruction on floats.
pub fn function(parts: &[&str]) -> Option<Arity> {
    of_halves(parts).or_else(|| of_words(parts))
}

/// Instructions on pairs, or on halves and singles.
fn of_halves(parts: &[&str]) -> Option<Arity> {
    Some(match parts {
        ["add", "rn", "f32", "f16"] => (|a, b, _| (f16::get(a).to_f32() + f32::get(b)).put(), 2),
        ["sub", "rn", "f32", "f16"] => (|a, b, _| (f16::get(a).to_f32() - f32::get(b)).put(), 2),
        ["fma", "rn", "f32", "f16"] => {
            (|a, b, c| f16::get(a).to_f32().mul_add(f16::get(b).to_f32(), f32::get(c)).put(), 3)
        }
        ["add", "rn", "f16x2"] => (both_halves!(|a, b, _| Float::add(f16::get(a), f16::get(b)).put()), 2),
        ["sub", "rn", "f16x2"] => (both_halves!(|a, b, _| Float::sub(f16::get(a), f16::get(b)).put()), 2),
        ["mul", "rn", "f16x2"] => (both_halves!(|a, b, _| Float::mul(f16::get(a), f16::get(b)).put()), 2),
        ["fma", "rn", "f16x2"] => {
            (both_halves!(|a, b, c| Float::fma(f16::get(a), f16::get(b), f16::get(c)).put()), 3)
        }
        ["add", "rn", "f32x2"] => (both_words!(|a, b, _| (f32::get(a) + f32::get(b)).put()), 2),
        ["sub", "rn", "f32x2"] => (both_words!(|a, b, _| (f32::get(a) - f32::get(b)).put()), 2),
        ["mul", "rn", "f32x2"] => (both_words!(|a, b, _| (f32::get(a) * f32::get(b)).put()), 2),
        ["fma", "rn", "f32x2"] => {
            (both_words!(|a, b, c| f32::get(a).mul_add(f32::get(b), f32::get(c)).put()), 3)
        }
        ["min", "f16x2"] => (both_halves!(|a, b, _| minimum(f16::get(a), f16::get(b)).put()), 2),
        ["max", "f16x2"] => (both_halves!(|a, b, _| maximum(f16::get(a), f16::get(b)).put()), 2),
        _ => return None,
    })
}

fn of_words(parts: &[&str]) -> Option<Arity> {
    Some(match parts {
        ["add", "rn", t] => floats!(*t, |a, b| Float::add(a, b)),
        ["sub", "rn", t] => floats!(*t, |a, b| Float::sub(a, b)),
        ["mul", "rn", t] => floats!(*t, |a, b| Float::mul(a, b)),
        ["fma", "rn", t] => floats!(*t, |a, b, c| Float::fma(a, b, c)),
        ["div", "rn", "f32"] => op!(f32, |a, b| a / b),
        ["div", "rn", "f64"] => op!(f64, |a, b| a / b),
        ["rcp", "rn", "f32"] => op!(f32, |a| 1.0 / a),
        ["rcp", "rn", "f64"] => op!(f64, |a| 1.0 / a),
        ["sqrt", "rn", "f32"] => op!(f32, |a| a.sqrt()),
        ["sqrt", "rn", "f64"] => op!(f64, |a| a.sqrt()),
        ["min", t] => floats!(*t, |a, b| minimum(a, b)),
        ["max", t] => floats!(*t, |a, b| maximum(a, b)),
        ["min", "NaN", t] => {
            floats!(*t, |a, b| if Float::is_nan(a) || Float::is_nan(b) {
                Float::nan()
            } else {
                minimum(a, b)
            })
        }
        ["max", "NaN", t] => {
            floats!(*t, |a, b| if Float::is_nan(a) || Float::is_nan(b) {
                Float::nan()
            } else {
                maximum(a, b)
            })
        }
        // Signs of NaNs change like any other.
        ["neg", "f16"] => op!(u16, |a| a ^ 1 << 15),
        ["neg", "f16x2"] => op!(u32, |a| a ^ 0x8000_8000),
        ["neg", "f32"] => op!(u32, |a| a ^ 1 << 31),
        ["neg", "f64"] => op!(u64, |a| a ^ 1 << 63),
        ["abs", "f16"] => op!(u16, |a| a & !(1 << 15)),
        ["abs", "f16x2"] => op!(u32, |a| a & 0x7fff_7fff),
        ["abs", "f32"] => op!(u32, |a| a & !(1 << 31)),
        ["abs", "f64"] => op!(u64, |a| a & !(1 << 63)),
        // The sign of the first with the value of the second.
        ["copysign", "f32"] => op!(u32, |a, b| a & 1 << 31 | b & !(1 << 31)),
        ["copysign", "f64"] => op!(u64, |a, b| a & 1 << 63 | b & !(1 << 63)),
        _ => return None,
    })
}
