//! Slopes against central differences of the values at regular points, and to the bit where the language fixes them.

use super::*;
use crate::reference::Value;
use ScalarType::{F16, F32, F64};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2};
use sumsq_codegen::functions::Function;

const STEP: f64 = 1e-5;
const INFINITE: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Fails unless `slope` is that of `f` at 0.
#[track_caller]
fn is_slope(slope: f64, f: impl Fn(f64) -> f64, of: &str) {
    let difference = (f(STEP) - f(-STEP)) / (2.0 * STEP);
    let error = (slope - difference).abs();
    assert!(error <= 1e-7 * (1.0 + slope.abs()), "{of}: {slope}, by differences {difference}");
}

/// Operators of one operand, with points where they are smooth.
fn unary_operators() -> Vec<(UnaryOp, &'static [f64])> {
    use UnaryOp::*;
    let anywhere: &[f64] = &[-7.3, -1.2, -0.3, 0.2, 0.9, 4.1];
    let inside: &[f64] = &[-0.95, -0.3, 0.01, 0.6, 0.9];
    let positive: &[f64] = &[0.1, 0.7, 1.5, 200.0];
    let all = [Neg, Floor, Ceil, Round, Trunc, Abs, Asinh, Atan, Cos, Cosh, Exp, Sin, Sinh, Tan, Tanh];
    let mut all: Vec<_> = all.map(|op| (op, anywhere)).into();
    all.extend([Acos, Asin, Atanh].map(|op| (op, inside)));
    all.extend([Log, Log10, Sqrt].map(|op| (op, positive)));
    all.push((Acosh, &[1.1, 1.9, 30.0]));
    all
}

#[test]
fn operators_of_one_operand() {
    let operators = unary_operators();
    for (op, points) in &operators {
        for &x in *points {
            let at = |t: f64| value::unary(*op, F64, Value::Float(x + 1.5 * t)).unwrap().as_f64();
            is_slope(unary(*op, (x, 1.5)), at, &format!("{op:?} {x}"));
        }
    }
    let tested = |f: Function| operators.iter().any(|(op, _)| op.function() == Some(f));
    assert!(Function::ALL.iter().filter(|f| f.arity() == 1).all(|f| tested(*f)), "every function");
}

/// Operators of two operands, with points where they are smooth.
fn binary_operators() -> Vec<(BinaryOp, &'static [(f64, f64)])> {
    use BinaryOp::*;
    let anywhere: &[(f64, f64)] = &[(-7.3, 2.1), (-1.2, -0.7), (0.4, 3.3), (5.9, -2.2), (1.7, 0.6)];
    let mut all: Vec<_> = [Add, Sub, Mul, Div, Mod, Min, Max, Atan2].map(|op| (op, anywhere)).into();
    all.push((Pow, &[(0.3, -1.7), (1.9, 2.6), (4.0, 0.5), (0.7, 0.0), (1.0, 3.0)]));
    all
}

#[test]
fn operators_of_two_operands() {
    let operators = binary_operators();
    for (op, points) in &operators {
        for &(x, y) in *points {
            for (dx, dy) in [(1.0, 0.0), (0.0, 1.0), (0.7, -1.3)] {
                let (a, b) = (|t: f64| Value::Float(x + t * dx), |t: f64| Value::Float(y + t * dy));
                let at = |t: f64| value::binary(*op, F64, a(t), b(t)).unwrap().as_f64();
                is_slope(binary(*op, F64, (x, dx), (y, dy)), at, &format!("{x} {op:?} {y} by {dx}, {dy}"));
            }
        }
    }
    let tested = |f: Function| operators.iter().any(|(op, _)| op.function() == Some(f));
    assert!(Function::ALL.iter().filter(|f| f.arity() == 2).all(|f| tested(*f)), "every function");
}

#[test]
fn multiply_and_add() {
    let (a, b, c) = ((1.3, 0.4), (-0.8, 1.7), (2.2, -0.9));
    let moved = |(x, dx): Moving, t: f64| Value::Float(x + t * dx);
    let at = |t: f64| value::fma(F64, moved(a, t), moved(b, t), moved(c, t)).unwrap().as_f64();
    is_slope(fma(a, b, c.1), at, "fma");
    assert_eq!(fma((INFINITE, 1.0), (2.0, 0.0), 0.5), 2.5, "b does not move");
}

/// Powers of negative numbers, which have no slope by the exponent.
#[test]
fn powers_of_negative_numbers() {
    for (x, c, slope) in [(-2.0, 3.0, 12.0), (-2.0, 2.0, -4.0), (-0.5, -1.0, -4.0), (-3.0, 1.0, 1.0)] {
        assert_eq!(binary(BinaryOp::Pow, F64, (x, 1.0), (c, 0.0)), slope, "{x}^{c}");
        assert!(binary(BinaryOp::Pow, F64, (x, 1.0), (c, 1.0)).is_nan(), "{x}^{c} by its exponent");
    }
}

