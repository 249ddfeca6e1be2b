//! Conversions between all types, and large constants.

use crate::{bindings, row, scalar_and_vector};
use sumsq_codegen::compile::{Compiled, Signature};
use sumsq_codegen::limits::{Effort, Limits};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Expr, Func, Input, Level, Pipeline, ScalarType, Schedule, Tail, Target, Var};
use sumsq_codegen_testing::native::{agree, execute};
use sumsq_codegen_testing::reference::{Value, evaluate_over};

const TYPES: [ScalarType; 12] = ScalarType::ALL;

fn values(ty: ScalarType) -> Vec<Value> {
    if ty.is_float() {
        let v = [
            0.0, -0.0, 0.4, -0.6, 1.0, 127.5, 128.0, 255.9, -129.0, 1e4, 65504.0, 65520.0, 7e9, -7e9, 2e19,
            1e-7,
        ];
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 2049.0, 4097.5, 1.0 + f64::EPSILON];
        return v.into_iter().chain(special).map(|v| Value::of(ty, v)).collect();
    }
    let v = [
        0,
        1,
        2,
        100,
        127,
        128,
        255,
        256,
        2049,
        65519,
        65535,
        65536,
        16777217,
        i64::MAX,
        i64::MIN,
        -1,
        -2,
        -128,
    ];
    let mut v: Vec<Value> = v.into_iter().map(|v| Value::Int(ty.wrap(v))).collect();
    // Rounds up in f32; through f64 the last bit would be lost, and the tie go down.
    v.push(Value::Int(ty.wrap((1 << 54) + (1 << 30) + 1)));
    v
}

/// Returns what Rust's `as` gives, where it knows both types.
fn by_rust(v: Value, from: ScalarType, to: ScalarType) -> Option<Value> {
    use ScalarType::*;
    if from == F16 || to == F16 {
        return None;
    }
    let whole = |i: i64| match from {
        U64 => i as u64 as i128,
        _ => i as i128,
    };
    Some(match (v, to) {
        (Value::Int(i), F32) => Value::Float(whole(i) as f32 as f64),
        (Value::Int(i), F64) => Value::Float(whole(i) as f64),
        (Value::Int(i), Bool) => Value::Int((i != 0) as i64),
        (Value::Int(i), to) => Value::Int(to.wrap(i)),
        (Value::Float(x), F32) => Value::Float(x as f32 as f64),
        (Value::Float(x), F64) => Value::Float(x),
        (Value::Float(x), Bool) => Value::Int((x != 0.0) as i64),
        (Value::Float(x), I8) => Value::Int(x as i8 as i64),
        (Value::Float(x), I16) => Value::Int(x as i16 as i64),
        (Value::Float(x), I32) => Value::Int(x as i32 as i64),
        (Value::Float(x), I64) => Value::Int(x as i64),
        (Value::Float(x), U8) => Value::Int(x as u8 as i64),
        (Value::Float(x), U16) => Value::Int(x as u16 as i64),
        (Value::Float(x), U32) => Value::Int(x as u32 as i64),
        (Value::Float(x), _) => Value::Int(x as u64 as i64),
    })
}

#[test]
fn between_all_types() {
    for from in TYPES {
        let mut p = Pipeline::new("casts");
        let x = Var::new("x");
        let a = p.input(Input::new("a", &[from], 1)).at(&[x.expr()], 0);
        for to in TYPES {
            let f = p.func(Func::new(to.name(), std::slice::from_ref(&x), vec![a.cast(to)]));
            p.output(&f);
        }
        let v = values(from);
        let b = bindings(vec![("a", row(from, v.clone()))]);
        for s in scalar_and_vector(&p, 8) {
            let results = agree(&p, &s, &b, &vec![vec![v.len()]; TYPES.len()]);
            for (to, r) in TYPES.into_iter().zip(results) {
                for (&v, &got) in v.iter().zip(&r.planes[0]) {
                    let want = by_rust(v, from, to).unwrap_or(got);
                    assert!(got.same(want), "{v} from {} to {} is {got}, not {want}", from.name(), to.name());
                }
            }
        }
    }
}

