//! Sine and cosine of arguments of any size: x = n pi/2 + r to the last place of r, by integers (Payne and Hanek, "Radian reduction for
//! trigonometric functions", 1983).
//!
//! Of x = m 2^e, m an integer of 53 bits, and 2/pi = 0.b1 b2 b3 .., what is before bit e - 1 makes multiples of 4 in m 2^e 2/pi, and changes no sine.
//! The next 192 bits are multiplied by m and give n modulo 4 and the fraction: no float is so near to a multiple of pi/2 (2^-62) that
//! they would not do.

use super::Format;
use crate::expr::{Expr, UnaryOp};
use crate::types::ScalarType;

/// Bits of 0 in front of those of 2/pi: for arguments of at least 2^13.
const ZEROS: u64 = 40;

/// Zeros, then the bits of 2/pi.
#[rustfmt::skip]
static TWO_OVER_PI: [u64; 19] = [
    0x0000000000517cc1, 0xb727220a94fe13ab, 0xe8fa9a6ee06db14a, 0xcc9e21c820ff28b1, 0xd5ef5de2b0db9237,
    0x1d2126e970032497, 0x7504e8c90e7f0ef5, 0x8e5894d39f74411a, 0xfa975da24274ce38, 0x135a2fbf209cc8eb,
    0x1cc1a99cfa4e422f, 0xc5defc941d8ffc4b, 0xffef02cc07f79788, 0xc5ad05368fb69b3f, 0x6793e584dba7a31f,
    0xb34f2ff516ba93dd, 0x63f5f2f8bd9e839c, 0xfbc529497535fdaf, 0xd88fc6ae842b0198,
];

/// n modulo 4, in the low bits, and r of x = n pi/2 + r, |r| <= pi/4, for finite x of f64 from 2^13 on.
pub(super) fn reduced(x: &Expr, format: Format) -> (Expr, Expr) {
    let word = |v: u64| format.bits(v as i64);
    let low = |e: &Expr| e.and(word(0xffff_ffff));
    let bits = format.bits_of(&x.abs());
    let first = bits.shr(word(52)) - word(1023 + 52 + 1 - ZEROS);
    let m = bits.and(word((1 << 52) - 1)).or(word(1 << 52));
    let halves = window(&first, word).into_iter().flat_map(|w| [w.shr(word(32)), low(&w)]).rev().collect();
    let [last, middle, top] = times(halves, [low(&m), m.shr(word(32))], word);

    // The first two bits are n, the others a fraction, whose first bit rounds n up.
    let two_bits_on = |a: &Expr, b: &Expr| a.shl(word(2)).or(b.shr(word(62)));
    let [hi, lo] = [two_bits_on(&top, &middle), two_bits_on(&middle, &last)];
    let up = hi.shr(word(63));
    let n = top.shr(word(62)) + up.clone();
    let all = word(0) - up.clone();
    let r = times_half_pi(&hi.xor(all.clone()), &lo.xor(all), format);
    let negative = x.lt(format.float(0.0));
    let backwards = negative.ne_(up.ne_(word(0)));
    (Expr::select(negative, word(0) - n.clone(), n), Expr::select(backwards, r.unary(UnaryOp::Neg), r))
}

/// Three words of the table from bit `first` on: a choice by each bit of the place of the word, then a shift.
fn window(first: &Expr, word: impl Fn(u64) -> Expr) -> Vec<Expr> {
    let mut all: Vec<Expr> = TWO_OVER_PI.iter().map(|&w| word(w)).collect();
    for by in [8, 4, 2, 1] {
        let set = first.and(word(64 * by as u64)).ne_(word(0));
        // The choices behind this one leave out at most `by - 1` words in front.
        all = (0..by + 3).map(|i| Expr::select(&set, &all[i + by], &all[i])).collect();
    }
    let by = first.and(word(63));
    let rest = word(63) - by.clone();
    all.windows(2).map(|w| w[0].shl(by.clone()).or(w[1].shr(word(1)).shr(rest.clone()))).collect()
}

/// The words of the product of a number, given by halves of words, the last ones first, with one of two halves, modulo 2^192.
fn times(halves: Vec<Expr>, m: [Expr; 2], word: impl Fn(u64) -> Expr) -> [Expr; 3] {
    let mut sums = vec![word(0); halves.len()];
    for (k, m) in m.iter().enumerate() {
        let mut carry = word(0);
        for (a, sum) in halves.iter().zip(&mut sums[k..]) {
            let all = a * m + (sum.clone() + carry);
            carry = all.shr(word(32));
            *sum = all.and(word(0xffff_ffff));
        }
    }
    [0, 2, 4].map(|i| sums[i + 1].shl(word(32)).or(sums[i].clone()))
}

/// (hi + lo 2^-64) 2^-64 pi/2, hi below 2^63, rounded about once.
fn times_half_pi(hi: &Expr, lo: &Expr, format: Format) -> Expr {
    let unit = 2f64.powi(-64);
    let f64_of = |e: &Expr| e.cast(ScalarType::F64);
    let [c, c_rest, _] = format.constants.half_pi.map(|part| format.float(part * unit));
    // 53 bits, and what is behind them.
    let head = f64_of(&hi.and(format.bits(!1023)));
    let tail = Expr::fma(f64_of(lo), format.float(unit), f64_of(&hi.and(format.bits(1023))));
    let sum = &head + &tail;
    let lost = (head - sum.clone()) + tail;
    let product = &sum * &c;
    let rest = Expr::fma(&sum, &c, product.unary(UnaryOp::Neg));
    product + Expr::fma(sum, c_rest, Expr::fma(lost, c, rest))
}
