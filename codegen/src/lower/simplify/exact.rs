//! Rewrites that are exact for every value of every type: constant folding in the node's own type, and identities.

use crate::analysis::algebra::poly::splat;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};

/// A constant of the given type, broadcast if it has lanes.
fn int(ty: Type, v: i64) -> Expr {
    splat(Expr::int(ty.scalar, v), ty.lanes)
}

fn float(ty: Type, v: f64) -> Expr {
    splat(Expr::float(ty.scalar, v), ty.lanes)
}

pub(super) fn boolean(ty: Type, v: bool) -> Expr {
    int(ty.as_bool(), v as i64)
}

/// Value of a binary operator on integers of type `ty` (u64 as its bits).
pub fn fold_int(op: BinaryOp, ty: ScalarType, a: i64, b: i64) -> Option<i64> {
    use BinaryOp::*;
    let unsigned = ty == ScalarType::U64;
    let less = if unsigned { (a as u64) < (b as u64) } else { a < b };
    let width = 8 * ty.bytes() as i64;
    let shift = |v: i64| if (0..width).contains(&b) { v } else { 0 };
    Some(match op {
        Add => ty.wrap(a.wrapping_add(b)),
        Sub => ty.wrap(a.wrapping_sub(b)),
        Mul => ty.wrap(a.wrapping_mul(b)),
        Div | Mod if b == 0 => 0,
        Div if unsigned => ((a as u64) / (b as u64)) as i64,
        Mod if unsigned => ((a as u64) % (b as u64)) as i64,
        Div => ty.wrap(a.wrapping_div_euclid(b)),
        Mod => ty.wrap(a.wrapping_rem_euclid(b)),
        Min => {
            if less {
                a
            } else {
                b
            }
        }
        Max => {
            if less {
                b
            } else {
                a
            }
        }
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => shift(ty.wrap(a.wrapping_shl(b as u32))),
        Shr if unsigned => shift(((a as u64).wrapping_shr(b as u32)) as i64),
        Shr if (0..width).contains(&b) => a >> b,
        Shr => {
            if ty.is_signed() {
                a >> 63
            } else {
                0
            }
        }
        Eq => (a == b) as i64,
        Ne => (a != b) as i64,
        Lt => less as i64,
        Le => (less || a == b) as i64,
        Gt => (!less && a != b) as i64,
        Ge => !less as i64,
        Pow | Atan2 => return None,
    })
}

/// Results of f16 and f32 are exact: one operation in f64, rounded, is the operation in the type (2p + 2 bits).
fn fold_float(op: BinaryOp, ty: Type, a: f64, b: f64) -> Option<Expr> {
    use BinaryOp::*;
    Some(match op {
        Add => float(ty, a + b),
        Sub => float(ty, a - b),
        Mul => float(ty, a * b),
        Div => float(ty, a / b),
        Min => float(ty, if b.is_nan() || a < b { a } else { b }),
        Max => float(ty, if b.is_nan() || a > b { a } else { b }),
        Eq => boolean(ty, a == b),
        Ne => boolean(ty, a != b),
        Lt => boolean(ty, a < b),
        Le => boolean(ty, a <= b),
        Gt => boolean(ty, a > b),
        Ge => boolean(ty, a >= b),
        _ => return None,
    })
}