#[test]
fn singular_points_of_one_operand() {
    use UnaryOp::*;
    for (op, x, slope) in [
        (Abs, 0.0, 1.0),
        (Abs, -0.0, 1.0),
        (Abs, -1e-300, -1.0),
        (Abs, NAN, -1.0),
        (Sqrt, 0.0, 0.0),
        (Sqrt, -0.0, 0.0),
        (Log, 0.0, INFINITE),
        (Asin, 1.0, INFINITE),
        (Acos, -1.0, -INFINITE),
        (Acosh, 1.0, INFINITE),
        (Atanh, 1.0, INFINITE),
        (Tanh, 1000.0, 0.0),
        (Asinh, 1e300, 1e-300),
        (Floor, 2.0, 0.0),
        (Ceil, 2.0, 0.0),
        (Round, 2.5, 0.0),
        (Trunc, -0.0, 0.0),
        (IsNan, NAN, 0.0),
    ] {
        assert_eq!(unary(op, (x, 1.0)), slope, "{op:?} {x}");
        assert_eq!(unary(op, (x, 0.0)), 0.0, "{op:?} {x} at rest");
    }
    assert!(unary(Sqrt, (-1.0, 1.0)).is_nan());
    for op in [Floor, Ceil, Round, Trunc] {
        assert_eq!(unary(op, (0.5, INFINITE)), 0.0, "{op:?} however steep its operand");
    }
}

#[test]
fn singular_points_of_two_operands() {
    use BinaryOp::*;
    for (op, (x, y), by_x, by_y) in [
        (Atan2, (0.0, 0.0), 0.0, 0.0),
        (Atan2, (-0.0, -0.0), 0.0, 0.0),
        (Atan2, (0.0, 2.0), 0.5, 0.0),
        (Atan2, (1e-200, 0.0), 0.0, -1e200),
        (Pow, (0.0, 0.5), 0.0, NAN),
        (Pow, (0.0, 1.0), 1.0, NAN),
        (Pow, (0.0, 2.0), 0.0, NAN),
        (Pow, (0.0, 0.0), 0.0, -INFINITE),
        (Pow, (3.0, 0.0), 0.0, 3f64.ln()),
        (Pow, (NAN, 0.0), 0.0, NAN),
        (Pow, (0.0, -1.0), -INFINITE, -INFINITE),
        (Div, (1.0, 0.0), INFINITE, -INFINITE),
        (Pow, (2.0, 1.0), 1.0, 2.0 * LN_2),
        (Pow, (2.0, -0.5), -0.25 * FRAC_1_SQRT_2, FRAC_1_SQRT_2 * LN_2),
    ] {
        let same =
            |got: f64, want: f64| (got - want).abs() < 1e-15 || Value::Float(got).same(Value::Float(want));
        let (a, b) = (binary(op, F64, (x, 1.0), (y, 0.0)), binary(op, F64, (x, 0.0), (y, 1.0)));
        assert!(same(a, by_x) && same(b, by_y), "{x} {op:?} {y}: {a}, {b}");
        assert_eq!(binary(op, F64, (x, 0.0), (y, 0.0)), 0.0, "{x} {op:?} {y} at rest");
    }
    for op in [Eq, Ne, Lt, Le, Gt, Ge] {
        assert_eq!(binary(op, F64, (1.0, INFINITE), (1.0, 1.0)), 0.0, "{op:?}");
    }
}

/// The slope goes with the value that is returned, and nothing of the other operand's.
#[test]
fn minima_and_maxima() {
    use BinaryOp::{Max, Min};
    for (op, x, y) in [
        (Min, 1.0, 2.0),
        (Min, 2.0, 1.0),
        (Max, 1.0, 2.0),
        (Max, 2.0, 1.0),
        (Min, NAN, 1.0),
        (Min, 1.0, NAN),
        (Max, NAN, 1.0),
        (Max, 1.0, NAN),
        (Min, -0.0, 0.0),
        (Min, 0.0, -0.0),
        (Max, -0.0, 0.0),
        (Max, 0.0, -0.0),
    ] {
        let chosen = value::binary(op, F64, Value::Float(x), Value::Float(y)).unwrap().as_f64();
        let (of_x, of_y) = (chosen.to_bits() == x.to_bits(), chosen.to_bits() == y.to_bits());
        assert!(of_x != of_y, "{x} {op:?} {y} is {chosen}");
        let (dx, dy) = if of_x { (3.0, INFINITE) } else { (INFINITE, 3.0) };
        assert_eq!(binary(op, F64, (x, dx), (y, dy)), 3.0, "{x} {op:?} {y}");
    }
    for op in [Min, Max] {
        assert_eq!(binary(op, F64, (1.0, 3.0), (1.0, 4.0)), 4.0, "of equal ones the second");
        assert_eq!(binary(op, F64, (NAN, 3.0), (NAN, 4.0)), 3.0, "of two NaN the first");
    }
}

/// A quotient that rounds up to a whole number in f32 and does not in f64.
#[test]
fn modulus_in_its_type() {
    let (x, y) = (3.0 + 2f64.powi(-22), 1.0 + 2f64.powi(-23));
    let by_y = |ty| binary(BinaryOp::Mod, ty, (x, 0.0), (y, 1.0));
    assert_eq!((by_y(F64), by_y(F32)), (-2.0, -3.0));
    assert_eq!(
        binary(BinaryOp::Mod, F16, (-7.5, 1.0), (2.0, 0.25)),
        1.0 + 4.0 * 0.25,
        "floors, as values do"
    );
    assert_eq!(binary(BinaryOp::Mod, F64, (1.0, 2.0), (0.0, 0.0)), 2.0, "an infinite quotient at rest");
}
