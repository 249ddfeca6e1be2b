//! Arithmetic on intervals of floats, from which coordinates are converted.
//!
//! Ends are computed in the type of the values, and lie farther out by more than what rounding, contraction and another order of the
//! same operations may do to these. All of it is monotone, as [`crate::analysis::algebra::interval`] asks. Ends that are no
//! numbers below 1e30 become NaN, and stay so: values may then be anything, NaN included.

use crate::analysis::algebra::interval::Span;
use crate::expr::walk::any;
use crate::expr::{BinaryOp, Expr};
use crate::types::ScalarType;

/// Ends of coordinates of which nothing is known. What would lead there is refused before a run begins, by `nests::float_checks`, as far as it has
/// one value in a run.
const FAR: i64 = 1 << 29;

/// `a op b`; factors and divisors have one value. Nothing if an end is unknown, or for another operator.
pub(crate) fn arithmetic(op: BinaryOp, a: &Span, b: &Span, ty: ScalarType) -> Option<Span> {
    let (a, b) = ([a.min.clone()?, a.max.clone()?], [b.min.clone()?, b.max.clone()?]);
    let one_value = |e: &[Expr; 2]| e[0] == e[1];
    let binary = |x: &Expr, y: &Expr| Expr::binary(op, x, y);
    let wide = |e: &Expr, by: f64| Expr::float(ty, by) * e.abs();
    let [low, high] = match op {
        BinaryOp::Add | BinaryOp::Sub => {
            let (first, last) = if op == BinaryOp::Add { (&b[0], &b[1]) } else { (&b[1], &b[0]) };
            let slack = |x: &Expr, y: &Expr| wide(x, slack(ty)) + wide(y, slack(ty));
            [binary(&a[0], first) - slack(&a[0], first), binary(&a[1], last) + slack(&a[1], last)]
        }
        BinaryOp::Mul | BinaryOp::Div => {
            let (x, c) = match one_value(&b) {
                true => (&a, &b[0]),
                false if op == BinaryOp::Mul && one_value(&a) => (&b, &a[0]),
                false => return None,
            };
            let rises = c.ge(Expr::float(ty, 0.0));
            let [at_first, at_last] = [binary(&x[0], c), binary(&x[1], c)];
            let low = Expr::select(&rises, &at_first, &at_last);
            let high = Expr::select(&rises, &at_last, &at_first);
            [&low - wide(&low, slack(ty)), &high + wide(&high, slack(ty))]
        }
        _ => return None,
    };
    let known = |e: &Expr| e.abs().lt(Expr::float(ty, 1e30));
    let both = known(&low).and(known(&high));
    let end = |e: &Expr| Expr::select(&both, e, Expr::float(ty, f64::NAN));
    Some(Span::new(end(&low), end(&high)))
}

/// Relative distance of ends: some sixteen roundings.
fn slack(ty: ScalarType) -> f64 {
    match ty {
        ScalarType::F16 => 1.0 / 64.0,
        ScalarType::F32 => 1.0 / (1 << 19) as f64,
        _ => 1.0 / (1u64 << 48) as f64,
    }
}

/// The span as integers of type `to`.
pub(crate) fn converted(s: &Span, to: ScalarType) -> Span {
    let is_made = |e: &Expr| any(e, |n| n.as_float().is_some_and(f64::is_nan));
    let end = |e: &Expr, far: i64| match is_made(e) {
        true => Expr::select(e.is_nan(), Expr::int(to, far), e.cast(to)),
        false => e.cast(to),
    };
    Span { min: s.min.as_ref().map(|e| end(e, -FAR)), max: s.max.as_ref().map(|e| end(e, FAR)) }
}
