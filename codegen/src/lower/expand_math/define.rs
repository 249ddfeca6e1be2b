//! The functions that are too long to be written out wherever they are used: each as an expression over its operands, of which the back
//! end makes one function a module. Their values are those of these operations one by one: they are never relaxed.
//!
//! | function | error in units in the last place (tested bound) | rest |
//! |---|---|---|
//! | tan | f32 3.5, f64 3 | all operands |
//! | asin, acos, atan, atan2 | f32 2.5, f64 2.5 | all operands; atan2 keeps signs of zeros, as IEEE 754 has them |
//! | sinh, cosh, tanh | f32 2.5, f64 2.5 | all operands, up to the last finite value |
//! | asinh, acosh, atanh | f32 3, f64 3 | all operands |
//! | log10 | f32 1, f64 1 | exact at powers of ten |
//! | pow | f32 1.5, f64 1.5 | all operands; special values as IEEE 754 has them |
//!
//! The methods are those of Muller, "Elementary Functions", 2016: a range reduction, a minimax polynomial on the relative error of the
//! whole, and pairs of floats where a rounding would be magnified (log10, pow: chapter 11; sums and products without error: Dekker, "A
//! floating-point technique for extending the available precision", 1971).

use super::{Format, any_sine, exp_of, exp_range, expand_math_expr, log_range, log1p, special_logs};
use crate::expr::{Expr, UnaryOp};
use crate::functions::Function;

/// The function of operands of one type, f32 or f64, scalar or vector; `None` of other types.
pub fn define(f: Function, operands: &[Expr]) -> Option<Expr> {
    let format = Format::of(operands.first()?.ty())?;
    let x = &operands[0];
    let value = match f {
        Function::Tan => tan(x, format),
        Function::Atan => atan2(x, &format.float(1.0), format),
        Function::Atan2 => atan2(x, operands.get(1)?, format),
        Function::Asin => asin(x, format),
        Function::Acos => acos(x, format),
        Function::Sinh => sinh(x, format),
        Function::Cosh => cosh(x, format),
        Function::Tanh => tanh(x, format),
        Function::Asinh => asinh(x, format),
        Function::Acosh => acosh(x, format),
        Function::Atanh => atanh(x, format),
        Function::Log10 => log10(x, format),
        Function::Pow => pow(x, operands.get(1)?, format),
        // Those of near operands alone would call this one for others.
        Function::Sin => return Some(any_sine(x, format, 0)),
        Function::Cos => return Some(any_sine(x, format, 1)),
        Function::Abs | Function::Sqrt | Function::Exp | Function::Log => Expr::apply(f, operands),
    };
    Some(expand_math_expr(&value))
}

fn minus(e: &Expr) -> Expr {
    e.unary(UnaryOp::Neg)
}

impl Format {
    /// The sign's bit.
    fn sign_bit(self) -> Expr {
        self.bits(1).shl(self.bits(8 * self.constants.bits.bytes() as i64 - 1))
    }

    /// `magnitude`, at least 0, with the sign of `x`.
    fn with_sign(self, magnitude: &Expr, x: &Expr) -> Expr {
        let sign = self.bits_of(x).and(self.sign_bit());
        self.float_of_bits(&self.bits_of(magnitude).or(sign))
    }

    /// True where the sign's bit is set.
    fn is_negative(self, x: &Expr) -> Expr {
        self.bits_of(x).and(self.sign_bit()).ne_(self.bits(0))
    }

    /// t + t z p(z)
    fn odd_series(self, coefficients: &[f64], t: &Expr, z: &Expr) -> Expr {
        Expr::fma(t * z, self.polynomial(coefficients, z), t)
    }
}

fn tan(x: &Expr, format: Format) -> Expr {
    Expr::select(x.eq_(format.float(0.0)), x, x.sin() / x.cos())
}

