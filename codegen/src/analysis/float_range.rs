//! Ranges of floats, as far as an expression itself shows them.
//!
//! Ends are those of the values that the operators give, each rounded to its type; rounding keeps the order, so that rounded ends bound
//! rounded values. What is loaded or passed in may be anything, NaN included. Sums and products are bounded where floats are strict
//! only, in all of a function or in a strict operation: elsewhere the code generator may compute another sum.

use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;

/// Values that a float may have: from `low` to `high`, and NaN if `nan`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct FloatRange {
    /// Least value that is no NaN.
    pub low: f64,
    /// Greatest value that is no NaN.
    pub high: f64,
    /// True if it may be NaN.
    pub nan: bool,
}

/// Operators that are looked through before an operand counts as unknown.
const DEPTH: usize = 6;

impl FloatRange {
    /// Any float.
    pub(crate) const ANY: FloatRange = FloatRange { low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true };

    /// The values of `e`, of a float type. `strict`: each operation is computed as it stands.
    pub(crate) fn of(e: &Expr, strict: bool) -> FloatRange {
        of(e, strict, DEPTH)
    }

    /// True if it is a number, and neither zero.
    pub(crate) fn is_nonzero(self) -> bool {
        !self.nan && (self.low > 0.0 || self.high < 0.0)
    }

    fn number(low: f64, high: f64) -> FloatRange {
        FloatRange { low, high, nan: false }
    }

    fn union(self, o: FloatRange) -> FloatRange {
        FloatRange { low: self.low.min(o.low), high: self.high.max(o.high), nan: self.nan || o.nan }
    }

    /// Under a function that keeps the order.
    fn map(self, f: impl Fn(f64) -> f64) -> FloatRange {
        FloatRange { low: f(self.low), high: f(self.high), ..self }
    }

    fn negated(self) -> FloatRange {
        FloatRange { low: -self.high, high: -self.low, ..self }
    }

    /// A minimum: of numbers, or the operand that is one.
    fn min(self, o: FloatRange) -> FloatRange {
        let high = match (self.nan, o.nan) {
            (false, false) => self.high.min(o.high),
            (true, false) => o.high,
            (false, true) => self.high,
            (true, true) => self.high.max(o.high),
        };
        FloatRange { low: self.low.min(o.low), high, nan: self.nan && o.nan }
    }

    fn plus(self, o: FloatRange) -> FloatRange {
        let opposite = |a: f64, b: f64| a.is_infinite() && b == -a;
        let nan = self.nan || o.nan || opposite(self.low, o.high) || opposite(self.high, o.low);
        // Infinities of both signs in one end: it may be anything.
        let end = |a: f64, b: f64, any: f64| if opposite(a, b) { any } else { a + b };
        let low = end(self.low, o.low, f64::NEG_INFINITY);
        FloatRange { low, high: end(self.high, o.high, f64::INFINITY), nan }
    }

    fn times(self, o: FloatRange) -> FloatRange {
        let ends = [self.low * o.low, self.low * o.high, self.high * o.low, self.high * o.high];
        let finite = |r: FloatRange| r.low.is_finite() && r.high.is_finite();
        if !finite(self) || !finite(o) {
            return FloatRange::ANY;
        }
        let (low, high) = ends.iter().fold((ends[0], ends[0]), |(a, b), &v| (a.min(v), b.max(v)));
        FloatRange { low, high, nan: self.nan || o.nan }
    }

    fn magnitude(self) -> FloatRange {
        let away = self.low > 0.0 || self.high < 0.0;
        let low = if away { self.low.abs().min(self.high.abs()) } else { 0.0 };
        FloatRange { low, high: self.low.abs().max(self.high.abs()), ..self }
    }
}

fn of(e: &Expr, strict: bool, depth: usize) -> FloatRange {
    let ty = e.ty().scalar;
    if let Some(v) = e.as_float() {
        return if v.is_nan() { FloatRange::ANY } else { FloatRange::number(v, v) };
    }
    let Some(depth) = depth.checked_sub(1) else { return FloatRange::ANY };
    let operand = |a: &Expr| of(a, strict, depth);
    let strict = strict || e.is_strict();
    let range = match e.operation() {
        ExprKind::Cast(a) if a.ty().scalar.is_float() => operand(a),
        ExprKind::Cast(a) => integers(a, depth),
        ExprKind::Broadcast(a) => operand(a),
        ExprKind::Select(_, a, b) => operand(a).union(operand(b)),
        ExprKind::Unary(op, a) => match op {
            UnaryOp::Neg => operand(a).negated(),
            UnaryOp::Abs => operand(a).magnitude(),
            UnaryOp::Floor => operand(a).map(f64::floor),
            UnaryOp::Ceil => operand(a).map(f64::ceil),
            UnaryOp::Round => operand(a).map(f64::round_ties_even),
            UnaryOp::Trunc => operand(a).map(f64::trunc),
            _ => FloatRange::ANY,
        },
        ExprKind::Binary(op, a, b) => match op {
            BinaryOp::Min => operand(a).min(operand(b)),
            BinaryOp::Max => operand(a).negated().min(operand(b).negated()).negated(),
            BinaryOp::Add if strict => operand(a).plus(operand(b)),
            BinaryOp::Sub if strict => operand(a).plus(operand(b).negated()),
            BinaryOp::Mul if strict => operand(a).times(operand(b)),
            _ => FloatRange::ANY,
        },
        _ => FloatRange::ANY,
    };
    range.map(|v| ty.round(v))
}

