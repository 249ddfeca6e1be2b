//! Every instruction that computes, against values computed here, for all combinations of edge cases.

mod common;

use common::{Arg, Machine};
use half::f16;
use sumsq_ptx::Order;

/// Values of a type of PTX.
trait Value: Copy + std::fmt::Debug {
    /// Bits of its register; 1 for predicates.
    const REGISTER: u32;
    fn edges() -> Vec<Self>;
    fn to_word(self) -> u64;
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

/// The register of a number in a kernel, by its bits.
fn register(bits: u32, n: usize) -> String {
    match bits {
        1 => format!("%p{n}"),
        16 => format!("%rs{n}"),
        32 => format!("%r{n}"),
        _ => format!("%rd{n}"),
    }
}

/// A kernel whose thread loads a word per argument from `a`, executes an instruction and stores the result's word to `b`.
fn text(op: &str, arguments: &[u32], result: u32) -> String {
    let mut body = String::new();
    let count = arguments.len();
    body += &format!("mul.wide.u32 %rd20, %r3, {};\nadd.s64 %rd21, %rd1, %rd20;\n", 8 * count);
    for (k, bits) in arguments.iter().enumerate() {
        let to = register(*bits, k + 4);
        body += &match bits {
            1 => format!("ld.global.b8 %rs1, [%rd21+{}];\nsetp.ne.b16 {to}, %rs1, 0;\n", 8 * k),
            bits => format!("ld.global.b{bits} {to}, [%rd21+{}];\n", 8 * k),
        };
    }
    let names: Vec<String> = arguments.iter().enumerate().map(|(k, bits)| register(*bits, k + 4)).collect();
    body += &format!("{op} {}, {};\n", register(result, 8), names.join(", "));
    body += "mul.wide.u32 %rd20, %r3, 8;\nadd.s64 %rd21, %rd2, %rd20;\n";
    body += &match result {
        1 => "selp.b64 %rd22, 1, 0, %p8;\nst.global.b64 [%rd21], %rd22;\n".to_string(),
        bits => format!("st.global.b64 [%rd21], 0;\nst.global.b{bits} [%rd21], {};\n", register(result, 8)),
    };
    common::kernel(64, "", &body)
}

/// Runs an instruction for rows of words, one for each argument.
fn run(op: &str, arguments: &[u32], result: u32, rows: &[Vec<u64>]) -> Vec<u64> {
    let mut m = Machine::new(&text(op, arguments, result));
    let blocks = rows.len().div_ceil(64);
    let mut words: Vec<u64> = rows.concat();
    words.resize(64 * blocks * arguments.len(), 0);
    // What is no row does not divide by zero.
    words[rows.len() * arguments.len()..].fill(1);
    let a = m.upload(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>());
    let b = m.unwritten(8 * 64 * blocks);
    let done = m.launch("k", blocks as u32, 64, &[Arg::Pointer(a), Arg::Pointer(b)], Order::Shuffled(3));
    done.unwrap_or_else(|e| panic!("{op}: {e}"));
    m.download(b, 8 * rows.len()).chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect()
}

/// A result as it is compared: NaNs of halves and singles are the canonical ones, those of doubles all the same.
trait Result_: Value {
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
}
impl Result_ for f32 {
    fn expected(self) -> u64 {
        if self.is_nan() { 0x7fff_ffff } else { self.to_word() }
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

fn one<A: Value, R: Result_>(op: &str, f: impl Fn(A) -> R) {
    let edges = A::edges();
    let rows: Vec<Vec<u64>> = edges.iter().map(|a| vec![a.to_word()]).collect();
    for (a, came) in edges.iter().zip(run(op, &[A::REGISTER], R::REGISTER, &rows)) {
        assert_eq!(R::came(came), f(*a).expected(), "{op} {a:?}, came {:?}", R::of_word(came));
    }
}

fn two<A: Value, B: Value, R: Result_>(op: &str, f: impl Fn(A, B) -> R) {
    two_where(op, |_, _| true, f);
}

fn two_where<A: Value, B: Value, R: Result_>(op: &str, ok: impl Fn(A, B) -> bool, f: impl Fn(A, B) -> R) {
    let pairs: Vec<(A, B)> =
        A::edges().iter().flat_map(|a| B::edges().into_iter().map(move |b| (*a, b))).collect();
    let pairs: Vec<(A, B)> = pairs.into_iter().filter(|(a, b)| ok(*a, *b)).collect();
    let rows: Vec<Vec<u64>> = pairs.iter().map(|(a, b)| vec![a.to_word(), b.to_word()]).collect();
    for ((a, b), came) in pairs.iter().zip(run(op, &[A::REGISTER, B::REGISTER], R::REGISTER, &rows)) {
        assert_eq!(R::came(came), f(*a, *b).expected(), "{op} {a:?} {b:?}, came {:?}", R::of_word(came));
    }
}

fn three<A: Value, B: Value, C: Value, R: Result_>(op: &str, f: impl Fn(A, B, C) -> R) {
    let mut all = vec![];
    for a in A::edges() {
        for b in B::edges() {
            all.extend(C::edges().into_iter().map(|c| (a, b, c)));
        }
    }
    let rows: Vec<Vec<u64>> =
        all.iter().map(|(a, b, c)| vec![a.to_word(), b.to_word(), c.to_word()]).collect();
    let registers = [A::REGISTER, B::REGISTER, C::REGISTER];
    for ((a, b, c), came) in all.iter().zip(run(op, &registers, R::REGISTER, &rows)) {
        assert_eq!(
            R::came(came),
            f(*a, *b, *c).expected(),
            "{op} {a:?} {b:?} {c:?}, came {:?}",
            R::of_word(came)
        );
    }
}

#[test]
fn whole_numbers() {
    macro_rules! of {
        ($($t:ident $name:literal $bits:literal),*) => {$(
            two(concat!("add.", $name), |a: $t, b: $t| a.wrapping_add(b));
            two(concat!("sub.", $name), |a: $t, b: $t| a.wrapping_sub(b));
            two(concat!("mul.lo.", $name), |a: $t, b: $t| (a as i128).wrapping_mul(b as i128) as $t);
            two(concat!("mul.hi.", $name), |a: $t, b: $t| ((a as i128 * b as i128) >> $bits) as $t);
            three(concat!("mad.lo.", $name), |a: $t, b: $t, c: $t| (a as i128).wrapping_mul(b as i128).wrapping_add(c as i128) as $t);
            two_where(concat!("div.", $name), |_, b| b != 0, |a: $t, b: $t| (a as i128 / b as i128) as $t);
            two_where(concat!("rem.", $name), |_, b| b != 0, |a: $t, b: $t| (a as i128 % b as i128) as $t);
            two(concat!("min.", $name), |a: $t, b: $t| if a < b { a } else { b });
            two(concat!("max.", $name), |a: $t, b: $t| if a > b { a } else { b });
            two(concat!("setp.eq.", $name), |a: $t, b: $t| a == b);
            two(concat!("setp.ne.", $name), |a: $t, b: $t| a != b);
            two(concat!("setp.lt.", $name), |a: $t, b: $t| a < b);
            two(concat!("setp.le.", $name), |a: $t, b: $t| a <= b);
            two(concat!("setp.gt.", $name), |a: $t, b: $t| a > b);
            two(concat!("setp.ge.", $name), |a: $t, b: $t| a >= b);
            // The distance is clamped, not wrapped.
            two(concat!("shr.", $name), |a: $t, n: u32| (a as i128 >> n.min(100)) as $t);
        )*};
    }
    of!(i16 "s16" 16, u16 "u16" 16, i32 "s32" 32, u32 "u32" 32, i64 "s64" 64);
    two("mul.hi.u64", |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64);
    two("add.u64", |a: u64, b: u64| a.wrapping_add(b));
    two("min.u64", |a: u64, b: u64| a.min(b));
    two("setp.lt.u64", |a: u64, b: u64| a < b);
    two("shr.u64", |a: u64, n: u32| a.checked_shr(n).unwrap_or(0));
    two_where("div.u64", |_, b| b != 0, |a: u64, b: u64| a / b);
    two_where("rem.u64", |_, b| b != 0, |a: u64, b: u64| a % b);
    two("mul.wide.s16", |a: i16, b: i16| i32::from(a) * i32::from(b));
    two("mul.wide.u16", |a: u16, b: u16| u32::from(a) * u32::from(b));
    two("mul.wide.s32", |a: i32, b: i32| i64::from(a) * i64::from(b));
    two("mul.wide.u32", |a: u32, b: u32| u64::from(a) * u64::from(b));
    three("mad.wide.s32", |a: i32, b: i32, c: i64| (i128::from(a) * i128::from(b) + i128::from(c)) as i64);
    three("mad.wide.u32", |a: u32, b: u32, c: u64| (u128::from(a) * u128::from(b) + u128::from(c)) as u64);
    three("mad.hi.s32", |a: i32, b: i32, c: i32| {
        ((i64::from(a) * i64::from(b)) >> 32).wrapping_add(i64::from(c)) as i32
    });
    three("mad.hi.u32", |a: u32, b: u32, c: u32| {
        ((u64::from(a) * u64::from(b)) >> 32).wrapping_add(u64::from(c)) as u32
    });
    one("neg.s16", |a: i16| a.wrapping_neg());
    one("neg.s32", |a: i32| a.wrapping_neg());
    one("neg.s64", |a: i64| a.wrapping_neg());
    two("min.relu.s32", |a: i32, b: i32| a.min(b).max(0));
    two("max.relu.s32", |a: i32, b: i32| a.max(b).max(0));
    one("abs.s16", |a: i16| a.unsigned_abs());
    one("abs.s32", |a: i32| a.unsigned_abs());
    one("abs.s64", |a: i64| a.unsigned_abs());
}

#[test]
fn bits() {
    macro_rules! of {
        ($($t:ident $name:literal),*) => {$(
            two(concat!("and.", $name), |a: $t, b: $t| a & b);
            two(concat!("or.", $name), |a: $t, b: $t| a | b);
            two(concat!("xor.", $name), |a: $t, b: $t| a ^ b);
            one(concat!("not.", $name), |a: $t| !a);
            one(concat!("mov.", $name), |a: $t| a);
            three(concat!("selp.", $name), |a: $t, b: $t, p: bool| if p { a } else { b });
            two(concat!("shl.", $name), |a: $t, n: u32| (u128::from(a) << n.min(64)) as $t);
            two(concat!("setp.eq.", $name), |a: $t, b: $t| a == b);
        )*};
    }
    of!(u16 "b16", u32 "b32", u64 "b64");
    three("selp.f32", |a: f32, b: f32, p: bool| (if p { a } else { b }).to_bits());
    two("and.pred", |a: bool, b: bool| a && b);
    two("or.pred", |a: bool, b: bool| a || b);
    two("xor.pred", |a: bool, b: bool| a != b);
    one("not.pred", |a: bool| !a);
    one("mov.pred", |a: bool| a);
    one("popc.b32", |a: u32| (0..32).filter(|k| a >> k & 1 == 1).count() as u32);
    one("popc.b64", |a: u64| (0..64).filter(|k| a >> k & 1 == 1).count() as u32);
    one("clz.b32", |a: u32| (0..32).find(|k| a >> (31 - k) & 1 == 1).unwrap_or(32));
    one("clz.b64", |a: u64| (0..64).find(|k| a >> (63 - k) & 1 == 1).unwrap_or(64));
    one("brev.b32", |a: u32| (0..32).fold(0, |r, k| r | (a >> k & 1) << (31 - k)));
    one("brev.b64", |a: u64| (0..64).fold(0, |r, k| r | (a >> k & 1) << (63 - k)));
    one("bfind.u32", |a: u32| (0..32).rev().find(|k| a >> k & 1 == 1).unwrap_or(u32::MAX));
    one("bfind.u64", |a: u64| (0..64).rev().find(|k| a >> k & 1 == 1).unwrap_or(u32::MAX));
    one("bfind.s32", |a: i32| (0..32).rev().find(|k| (a >> k & 1 == 1) != (a < 0)).unwrap_or(u32::MAX));
    one("bfind.s64", |a: i64| (0..64).rev().find(|k| (a >> k & 1 == 1) != (a < 0)).unwrap_or(u32::MAX));
    three("shf.l.wrap.b32", |a: u32, b: u32, n: u32| {
        let n = n % 32;
        if n == 0 { b } else { b << n | a >> (32 - n) }
    });
    three("shf.r.wrap.b32", |a: u32, b: u32, n: u32| {
        let n = n % 32;
        if n == 0 { a } else { b << (32 - n) | a >> n }
    });
    three("shf.l.clamp.b32", |a: u32, b: u32, n: u32| match n {
        0 => b,
        1..32 => b << n | a >> (32 - n),
        _ => a,
    });
    three("shf.r.clamp.b32", |a: u32, b: u32, n: u32| match n {
        0 => a,
        1..32 => b << (32 - n) | a >> n,
        _ => b,
    });
}

#[test]
fn fields_of_bits() {
    // Values on both sides are extended so far that no field runs past them.
    let field =
        |wide: i128, at: u32, n: u32| (wide >> (at & 255).min(100)) & ((1i128 << (n & 255).min(64)) - 1);
    three("bfe.u32", |a: u32, at: u32, n: u32| field(i128::from(a), at, n) as u32);
    three("bfe.u64", |a: u64, at: u32, n: u32| field(i128::from(a), at, n) as u64);
    three("bfe.s32", |a: i32, at: u32, n: u32| {
        let n = n & 255;
        let shifted = (i128::from(a) >> (at & 255).min(100)) as i32;
        match n {
            0 => 0,
            1..32 => shifted << (32 - n) >> (32 - n),
            _ => shifted,
        }
    });
    three("bfe.s64", |a: i64, at: u32, n: u32| {
        let n = n & 255;
        let shifted = (i128::from(a) >> (at & 255).min(100)) as i64;
        match n {
            0 => 0,
            1..64 => shifted << (64 - n) >> (64 - n),
            _ => shifted,
        }
    });
    three("prmt.b32", |a: u32, b: u32, digits: u32| {
        let hex = format!("{b:08x}{a:08x}");
        let byte = |digit: u32| {
            let at = 14 - 2 * (digit as usize & 7);
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            if digit & 8 == 0 { byte } else { if byte < 128 { 0 } else { 255 } }
        };
        (0..4).fold(0, |all, k| all | u32::from(byte(digits >> (4 * k) & 15)) << (8 * k))
    });
    let rows = |bits: u32| {
        let mut rows = vec![];
        for at in [0, 1, 5, 31, 32, 40, 63, 64, 256] {
            for n in [0, 1, 4, 31, 32, 33, 64, 255] {
                let all = u64::MAX >> (64 - bits);
                rows.push(vec![0x1234_5678_9abc_def5 & all, 0xfedc_ba98_7654_3210 & all, at, n]);
            }
        }
        rows
    };
    for bits in [32, 64] {
        let rows = rows(bits);
        let came = run(&format!("bfi.b{bits}"), &[bits, bits, 32, 32], bits, &rows);
        for (row, came) in rows.iter().zip(came) {
            let (at, n) = (row[2] as u32 & 255, row[3] as u32 & 255);
            let mask = if at >= bits {
                0
            } else {
                (((1u128 << n.min(64)) - 1) << at) as u64 & u64::MAX >> (64 - bits)
            };
            let moved = (u128::from(row[0]) << at.min(64)) as u64;
            assert_eq!(came, row[1] & !mask | moved & mask, "bfi.b{bits} {row:x?}");
        }
    }
    let rows: Vec<Vec<u64>> =
        (0..256).map(|table| vec![0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa, table]).collect();
    for (row, came) in rows.iter().zip(run("lop3.b32", &[32; 4], 32, &rows)) {
        assert_eq!(came, row[3] * 0x0101_0101, "the table itself comes back");
    }
}

#[test]
fn singles_and_doubles() {
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
            one(concat!("neg.", $name), |a: $t| a.to_bits() ^ $sign);
            one(concat!("abs.", $name), |a: $t| a.to_bits() & !$sign);
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
            one(concat!("testp.normal.", $name), |a: $t| a.abs() >= $t::MIN_POSITIVE && a.abs() < $t::INFINITY);
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

#[test]
fn sums_of_two_words() {
    let whole = |a: u64, b: u64, add: bool| {
        let text = common::kernel(
            64,
            "",
            &format!(
                "ld.global.b64 %rd10, [%rd1]; ld.global.b64 %rd11, [%rd1+8]; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
mov.b64 {{%r10, %r11}}, %rd10; mov.b64 {{%r12, %r13}}, %rd11;
{0}.cc.u32 %r14, %r10, %r12; {0}c.u32 %r15, %r11, %r13;
mov.b64 %rd12, {{%r14, %r15}}; st.global.b64 [%rd2], %rd12;
{0}.cc.s64 %rd13, %rd10, %rd11; {0}c.cc.s64 %rd14, %rd10, %rd11; {0}c.s64 %rd15, 0, 0;
st.global.b64 [%rd2+8], %rd13; st.global.b64 [%rd2+16], %rd14; st.global.b64 [%rd2+24], %rd15;",
                if add { "add" } else { "sub" }
            ),
        );
        let mut m = Machine::new(&text);
        let (x, y) = (m.upload(&[a.to_le_bytes(), b.to_le_bytes()].concat()), m.unwritten(32));
        m.launch("k", 1, 64, &[Arg::Pointer(x), Arg::Pointer(y)], Order::Ascending).unwrap();
        let words = m.download(y, 32);
        let words: Vec<u64> =
            words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap())).collect();
        (words[0], u128::from(words[1]) | u128::from(words[2]) << 64, words[3])
    };
    for a in u64::edges() {
        for b in [0, 1, 0xffff_ffff, 1 << 32, u64::MAX, u64::MAX - 1, 1 << 63, a] {
            let twice = |w: u64| u128::from(w) << 64 | u128::from(w);
            let (sum, carry) = twice(a).overflowing_add(twice(b));
            assert_eq!(whole(a, b, true), (a.wrapping_add(b), sum, carry.into()), "{a:#x} + {b:#x}");
            let (difference, borrow) = twice(a).overflowing_sub(twice(b));
            let last = 0u64.wrapping_sub(borrow.into());
            assert_eq!(whole(a, b, false), (a.wrapping_sub(b), difference, last), "{a:#x} - {b:#x}");
        }
    }
}

/// A half from a whole multiple of 2^-48, rounded to the nearest, ties to even.
fn half_of(exact: i128) -> f16 {
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

#[test]
fn halves() {
    let one_half = f16::from_f32(1.0);
    two("add.rn.f16", |a: f16, b: f16| fused(a, one_half, b));
    two("sub.rn.f16", |a: f16, b: f16| fused(a, one_half, -b));
    two("mul.rn.f16", |a: f16, b: f16| {
        // The sign of a product of zeros is its own.
        let zero = if a.is_sign_negative() == b.is_sign_negative() { f16::ZERO } else { f16::NEG_ZERO };
        fused(a, b, zero)
    });
    three("fma.rn.f16", fused);
    one("neg.f16", |a: f16| a.to_bits() ^ 0x8000);
    one("abs.f16", |a: f16| a.to_bits() & 0x7fff);
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

#[test]
fn pairs_of_halves() {
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

#[test]
fn pairs_of_singles() {
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

#[test]
fn conversions_between_whole_numbers() {
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

#[test]
fn conversions_from_floats() {
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
