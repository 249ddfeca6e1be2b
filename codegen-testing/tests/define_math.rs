//! Accuracy and special values of the functions that modules hold once, by the reference evaluator's arithmetic.

use sumsq_codegen::functions::Function;
use sumsq_codegen::lower::expand_math::define;
use sumsq_codegen::{Expr, ScalarType};
use sumsq_codegen_testing::maths::{Known, bound, interval, known};
use sumsq_codegen_testing::reference::{eval_scalar, ulps};
use sumsq_codegen_testing::rng::Rng;

/// The functions that have definitions.
const DEFINED: [Function; 13] = {
    use Function::*;
    [Acos, Acosh, Asin, Asinh, Atan, Atanh, Cosh, Log10, Sinh, Tan, Tanh, Atan2, Pow]
};

fn evaluate(f: Function, ty: ScalarType, operands: &[f64]) -> f64 {
    let operands: Vec<Expr> = operands.iter().map(|&v| Expr::float(ty, v)).collect();
    eval_scalar(&define(f, &operands).unwrap(), &[], &[]).unwrap().as_f64()
}

/// The standard library's value, but where it overflows on the way.
fn exact(f: Function, x: f64, y: f64) -> f64 {
    match f {
        Function::Acosh | Function::Asinh if x.abs() > 1e150 && (f == Function::Asinh || x > 0.0) => {
            (x.abs().ln() + std::f64::consts::LN_2).copysign(x)
        }
        _ => f.value(x, y),
    }
}

/// Against values computed with 400 digits (mpmath).
#[test]
fn f64_functions_are_within_their_bounds() {
    let mut largest = [0.0f64; DEFINED.len()];
    for Known { function: f, operands, high, low } in known().filter(|k| DEFINED.contains(&k.function)) {
        let came = evaluate(f, ScalarType::F64, &operands);
        let error = ulps(ScalarType::F64, (came - high) - low, high).abs();
        assert!(error <= bound(f).1, "{f:?}({operands:?}) = {came:e} is off by {error} ulp");
        let k = DEFINED.iter().position(|&d| d == f).unwrap();
        largest[k] = largest[k].max(error);
    }
    assert!(largest.iter().all(|&e| e > 0.4), "every function was looked at: {largest:?}");
    println!("{DEFINED:?}\n{largest:?}");
}

/// Against f64's, at operands of f32 of all sizes.
#[test]
fn f32_functions_are_within_their_bounds() {
    let mut rng = Rng::new(0x5eed_0013);
    let mut uniform = |lo: f64, hi: f64| lo + (hi - lo) * (rng.bits() >> 11) as f64 / (1u64 << 53) as f64;
    for f in DEFINED {
        let (lo, hi) = interval(f);
        let mut largest = 0.0f64;
        for k in 0..6000 {
            // Uniform, or small and large magnitudes.
            let v = uniform(lo, hi);
            let scale = if k % 2 == 0 || f == Function::Acosh { 1.0 } else { uniform(-40.0, 0.0).exp() };
            let x = f64::from((v * scale) as f32);
            let mut y = f64::from(uniform(-10.0, 10.0) as f32);
            if f == Function::Pow && x < 0.0 {
                y = y.round();
            }
            let exact = f.value(x, y);
            if exact.is_nan() || exact.abs() > f64::from(f32::MAX) {
                continue;
            }
            let came = evaluate(f, ScalarType::F32, &[x, y][..f.arity()]);
            let error = ulps(ScalarType::F32, came - exact, exact).abs();
            assert!(
                error <= bound(f).0,
                "{f:?}({x:e}, {y:e}) = {came:e} for {exact:e} is off by {error} ulp"
            );
            largest = largest.max(error);
        }
        println!("{f:?} {largest}");
        assert!(largest > 0.4, "{f:?} was looked at: {largest}");
    }
}

/// The same special values as the standard library's, signs of zeros included (but for NaN, which has none).
#[test]
fn special_values_are_those_of_ieee_754() {
    let values = |ty| {
        let (max, least) = match ty {
            ScalarType::F32 => (f64::from(f32::MAX), f64::from(f32::from_bits(1))),
            _ => (f64::MAX, f64::from_bits(1)),
        };
        let positive =
            [0.0, least, 1e-30, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 1e3, 16777217.0, 1e30, max, f64::INFINITY];
        let mut all: Vec<f64> = positive.iter().flat_map(|&v| [v, -v]).collect();
        all.push(f64::NAN);
        all
    };
    for ty in [ScalarType::F32, ScalarType::F64] {
        let all = values(ty);
        for f in DEFINED {
            for &x in &all {
                for &y in if f.arity() == 2 { &all[..] } else { &all[..1] } {
                    let of_f64 = exact(f, x, y);
                    // Of type f32 the operands are rounded; so is the value.
                    let (x, y, expected) = match ty {
                        ScalarType::F32 => {
                            let (x, y) = (x as f32, y as f32);
                            (
                                f64::from(x),
                                f64::from(y),
                                f64::from(f.value(f64::from(x), f64::from(y)) as f32),
                            )
                        }
                        _ => (x, y, of_f64),
                    };
                    let came = evaluate(f, ty, &[x, y][..f.arity()]);
                    let text = format!("{f:?}({x:e}, {y:e}) of {ty:?}: came {came:e}, expected {expected:e}");
                    if expected.is_nan() {
                        assert!(came.is_nan(), "{text}");
                    } else if expected == 0.0 || expected.is_infinite() {
                        assert_eq!(
                            (came, came.is_sign_negative()),
                            (expected, expected.is_sign_negative()),
                            "{text}"
                        );
                    } else {
                        assert!(ulps(ty, came - expected, expected).abs() <= 3.0, "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn log10_is_exact_at_powers_of_ten() {
    for k in -300..=300 {
        let x: f64 = format!("1e{k}").parse().unwrap();
        assert_eq!(evaluate(Function::Log10, ScalarType::F64, &[x]), f64::from(k));
    }
}