/// The values of an integer or bool, as floats.
fn integers(e: &Expr, depth: usize) -> FloatRange {
    let ty = e.ty().scalar;
    let greatest = if ty == ScalarType::U64 { u64::MAX as f64 } else { ty.greatest() as f64 };
    let whole = FloatRange::number(ty.least() as f64, greatest);
    match e.kind() {
        ExprKind::Broadcast(a) => integers(a, depth),
        ExprKind::Cast(a) if !a.ty().scalar.is_float() && depth > 0 => {
            let inner = integers(a, depth - 1);
            let fits = inner.low >= whole.low && inner.high <= whole.high;
            if fits { inner } else { whole }
        }
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: ScalarType = ScalarType::F32;

    fn param(ty: ScalarType) -> Expr {
        Expr::param("p", ty)
    }

    fn range(e: &Expr, strict: bool) -> (f64, f64, bool) {
        let r = FloatRange::of(e, strict);
        (r.low, r.high, r.nan)
    }

    #[test]
    fn what_is_clamped_is_a_number() {
        let x = param(F32);
        let (zero, most) = (Expr::from(0.0f32), Expr::from(255.0f32));
        assert_eq!(range(&x.clamp(zero.clone(), most.clone()), true), (0.0, 255.0, false));
        assert_eq!(range(&x.clamp(zero.clone(), most.clone()), false), (0.0, 255.0, false));
        assert_eq!(range(&x.min(&most), true), (f64::NEG_INFINITY, 255.0, false));
        assert_eq!(range(&most.min(&x), true), (f64::NEG_INFINITY, 255.0, false));
        assert_eq!(range(&x.min(param(F32)), true), (f64::NEG_INFINITY, f64::INFINITY, true));
        // NaN leaves the bound that the other operand has.
        let (low, high) = (x.max(&zero), param(F32).abs().min(&most));
        assert_eq!(range(&low.min(high), true), (0.0, 255.0, false));
        let nan = Expr::select(x.lt(&zero), &x, zero.clone());
        assert_eq!(range(&nan.min(&most), true), (f64::NEG_INFINITY, 255.0, false));
        assert_eq!(range(&most.max(nan), true), (255.0, f64::INFINITY, false));
    }

    #[test]
    fn ends_are_rounded_to_their_type() {
        let of = |from: ScalarType, to: ScalarType| range(&param(from).cast(to), true);
        assert_eq!(of(ScalarType::U8, F32), (0.0, 255.0, false));
        assert_eq!(of(ScalarType::I32, F32), (-(2f64.powi(31)), 2f64.powi(31), false));
        assert_eq!(of(ScalarType::U16, ScalarType::F16), (0.0, f64::INFINITY, false));
        let wide = param(ScalarType::I8).cast(ScalarType::I32).cast(F32);
        assert_eq!(range(&wide, true), (-128.0, 127.0, false));
        let wrapped = param(ScalarType::I8).cast(ScalarType::U8).cast(F32);
        assert_eq!(range(&wrapped, true), (0.0, 255.0, false));
        let tenth = param(ScalarType::U8).cast(F32) * Expr::from(0.1f32) - Expr::from(1.0f32);
        let high = f64::from(255.0f32 * 0.1f32 - 1.0);
        assert_eq!(range(&tenth, true), (-1.0, high, false));
        assert_eq!(range(&tenth, false), (f64::NEG_INFINITY, f64::INFINITY, true));
    }

    #[test]
    fn infinities_may_cancel() {
        let x = param(F32).max(Expr::from(0.0f32));
        assert_eq!(range(&(&x - &x), true), (f64::NEG_INFINITY, f64::INFINITY, true));
        assert_eq!(range(&(&x + &x), true), (0.0, f64::INFINITY, false));
        assert_eq!(range(&(&x * &x), true), (f64::NEG_INFINITY, f64::INFINITY, true));
        assert_eq!(range(&(-param(F32)).abs(), true), (0.0, f64::INFINITY, true));
    }
}
