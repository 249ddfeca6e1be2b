//! Scalar values and the meaning of every operator on them.
//!
//! Floats are computed in f64 and rounded to the type after each operation. For f16 and f32 this equals a
//! computation in the type itself for `+ - * /` and `sqrt`, because 53 >= 2 * 24 + 2 bits make the first rounding
//! innocuous; the fused multiply-add, where this does not hold for f32, is computed in its own type. (For f16 it holds: the
//! exact a b + c of halves has at most 53 significant bits unless the result overflows or c decides no tie.)

use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::fmt;
use sumsq_codegen::expr::{BinaryOp, UnaryOp};
use sumsq_codegen::functions::Function;
use sumsq_codegen::lower::expand_math::define;
use sumsq_codegen::types::{ScalarType, f16, nearest_half};
use sumsq_codegen::{Expr, ExprKind};

/// A scalar of any type. An `Int` is wrapped to its type (u64 as its bits), a `Float` rounded to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    /// An integer or bool.
    Int(i64),
    /// An f16, f32 or f64.
    Float(f64),
}

/// Reason why an operator has no meaning on its operands: the expression is ill-typed.
#[derive(Clone, PartialEq, Debug)]
pub struct IllTyped(pub String);

impl Value {
    /// Zero of a type.
    pub const fn zero(ty: ScalarType) -> Value {
        if ty.is_float() { Value::Float(0.0) } else { Value::Int(0) }
    }

    /// The number nearest to `v` in type `ty` (integers: truncated, saturated).
    pub fn of(ty: ScalarType, v: f64) -> Value {
        if ty.is_float() { Value::Float(round_to(ty, v)) } else { Value::Int(ty.saturate(v)) }
    }

    /// The integer, if it is one.
    pub const fn as_int(self) -> Option<i64> {
        match self {
            Value::Int(v) => Some(v),
            Value::Float(_) => None,
        }
    }

    /// The value as f64 (integers: signed).
    pub const fn as_f64(self) -> f64 {
        match self {
            Value::Int(v) => v as f64,
            Value::Float(v) => v,
        }
    }

    /// Equal as stored numbers: NaN equals NaN, and -0 equals +0, of which the order of a minimum or maximum decides which one it
    /// gives. Compare bits where the sign matters, as with strict floats.
    pub fn same(self, other: Value) -> bool {
        match (self, other) {
            (Value::Float(a), Value::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (a, b) => a == b,
        }
    }

    fn is_true(self) -> bool {
        match self {
            Value::Int(v) => v != 0,
            Value::Float(v) => v != 0.0,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v:?}"),
        }
    }
}

/// Rounds to the nearest float of type `ty`, ties to even.
pub fn round_to(ty: ScalarType, v: f64) -> f64 {
    ty.round(v)
}

/// `ExprKind::Cast` from type `from` to type `to`.
pub fn cast(from: ScalarType, to: ScalarType, v: Value) -> Value {
    match v {
        Value::Float(x) => Value::of(to, x),
        Value::Int(x) if !to.is_float() => Value::Int(to.wrap(x)),
        // One rounding: i64 -> f32 through f64 would round twice.
        Value::Int(x) => Value::Float(match (from, to) {
            (ScalarType::U64, ScalarType::F32) => x as u64 as f32 as f64,
            (ScalarType::U64, _) => round_to(to, x as u64 as f64),
            (_, ScalarType::F32) => x as f32 as f64,
            _ => round_to(to, x as f64),
        }),
    }
}

/// `ExprKind::Reinterpret` from type `from` to type `to` of the same width.
pub fn reinterpret(from: ScalarType, to: ScalarType, v: Value) -> Result<Value, IllTyped> {
    use ScalarType::*;
    match (v, from, to) {
        (Value::Float(x), F32, I32 | U32) => Ok(Value::Int(to.wrap((x as f32).to_bits() as i64))),
        (Value::Float(x), F64, I64 | U64) => Ok(Value::Int(x.to_bits() as i64)),
        (Value::Float(x), F16, I16 | U16) => Ok(Value::Int(to.wrap(nearest_half(x).to_bits() as i64))),
        (Value::Int(x), I16 | U16, F16) => Ok(Value::Float(f16::from_bits(x as u16).to_f64())),
        (Value::Int(x), I32 | U32, F32) => Ok(Value::Float(f32::from_bits(x as u32) as f64)),
        (Value::Int(x), I64 | U64, F64) => Ok(Value::Float(f64::from_bits(x as u64))),
        (Value::Int(x), a, b) if a.is_int() && b.is_int() && a.bytes() == b.bytes() => {
            Ok(Value::Int(b.wrap(x)))
        }
        _ if from == to => Ok(v),
        _ => Err(IllTyped(format!("cannot reinterpret {} as {}", from.name(), to.name()))),
    }
}

