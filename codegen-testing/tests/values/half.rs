//! Arithmetic on f16, against f64 rounded once.

use crate::{bindings, row, scalar_and_vector};
use sumsq_codegen::types::{f16, nearest_half};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Var};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const F16: ScalarType = ScalarType::F16;

type Case = (&'static str, fn(&Expr, &Expr) -> Expr, fn(f64, f64) -> f64);

const CASES: &[Case] = &[
    ("add", |a, b| a + b, |a, b| a + b),
    ("sub", |a, b| a - b, |a, b| a - b),
    ("mul", |a, b| a * b, |a, b| a * b),
    ("div", |a, b| a / b, |a, b| a / b),
    ("min", |a, b| a.min(b), |a, b| if b.is_nan() || a < b { a } else { b }),
    ("max", |a, b| a.max(b), |a, b| if b.is_nan() || a > b { a } else { b }),
    ("lt", |a, b| Expr::select(a.lt(b), a, b), |a, b| if a < b { a } else { b }),
    ("fma", |a, b| Expr::fma(a, b, a), |a, b| a.mul_add(b, a)),
    ("sqrt", |a, _| a.sqrt(), |a, _| a.sqrt()),
    ("floor", |a, _| a.floor(), |a, _| a.floor()),
    ("round", |a, _| a.round(), |a, _| a.round_ties_even()),
    ("neg", |a, _| a.unary(sumsq_codegen::UnaryOp::Neg), |a, _| -a),
    ("abs", |a, _| a.abs(), |a, _| a.abs()),
];

#[test]
fn operations_round_once() {
    let mut p = Pipeline::new("half");
    let (x, y) = (Var::new("x"), Var::new("y"));
    let a = p.input(Input::new("a", &[F16], 1));
    let (a, b) = (a.at(&[x.expr()], 0), a.at(&[y.expr()], 0));
    for (name, op, _) in CASES {
        let f = p.func(Func::new(*name, &[x, y], vec![op(&a, &b)]));
        p.output(&f);
    }
    let v = [0.0, -0.0, 1.0, -1.5, 0.1, 3.25, 2048.0, 2047.0, 65504.0, -300.25, 6e-8, 6.1e-5, 1e-6, 33.3];
    let v: Vec<f64> = v.into_iter().chain([f64::NAN, f64::INFINITY]).map(|v| F16.round(v)).collect();
    let given = row(F16, v.iter().map(|&x| Value::Float(x)).collect());
    for s in scalar_and_vector(&p, 8) {
        let extents = vec![vec![v.len(); 2]; CASES.len()];
        let results = agree(&p, &s, &bindings(vec![("a", given.clone())]), &extents);
        for ((name, _, exact), r) in CASES.iter().zip(results) {
            for at in r.points() {
                let (x, y) = (v[at[0] as usize], v[at[1] as usize]);
                let want = Value::Float(F16.round(exact(x, y)));
                let got = r.get(&at, 0).unwrap();
                assert!(got.same(want), "{name} of {x} and {y} is {got}, not {want}");
            }
        }
    }
}

#[test]
fn rounds_to_nearest_even() {
    let tiny = 2f64.powi(-36);
    for (v, r) in [
        (2049.0, 2048.0),
        (2051.0, 2052.0),
        // As a float each of these is a tie.
        (2049.0 + tiny, 2050.0),
        (2051.0 - tiny, 2050.0),
        (65519.9, 65504.0),
        (65520.0 - tiny, 65504.0),
        (65520.0, f64::INFINITY),
        (1e300, f64::INFINITY),
        (2f64.powi(-25), 0.0),
        (2f64.powi(-25) * (1.0 + tiny), 2f64.powi(-24)),
        (1.5 * 2f64.powi(-24), 2f64.powi(-23)),
        (0.1, 0.0999755859375),
    ] {
        assert_eq!(F16.round(v), r, "{v}");
        assert_eq!(F16.round(-v), -r, "{v}");
    }
    assert!(F16.round(-1e-30).is_sign_negative());
    assert!(F16.round(-1e-300).is_sign_negative());
}

#[test]
fn all_bits_go_there_and_back() {
    for bits in 0..=u16::MAX {
        let half = f16::from_bits(bits);
        let quiet = if half.is_nan() { bits | 0x200 } else { bits };
        assert_eq!(nearest_half(half.to_f64()).to_bits(), quiet, "{bits:#x}");
    }
    assert_eq!(nearest_half(f64::NAN).to_bits(), 0x7e00);
    assert_eq!(nearest_half(-f64::NAN).to_bits(), 0xfe00);
}

/// Maths functions are computed in f32: at most the neighbour of the correctly rounded value.
#[test]
fn maths_functions() {
    type Function = (&'static str, fn(&Expr) -> Expr, fn(f64) -> f64);
    let functions: [Function; 8] = [
        ("sin", Expr::sin, f64::sin),
        ("cos", Expr::cos, f64::cos),
        ("tan", Expr::tan, f64::tan),
        ("exp", Expr::exp, f64::exp),
        ("log", Expr::log, f64::ln),
        ("atan", Expr::atan, f64::atan),
        ("tanh", Expr::tanh, f64::tanh),
        ("asinh", Expr::asinh, f64::asinh),
    ];
    let mut p = Pipeline::new("half_maths");
    let x = Var::new("x");
    let a = p.input(Input::new("a", &[F16], 1)).at(&[x.expr()], 0);
    for (name, f, _) in functions {
        let f = p.func(Func::new(name, std::slice::from_ref(&x), vec![f(&a)]));
        p.output(&f);
    }
    let v: Vec<f64> = (-40..40).map(|k| F16.round(k as f64 * 0.23)).collect();
    let given = row(F16, v.iter().map(|&x| Value::Float(x)).collect());
    let b = bindings(vec![("a", given)]);
    let domains: Vec<_> = functions.iter().map(|_| vec![(0, v.len())]).collect();
    for s in scalar_and_vector(&p, 8) {
        let compiled = sumsq_codegen_testing::native::compile(&p, &s).unwrap();
        let results = sumsq_codegen_testing::native::execute(&p, &compiled, &b, &domains, 1).unwrap();
        for ((name, _, exact), r) in functions.iter().zip(results) {
            for (x, got) in v.iter().zip(&r.planes[0]) {
                let (want, got) = (F16.round(exact(*x)), got.as_f64());
                let step = (want.abs() * 2f64.powi(-10)).max(2f64.powi(-24));
                let near = got == want || (got - want).abs() <= step || got.is_nan() && want.is_nan();
                assert!(near, "{name} of {x} is {got}, not {want}");
            }
        }
    }
}
