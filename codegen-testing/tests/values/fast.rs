//! Functions that trade digits for time: the same bits everywhere, and no further from the function than their page says.

use crate::{bindings, row, scalar_and_vector};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Var};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const F32: ScalarType = ScalarType::F32;

/// A function as an expression.
type Written = fn(&Expr) -> Expr;

/// The same on a number.
type Plain = fn(f32) -> f32;

/// The values of `f` at numbers of f32, of the reference evaluator and of machine code, which agree.
fn values(f: Written, at: &[f32]) -> Vec<f64> {
    let mut p = Pipeline::new("fast");
    let x = Var::new("x");
    let value = f(&p.input(Input::new("in", &[F32], 1)).at(&[x.expr()], 0));
    let f = p.func(Func::new("f", &[x], vec![value]));
    p.output(&f);
    let given = || bindings(vec![("in", row(F32, at.iter().map(|&v| Value::Float(v.into())).collect()))]);
    let all = scalar_and_vector(&p, 8).map(|s| agree(&p, &s, &given(), &[vec![at.len()]]).remove(0));
    let numbers = |v: &Value| match v {
        Value::Float(v) => *v,
        other => panic!("{other:?}"),
    };
    all[1].planes[0].iter().map(numbers).collect()
}

/// Numbers between two, evenly by their bits.
fn between(low: f32, high: f32) -> Vec<f32> {
    let (low, high) = (low.to_bits(), high.to_bits());
    (low..=high).step_by(((high - low) / 20_000).max(1) as usize).map(f32::from_bits).collect()
}

/// The greatest relative error.
fn error(at: &[f32], found: &[f64], exact: impl Fn(f64) -> f64) -> f64 {
    let of = |(&x, &v): (&f32, &f64)| (v / exact(x.into()) - 1.0).abs();
    at.iter().zip(found).map(of).fold(0.0, f64::max)
}

#[test]
fn exponential() {
    let both = |high: f32| -> Vec<f32> {
        let positive = between(1e-6, high);
        positive.iter().map(|x| x.min(88.7)).chain(positive.iter().map(|x| -x)).collect()
    };
    let at = both(87.3);
    let worst = error(&at, &values(Expr::fast_exp, &at), f64::exp);
    assert!((1e-7..5e-7).contains(&worst), "{worst:e}");
    let ends = [0.0, -0.0, 88.8, 1e30, f32::INFINITY, -88.5, -1e30, f32::NEG_INFINITY, f32::NAN];
    let inf = f64::INFINITY;
    assert_eq!(values(Expr::fast_exp, &ends), [1.0, 1.0, inf, inf, inf, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn logarithm() {
    for at in [between(f32::MIN_POSITIVE, f32::MAX), between(0.5, 0.999_999), between(1.000_001, 2.0)] {
        let worst = error(&at, &values(Expr::fast_log, &at), f64::ln);
        assert!((5e-8..5e-7).contains(&worst), "{worst:e}");
    }
    let least = f64::from(f32::MIN_POSITIVE).ln();
    let found = values(Expr::fast_log, &[1.0, 0.0, -3.0, 1e-40, f32::NAN]);
    assert_eq!(found[0], 0.0);
    assert!(found[1..].iter().all(|v| (v / least - 1.0).abs() < 5e-7), "{found:?}");
}

#[test]
fn powers() {
    for (f, y) in [
        ((|x| x.fast_pow(2.2f32)) as Written, f64::from(2.2f32)),
        (|x| x.fast_pow(0.5f32), 0.5),
        (|x| x.fast_pow(-1.5f32), -1.5),
    ] {
        let at = between(1e-12, 1e12);
        for (&x, v) in at.iter().zip(values(f, &at)) {
            let (x, bound) = (f64::from(x), (1.0 + (y * f64::from(x).ln()).abs()) * 5e-7);
            assert!((v / x.powf(y) - 1.0).abs() < bound, "{x} to {y}: {v}");
        }
        assert_eq!(values(f, &[0.0, -0.0, -2.0, f32::NAN]), [0.0; 4]);
    }
}

#[test]
fn inverses() {
    let positive = between(f32::from_bits(2 << 23), f32::from_bits(252 << 23));
    let mut at = [positive.clone(), between(1.0, 2.0)].concat();
    at.extend(positive.iter().map(|x| -x));
    let worst = error(&at, &values(Expr::fast_inverse, &at), |x| 1.0 / x);
    assert!((1e-7..3e-7).contains(&worst), "{worst:e}");
    for at in [between(f32::MIN_POSITIVE, f32::MAX), between(1.0, 4.0)] {
        let worst = error(&at, &values(Expr::fast_inverse_sqrt, &at), |x| 1.0 / x.sqrt());
        assert!((1e-7..1e-6).contains(&worst), "{worst:e}");
    }
}

/// Products in the order that the page says.
#[test]
fn whole_powers_are_products() {
    let at: Vec<f32> = (-40..40).map(|k| k as f32 * 0.37 + 0.01).collect();
    let products: [(Written, Plain); 7] = [
        (|x| x.powi(0), |_| 1.0),
        (|x| x.powi(1), |x| x),
        (|x| x.powi(2), |x| x * x),
        (|x| x.powi(3), |x| x * (x * x)),
        (|x| x.powi(6), |x| (x * x) * ((x * x) * (x * x))),
        (|x| x.powi(-2), |x| 1.0 / (x * x)),
        (|x| x.powi(i32::MIN), |x| if x.abs() < 1.0 { f32::INFINITY } else { 0.0 }),
    ];
    for (f, exact) in products {
        let want: Vec<f64> = at.iter().map(|&x| exact(x).into()).collect();
        assert_eq!(values(f, &at), want);
    }
}