/// `op a` on operands of type `ty`.
pub fn unary(op: UnaryOp, ty: ScalarType, a: Value) -> Result<Value, IllTyped> {
    match a {
        Value::Float(x) => float_unary(op, ty, x),
        Value::Int(x) => match op {
            UnaryOp::Not if ty == ScalarType::Bool => Ok(Value::Int((x == 0) as i64)),
            UnaryOp::Not => Ok(Value::Int(ty.wrap(!x))),
            UnaryOp::Neg if ty.is_int() => Ok(Value::Int(ty.wrap(x.wrapping_neg()))),
            UnaryOp::Abs if ty.is_signed() => Ok(Value::Int(ty.wrap(x.wrapping_abs()))),
            UnaryOp::Abs if ty.is_int() => Ok(a),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if ty.is_int() => Ok(a),
            UnaryOp::IsNan if ty.is_int() => Ok(Value::Int(0)),
            _ => Err(IllTyped(format!("{op:?} of {}", ty.name()))),
        },
    }
}

fn float_unary(op: UnaryOp, ty: ScalarType, x: f64) -> Result<Value, IllTyped> {
    use UnaryOp::*;
    let y = match op {
        Neg => -x,
        Floor => x.floor(),
        Ceil => x.ceil(),
        Round => x.round_ties_even(),
        Trunc => x.trunc(),
        IsNan => return Ok(Value::Int(x.is_nan() as i64)),
        _ => match op.function() {
            Some(f) => function(f, ty, &[x]),
            None => return Err(IllTyped(format!("{op:?} of {}", ty.name()))),
        },
    };
    Ok(Value::Float(round_to(ty, y)))
}

/// A function as generated code has it: by the arithmetic of its definition, that of f16 in f32. (Expansions are tested against exact
/// values, not against each other.) Sines, cosines, exponentials and logarithms are the standard library's here: lowering expands
/// them before, but for sines and cosines of large operands, and what is compared is expanded, too.
fn function(f: Function, ty: ScalarType, operands: &[f64]) -> f64 {
    use Function::{Abs, Cos, Exp, Log, Sin, Sqrt};
    let (x, y) = (operands[0], operands.get(1).copied().unwrap_or(0.0));
    if matches!(f, Abs | Sqrt | Exp | Log) || matches!(f, Sin | Cos) && (x.abs() <= 1e5 || x.is_nan()) {
        return f.value(x, y);
    }
    let of = if ty == ScalarType::F64 { ty } else { ScalarType::F32 };
    let operands: Vec<Expr> = operands.iter().map(|&v| Expr::float(of, v)).collect();
    let value = define(f, &operands).and_then(|e| constant(&e, &mut FxHashMap::default()).ok());
    value.map_or_else(|| f.value(x, y), Value::as_f64)
}

/// The value of an expression without names; `known` holds those of its nodes.
fn constant(e: &Expr, known: &mut FxHashMap<usize, Value>) -> Result<Value, IllTyped> {
    if let Some(value) = known.get(&e.id()) {
        return Ok(*value);
    }
    let ty = e.ty().scalar;
    let mut of = |e: &Expr| constant(e, known);
    let value = match e.kind() {
        ExprKind::Int(v) => Value::Int(ty.wrap(*v)),
        ExprKind::Float(v) => Value::Float(round_to(ty, *v)),
        ExprKind::Unary(op, a) => unary(*op, a.ty().scalar, of(a)?)?,
        ExprKind::Binary(op, a, b) => binary(*op, a.ty().scalar, of(a)?, of(b)?)?,
        ExprKind::Fma(a, b, c) => fma(ty, of(a)?, of(b)?, of(c)?)?,
        ExprKind::Select(c, a, b) => select(of(c)?, of(a)?, of(b)?),
        ExprKind::Reinterpret(a) => reinterpret(a.ty().scalar, ty, of(a)?)?,
        ExprKind::Cast(a) => cast(a.ty().scalar, ty, of(a)?),
        _ => return Err(IllTyped(format!("{e} is not arithmetic on numbers"))),
    };
    known.insert(e.id(), value);
    Ok(value)
}

