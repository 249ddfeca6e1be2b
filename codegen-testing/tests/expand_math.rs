//! Accuracy of the expansions, by the reference evaluator, and their cost.

use rustc_hash::FxHashSet;
use sumsq_codegen::functions::Function;
use sumsq_codegen::ir::stmt::{Stmt, Target};
use sumsq_codegen::lower::expand_math::{expand_math, expand_math_expr};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Expr, ExprKind, Func, Input, Pipeline, ScalarType, Schedule, Type, UnaryOp, Var};
use sumsq_codegen_testing::maths::{Known, bound, known};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, eval_lanes, eval_scalar, ulps};
use sumsq_codegen_testing::rng::Rng;

/// The expansion of `op`, evaluated at x.
fn evaluate(op: UnaryOp, ty: ScalarType, x: f64) -> f64 {
    let e = expand_math_expr(&Expr::float(ty, x).unary(op));
    eval_scalar(&e, &[], &[]).unwrap().as_f64()
}

/// Numbers to evaluate at.
struct Random(Rng);

impl Random {
    fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.0.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Uniform in the logarithm of the magnitude, any sign.
    fn scaled(&mut self, lo: f64, hi: f64) -> f64 {
        let magnitude = self.uniform(lo.ln(), hi.ln()).exp();
        if self.0.percent(50) { magnitude } else { -magnitude }
    }
}

const POINTS: usize = 3000;

fn check_f32(op: UnaryOp, exact: fn(f64) -> f64, mut point: impl FnMut(&mut Random) -> f64) {
    let mut random = Random(Rng::new(0x9e37_79b9_7f4a_7c15));
    for _ in 0..POINTS {
        let x = point(&mut random) as f32 as f64;
        let error = ulps(ScalarType::F32, evaluate(op, ScalarType::F32, x) - exact(x), exact(x));
        assert!(error.abs() <= 2.5, "{op:?}({x:e}) is off by {error} ulp");
    }
}

#[test]
fn f32_functions_are_within_2_5_ulp() {
    check_f32(UnaryOp::Sin, f64::sin, |r| r.uniform(-10.0, 10.0));
    check_f32(UnaryOp::Cos, f64::cos, |r| r.uniform(-10.0, 10.0));
    check_f32(UnaryOp::Sin, f64::sin, |r| r.scaled(1e-6, 1e5));
    check_f32(UnaryOp::Cos, f64::cos, |r| r.scaled(1e-6, 1e5));
    check_f32(UnaryOp::Sin, f64::sin, |r| r.scaled(9e4, 3.4e38));
    check_f32(UnaryOp::Cos, f64::cos, |r| r.scaled(9e4, 3.4e38));
    check_f32(UnaryOp::Exp, f64::exp, |r| r.uniform(-103.9, 88.7));
    check_f32(UnaryOp::Exp, f64::exp, |r| r.scaled(1e-9, 1.0));
    check_f32(UnaryOp::Log, f64::ln, |r| r.scaled(1e-45, 3e38).abs());
    check_f32(UnaryOp::Log, f64::ln, |r| r.uniform(0.5, 2.0));
}

/// Near multiples of pi/2, where the reduced argument cancels most.
#[test]
fn f32_near_the_zeros() {
    let mut k = 1;
    check_f32(UnaryOp::Sin, f64::sin, |_| {
        k += 21;
        k as f64 * std::f64::consts::FRAC_PI_2
    });
    let mut k = 1;
    check_f32(UnaryOp::Cos, f64::cos, |_| {
        k += 20;
        k as f64 * std::f64::consts::FRAC_PI_2
    });
}

