//! Types of registers.

use super::Word;
use half::f16;

macro_rules! unsigned {
    ($($t:ty),*) => { $(impl Word for $t {
        fn get(word: u64) -> $t {
            word as $t
        }
        fn put(self) -> u64 {
            self as u64
        }
    })* };
}
unsigned!(u8, u16, u32, u64);

macro_rules! signed {
    ($($t:ty, $u:ty);*) => { $(impl Word for $t {
        fn get(word: u64) -> $t {
            word as $t
        }
        fn put(self) -> u64 {
            self as $u as u64
        }
    })* };
}
signed!(i8, u8; i16, u16; i32, u32; i64, u64);

impl Word for bool {
    fn get(word: u64) -> bool {
        word & 1 != 0
    }
    fn put(self) -> u64 {
        self.into()
    }
}

impl Word for f16 {
    fn get(word: u64) -> f16 {
        f16::from_bits(word as u16)
    }
    fn put(self) -> u64 {
        if self.is_nan() { 0x7fff } else { self.to_bits().into() }
    }
}

impl Word for f32 {
    fn get(word: u64) -> f32 {
        f32::from_bits(word as u32)
    }
    fn put(self) -> u64 {
        if self.is_nan() { 0x7fff_ffff } else { self.to_bits().into() }
    }
}

impl Word for f64 {
    fn get(word: u64) -> f64 {
        f64::from_bits(word)
    }
    fn put(self) -> u64 {
        self.to_bits()
    }
}

/// The half nearest to a double, rounded once: by way of a single that is rounded to odd, as a single has enough bits more than a half.
pub fn half_of(a: f64) -> f16 {
    let near = a as f32;
    let error = a - f64::from(near);
    if error == 0.0 || !near.is_finite() || near.to_bits() & 1 == 1 {
        return f16::from_f32(near);
    }
    let away = (error > 0.0) == (near > 0.0 || near == 0.0 && a > 0.0);
    f16::from_f32(f32::from_bits(if away { near.to_bits() + 1 } else { near.to_bits() - 1 }))
}