/// `a op b` on operands of type `ty`; comparisons give bool.
pub fn binary(op: BinaryOp, ty: ScalarType, a: Value, b: Value) -> Result<Value, IllTyped> {
    let value = match (a, b) {
        (Value::Int(x), Value::Int(y)) if op.is_comparison() => Some(compare(op, Some(order(ty, x, y)))),
        (Value::Float(x), Value::Float(y)) if op.is_comparison() => Some(compare(op, x.partial_cmp(&y))),
        (Value::Int(x), Value::Int(y)) if ty == ScalarType::Bool => bool_binary(op, x, y),
        (Value::Int(x), Value::Int(y)) => int_binary(op, ty, x, y).map(|v| Value::Int(ty.wrap(v))),
        (Value::Float(x), Value::Float(y)) => float_binary(op, ty, x, y).map(Value::Float),
        _ => None,
    };
    value.ok_or_else(|| IllTyped(format!("{op:?} of {}", ty.name())))
}

/// `a * b + c` rounded once.
pub fn fma(ty: ScalarType, a: Value, b: Value, c: Value) -> Result<Value, IllTyped> {
    match (a, b, c) {
        (Value::Float(a), Value::Float(b), Value::Float(c)) if ty == ScalarType::F32 => {
            Ok(Value::Float((a as f32).mul_add(b as f32, c as f32) as f64))
        }
        (Value::Float(a), Value::Float(b), Value::Float(c)) => {
            Ok(Value::Float(round_to(ty, a.mul_add(b, c))))
        }
        _ => Err(IllTyped(format!("Fma of {}", ty.name()))),
    }
}

/// `cond ? a : b`; nothing of the other arm is seen.
pub fn select<T>(cond: Value, a: T, b: T) -> T {
    if cond.is_true() { a } else { b }
}

/// Order of two integers in their type (u64 compares as unsigned bits).
fn order(ty: ScalarType, x: i64, y: i64) -> Ordering {
    if ty == ScalarType::U64 { (x as u64).cmp(&(y as u64)) } else { x.cmp(&y) }
}

/// A comparison, given the order of its operands (none: one is NaN).
fn compare(op: BinaryOp, order: Option<Ordering>) -> Value {
    use BinaryOp::*;
    let holds = match op {
        Eq => order == Some(Ordering::Equal),
        Ne => order != Some(Ordering::Equal),
        Lt => order == Some(Ordering::Less),
        Gt => order == Some(Ordering::Greater),
        Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    };
    Value::Int(holds as i64)
}

fn bool_binary(op: BinaryOp, x: i64, y: i64) -> Option<Value> {
    match op {
        BinaryOp::And | BinaryOp::Min => Some(Value::Int(x & y)),
        BinaryOp::Or | BinaryOp::Max => Some(Value::Int(x | y)),
        BinaryOp::Xor => Some(Value::Int(x ^ y)),
        _ => None,
    }
}

/// Not yet wrapped to the type.
fn int_binary(op: BinaryOp, ty: ScalarType, x: i64, y: i64) -> Option<i64> {
    use BinaryOp::*;
    let unsigned = ty == ScalarType::U64;
    Some(match op {
        Add => x.wrapping_add(y),
        Sub => x.wrapping_sub(y),
        Mul => x.wrapping_mul(y),
        Div | Mod if y == 0 => 0,
        Div if unsigned => ((x as u64) / (y as u64)) as i64,
        Mod if unsigned => ((x as u64) % (y as u64)) as i64,
        Div => x.wrapping_div_euclid(y),
        Mod => x.wrapping_rem_euclid(y),
        Min => std::cmp::min_by(x, y, |a, b| order(ty, *a, *b)),
        Max => std::cmp::max_by(x, y, |a, b| order(ty, *a, *b)),
        And => x & y,
        Or => x | y,
        Xor => x ^ y,
        Shl => shift_left(ty, x, y),
        Shr => shift_right(ty, x, y),
        _ => return None,
    })
}

/// The shift amount if it is in `0..width`.
fn amount(ty: ScalarType, y: i64) -> Option<u32> {
    u32::try_from(y).ok().filter(|&n| (n as usize) < 8 * ty.bytes())
}

fn shift_left(ty: ScalarType, x: i64, y: i64) -> i64 {
    amount(ty, y).map_or(0, |n| x << n)
}

fn shift_right(ty: ScalarType, x: i64, y: i64) -> i64 {
    match amount(ty, y) {
        Some(n) if ty == ScalarType::U64 => ((x as u64) >> n) as i64,
        Some(n) => x >> n,
        None if ty.is_signed() && x < 0 => -1,
        None => 0,
    }
}

fn float_binary(op: BinaryOp, ty: ScalarType, x: f64, y: f64) -> Option<f64> {
    use BinaryOp::*;
    let round = |v| round_to(ty, v);
    Some(round(match op {
        Add => x + y,
        Sub => x - y,
        Mul => x * y,
        Div => x / y,
        // Each operation rounded.
        Mod => x - round(y * floored_quotient(ty, x, y)),
        Min | Max if first_is_chosen(op, x, y) => x,
        Min | Max => y,
        _ => function(op.function()?, ty, &[x, y]),
    }))
}