/// Against values computed with 50 digits (mpmath), whose own error in f64 is half a unit.
#[test]
fn f64_functions_are_within_2_ulp() {
    let mut seen = 0;
    for Known { function, operands, high, low } in known() {
        let op = match function {
            Function::Sin => UnaryOp::Sin,
            Function::Cos => UnaryOp::Cos,
            Function::Exp => UnaryOp::Exp,
            Function::Log => UnaryOp::Log,
            _ => continue,
        };
        seen += 1;
        let x = operands[0];
        let got = evaluate(op, ScalarType::F64, x);
        // got - high is exact, being a difference of neighbours.
        let error = ulps(ScalarType::F64, (got - high) - low, high);
        assert!(error.abs() <= bound(function).1, "{op:?}({x:e}) is off by {error} ulp");
    }
    assert!(seen > 1000, "{seen} values");
}

#[test]
fn special_values() {
    use UnaryOp::*;
    let inf = f64::INFINITY;
    for ty in [ScalarType::F32, ScalarType::F64] {
        for (op, x, y) in [
            (Exp, inf, inf),
            (Exp, 1000.0, inf),
            (Exp, -inf, 0.0),
            (Exp, -1000.0, 0.0),
            (Exp, 0.0, 1.0),
            (Log, 0.0, -inf),
            (Log, -0.0, -inf),
            (Log, inf, inf),
            (Log, 1.0, 0.0),
            (Sin, 0.0, 0.0),
            (Cos, 0.0, 1.0),
        ] {
            assert_eq!(evaluate(op, ty, x), y, "{op:?}({x}) in {ty:?}");
        }
        for (op, x) in [(Log, -1.0), (Log, -inf), (Sin, inf), (Cos, -inf)] {
            assert!(evaluate(op, ty, x).is_nan(), "{op:?}({x}) in {ty:?}");
        }
        for op in [Exp, Log, Sin, Cos] {
            assert!(evaluate(op, ty, f64::NAN).is_nan(), "{op:?}(NaN) in {ty:?}");
        }
    }
    let least = f32::from_bits(1) as f64;
    assert_eq!(evaluate(Exp, ScalarType::F32, -103.5), least, "half the least subnormal rounds up");
    assert_eq!(evaluate(Exp, ScalarType::F32, -104.0), 0.0);
}

#[test]
fn lanes_are_kept() {
    let ty = Type::F32.with_lanes(4);
    let ramp = Expr::new(ExprKind::Ramp(Expr::from(0), Expr::from(1)), Type::I32.with_lanes(4));
    for (op, f) in
        [(UnaryOp::Sin, f64::sin as fn(f64) -> f64), (UnaryOp::Exp, f64::exp), (UnaryOp::Log, f64::ln)]
    {
        let e = expand_math_expr(&ramp.cast(ScalarType::F32).unary(op));
        assert_eq!(e.ty(), ty);
        for (lane, value) in eval_lanes(&e, &[], &[]).unwrap().into_iter().enumerate() {
            let Value::Float(v) = value else { panic!("a float") };
            assert!((v - f(lane as f64)).abs() < 1e-5 || v == f(lane as f64), "{op:?}({lane}) = {v}");
        }
    }
}

/// Distinct nodes that compute (neither constants nor variables, broadcasts or reinterpreted bits).
fn operations(e: &Expr) -> usize {
    let (mut seen, mut stack, mut n) = (FxHashSet::default(), vec![e], 0);
    while let Some(e) = stack.pop() {
        if seen.insert(e.id()) {
            n += !matches!(
                e.kind(),
                ExprKind::Int(_)
                    | ExprKind::Float(_)
                    | ExprKind::Param(_)
                    | ExprKind::Broadcast(_)
                    | ExprKind::Reinterpret(_)
            ) as usize;
            e.for_each_child(|c| stack.push(c));
        }
    }
    n
}

/// The cost of each function, and what sharing saves. A change here is a change of speed: measure it.
#[test]
fn operation_counts() {
    let count =
        |ty: ScalarType, f: &dyn Fn(&Expr) -> Expr| operations(&expand_math_expr(&f(&Expr::param("t", ty))));
    let counts = |ty| {
        [
            count(ty, &|x| x.sin()),
            count(ty, &|x| x.cos()),
            // Built twice, from equal but distinct arguments.
            count(ty, &|x| (x + &Expr::float(ty, 1.0)).sin() * (x + &Expr::float(ty, 1.0)).cos()),
            count(ty, &|x| x.exp()),
            count(ty, &|x| x.log()),
        ]
    };
    assert_eq!(counts(ScalarType::F32), [26, 27, 37, 24, 34]);
    assert_eq!(counts(ScalarType::F64), [32, 33, 43, 29, 37]);
}