/// The angle of (x, y): with lo and hi the smaller and the larger of |x| and |y|, the angle below pi/4 is atan(lo / hi), or pi/4 + atan((lo -
/// hi) / (lo + hi)). The rest are reflections: multiples of pi/4 more or less.
fn atan2(y: &Expr, x: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let (zero, one, infinity) = (format.float(0.0), format.float(1.0), format.float(f64::INFINITY));
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay.gt(&ax);
    let (lo, hi) = (Expr::select(&steep, &ax, &ay), Expr::select(&steep, &ay, &ax));
    // inf becomes 1 beside 0 or 1; near the largest number lo + hi must not overflow. NaN stays in one of them.
    let endless = hi.eq_(&infinity);
    let scale = Expr::select(hi.gt(format.float(c.magic)), format.float(0.5), &one);
    let lo = Expr::select(&endless, Expr::select(lo.eq_(&infinity), &one, &lo * &zero), &lo * &scale);
    let hi = Expr::select(&endless, &one, &hi * &scale);
    let hi = Expr::select(y.eq_(&zero).and(x.eq_(&zero)), &one, hi);
    let near_diagonal = lo.gt(&hi * &format.float(std::f64::consts::SQRT_2 - 1.0));
    let numerator = Expr::select(&near_diagonal, &lo - &hi, &lo);
    let denominator = Expr::select(&near_diagonal, &lo + &hi, &hi);
    let t = &numerator / &denominator;
    let rest = Expr::fma(minus(&t), &denominator, &numerator) / denominator;
    let z = &t * &t;
    let r = Expr::fma(&t * &z, format.polynomial(c.atan, &z), rest);
    // The angle is m pi/4 + s (t + r), m from 0 to 4, s = 1 or -1.
    let backwards = format.is_negative(x);
    let flip = |m: Expr, of: f64, when: &Expr| Expr::select(when, format.float(of) - &m, &m);
    let m = Expr::select(&near_diagonal, &one, &zero);
    let m = flip(flip(m, 2.0, &steep), 4.0, &backwards);
    let reflected = steep.ne_(backwards);
    let signed = |v: &Expr| Expr::select(&reflected, minus(v), v);
    let (hi_part, lo_part) = (format.float(c.quarter_pi[0]), format.float(c.quarter_pi[1]));
    let (whole, whole_rest) = multiply(&m, &hi_part);
    let (sum, lost) = add(&whole, &signed(&t));
    let angle = sum + (Expr::fma(m, lo_part, signed(&r)) + (lost + whole_rest));
    format.with_sign(&angle, y)
}

/// asin |x| from a, or from s = sqrt((1 - a) / 2) as pi/2 - 2 asin s: a or s, the rest of the series behind it, and which of both.
fn asin_parts(x: &Expr, format: Format) -> (Expr, Expr, Expr) {
    let (one, half) = (format.float(1.0), format.float(0.5));
    let a = x.abs();
    let large = a.gt(&half);
    let z = Expr::select(&large, (&one - &a) * &half, &a * &a);
    let root = z.sqrt();
    let t = Expr::select(&large, &root, &a);
    // What the root lost by rounding.
    let lost = Expr::fma(minus(&root), &root, &z) / (&root + &root);
    let lost = Expr::select(large.and(z.gt(format.float(0.0))), lost, format.float(0.0));
    let tail = Expr::fma(&t * &z, format.polynomial(format.constants.asin, &z), lost);
    (t, tail, large)
}

fn asin(x: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let (t, tail, large) = asin_parts(x, format);
    let two = format.float(2.0);
    let near_one = Expr::fma(format.float(-2.0), &t, format.float(c.half_pi[0]))
        - (&two * &tail - format.float(c.half_pi[1]));
    format.with_sign(&Expr::select(large, near_one, t + tail), x)
}

fn acos(x: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let (t, tail, large) = asin_parts(x, format);
    let (two, half_pi) = (format.float(2.0), format.float(c.half_pi[0]));
    let negative = x.lt(format.float(0.0));
    let signed = |v: &Expr| Expr::select(&negative, minus(v), v);
    let small = &half_pi - &(signed(&t) - (format.float(c.half_pi[1]) - signed(&tail)));
    let right = &two * &(&t + &tail);
    let left = &two * &(&half_pi - &(&t + &(&tail - &format.float(c.half_pi[1]))));
    Expr::select(large, Expr::select(&negative, left, right), small)
}