/// Around the ends of every integer type: the ends themselves, half and one beyond, and the neighbours that the float type has.
fn edges(ty: ScalarType) -> Vec<Value> {
    let mut all = vec![f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-45, -1e-310];
    let ends = TYPES.into_iter().filter(|t| t.is_int()).flat_map(|t| {
        let greatest = if t == ScalarType::U64 { u64::MAX as f64 } else { t.greatest() as f64 };
        [t.least() as f64, greatest]
    });
    for end in ends.chain([65504.0, 1.0]) {
        for v in [end - 1.0, end - 0.5, end, end + 0.5, end + 1.0] {
            let near = ty.round(v);
            // The neighbours of f32 and of f16 are beyond those of f64.
            let step = near.abs()
                * match ty {
                    ScalarType::F16 => 2f64.powi(-11),
                    ScalarType::F32 => 2f64.powi(-24),
                    _ => 2f64.powi(-53),
                };
            all.extend([near, near - 2.0 * step, near - step, near + step, near + 2.0 * step]);
        }
    }
    all.into_iter().map(|v| Value::of(ty, v)).collect()
}

/// One conversion of `from` under `prepare`, in scalars and vectors of several lengths, against the definition.
fn converted(
    from: ScalarType,
    to: ScalarType,
    prepare: impl Fn(Expr) -> Expr,
    expected: impl Fn(f64) -> f64,
) {
    let mut p = Pipeline::new("edges");
    let x = Var::new("x");
    let a = p.input(Input::new("a", &[from], 1)).at(&[x.expr()], 0);
    let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![prepare(a).cast(to)]));
    p.output(&f);
    let v = edges(from);
    let b = bindings(vec![("a", row(from, v.clone()))]);
    let [scalar, eight] = scalar_and_vector(&p, 8);
    let [_, many] = scalar_and_vector(&p, 32);
    for s in [scalar, eight, many] {
        let r = &agree(&p, &s, &b, &[vec![v.len()]])[0];
        for (v, got) in v.iter().zip(&r.planes[0]) {
            let want = Value::Int(to.saturate(expected(v.as_f64())));
            assert!(got.same(want), "{v} from {} to {} is {got}, not {want}", from.name(), to.name());
        }
    }
}

#[test]
fn floats_around_the_ends_of_integers() {
    for from in TYPES.into_iter().filter(|t| t.is_float()) {
        for to in TYPES.into_iter().filter(|t| t.is_int()) {
            converted(from, to, |a| a, |v| v);
        }
    }
}

/// Knowledge of the operand makes steps needless, and none that is needed.
#[test]
fn bounded_floats_around_the_ends_of_integers() {
    let number = |v: f64, other: f64| if v.is_nan() { other } else { v };
    for from in [ScalarType::F32, ScalarType::F64] {
        for to in TYPES.into_iter().filter(|t| t.is_int()) {
            let greatest = if to == ScalarType::U64 { u64::MAX as f64 } else { to.greatest() as f64 };
            let (least, greatest) = (to.least() as f64, from.round(greatest));
            for (low, high) in
                [(least, greatest), (least - 1.0, greatest), (least, 2.0 * greatest), (-0.5, 0.5)]
            {
                let (low, high) = (from.round(low), from.round(high));
                let [l, h] = [low, high].map(|v| Expr::float(from, v));
                converted(from, to, |a| a.clamp(&l, &h), |v| number(v, low).clamp(low, high));
                converted(from, to, |a| h.min(a), |v| number(v, high).min(high));
                converted(from, to, |a| l.max(a).abs(), |v| number(v, low).max(low).abs());
                converted(from, to, |a| Expr::select(a.gt(&l), a, &h), |v| if v > low { v } else { high });
            }
        }
    }
}