#[test]
fn other_functions_stay() {
    let half = Expr::float(ScalarType::F16, 0.5).sin();
    assert_eq!(expand_math_expr(&half), half);
    let tan = Expr::from(0.5f32).tan();
    assert_eq!(expand_math_expr(&tan), tan);
}

/// A pipeline of more than 200 keeps them for functions of the module, whose values are the same to the bit.
#[test]
fn hundreds_of_functions_are_not_written_out() {
    let x = Var::new("x");
    let sines = |n: usize| {
        let mut p = Pipeline::new("sines");
        let a = p.input(Input::new("a", &[ScalarType::F64], 1)).at(&[x.expr()], 0);
        let shifted = |k: usize| (&a + &Expr::float(ScalarType::F64, k as f64 * 0.01)).sin();
        let funcs = (0..n).map(|k| Func::new(format!("f{k}"), std::slice::from_ref(&x), vec![shifted(k)]));
        funcs.for_each(|f| {
            let f = p.func(f);
            p.output(&f);
        });
        p
    };
    // Most vectors are near; some have a lane far out, and one has all.
    let far = |k: i32| if k % 11 == 0 || k > 12 { 10f64.powi(k + 20) } else { 0.0 };
    let v: Vec<Value> = (-20..28).map(|k| Value::Float(f64::from(k) * 0.37 + far(k))).collect();
    let a = Realization { planes: vec![v.clone()], ..Realization::zeros(&[ScalarType::F64], &[v.len()]) };
    let given = Bindings { inputs: [("a".into(), a)].into_iter().collect(), params: Default::default() };
    let values = |p: &Pipeline| {
        let compiled = native::compile(p, &Schedule::new()).unwrap();
        let domains = vec![vec![(0, v.len())]; p.outputs.len()];
        native::execute(p, &compiled, &given, &domains, 1).unwrap()
    };
    let (few, many) = (values(&sines(40)), values(&sines(201)));
    let lowered = |n| lower(&sines(n), &Schedule::new(), &LowerOptions::default()).unwrap().to_string();
    // Of the functions that are written out each stands there once, as what large operands choose.
    let places = |n: usize| ["select(", "sin("].map(|text| lowered(n).matches(text).count() >= n);
    assert_eq!((places(200), places(201)), ([true, true], [false, true]));
    for (few, many) in few.iter().zip(&many) {
        let bits = |r: &Realization| r.planes[0].iter().map(|v| v.as_f64().to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(few), bits(many));
    }
}

#[test]
fn statements_are_expanded_throughout() {
    let x = Expr::param("t", ScalarType::F32);
    let provide = |value: Expr| Stmt::Provide {
        func: "f".into(),
        args: vec![],
        values: vec![value],
        to: Target::Intermediate,
    };
    let body = Stmt::Block(vec![provide(x.sin()), provide(x.cos())]).into();
    let s = Stmt::Let { name: "unused".into(), value: x.exp(), body };
    let Stmt::Let { value, body, .. } = expand_math(&s) else { panic!("a let") };
    assert_eq!(operations(&value), 24);
    let Stmt::Block(stmts) = *body else { panic!("a block") };
    let values: Vec<Expr> = stmts
        .into_iter()
        .map(|s| match s {
            Stmt::Provide { values, .. } => values[0].clone(),
            other => panic!("a provide, not {other}"),
        })
        .collect();
    let both = Expr::call("pair", ScalarType::F32, values, 0);
    assert_eq!(
        operations(&both),
        26 + 9 + 1,
        "beside the call: the sine; of the cosine its quadrant and its choice"
    );
}
