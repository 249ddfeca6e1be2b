//! Whole numbers and bits.

use super::values::Value;
use super::{kernel, one, run, run_text, three, three_where, two, two_where};

pub fn whole_numbers() {
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

pub fn bits() {
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

pub fn fields_of_bits() {
    // Places and widths of more than a byte are defined, but not by every machine in the same way.
    fn is_field<T>(_: T, at: u32, n: u32) -> bool {
        at < 256 && n < 256
    }
    // Values on both sides are extended so far that no field runs past them.
    let field =
        |wide: i128, at: u32, n: u32| (wide >> (at & 255).min(100)) & ((1i128 << (n & 255).min(64)) - 1);
    three_where("bfe.u32", is_field, |a: u32, at: u32, n: u32| field(i128::from(a), at, n) as u32);
    three_where("bfe.u64", is_field, |a: u64, at: u32, n: u32| field(i128::from(a), at, n) as u64);
    three_where("bfe.s32", is_field, |a: i32, at: u32, n: u32| {
        let n = n & 255;
        let shifted = (i128::from(a) >> (at & 255).min(100)) as i32;
        match n {
            0 => 0,
            1..32 => shifted << (32 - n) >> (32 - n),
            _ => shifted,
        }
    });
    three_where("bfe.s64", is_field, |a: i64, at: u32, n: u32| {
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
        for at in [0, 1, 5, 31, 32, 40, 63, 64, 255] {
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

pub fn sums_of_two_words() {
    let whole = |a: u64, b: u64, add: bool| {
        let text = kernel(
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
        let input = [a.to_le_bytes(), b.to_le_bytes()].concat();
        let words = run_text(&text, 1, &input, 32).expect("these are everywhere");
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
