//! Operations that round as they stand, whatever surrounds them.
//!
//! [`ExprKind::Strict`] marks one operation, and [`Expr::strict_float`] all those of an expression. So the mark ends where the expression ends: the
//! definition of a Func that is inlined into it keeps the freedom that it has elsewhere. A pass that does not know the mark finds no operator that
//! it could rewrite, and an operation is not equal to the same one without the mark, so that they are never shared.

use super::walk::{Memo, rewrite};
use super::{Expr, ExprKind, UnaryOp};
use crate::functions::Function;

impl Expr {
    /// The same expression, with each float operation in it rounded by itself and in the order that is written, also where the stage is
    /// `relaxed`, says `reciprocals`, or is compiled for a GPU: nothing in it is reassociated, fused, or multiplied by a reciprocal, neither with each
    /// other nor with what is computed from its value, and zeros keep their signs.
    ///
    /// Halide's `strict_float`. It is about what is written in this expression, coordinates included, and not about what the Funcs compute
    /// that it reads. Its derivative is that of the expression without marks.
    ///
    /// ```
    /// use sumsq_codegen::{Expr, ScalarType};
    ///
    /// // The part of `b` that a sum of floats loses.
    /// let [a, b] = ["a", "b"].map(|name| Expr::param(name, ScalarType::F32));
    /// let lost = (&b - ((&a + &b) - &a)).strict_float();
    /// assert_eq!(lost.to_string(), "strict(b - strict(strict(a + b) - a))");
    /// ```
    pub fn strict_float(&self) -> Expr {
        marked_above(self, &mut Memo::default())
    }

    /// The same of what is computed from `operand`, which stays as it is.
    pub(crate) fn strict_above(&self, operand: &Expr) -> Expr {
        let mut memo = Memo::default();
        memo.insert(operand, operand.clone());
        marked_above(self, &mut memo)
    }

    /// An operation, marked; anything else as it is.
    pub(crate) fn marked(&self) -> Expr {
        match self.kind() {
            ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Fma(..) => {
                Expr::new(ExprKind::Strict(Box::new(self.kind().clone())), self.ty())
            }
            _ => self.clone(),
        }
    }

    /// An operation without its mark, those of its operands apart; anything else as it is.
    pub(crate) fn unmarked(&self) -> Expr {
        match self.kind() {
            ExprKind::Strict(operation) => Expr::new((**operation).clone(), self.ty()),
            _ => self.clone(),
        }
    }

    /// Is it a marked operation?
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.kind(), ExprKind::Strict(_))
    }

    /// Returns what the node is, mark or not: for who asks for its value, and not for what may become of it.
    pub fn operation(&self) -> &ExprKind {
        match self.kind() {
            ExprKind::Strict(operation) => operation,
            kind => kind,
        }
    }
}

/// Marks all but what `memo` has.
fn marked_above(e: &Expr, memo: &mut Memo) -> Expr {
    rewrite(e, memo, &mut |_, new| if rounds(&new) { new.marked() } else { new })
}

/// Has the value of this node to do with rounding, the sign of a zero, or the order of two NaNs?
fn rounds(e: &Expr) -> bool {
    e.ty().scalar.is_float()
        && match e.kind() {
            ExprKind::Unary(op, _) => {
                *op == UnaryOp::Neg || op.function().is_some_and(|f| f != Function::Abs)
            }
            ExprKind::Binary(..) | ExprKind::Fma(..) => true,
            _ => false,
        }
}
