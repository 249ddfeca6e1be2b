//! Numbers as they are usually written, `3` and `0.5`, take the type of what they are combined with, where directives are read.

use super::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;

impl Expr {
    /// This number as one of type `ty`: an i32 constant (or `-` one) of any type of numbers that has it, an f64 constant of any
    /// float type, rounded. None for anything else, such as a constant of a type that somebody chose.
    pub(crate) fn literal_as(&self, ty: ScalarType) -> Option<Expr> {
        match (self.kind(), self.ty().scalar) {
            (ExprKind::Int(v), ScalarType::I32) if ty.is_float() => Some(Expr::float(ty, *v as f64)),
            (ExprKind::Int(v), ScalarType::I32) if ty.is_int() => {
                let fits = ty.wrap(*v) == *v && (ty != ScalarType::U64 || *v >= 0);
                fits.then(|| Expr::int(ty, *v))
            }
            (ExprKind::Float(v), ScalarType::F64) if ty.is_float() => Some(Expr::float(ty, *v)),
            // Bounded: the operand is a constant.
            (ExprKind::Unary(UnaryOp::Neg, a), _) if !matches!(a.kind(), ExprKind::Unary(..)) => {
                Some(a.literal_as(ty)?.unary(UnaryOp::Neg))
            }
            _ => None,
        }
    }

    /// `a op b`, where a number gives way to the type of the other operand.
    pub(crate) fn binary_of_literals(op: BinaryOp, a: Expr, b: Expr) -> Expr {
        let (a, b) = agreed(a, b);
        Expr::binary(op, a, b)
    }

    /// `cond ? a : b`, where a number gives way to the type of the other arm.
    pub(crate) fn select_of_literals(cond: Expr, a: Expr, b: Expr) -> Expr {
        let (a, b) = agreed(a, b);
        Expr::select(cond, a, b)
    }

    /// `a * b + c`, where numbers give way to the type of the other operands.
    pub(crate) fn fma_of_literals(a: Expr, b: Expr, c: Expr) -> Expr {
        let (a, b) = agreed(a, b);
        let (a, c) = agreed(a, c);
        let (b, c) = agreed(b, c);
        Expr::fma(a, b, c)
    }
}

/// Both of one type, if one is a number that the other's type has.
fn agreed(a: Expr, b: Expr) -> (Expr, Expr) {
    if a.ty() == b.ty() {
        return (a, b);
    }
    if let Some(b) = b.literal_as(a.ty().scalar) {
        return (a, b);
    }
    match a.literal_as(b.ty().scalar) {
        Some(a) => (a, b),
        None => (a, b),
    }
}