/// The integer n of the modulus `x - n y`: `floor(x / y)`, the quotient rounded first.
pub fn floored_quotient(ty: ScalarType, x: f64, y: f64) -> f64 {
    round_to(ty, x / y).floor()
}

/// The operand that a minimum or maximum of floats returns is `x`: it is beyond `y`, or `y` is NaN. Of equal ones it is `y`.
pub fn first_is_chosen(op: BinaryOp, x: f64, y: f64) -> bool {
    y.is_nan() || if op == BinaryOp::Min { x < y } else { x > y }
}

/// `difference` in units in the last place of `exact` in type `ty`.
pub fn ulps(ty: ScalarType, difference: f64, exact: f64) -> f64 {
    let (digits, least) = if ty == ScalarType::F32 { (23, -149) } else { (52, -1074) };
    let exponent = if exact == 0.0 { least } else { exact.abs().log2().floor() as i32 - digits };
    let unit = exponent.max(least);
    // In two steps: a power of two below 2^-1022 is inexact as an intermediate.
    difference / 2f64.powi(unit.max(-1000)) / 2f64.powi(unit - unit.max(-1000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ScalarType::*;

    fn int(op: BinaryOp, ty: ScalarType, a: i64, b: i64) -> i64 {
        binary(op, ty, Value::Int(a), Value::Int(b)).unwrap().as_int().unwrap()
    }

    #[test]
    fn division_is_euclidean_and_total() {
        for (a, b, q, r) in [(7, 3, 2, 1), (-7, 3, -3, 2), (7, -3, -2, 1), (-7, -3, 3, 2), (5, 0, 0, 0)] {
            assert_eq!((int(BinaryOp::Div, I32, a, b), int(BinaryOp::Mod, I32, a, b)), (q, r), "{a} by {b}");
        }
        assert_eq!(int(BinaryOp::Div, I8, -128, -1), -128, "wraps");
        assert_eq!(int(BinaryOp::Div, U64, -1, 2), i64::MAX, "u64 is unsigned");
    }

    #[test]
    fn shifts_outside_the_width() {
        assert_eq!(int(BinaryOp::Shl, I32, 1, 31), i32::MIN as i64);
        assert_eq!(int(BinaryOp::Shl, I32, 1, 32), 0);
        assert_eq!(int(BinaryOp::Shl, U8, 0xff, 4), 0xf0);
        assert_eq!(int(BinaryOp::Shr, I32, -8, 40), -1);
        assert_eq!(int(BinaryOp::Shr, I32, -8, -1), -1);
        assert_eq!(int(BinaryOp::Shr, U32, 8, 40), 0);
    }

    #[test]
    fn casts_saturate_floats_and_wrap_integers() {
        assert_eq!(cast(F32, U8, Value::Float(-3.5)), Value::Int(0));
        assert_eq!(cast(F64, U8, Value::Float(300.0)), Value::Int(255));
        assert_eq!(cast(F64, I32, Value::Float(f64::NAN)), Value::Int(0));
        assert_eq!(cast(F64, I16, Value::Float(-2.9)), Value::Int(-2));
        assert_eq!(cast(I32, U8, Value::Int(-1)), Value::Int(255));
        assert_eq!(cast(U64, F64, Value::Int(-1)), Value::Float(u64::MAX as f64));
        // 2^54 + 2^30 + 1 rounds up in f32; through f64 the last 1 would be lost, and the tie go down.
        let v = (1 << 54) + (1 << 30) + 1;
        assert_eq!(cast(I64, F32, Value::Int(v)), Value::Float(((1i64 << 54) + (1 << 31)) as f64));
    }

    #[test]
    fn nan_rules() {
        let (nan, one) = (Value::Float(f64::NAN), Value::Float(1.0));
        assert_eq!(binary(BinaryOp::Min, F32, nan, one), Ok(one));
        assert_eq!(binary(BinaryOp::Max, F32, one, nan), Ok(one));
        assert_eq!(binary(BinaryOp::Ne, F32, nan, nan), Ok(Value::Int(1)));
        assert_eq!(binary(BinaryOp::Ge, F32, nan, one), Ok(Value::Int(0)));
        assert_eq!(select(Value::Int(0), nan, one), one);
    }

    #[test]
    fn fma_rounds_once() {
        let (a, c) = (1.0 + 2f64.powi(-12), -(1.0 + 2f64.powi(-11)));
        let v = |x| Value::Float(x);
        assert_eq!(fma(F32, v(a), v(a), v(c)), Ok(v(2f64.powi(-24))));
    }
}