#[test]
fn saturating() {
    for from in TYPES.into_iter().filter(|t| t.is_int()) {
        for to in TYPES.into_iter().filter(|t| t.is_int()) {
            let mut p = Pipeline::new("casts");
            let x = Var::new("x");
            let a = p.input(Input::new("a", &[from], 1)).at(&[x.expr()], 0);
            let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![a.saturating_cast(to)]));
            p.output(&f);
            let v = values(from);
            let [s, _] = scalar_and_vector(&p, 8);
            let r = &agree(&p, &s, &bindings(vec![("a", row(from, v.clone()))]), &[vec![v.len()]])[0];
            let whole =
                |ty: ScalarType, v: i64| if ty == ScalarType::U64 { v as u64 as i128 } else { v as i128 };
            for (v, got) in v.iter().zip(&r.planes[0]) {
                let v = whole(from, v.as_int().unwrap());
                let want = v.clamp(to.least() as i128, whole(to, to.greatest()));
                assert_eq!(
                    whole(to, got.as_int().unwrap()),
                    want,
                    "{v} from {} to {}",
                    from.name(),
                    to.name()
                );
            }
        }
    }
}

/// Constants beyond 2^53 are exact.
#[test]
fn large_constants() {
    let k = (1i64 << 60) + 1;
    let x = Expr::new(sumsq_codegen::ExprKind::Var("x".into()), ScalarType::I64.into());
    for e in [x.clone() + k, &x + k] {
        assert_eq!(e.to_string(), format!("x + {k}:i64"));
    }
    assert_eq!(Expr::constant(ScalarType::U8, 300.0).as_int(), Some(255), "saturates");
    assert_eq!(Expr::float(ScalarType::F16, 2049.0).as_float(), Some(2048.0), "is rounded");
}

/// Exact conversions to a narrow type on both sides of a comparison, with the least optimisation: what LLVM 22 makes of these for AVX2 itself
/// ends the process.
#[test]
fn narrow_numbers_are_compared() {
    let x = Var::new("x");
    let mut p = Pipeline::new("narrow");
    let [a, b] = ["a", "b"].map(|name| p.input(Input::new(name, &[ScalarType::F32], 1)));
    let at = |i: &Input| i.at(&[x.expr()], 0).cast(ScalarType::I16);
    let values = vec![at(&a).ne_(at(&b)), at(&a).lt(at(&b))];
    let out = p.func(Func::new("out", &[x], values));
    p.output(&out);
    let mut s = Schedule::new();
    s.func("out").vectorize("x", 8, Tail::Predicate);
    let f = lower(&p, &s, &LowerOptions { verify: true, ..LowerOptions::default() }).expect("legal");
    let limits = Limits { effort: Effort::Least, ..Limits::default() };
    // Code for AVX2 also where there is more.
    let target = Level::X86V3.target().unwrap_or_else(|_| Target::host());
    let compiled =
        Compiled::from_lowered_within(&f, Signature::of(&p, &s).expect("well formed"), &target, &limits)
            .expect("it is compiled");
    let numbers = |of: &[f64]| row(ScalarType::F32, of.iter().map(|&v| Value::Float(v)).collect());
    let of = [1.0, 2.0, -3.5, 1e9, f64::NAN, 40000.0, -7.0, 0.0, 5.0];
    let beside = [1.0, 3.0, -3.0, 32767.0, 0.0, 1.0, -6.0, -0.5, 4.0];
    let b = bindings(vec![("a", numbers(&of)), ("b", numbers(&beside))]);
    let domain = vec![vec![(0, of.len())]];
    let came = execute(&p, &compiled, &b, &domain, 1).expect("it runs");
    assert_eq!(came[0].planes, evaluate_over(&p, &b, &domain).expect("it is evaluated")[0].planes);
}
