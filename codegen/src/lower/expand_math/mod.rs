//! Maths expansion: replaces sin, cos, exp and log of f32 and f64 by arithmetic.
//!
//! Before: any statement or expression, scalar or vector. After: of the four operators on f32 and f64 only sines and cosines remain, each as
//! the second choice of a selection, of arguments beyond 1e5 (f32) or 1e9 (f64), which hardly ever come; unless there are some hundreds of the
//! four, which then stay all. The other functions stay, too: a module has each as a function of its own, whose
//! arithmetic [`define`] has. Runs before common subexpressions are
//! looked for (and shares structurally equal nodes itself), so that the sine and cosine of one argument share their range
//! reduction and both polynomials.
//!
//! The methods are textbook ones (Cody and Waite, "Software Manual for the Elementary Functions", 1980; Muller,
//! "Elementary Functions", 2016): reduce the range, evaluate a minimax polynomial, undo the reduction on the bits. The
//! coefficients are ours: a Remez exchange in 80 digits on the *relative* error of the whole function, then rounded
//! to the type.
//!
//! | function | error in units in the last place (tested bound; largest seen) | range and rest |
//! |---|---|---|
//! | sin, cos | f32 2.5 (1.5), f64 2 (1.1) | all x: beyond 1e5 (f32), 1e9 (f64) by integers; NaN for inf and NaN |
//! | exp | f32 2.5 (0.9), f64 2 (0.9) | all x: inf on overflow, subnormals rounded once, 0 below |
//! | log | f32 2.5 (0.8), f64 2 (0.8) | all x > 0, subnormals too; log 0 = -inf, log of a negative number = NaN |
//!
//! The sign of a zero is not kept by sin. In a relaxed stage exp may overflow one binade early.

mod define;
mod large;

pub use define::define;

