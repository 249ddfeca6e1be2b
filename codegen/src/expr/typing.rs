//! Types of operands that operators take.

use super::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};

impl Expr {
    /// Returns what is wrong with the types of this node, given those of its operands; none if it is well-typed.
    pub fn type_fault(&self) -> Option<String> {
        let ty = self.ty();
        let own = |right: Type| (right != ty).then(|| format!("the node is {ty}, not {right}"));
        match self.kind() {
            ExprKind::Int(_) if ty.scalar.is_float() => Some(format!("an integer constant is {ty}")),
            ExprKind::Float(_) if !ty.scalar.is_float() => Some(format!("a float constant is {ty}")),
            ExprKind::Cast(a) => own(Type { scalar: ty.scalar, lanes: a.ty().lanes }),
            ExprKind::Reinterpret(a) => reinterpreted(a.ty(), ty),
            ExprKind::Unary(op, a) => unary(*op, a.ty().scalar)
                .or_else(|| own(if *op == UnaryOp::IsNan { a.ty().as_bool() } else { a.ty() })),
            ExprKind::Binary(_, a, b) if misfit(a, b).is_some() => misfit(a, b),
            ExprKind::Binary(op, a, b) => binary(*op, a.ty(), b.ty())
                .or_else(|| own(if op.is_comparison() { a.ty().as_bool() } else { a.ty() })),
            ExprKind::Fma(a, b, c) => {
                let types = [a.ty(), b.ty(), c.ty()];
                let same = types.iter().all(|t| *t == ty && t.scalar.is_float());
                (!same).then(|| format!("operands of Fma are {}, {} and {}", types[0], types[1], types[2]))
            }
            ExprKind::Select(_, a, b) if a.ty() != b.ty() => {
                Some(format!("arms of a select are {} and {}", a.ty(), b.ty()))
            }
            ExprKind::Select(c, a, _) if c.ty() != a.ty().as_bool() => {
                Some(format!("the condition of a select of {} is {}", a.ty(), c.ty()))
            }
            ExprKind::Select(_, a, _) => own(a.ty()),
            ExprKind::Likely(a) if a.ty().scalar != ScalarType::Bool => Some(format!("likely of {}", a.ty())),
            ExprKind::Likely(a) => own(a.ty()),
            ExprKind::Interleave(values) if values.is_empty() => {
                Some("a mux of no values: give it at least one".into())
            }
            ExprKind::Strict(operation) => match **operation {
                ExprKind::Unary(..) | ExprKind::Binary(..) | ExprKind::Fma(..) if ty.scalar.is_float() => {
                    self.unmarked().type_fault()
                }
                _ => Some(format!("strict of {ty} that is no operation of floats")),
            },
            _ => None,
        }
    }
}

/// Says that a number is none of the other operand's type.
fn misfit(a: &Expr, b: &Expr) -> Option<String> {
    let (number, other) = match (a.is_number(), b.is_number()) {
        _ if a.ty() == b.ty() || a.ty().lanes != b.ty().lanes => return None,
        (false, true) => (b, a.ty()),
        (true, false) => (a, b.ty()),
        _ => return None,
    };
    Some(format!("{number} is no {other}: cast the operand beside it to a type that has it"))
}

fn reinterpreted(from: Type, to: Type) -> Option<String> {
    let fits = from.lanes == to.lanes && from.scalar.bytes() == to.scalar.bytes();
    let bool = from.scalar != to.scalar && [from, to].iter().any(|t| t.scalar == ScalarType::Bool);
    (!fits || bool).then(|| format!("{from} has not the bits of {to}"))
}

fn unary(op: UnaryOp, ty: ScalarType) -> Option<String> {
    use UnaryOp::*;
    let fits = match op {
        // The one function that integers have, too.
        Neg | Abs => ty != ScalarType::Bool,
        Not => !ty.is_float(),
        Floor | Ceil | Round | Trunc | IsNan => ty != ScalarType::Bool,
        _ => ty.is_float(),
    };
    (!fits).then(|| format!("{op:?} of {}", ty.name()))
}

fn binary(op: BinaryOp, a: Type, b: Type) -> Option<String> {
    use BinaryOp::*;
    if a != b {
        return Some(format!("operands of {op:?} are {a} and {b}"));
    }
    let fits = match op {
        Add | Sub | Mul | Div | Mod => a.scalar != ScalarType::Bool,
        Shl | Shr => a.scalar.is_int(),
        And | Or | Xor => !a.scalar.is_float(),
        Min | Max | Eq | Ne | Lt | Le | Gt | Ge => true,
        _ => a.scalar.is_float(),
    };
    (!fits).then(|| format!("{op:?} of {a}"))
}
