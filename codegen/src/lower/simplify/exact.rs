//! Rewrites that are exact for every value of every type: constant folding, and identities.

use crate::analysis::algebra::rebuild::splat;
use crate::analysis::evaluate::{boolean, fold, int};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;

/// One exact rewrite at the root of `e`, whose children are simplified; none if nothing applies.
pub(super) fn exact(e: &Expr) -> Option<Expr> {
    fold(e).or_else(|| identity(e))
}

/// Rewrites of what is not all constant.
fn identity(e: &Expr) -> Option<Expr> {
    match e.kind() {
        ExprKind::Unary(op, a) => unary(*op, a),
        ExprKind::Binary(op, a, b) => binary(*op, a, b),
        ExprKind::Select(c, a, b) => select(c, a, b),
        ExprKind::Cast(a) if a.ty().scalar == e.ty().scalar => Some(a.clone()),
        ExprKind::Broadcast(a) if e.ty().lanes == 1 => Some(a.clone()),
        ExprKind::Ramp(a, b) if b.as_int() == Some(0) => Some(splat(a.clone(), e.ty().lanes)),
        ExprKind::Load { buffer, index, predicate: Some(p) } if p.as_int() == Some(1) => {
            Some(Expr::load(buffer.clone(), index.clone(), e.ty()))
        }
        ExprKind::Load { predicate: Some(p), .. } if p.as_int() == Some(0) => {
            Some(splat(Expr::constant(e.ty().scalar, 0.0), e.ty().lanes))
        }
        ExprKind::VectorReduce(op, a) => match (op, a.kind()) {
            (BinaryOp::And | BinaryOp::Or | BinaryOp::Min | BinaryOp::Max, ExprKind::Broadcast(a)) => {
                Some(splat(a.clone(), e.ty().lanes))
            }
            _ if a.ty().lanes == e.ty().lanes => Some(a.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn unary(op: UnaryOp, a: &Expr) -> Option<Expr> {
    use UnaryOp::*;
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
    match a.ty().scalar {
        ty if ty.is_float() => float_identity(op, a, b),
        ScalarType::Bool => bool_identity(op, a, b),
        _ => int_identity(op, a, b),
    }
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
    if a == b {
        return Some(a.clone());
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