use crate::expr::walk::{Memo, nodes, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::ir::rewrite::{map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// Most calls of the four functions that a pipeline may have written out. Beyond it LLVM would take long for long blocks, and all of them
/// become functions of the module: the same values, some 40 instructions for one, for sines and cosines 250.
const WRITTEN_OUT: usize = 200;

/// Expands in every expression of a statement.
pub fn expand_math(stmt: &Stmt) -> Stmt {
    let mut exprs = vec![];
    visit_stmts(stmt, &mut |s| own_exprs(s, &mut |e| exprs.push(e)));
    let expands = |e: &&Expr| match e.operation() {
        ExprKind::Unary(op, x) => {
            matches!(op, UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Exp | UnaryOp::Log)
                && Format::of(x.ty()).is_some()
        }
        _ => false,
    };
    if nodes(exprs).iter().filter(|e| expands(e)).count() > WRITTEN_OUT {
        return stmt.clone();
    }
    Expander::default().stmt(stmt)
}

/// Expands in one expression.
pub fn expand_math_expr(e: &Expr) -> Expr {
    Expander::default().expr(e)
}

/// The pass's memory: what became of each node, and the reductions made so far.
#[derive(Default)]
struct Expander {
    done: Memo,
    /// One representative of each structurally equal node. Children are representatives themselves, so that a
    /// comparison never goes deeper than one level.
    representatives: FxHashSet<Expr>,
    /// Sine and cosine of an argument reduced to a quadrant, by the argument's representative.
    quadrants: FxHashMap<Expr, Quadrant>,
}

/// An argument `x = n pi/2 + r`: `n` in the low bits of `n_bits`, and the sine and cosine of `r`.
#[derive(Clone)]
struct Quadrant {
    /// Is the argument small enough for three fused steps? Else what these came to is of no use.
    near: Expr,
    n_bits: Expr,
    sin_r: Expr,
    cos_r: Expr,
}

impl Expander {
    fn stmt(&mut self, s: &Stmt) -> Stmt {
        // Both closures need the pass's memory, one after the other.
        let this = RefCell::new(self);
        map_children(s, &mut |e| this.borrow_mut().expr(e), &mut |s| this.borrow_mut().stmt(s))
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let mut done = std::mem::take(&mut self.done);
        let result = rewrite(e, &mut done, &mut |_, over_results| self.node(over_results));
        self.done = done;
        result
    }

    /// A node over expanded children.
    fn node(&mut self, e: Expr) -> Expr {
        let e = match self.representatives.get(&e) {
            Some(representative) => representative.clone(),
            None => {
                self.representatives.insert(e.clone());
                e
            }
        };
        let (ExprKind::Unary(op, x), Some(format)) = (e.operation(), Format::of(e.ty())) else { return e };
        let value = match op {
            UnaryOp::Sin | UnaryOp::Cos => {
                let quadrant = self.quadrant(x, format);
                Expr::select(&quadrant.near, quadrant.sine(format, i64::from(*op == UnaryOp::Cos)), e.clone())
            }
            UnaryOp::Exp => exp(x, format),
            UnaryOp::Log => log(x, format),
            _ => return e,
        };
        if e.is_strict() { value.strict_above(x) } else { value }
    }

    fn quadrant(&mut self, x: &Expr, format: Format) -> Quadrant {
        self.quadrants.entry(x.clone()).or_insert_with(|| Quadrant::near(x, format)).clone()
    }
}

/// A float format with a number of lanes, and the constants of each function in it.
#[derive(Clone, Copy)]
struct Format {
    lanes: u16,
    constants: &'static Constants,
}

struct Constants {
    float: ScalarType,
    /// Unsigned integers of the float's width.
    bits: ScalarType,
    /// Stored bits of the significand, and the bias of the exponent.
    mantissa: u32,
    bias: i64,
    /// 1.5 * 2^mantissa: added to a small integer, it leaves the integer in the low bits of the sum.
    magic: f64,
    /// Smallest normal number, the power of two that makes every subnormal normal, and its exponent.
    min_normal: f64,
    subnormal_scale: f64,
    subnormal_shift: f64,
    /// Bits of 1 minus bits of sqrt(1/2).
    one_minus_sqrt_half: i64,

    /// Largest argument of sine and cosine that is reduced in three fused steps.
    near: f64,
    two_over_pi: f64,
    /// pi/2 in three parts, each rounded to the type; n times the first is exact in the fused multiply-add that
    /// subtracts it.
    half_pi: [f64; 3],
    log2_e: f64,
    /// ln 2 in two parts.
    ln2: [f64; 2],
    /// Arguments of exp are clamped to this: what lies beyond is 0 or inf all the same.
    exp_range: (f64, f64),

    /// sin r = r + r^3 p(r^2), |r| <= 1.02 pi/4
    sin: &'static [f64],
    /// cos r = 1 - r^2/2 + r^4 p(r^2), |r| <= 1.02 pi/4
    cos: &'static [f64],
    /// e^r = 1 + r + r^2 p(r), |r| <= ln 2 / 2
    exp: &'static [f64],
    /// f32: log(1 + f) = f - f^2/2 + f^3 p(f); f64: with s = f / (2 + f) and z = s^2,
    /// log(1 + f) = 2 s + s z p(z). In both, 1 + f is from sqrt(1/2) to sqrt(2).
    log: &'static [f64],

    /// The rest are those of [`define`]. pi/4, 2/3 and log10(e) in two parts.
    quarter_pi: [f64; 2],
    two_thirds: [f64; 2],
    log10_e: [f64; 2],
    /// log(1 + f) = 2 s + s z (2/3 + z p(z)), s and z as for f64 above
    precise_log: &'static [f64],
    /// atan t = t + t z p(z), z = t^2, |t| <= tan(pi/8)
    atan: &'static [f64],
    /// asin t = t + t z p(z), |t| <= 1/2
    asin: &'static [f64],
    /// sinh t = t + t z p(z), |t| <= 1
    sinh: &'static [f64],
    /// tanh t = t + t z p(z), |t| <= 0.6
    tanh: &'static [f64],
    /// From here on asinh and acosh are log(2 x) to the last place.
    far: f64,
}

#[rustfmt::skip]
static F32: Constants = Constants {
    float: ScalarType::F32,
    bits: ScalarType::U32,
    mantissa: 23,
    bias: 127,
    magic: 12582912.0,
    min_normal: f32::MIN_POSITIVE as f64,
    subnormal_scale: 8388608.0,
    subnormal_shift: 23.0,
    one_minus_sqrt_half: 0x3f80_0000 - 0x3f35_04f3,
    near: 1e5,
    two_over_pi: std::f64::consts::FRAC_2_PI,
    half_pi: [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15],
    log2_e: std::f64::consts::LOG2_E,
    ln2: [0.6931471824645996, -1.9046542121259336e-09],
    exp_range: (-104.0, 89.0),
    // Errors: 2^-27.7, 2^-32.7, 2^-28.3, 2^-27.3.
    sin: &[-0.16666653752326965, 0.00833206344395876, -0.00019502134819049388],
    cos: &[0.04166664183139801, -0.0013887184904888272, 2.4418128305114806e-05],
    exp: &[0.4999999403953552, 0.1666651964187622, 0.04166839271783829, 0.008368780836462975, 0.0013814468402415514],
    log: &[0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122,
           0.14201758801937103, -0.13160182535648346, 0.12761574983596802, -0.07634495943784714],
    quarter_pi: [0.7853981852531433, -2.1855694143368964e-08],
    two_thirds: [0.6666666865348816, -1.9868215517249155e-08],
    log10_e: [0.4342944920063019, -1.0103049952192578e-08],
    // Errors: 2^-36.5, 2^-28.3, 2^-27.3, 2^-27.5, 2^-28.4.
    precise_log: &[0.40000152587890625, 0.2854713499546051, 0.2341856062412262],
    atan: &[-0.33333316445350647, 0.19998471438884735, -0.14243531227111816, 0.10593801736831665, -0.060781970620155334],
    asin: &[0.16666752099990845, 0.07495297491550446, 0.04547037556767464, 0.024179501459002495, 0.0421663373708725],
    sinh: &[0.1666666716337204, 0.008333349600434303, 0.0001983615948120132, 2.8169517918286147e-06],
    tanh: &[-0.3333333134651184, 0.13333246111869812, -0.0539521649479866, 0.021732717752456665, -0.008262733928859234,
            0.002226963872089982],
    far: 4096.0,
};

#[rustfmt::skip]
static F64: Constants = Constants {
    float: ScalarType::F64,
    bits: ScalarType::U64,
    mantissa: 52,
    bias: 1023,
    magic: 6755399441055744.0,
    min_normal: f64::MIN_POSITIVE,
    subnormal_scale: 4503599627370496.0,
    subnormal_shift: 52.0,
    one_minus_sqrt_half: 0x3ff0_0000_0000_0000 - 0x3fe6_a09e_667f_3bcd,
    near: 1e9,
    two_over_pi: std::f64::consts::FRAC_2_PI,
    half_pi: [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33],
    log2_e: std::f64::consts::LOG2_E,
    ln2: [std::f64::consts::LN_2, 2.3190468138462996e-17],
    exp_range: (-746.0, 710.0),
    // Errors: 2^-57.5, 2^-63.5, 2^-57.9, 2^-59.5.
    sin: &[-0.1666666666666662, 0.008333333333319651, -0.00019841269827577815, 2.755731291298105e-06,
           -2.5050635503753013e-08, 1.5889660045376806e-10],
    cos: &[0.041666666666666574, -0.0013888888888869534, 2.480158728663512e-05, -2.755731353527981e-07,
           2.087561292895576e-09, -1.135397108042696e-11],
    exp: &[0.5000000000000011, 0.1666666666666641, 0.04166666666652919, 0.008333333333495636,
           0.001388888894392258, 0.0001984126950474362, 2.4801492762837325e-05, 2.755758735945193e-06,
           2.76303786100566e-07, 2.4999960406100966e-08],
    log: &[0.6666666666666734, 0.3999999999941602, 0.2857142874210184, 0.22222198601179594,
           0.18183562940833803, 0.15314084239155845, 0.14795629737536614],
    quarter_pi: [std::f64::consts::FRAC_PI_4, 3.061616997868383e-17],
    two_thirds: [0.6666666666666666, 3.700743415417188e-17],
    log10_e: [std::f64::consts::LOG10_E, 1.098319650216765e-17],
    // Errors: 2^-65.9, 2^-57.5, 2^-58.8, 2^-56.6, 2^-57.5.
    precise_log: &[0.40000000000002256, 0.28571428570100105, 0.2222222251981932, 0.1818178437695742,
                   0.15386756844917207, 0.1325682978142701, 0.13196211000714395],
    atan: &[-0.333333333333332, 0.19999999999953244, -0.1428571428016634, 0.1111111078214699, -0.09090897725068778,
            0.07692059714698012, -0.06663099176912274, 0.05847859102027594, -0.050391897461033994, 0.038062124668177,
            -0.017905024804414072],
    asin: &[0.1666666666666676, 0.07499999999970801, 0.04464285717461033, 0.030381942707864852, 0.022372214985214536,
            0.017351612059318868, 0.013980819982439061, 0.011398916930426663, 0.010780226262882888,
            0.003706508763813122, 0.021707204842444545, -0.020998721527936953, 0.032628411631113886],
    sinh: &[0.16666666666666669, 0.008333333333333148, 0.00019841269841431873, 2.755731915707224e-06,
            2.5052123136664873e-08, 1.6057259773167309e-10, 7.758748669824813e-13],
    tanh: &[-0.33333333333333326, 0.1333333333333176, -0.05396825396721098, 0.021869488501406853, -0.008863234849888503,
            0.0035921195379511866, -0.00145576325449222, 0.0005896185801368438, -0.00023750227358876016,
            9.247055031498258e-05, -3.1159100164776515e-05, 6.494576302201435e-06],
    far: 268435456.0,
};

impl Format {
    fn of(ty: Type) -> Option<Format> {
        let constants = match ty.scalar {
            ScalarType::F32 => &F32,
            ScalarType::F64 => &F64,
            _ => return None,
        };
        Some(Format { lanes: ty.lanes, constants })
    }

    /// A constant in every lane.
    fn splat(self, scalar: Expr) -> Expr {
        if self.lanes == 1 {
            return scalar;
        }
        let ty = scalar.ty().with_lanes(self.lanes);
        Expr::new(ExprKind::Broadcast(scalar), ty)
    }

    fn float(self, v: f64) -> Expr {
        self.splat(Expr::float(self.constants.float, v))
    }

    fn bits(self, v: i64) -> Expr {
        self.splat(Expr::int(self.constants.bits, v))
    }

    fn bits_of(self, x: &Expr) -> Expr {
        x.reinterpret(self.constants.bits)
    }

    fn float_of_bits(self, bits: &Expr) -> Expr {
        bits.reinterpret(self.constants.float)
    }

    /// The polynomial with the given coefficients, lowest first, by Horner's rule.
    fn polynomial(self, coefficients: &[f64], x: &Expr) -> Expr {
        let mut terms = coefficients.iter().rev();
        let first = self.float(terms.next().copied().unwrap_or(0.0));
        terms.fold(first, |sum, &c| Expr::fma(sum, x, self.float(c)))
    }

    /// `x` clamped; a NaN stays (which is why this is not made of `Min` and `Max`).
    fn clamp(self, x: &Expr, lo: f64, hi: f64) -> Expr {
        let (lo, hi) = (self.float(lo), self.float(hi));
        let x = Expr::select(hi.lt(x), &hi, x);
        Expr::select(x.lt(&lo), &lo, &x)
    }

    /// 2^n for an integer-valued float n within the exponents of normal numbers: the sum's low bits are the
    /// biased exponent, and the shift pushes everything above them out.
    fn power_of_two(self, n: &Expr) -> Expr {
        let c = self.constants;
        let biased = self.bits_of(&(n + &self.float(c.magic + c.bias as f64)));
        self.float_of_bits(&biased.shl(self.bits(c.mantissa as i64)))
    }
}

impl Quadrant {
    /// Of arguments that are near.
    fn near(x: &Expr, format: Format) -> Quadrant {
        let (n_bits, r) = reduced(x, format);
        Quadrant::of(x.abs().le(format.float(format.constants.near)), n_bits, &r, format)
    }

    /// With the sine and cosine of `r`.
    fn of(near: Expr, n_bits: Expr, r: &Expr, format: Format) -> Quadrant {
        let c = format.constants;
        let z = r * r;
        let sin_r = Expr::fma(r * &z, format.polynomial(c.sin, &z), r);
        let head = Expr::fma(&z, format.float(-0.5), format.float(1.0));
        let cos_r = Expr::fma(&z * &z, format.polynomial(c.cos, &z), head);
        Quadrant { near, n_bits, sin_r, cos_r }
    }

    /// sin(x + shift pi/2): quadrants 1 and 3 swap sine and cosine, 2 and 3 change the sign.
    fn sine(&self, format: Format, shift: i64) -> Expr {
        let c = format.constants;
        let quadrant = if shift == 0 { self.n_bits.clone() } else { &self.n_bits + &format.bits(shift) };
        let odd = quadrant.and(format.bits(1)).ne_(format.bits(0));
        let value = Expr::select(odd, &self.cos_r, &self.sin_r);
        // Bit 1 of the quadrant, moved to the sign's place.
        let sign = quadrant.and(format.bits(2)).shl(format.bits(8 * c.bits.bytes() as i64 - 2));
        format.float_of_bits(&format.bits_of(&value).xor(sign))
    }
}

/// sin(x + shift pi/2) of any x: what is not near is computed in f64.
fn any_sine(x: &Expr, format: Format, shift: i64) -> Expr {
    let near = Quadrant::near(x, format);
    let (wide, far) = (Format { constants: &F64, ..format }, x.cast(ScalarType::F64));
    let (n_bits, r) = large::reduced(&far, wide);
    let far =
        Quadrant::of(near.near.clone(), n_bits, &r, wide).sine(wide, shift).cast(format.constants.float);
    let finite = x.abs().lt(format.float(f64::INFINITY));
    let far = Expr::select(finite, far, format.float(f64::NAN));
    Expr::select(&near.near, near.sine(format, shift), far)
}

/// n = round(x 2/pi), in the low bits, and r = x - n pi/2 in three fused steps, so that r is accurate to its own last place.
fn reduced(x: &Expr, format: Format) -> (Expr, Expr) {
    let c = format.constants;
    let n = (x * &format.float(c.two_over_pi)).round();
    let r = c.half_pi.iter().fold(x.clone(), |r, &part| Expr::fma(&n, format.float(-part), r));
    (format.bits_of(&(n + format.float(c.magic))), r)
}

/// e^x = 2^n e^r with n = round(x / ln 2). The power of two is applied in two halves, so that n may be beyond the
/// exponents of normal numbers; only the second multiplication rounds.
fn exp(x: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let (n, r) = exp_range(&format.clamp(x, c.exp_range.0, c.exp_range.1), format);
    exp_of(&n, &r, format)
}

/// x = n ln 2 + r.
fn exp_range(x: &Expr, format: Format) -> (Expr, Expr) {
    let c = format.constants;
    let n = (x * &format.float(c.log2_e)).round();
    let r = c.ln2.iter().fold(x.clone(), |r, &part| Expr::fma(&n, format.float(-part), r));
    (n, r)
}

/// 2^n e^r.
fn exp_of(n: &Expr, r: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let tail = Expr::fma(r * r, format.polynomial(c.exp, r), r);
    let half = (n * &format.float(0.5)).round();
    let rest = n - &half;
    (tail + format.float(1.0)) * format.power_of_two(&half) * format.power_of_two(&rest)
}

/// log x = e ln 2 + log(1 + f).
fn log(x: &Expr, format: Format) -> Expr {
    let (f, e) = log_range(x, format);
    special_logs(x, log1p(&f, &e, format), format)
}

/// 0 gives -inf, a negative number NaN; inf and NaN are their own logarithms. `finite` is that of the rest.
fn special_logs(x: &Expr, finite: Expr, format: Format) -> Expr {
    let (zero, infinity) = (format.float(0.0), format.float(f64::INFINITY));
    let special = Expr::select(x.lt(&zero), format.float(f64::NAN), x);
    let special = Expr::select(x.eq_(&zero), format.float(f64::NEG_INFINITY), special);
    Expr::select(x.gt(zero).and(x.lt(infinity)), finite, special)
}

/// f and e of x = 2^e (1 + f), with 1 + f from sqrt(1/2) to sqrt(2), for x from 0 to inf, both excluded.
fn log_range(x: &Expr, format: Format) -> (Expr, Expr) {
    let c = format.constants;
    let subnormal = x.lt(format.float(c.min_normal));
    let normal = Expr::select(&subnormal, x * &format.float(c.subnormal_scale), x);
    let bits = format.bits_of(&normal);
    // Adding 1 - sqrt(1/2) carries into the exponent exactly where the significand is at least sqrt(2).
    let biased = (&bits + &format.bits(c.one_minus_sqrt_half)).shr(format.bits(c.mantissa as i64));
    let f = format.float_of_bits(&(bits + format.bits(c.bias << c.mantissa) - shifted(&biased, format)))
        - format.float(1.0);
    let magic_bits =
        if c.mantissa == 23 { (c.magic as f32).to_bits() as i64 } else { c.magic.to_bits() as i64 };
    let exponent = format.float_of_bits(&(biased + format.bits(magic_bits)));
    let bias = |shift: f64| format.float(c.magic + c.bias as f64 + shift);
    let e = exponent - Expr::select(subnormal, bias(c.subnormal_shift), bias(0.0));
    (f, e)
}

/// e ln 2 + log(1 + f).
fn log1p(f: &Expr, e: &Expr, format: Format) -> Expr {
    if format.constants.mantissa == 23 { log1p_f32(f, e, format) } else { log1p_f64(f, e, format) }
}

/// A biased exponent in its place.
fn shifted(biased: &Expr, format: Format) -> Expr {
    biased.shl(format.bits(format.constants.mantissa as i64))
}

/// e ln 2 + log(1 + f), small terms first.
fn log1p_f32(f: &Expr, e: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let square = f * f;
    let sum = (f * &square) * format.polynomial(c.log, f);
    let sum = Expr::fma(e, format.float(c.ln2[1]), sum);
    let sum = Expr::fma(square, format.float(-0.5), sum);
    Expr::fma(e, format.float(c.ln2[0]), f + &sum)
}

/// e ln 2 + log(1 + f): 2 s = f - s f turns 2 s + s z p(z) into f - (f^2/2 - s (f^2/2 + z p(z))), whose leading
/// term is exact.
fn log1p_f64(f: &Expr, e: &Expr, format: Format) -> Expr {
    let c = format.constants;
    let s = f / &(f + &format.float(2.0));
    let z = &s * &s;
    let half_square = (f * f) * format.float(0.5);
    let series = Expr::fma(&z, format.polynomial(c.log, &z), &half_square);
    let tail = Expr::fma(s, series, e * &format.float(c.ln2[1]));
    Expr::fma(e, format.float(c.ln2[0]), f - &Expr::binary(BinaryOp::Sub, half_square, tail))
}
