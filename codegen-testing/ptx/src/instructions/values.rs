//! Values of the types of PTX: edge cases, and how results are compared.

use half::f16;

/// Values of a type of PTX.
pub trait Value: Copy + std::fmt::Debug {
    /// Bits of its register; 1 for predicates.
    const REGISTER: u32;
    /// Edge cases.
    fn edges() -> Vec<Self>;
    /// Its bits.
    fn to_word(self) -> u64;
    /// The value of such bits.
    fn of_word(word: u64) -> Self;
}

macro_rules! integers {
    ($($t:ty: $u:ty = $bits:literal),*) => { $(impl Value for $t {
        const REGISTER: u32 = if $bits == 8 { 16 } else { $bits };
        fn edges() -> Vec<$t> {
            let mut all = vec![0, 1, 2, 3, 7, 15, 31, 32, 33, 63, 64, 100, <$t>::MAX, <$t>::MAX - 1, <$t>::MIN, <$t>::MIN + 1];
            all.extend([0x1234_5678_9abc_def0u64 as $t, 0xfedc_ba98_7654_3210u64 as $t, (0u64.wrapping_sub(7)) as $t]);
            all
        }
        fn to_word(self) -> u64 {
            self as $u as u64
        }
        fn of_word(word: u64) -> $t {
            word as $t
        }
    })* };
}
integers!(u8: u8 = 8, i8: u8 = 8, u16: u16 = 16, i16: u16 = 16, u32: u32 = 32, i32: u32 = 32, u64: u64 = 64, i64: u64 = 64);

impl Value for bool {
    const REGISTER: u32 = 1;
    fn edges() -> Vec<bool> {
        vec![false, true]
    }
    fn to_word(self) -> u64 {
        self.into()
    }
    fn of_word(word: u64) -> bool {
        word != 0
    }
}

impl Value for f32 {
    const REGISTER: u32 = 32;
    fn edges() -> Vec<f32> {
        let (tiny, small) = (f32::from_bits(1), f32::MIN_POSITIVE);
        let mut all = vec![
            0.0,
            0.5,
            1.0,
            1.5,
            2.5,
            3.0,
            1.0 / 3.0,
            16_777_217.0,
            2_147_483_648.0,
            1e10,
            1e-20,
            f32::MAX,
        ];
        all.extend([
            tiny,
            small,
            f32::from_bits(0x007f_ffff),
            65_504.0,
            65_520.0,
            1.000_488_3,
            f32::INFINITY,
            255.5,
            9.3e18,
        ]);
        all.iter().flat_map(|v| [*v, -*v]).chain([f32::NAN]).collect()
    }
    fn to_word(self) -> u64 {
        self.to_bits().into()
    }
    fn of_word(word: u64) -> f32 {
        f32::from_bits(word as u32)
    }
}

impl Value for f64 {
    const REGISTER: u32 = 64;
    fn edges() -> Vec<f64> {
        let mut all: Vec<f64> = f32::edges().into_iter().filter(|v| !v.is_nan()).map(f64::from).collect();
        all.extend([
            1e300,
            1e-310,
            f64::MAX,
            f64::MIN_POSITIVE,
            0.1,
            1.0 + f64::EPSILON,
            9_007_199_254_740_993.0,
            -1.8e19,
        ]);
        all.push(f64::NAN);
        all
    }
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    fn of_word(word: u64) -> f64 {
        f64::from_bits(word)
    }
}

impl Value for f16 {
    const REGISTER: u32 = 16;
    fn edges() -> Vec<f16> {
        let all = [
            0, 1, 0x03ff, 0x0400, 0x3555, 0x3800, 0x3c00, 0x3c01, 0x3e00, 0x4100, 0x6400, 0x7bff, 0x7c00,
            0x5c08, 0x1001,
        ];
        all.into_iter().flat_map(|b: u16| [b, b | 0x8000]).chain([0x7e00]).map(f16::from_bits).collect()
    }
    fn to_word(self) -> u64 {
        self.to_bits().into()
    }
    fn of_word(word: u64) -> f16 {
        f16::from_bits(word as u16)
    }
}

/// A result as it is compared: all NaNs of a type are one, since machines do not agree on which of them an instruction gives.
pub trait Result_: Value {
    fn expected(self) -> u64 {
        self.to_word()
    }
    fn came(word: u64) -> u64 {
        word
    }
}
impl Result_ for bool {}
impl Result_ for u16 {}
impl Result_ for i16 {}
impl Result_ for u32 {}
impl Result_ for i32 {}
impl Result_ for u64 {}
impl Result_ for i64 {}
impl Result_ for f16 {
    fn expected(self) -> u64 {
        if self.is_nan() { 0x7fff } else { self.to_word() }
    }
    fn came(word: u64) -> u64 {
        f16::of_word(word).expected()
    }
}
impl Result_ for f32 {
    fn expected(self) -> u64 {
        if self.is_nan() { 0x7fff_ffff } else { self.to_word() }
    }
    fn came(word: u64) -> u64 {
        f32::of_word(word).expected()
    }
}
impl Result_ for f64 {
    fn expected(self) -> u64 {
        if self.is_nan() { 0x7ff8 << 48 } else { self.to_word() }
    }
    fn came(word: u64) -> u64 {
        f64::from_bits(word).expected()
    }
}