/// e^a / 2 for a of at least 0: finite wherever sinh and cosh are.
fn half_exp(a: &Expr, format: Format) -> Expr {
    let (n, r) = exp_range(&format.clamp(a, 0.0, format.constants.exp_range.1 + 1.0), format);
    exp_of(&(n - format.float(1.0)), &r, format)
}

fn sinh(x: &Expr, format: Format) -> Expr {
    let a = x.abs();
    let h = half_exp(&a, format);
    let large = &h - &(format.float(0.25) / &h);
    let small = format.odd_series(format.constants.sinh, &a, &(&a * &a));
    format.with_sign(&Expr::select(a.lt(format.float(1.0)), small, large), x)
}

fn cosh(x: &Expr, format: Format) -> Expr {
    let h = half_exp(&x.abs(), format);
    &h + &(format.float(0.25) / &h)
}

fn tanh(x: &Expr, format: Format) -> Expr {
    let (one, two) = (format.float(1.0), format.float(2.0));
    let a = x.abs();
    let large = &one - &(&two / &((&a + &a).exp() + &one));
    let small = format.odd_series(format.constants.tanh, &a, &(&a * &a));
    format.with_sign(&Expr::select(a.lt(format.float(0.6)), small, large), x)
}

/// log(1 + u) + k ln 2 for finite u >= 0: where 1 + u is below sqrt(2) nothing is rounded, beyond what the sum loses is put back.
fn log_of_one_plus(u: &Expr, w: &Expr, k: &Expr, format: Format) -> Expr {
    let (f, e) = log_range(w, format);
    // Far out w is not 1 + u, and what its rounding loses is nothing beside it.
    let (near, zero) = (k.eq_(format.float(0.0)), format.float(0.0));
    let lost = Expr::select(&near, u - &(w - &format.float(1.0)), &zero);
    let f = Expr::fma(lost, format.power_of_two(&Expr::select(near, minus(&e), zero)), f);
    log1p(&f, &(e + k.clone()), format)
}

/// log(1 + u), or log(2 a) where a is far out.
fn log_near_or_far(u: &Expr, a: &Expr, format: Format) -> Expr {
    let (zero, one) = (format.float(0.0), format.float(1.0));
    let far = a.gt(format.float(format.constants.far));
    let w = Expr::select(&far, a, &one + u);
    let value = log_of_one_plus(u, &w, &Expr::select(far, one, zero), format);
    Expr::select(a.lt(format.float(f64::INFINITY)), value, a)
}

/// log(a + sqrt(a^2 + 1)), a = |x|
fn asinh(x: &Expr, format: Format) -> Expr {
    let one = format.float(1.0);
    let a = x.abs();
    let square = &a * &a;
    let u = &a + &(&square / &(&one + &(&square + &one).sqrt()));
    format.with_sign(&log_near_or_far(&u, &a, format), x)
}

/// log(x + sqrt(x^2 - 1)), by t = x - 1
fn acosh(x: &Expr, format: Format) -> Expr {
    let one = format.float(1.0);
    let t = x - &one;
    let u = &t + &Expr::fma(&t, &t, &t + &t).sqrt();
    Expr::select(x.lt(one), format.float(f64::NAN), log_near_or_far(&u, x, format))
}

/// log((1 + a) / (1 - a)) / 2
fn atanh(x: &Expr, format: Format) -> Expr {
    let (zero, one) = (format.float(0.0), format.float(1.0));
    let a = x.abs();
    let twice = &a + &a;
    let u = Expr::fma(&twice, &a / &(&one - &a), &twice);
    let value = log_of_one_plus(&u, &(&one + &u), &zero, format) * format.float(0.5);
    let end = Expr::select(a.eq_(&one), format.float(f64::INFINITY), format.float(f64::NAN));
    format.with_sign(&Expr::select(a.lt(one), value, end), x)
}

/// A number as the sum of two floats, the second at most half a unit in the last place of the first.
type Pair = (Expr, Expr);