/// One exact rewrite at the root of `e`, whose children are simplified; none if nothing applies.
pub(super) fn exact(e: &Expr) -> Option<Expr> {
    match e.kind() {
        ExprKind::Unary(op, a) => unary(*op, a, e.ty()),
        ExprKind::Binary(op, a, b) => binary(*op, a, b),
        ExprKind::Select(c, a, b) => select(c, a, b),
        ExprKind::Likely(c) => c.as_int().map(|_| c.clone()),
        ExprKind::Cast(a) => cast(a, e.ty()),
        ExprKind::Broadcast(a) if e.ty().lanes == 1 => Some(a.clone()),
        ExprKind::Ramp(a, b) if b.as_int() == Some(0) => Some(splat(a.clone(), e.ty().lanes)),
        ExprKind::Load { buffer, index, predicate: Some(p) } if p.as_int() == Some(1) => {
            let kind = ExprKind::Load { buffer: buffer.clone(), index: index.clone(), predicate: None };
            Some(Expr::new(kind, e.ty()))
        }
        ExprKind::Load { predicate: Some(p), .. } if p.as_int() == Some(0) => {
            Some(splat(Expr::constant(e.ty().scalar, 0.0), e.ty().lanes))
        }
        ExprKind::VectorReduce(op, a) => match (op, a.kind()) {
            (BinaryOp::And | BinaryOp::Or | BinaryOp::Min | BinaryOp::Max, ExprKind::Broadcast(a)) => {
                Some(a.clone())
            }
            _ if a.ty().lanes == 1 => Some(a.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn unary(op: UnaryOp, a: &Expr, ty: Type) -> Option<Expr> {
    use UnaryOp::*;
    if let (Some(v), true) = (a.as_int(), !a.ty().scalar.is_float()) {
        return match op {
            Neg => Some(int(ty, v.wrapping_neg())),
            Not if ty.scalar == ScalarType::Bool => Some(int(ty, 1 - v)),
            Not => Some(int(ty, !v)),
            Abs if ty.scalar.is_signed() => Some(int(ty, v.wrapping_abs())),
            Abs => Some(a.clone()),
            _ => None,
        };
    }
    if let Some(v) = a.as_float() {
        return match op {
            Neg => Some(float(ty, -v)),
            Abs => Some(float(ty, v.abs())),
            // Rounding f64's root to the type is the type's root (2p + 2 bits).
            Sqrt => Some(float(ty, v.sqrt())),
            Floor => Some(float(ty, v.floor())),
            Ceil => Some(float(ty, v.ceil())),
            Trunc => Some(float(ty, v.trunc())),
            Round => Some(float(ty, v.round_ties_even())),
            IsNan => Some(boolean(ty, v.is_nan())),
            _ => None,
        };
    }
    match (op, a.kind()) {
        (Neg, ExprKind::Unary(Neg, x)) | (Not, ExprKind::Unary(Not, x)) => Some(x.clone()),
        (Not, ExprKind::Binary(cmp, x, y)) if !x.ty().scalar.is_float() => {
            use BinaryOp::*;
            let opposite = match cmp {
                Eq => Ne,
                Ne => Eq,
                Lt => Ge,
                Le => Gt,
                Gt => Le,
                Ge => Lt,
                _ => return None,
            };
            Some(Expr::binary(opposite, x.clone(), y.clone()))
        }
        _ => None,
    }
}

fn binary(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let ty = a.ty();
    if ty.scalar.is_float() {
        return match (a.as_float(), b.as_float()) {
            (Some(x), Some(y)) => fold_float(op, ty, x, y),
            _ => float_identity(op, a, b),
        };
    }
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        let v = fold_int(op, ty.scalar, x, y)?;
        return Some(if op.is_comparison() { boolean(ty, v != 0) } else { int(ty, v) });
    }
    if ty.scalar == ScalarType::Bool { bool_identity(op, a, b) } else { int_identity(op, a, b) }
}

/// Identities that hold for every float including NaN, infinities and signed zeros. Not among them: `x + 0` (changes -0),
/// `x * 0`, `x - x`.
fn float_identity(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    use BinaryOp::*;
    let negative_zero = |e: &Expr| e.as_float().is_some_and(|v| v == 0.0 && v.is_sign_negative());
    let positive_zero = |e: &Expr| e.as_float().is_some_and(|v| v == 0.0 && v.is_sign_positive());
    match op {
        Mul | Div if b.as_float() == Some(1.0) => Some(a.clone()),
        Mul if a.as_float() == Some(1.0) => Some(b.clone()),
        Mul | Div if b.as_float() == Some(-1.0) => Some(a.unary(UnaryOp::Neg)),
        Mul if a.as_float() == Some(-1.0) => Some(b.unary(UnaryOp::Neg)),
        Add if negative_zero(b) => Some(a.clone()),
        Add if negative_zero(a) => Some(b.clone()),
        Sub if positive_zero(b) => Some(a.clone()),
        Min | Max if a == b => Some(a.clone()),
        Add => match b.kind() {
            ExprKind::Unary(UnaryOp::Neg, y) => Some(Expr::binary(Sub, a.clone(), y.clone())),
            _ => None,
        },
        Sub => match b.kind() {
            ExprKind::Unary(UnaryOp::Neg, y) => Some(Expr::binary(Add, a.clone(), y.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// Identities that hold for wrapping integers.
fn int_identity(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    use BinaryOp::*;
    let ty = a.ty();
    let (x, y) = (a.as_int(), b.as_int());
    match op {
        Add | Or | Xor if x == Some(0) => Some(b.clone()),
        Add | Sub | Or | Xor | Shl | Shr if y == Some(0) => Some(a.clone()),
        Sub | Xor if a == b => Some(int(ty, 0)),
        Mul | And if x == Some(0) || y == Some(0) => Some(int(ty, 0)),
        Mul if x == Some(1) => Some(b.clone()),
        Mul | Div if y == Some(1) => Some(a.clone()),
        Div | Mod if y == Some(0) || x == Some(0) => Some(int(ty, 0)),
        Mod if y == Some(1) => Some(int(ty, 0)),
        And | Or | Min | Max if a == b => Some(a.clone()),
        Eq | Le | Ge if a == b => Some(boolean(ty, true)),
        Ne | Lt | Gt if a == b => Some(boolean(ty, false)),
        _ => None,
    }
}

fn bool_identity(op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
    use BinaryOp::*;
    let ty = a.ty();
    match (op, a.as_int(), b.as_int()) {
        (And, Some(1), _) | (Or, Some(0), _) => return Some(b.clone()),
        (And, _, Some(1)) | (Or, _, Some(0)) => return Some(a.clone()),
        (And, Some(0), _) | (Or, Some(1), _) => return Some(a.clone()),
        (And, _, Some(0)) | (Or, _, Some(1)) => return Some(b.clone()),
        (Xor | Ne, Some(0), _) | (Eq, Some(1), _) => return Some(b.clone()),
        (Xor | Ne, _, Some(0)) | (Eq, _, Some(1)) => return Some(a.clone()),
        (Xor | Ne, Some(1), _) | (Eq, Some(0), _) => return Some(b.not_()),
        (Xor | Ne, _, Some(1)) | (Eq, _, Some(0)) => return Some(a.not_()),
        _ => {}
    }
    let complement = |x: &Expr, y: &Expr| matches!(x.kind(), ExprKind::Unary(UnaryOp::Not, n) if n == y);
    match op {
        And | Or | Min | Max if a == b => Some(a.clone()),
        And | Or if complement(a, b) || complement(b, a) => Some(boolean(ty, op == Or)),
        // a && (a && b)
        And | Or if absorbs(op, b, a) => Some(b.clone()),
        And | Or if absorbs(op, a, b) => Some(a.clone()),
        Xor | Ne if a == b => Some(boolean(ty, false)),
        Eq if a == b => Some(boolean(ty, true)),
        _ => None,
    }
}

/// True if `part` is an operand of the chain `whole` of `op` (its spine, to a fixed depth).
fn absorbs(op: BinaryOp, whole: &Expr, part: &Expr) -> bool {
    let mut e = whole;
    for _ in 0..16 {
        let ExprKind::Binary(o, a, b) = e.kind() else { return false };
        if *o != op {
            return false;
        }
        if a == part || b == part {
            return true;
        }
        e = a;
    }
    false
}

fn select(c: &Expr, a: &Expr, b: &Expr) -> Option<Expr> {
    match c.as_int() {
        Some(0) => return Some(b.clone()),
        Some(_) => return Some(a.clone()),
        None if a == b => return Some(a.clone()),
        None => {}
    }
    if let ExprKind::Unary(UnaryOp::Not, c) = c.kind() {
        return Some(Expr::select(c, b, a));
    }
    // Nested selects on the same condition.
    match (a.kind(), b.kind()) {
        (ExprKind::Select(d, x, _), _) if d == c => Some(Expr::select(c, x, b)),
        (_, ExprKind::Select(d, _, y)) if d == c => Some(Expr::select(c, a, y)),
        _ if a.ty().scalar == ScalarType::Bool && a.ty() == c.ty() => match (a.as_int(), b.as_int()) {
            (Some(1), Some(0)) => Some(c.clone()),
            (Some(0), Some(1)) => Some(c.not_()),
            _ => None,
        },
        _ => None,
    }
}

fn cast(a: &Expr, ty: Type) -> Option<Expr> {
    use ScalarType::*;
    let from = a.ty().scalar;
    if from == ty.scalar {
        return Some(a.clone());
    }
    if let (Some(v), false) = (a.as_int(), from.is_float()) {
        return match ty.scalar {
            // An integer that f64 does not hold is beyond f16's range.
            F16 if from == U64 => Some(float(ty, (v as u64) as f64)),
            F16 => Some(float(ty, v as f64)),
            // i64 to f32 goes directly, not through f64.
            F32 if from == U64 => Some(float(ty, (v as u64) as f32 as f64)),
            F32 => Some(float(ty, v as f32 as f64)),
            F64 if from == U64 => Some(float(ty, (v as u64) as f64)),
            F64 => Some(float(ty, v as f64)),
            _ => Some(int(ty, v)),
        };
    }
    a.as_float().map(|v| splat(Expr::constant(ty.scalar, v), ty.lanes))
}
