//! Data: every operator on every type, wrapping and rounding.

use crate::{Environment, check, seeds, splat};
use sumsq_codegen::lower::simplify::simplify_expr;
use sumsq_codegen::{BinaryOp, Expr, ScalarType, UnaryOp};
use sumsq_codegen_testing::reference::Value;
use sumsq_codegen_testing::rng::Rng;

const TYPES: [ScalarType; 12] = ScalarType::ALL;

/// Two parameters of each type.
fn param(ty: ScalarType, k: usize) -> Expr {
    Expr::param(format!("{}.{k}", ty.name()), ty)
}

fn extreme(rng: &mut Rng, ty: ScalarType) -> Value {
    if ty.is_float() {
        let v = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            3.0,
            1e30,
            -65504.0,
            1e-8,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        return Value::of(ty, rng.pick(&v));
    }
    match rng.below(4) {
        0 => Value::Int(ty.wrap(rng.range(-3, 3))),
        1 => Value::Int(ty.wrap(ty.least().wrapping_add(rng.range(0, 2)))),
        2 => Value::Int(ty.wrap(ty.greatest().wrapping_sub(rng.range(0, 2)))),
        _ => Value::Int(ty.wrap(rng.bits() as i64)),
    }
}

fn constant(rng: &mut Rng, ty: ScalarType) -> Expr {
    match extreme(rng, ty) {
        Value::Int(v) if rng.percent(50) => Expr::int(ty, v),
        Value::Float(v) if rng.percent(70) => Expr::float(ty, v),
        _ => Expr::whole(ty, rng.range(-1, 8)),
    }
}

/// An expression of type `ty` with `lanes` lanes.
fn expr(rng: &mut Rng, ty: ScalarType, lanes: u16, depth: usize) -> Expr {
    if lanes > 1 && rng.percent(20) {
        return splat(expr(rng, ty, 1, depth), lanes);
    }
    if depth == 0 || rng.percent(10) {
        return leaf(rng, ty, lanes);
    }
    let sub = |rng: &mut Rng, ty| expr(rng, ty, lanes, depth - 1);
    match rng.below(12) {
        0 => {
            let from = rng.pick(&TYPES);
            sub(rng, from).cast(ty)
        }
        1 => {
            let condition = sub(rng, ScalarType::Bool);
            let (a, b) = (sub(rng, ty), sub(rng, ty));
            Expr::select(condition, a, b)
        }
        2 if ty.is_float() => {
            let (a, b, c) = (sub(rng, ty), sub(rng, ty), sub(rng, ty));
            Expr::fma(a, b, c)
        }
        2 if ty == ScalarType::Bool => sub(rng, ty).likely(),
        3 if ty.is_float() && rng.percent(30) => sub(rng, ty).strict_float(),
        3 | 4 => {
            let a = sub(rng, ty);
            unary(rng, a)
        }
        5 if ty != ScalarType::Bool && rng.percent(30) => {
            use BinaryOp::*;
            let op = if ty.is_float() {
                rng.pick(&[Add, Mul, Min, Max])
            } else {
                rng.pick(&[Add, Mul, Min, Max, And, Or])
            };
            let groups = rng.pick(&[2, 3, 4]);
            Expr::reduced(op, expr(rng, ty, lanes * groups, depth - 1), lanes)
        }
        6 if lanes.is_multiple_of(2) && rng.percent(30) => {
            let parts = vec![expr(rng, ty, lanes / 2, depth - 1), expr(rng, ty, lanes / 2, depth - 1)];
            rng.pick(&[Expr::interleave, Expr::concat])(parts)
        }
        5..8 if ty == ScalarType::Bool => comparison(rng, lanes, depth),
        _ => {
            let (a, b) = (sub(rng, ty), sub(rng, ty));
            binary(rng, ty, a, b)
        }
    }
}

fn leaf(rng: &mut Rng, ty: ScalarType, lanes: u16) -> Expr {
    let e = if rng.percent(45) {
        constant(rng, ty)
    } else {
        let k = rng.below(2);
        // Bits of another parameter mark an integer as data, as a load would.
        match ty {
            ScalarType::I32 => param(ScalarType::U32, k).reinterpret(ty),
            ScalarType::I64 => param(ScalarType::U64, k).reinterpret(ty),
            _ => param(ty, k),
        }
    };
    splat(e, lanes)
}

fn unary(rng: &mut Rng, a: Expr) -> Expr {
    use UnaryOp::*;
    let ty = a.ty().scalar;
    if ty == ScalarType::Bool {
        return a.not_();
    }
    if ty.is_int() {
        let ops = if ty.is_signed() { [Neg, Not, Abs] } else { [Neg, Not, Not] };
        return a.unary(rng.pick(&ops));
    }
    a.unary(rng.pick(&[Neg, Abs, Sqrt, Floor, Ceil, Round, Trunc]))
}

fn binary(rng: &mut Rng, ty: ScalarType, a: Expr, b: Expr) -> Expr {
    use BinaryOp::*;
    let op = match ty {
        ScalarType::Bool => rng.pick(&[And, Or, Xor, Min, Max]),
        _ if ty.is_float() => rng.pick(&[Add, Sub, Mul, Div, Mod, Min, Max]),
        _ => rng.pick(&[Add, Sub, Mul, Div, Mod, Min, Max, And, Or, Xor, Shl, Shr]),
    };
    // What is the same on both sides is what rules look for.
    let b = if rng.percent(15) { a.clone() } else { b };
    Expr::binary(op, a, b)
}

/// Of i32 and i64, one that reads no data is index arithmetic; see `index`.
fn comparison(rng: &mut Rng, lanes: u16, depth: usize) -> Expr {
    use BinaryOp::*;
    let ty = rng.pick(&TYPES);
    let (mut a, b) = (expr(rng, ty, lanes, depth - 1), expr(rng, ty, lanes, depth - 1));
    if matches!(ty, ScalarType::I32 | ScalarType::I64) {
        a = a + splat(param(ty.unsigned(), 0).reinterpret(ty), lanes);
    }
    let b = if rng.percent(10) { a.clone() } else { b };
    let op = rng.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
    if ty == ScalarType::Bool { Expr::binary(rng.pick(&[Eq, Ne]), a, b) } else { Expr::binary(op, a, b) }
}

#[test]
fn data_keeps_its_value() {
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let ty = rng.pick(&TYPES);
        let lanes = rng.pick(&[1, 1, 4]);
        let e = expr(&mut rng, ty, lanes, 4);
        let environment = |_| -> Environment {
            let names = TYPES.iter().flat_map(|&ty| (0..2).map(move |k| (ty, k)));
            names.map(|(ty, k)| (format!("{}.{k}", ty.name()).into(), extreme(&mut rng, ty))).collect()
        };
        let environments: Vec<Environment> = (0..6).map(environment).collect();
        check(seed, &e, &simplify_expr, &environments);
    }
}
