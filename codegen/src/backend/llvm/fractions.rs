//! Products of fractions of 16 bits, `((a * b >> 14) + 1) >> 1` of i32 cut to i16, for which processors have an instruction that LLVM does
//! not find by itself.

use super::expr::ExprEmitter;
use super::ir::Val;
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::types::{ScalarType, Type};

impl ExprEmitter<'_> {
    /// The conversion of `e`, whose operands are done, to `ty`, if it is such a product.
    pub(super) fn fraction(&self, e: &Expr, ty: Type) -> Option<Val> {
        use BinaryOp::{Add, Mul, Shr};
        let ir = self.ir;
        if ty.scalar != ScalarType::I16 || e.ty().scalar != ScalarType::I32 || !ty.lanes.is_power_of_two() {
            return None;
        }
        let fractions = ir.fractions.borrow();
        let &(lanes, intrinsic) = fractions.iter().find(|f| f.0 <= ty.lanes)?;
        let twice = with_constant(Add, with_constant(Shr, e, 1)?, 1)?;
        let ExprKind::Binary(Mul, a, b) = with_constant(Shr, twice, 14)?.kind() else { return None };
        let (a, b) = (self.narrow(a, ty)?, self.narrow(b, ty)?);
        let part = |v: Val, from: u16| match ty.lanes == lanes {
            true => v,
            false => ir.pick(v, &(from..from + lanes).collect::<Vec<_>>()),
        };
        let products = (0..ty.lanes).step_by(lanes.into());
        let products = products.map(|i| ir.intrinsic(intrinsic, &[], &[part(a, i), part(b, i)]));
        Some(self.side_by_side(products.collect()))
    }

    /// A factor of i32 as the i16 that it was, if it was one.
    fn narrow(&self, e: &Expr, ty: Type) -> Option<Val> {
        let done = |e: &Expr| self.scopes.recall(e).map(|m| m.value);
        let short = |e: &Expr| e.ty().scalar == ScalarType::I16;
        if let Some(c) = e.as_int() {
            return ScalarType::I16.has(c).then(|| self.ir.int(ty, c));
        }
        match e.kind() {
            ExprKind::Cast(a) if short(a) => done(a),
            ExprKind::Broadcast(a) => match a.kind() {
                ExprKind::Cast(a) if short(a) => Some(self.ir.splat(done(a)?, ty.lanes)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// `x` of `x op c`.
fn with_constant(op: BinaryOp, e: &Expr, c: i64) -> Option<&Expr> {
    let ExprKind::Binary(of, x, y) = e.kind() else { return None };
    (*of == op && y.as_int() == Some(c)).then_some(x)
}
