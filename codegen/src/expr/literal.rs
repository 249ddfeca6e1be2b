//! Numbers as they are usually written, `3` and `0.5`: they take the type of what they are combined with.

use super::{Expr, ExprKind, UnaryOp};
use crate::types::ScalarType;

impl Expr {
    /// This number as one of type `ty`: an i32 constant (or `-` one) of any type of numbers that has it, an f64 constant of any
    /// float type, rounded. None for anything else, such as a constant of a type that somebody chose.
    pub(crate) fn literal_as(&self, ty: ScalarType) -> Option<Expr> {
        match (self.kind(), self.ty().scalar) {
            (ExprKind::Int(v), ScalarType::I32) if ty.is_float() => Some(Expr::float(ty, *v as f64)),
            (ExprKind::Int(v), ScalarType::I32) if ty.is_int() => ty.has(*v).then(|| Expr::int(ty, *v)),
            (ExprKind::Float(v), ScalarType::F64) if ty.is_float() => Some(Expr::float(ty, *v)),
            // Bounded: the operand is a constant.
            (ExprKind::Unary(UnaryOp::Neg, a), _) if !matches!(a.kind(), ExprKind::Unary(..)) => {
                Some(a.literal_as(ty)?.unary(UnaryOp::Neg))
            }
            _ => None,
        }
    }

    /// Is this a constant (or `-` one) of the type that numbers have which nobody gave a type?
    pub(super) fn is_number(&self) -> bool {
        use ScalarType::{F64, I32, I64};
        match (self.kind(), self.ty().scalar) {
            (ExprKind::Int(_), I32 | I64) | (ExprKind::Float(_), F64) => true,
            (ExprKind::Unary(UnaryOp::Neg, a), _) => {
                !matches!(a.kind(), ExprKind::Unary(..)) && a.is_number()
            }
            _ => false,
        }
    }
}