/// a + b where |a| >= |b| or a = 0.
fn add(a: &Expr, b: &Expr) -> Pair {
    let sum = a + b;
    let lost = a - &sum + b.clone();
    (sum, lost)
}

/// a b
fn multiply(a: &Expr, b: &Expr) -> Pair {
    let product = a * b;
    let lost = Expr::fma(a, b, minus(&product));
    (product, lost)
}

/// log x for x from 0 to inf, both excluded, with some 12 bits beyond the type's.
fn log_pair(x: &Expr, format: Format) -> Pair {
    let c = format.constants;
    let (f, e) = log_range(x, format);
    let two = format.float(2.0);
    // s = f / (2 + f)
    let (sum, lost) = add(&two, &f);
    let s = &f / &sum;
    let s_rest = Expr::fma(minus(&s), &lost, Expr::fma(minus(&s), &sum, &f)) / sum;
    // 2 s + 2/3 s^3 in pairs, the rest of the series in the type.
    let (z, z_rest) = multiply(&s, &s);
    let (cube, cube_rest) = multiply(&z, &s);
    let cube_rest = Expr::fma(&z_rest, &s, Expr::fma(&z * &format.float(3.0), &s_rest, cube_rest));
    let third = format.float(c.two_thirds[0]);
    let (b, b_rest) = multiply(&cube, &third);
    let b_rest = Expr::fma(&cube, format.float(c.two_thirds[1]), Expr::fma(cube_rest, third, b_rest));
    let series = (&cube * &z) * format.polynomial(c.precise_log, &z);
    let (value, value_rest) = add(&(&two * &s), &b);
    let value_rest = value_rest + (Expr::fma(&two, s_rest, b_rest) + series);
    // e ln 2 is larger, or 0.
    let ln2 = format.float(c.ln2[0]);
    let (shift, shift_rest) = multiply(&e, &ln2);
    let shift_rest = Expr::fma(e, format.float(c.ln2[1]), shift_rest);
    let (total, total_rest) = add(&shift, &value);
    add(&total, &(total_rest + (shift_rest + value_rest)))
}

fn log10(x: &Expr, format: Format) -> Expr {
    let [high, low] = format.constants.log10_e;
    let (log, log_rest) = log_pair(x, format);
    let (value, lost) = multiply(&log, &format.float(high));
    let rest = Expr::fma(&log, format.float(low), Expr::fma(log_rest, format.float(high), lost));
    special_logs(x, value + rest, format)
}

/// |x|^y = e^(y log |x|), then the sign and the special values of IEEE 754.
fn pow(x: &Expr, y: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let (zero, one, half) = (format.float(0.0), format.float(1.0), format.float(0.5));
    let (infinity, nan) = (format.float(f64::INFINITY), format.float(f64::NAN));
    let a = x.abs();
    let (log, log_rest) = log_pair(&a, format);
    let log = special_logs(&a, log, format);
    // Where |t| is larger than that, the value is 0 or inf whatever is behind it.
    let (t, rest) = multiply(y, &log);
    let rest = Expr::fma(y, log_rest, rest);
    let rest = Expr::select(t.abs().lt(format.float(2.0 * c.exp_range.1)), rest, &zero);
    let (n, r) = exp_range(&format.clamp(&t, c.exp_range.0, c.exp_range.1), format);
    let magnitude = exp_of(&n, &(r + rest), format);
    let magnitude = Expr::select(a.eq_(&one).or(y.eq_(&zero)), &one, magnitude);
    let whole = y.trunc().eq_(y);
    let halved = y * &half;
    let odd = whole.and(halved.trunc().ne_(&halved));
    let value = Expr::select(format.is_negative(x).and(odd), minus(&magnitude), &magnitude);
    let undefined = x.lt(&zero).and(a.lt(infinity)).and(whole.not_());
    let value = Expr::select(undefined.and(y.eq_(y)), nan, value);
    // y = NaN: t is NaN, but for x = -1.
    Expr::select(y.eq_(y).or(x.eq_(one)), value, y)
}
