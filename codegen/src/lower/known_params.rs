//! Parameters that a condition fixes are constants where it holds.
//!
//! Before: flat statements. After: in the branch of an `if` that runs where `p == c`, for a constant c, no expression reads parameter p, be it
//! declared or a part of a buffer's shape. So a version of a stage for a stride of 3 has loads of stride 3, and one for a divisor of 1
//! divides by nothing. Runs behind `flatten`, which makes indices of strides, and before `vectorize`, which asks what lanes have in common; what is
//! constant then is folded by the simplification behind that.

use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Param, UnaryOp};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::types::Type;
use rustc_hash::FxHashMap;

/// Parameters with their values at a place.
type Known = FxHashMap<Param, Expr>;

/// See the module's description.
pub(crate) fn known_params(s: &Stmt) -> Stmt {
    walk(s, &Known::default())
}

fn walk(s: &Stmt, known: &Known) -> Stmt {
    let mut memo = Memo::default();
    let mut own = |e: &Expr| match known.is_empty() {
        true => e.clone(),
        false => rewrite(e, &mut memo, &mut |_, new| match new.kind() {
            ExprKind::Param(p) => known.get(p).cloned().unwrap_or(new),
            _ => new,
        }),
    };
    let Stmt::If { cond, then, otherwise } = s else {
        return map_children(s, &mut own, &mut |s| walk(s, known));
    };
    let cond = own(cond);
    let mut inner = known.clone();
    fixed(&cond, &mut inner);
    Stmt::If {
        cond,
        then: Box::new(walk(then, &inner)),
        otherwise: otherwise.as_ref().map(|s| Box::new(walk(s, known))),
    }
}

/// Adds the parameters that have one value wherever `cond` holds.
fn fixed(cond: &Expr, known: &mut Known) {
    let mut parts = vec![cond];
    while let Some(part) = parts.pop() {
        match part.kind() {
            ExprKind::Likely(a) => parts.push(a),
            ExprKind::Binary(BinaryOp::And, a, b) if part.ty() == Type::BOOL => parts.extend([a, b]),
            ExprKind::Binary(BinaryOp::Eq, a, b) => match (a.kind(), b.kind()) {
                (ExprKind::Param(p), _) if is_number(b) => drop(known.insert(p.clone(), b.clone())),
                (_, ExprKind::Param(p)) if is_number(a) => drop(known.insert(p.clone(), a.clone())),
                _ => {}
            },
            ExprKind::Param(p) => drop(known.insert(p.clone(), Expr::bool(true))),
            ExprKind::Unary(UnaryOp::Not, a) => {
                if let ExprKind::Param(p) = a.kind() {
                    known.insert(p.clone(), Expr::bool(false));
                }
            }
            _ => {}
        }
    }
}

/// Is it a constant that equals nothing but itself? Zeros of floats are equal to those of the other sign.
fn is_number(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Int(_) => true,
        ExprKind::Float(v) => *v != 0.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType::{F32, I32};

    fn store(value: Expr) -> Stmt {
        Stmt::store("f", Expr::int(Type::I64, 0), value)
    }

    #[test]
    fn constants_stay_in_their_branch() {
        let [n, gain] = [Expr::param("n", I32), Expr::param("gain", F32)];
        let value = || n.cast(F32) * &gain;
        let branch = |cond: Expr| Stmt::If {
            cond,
            then: Box::new(store(value())),
            otherwise: Some(Box::new(store(value()))),
        };
        for (cond, then) in [
            (n.eq_(3), "f32(3) * gain"),
            (Expr::from(3).eq_(&n).and(gain.eq_(2.0f32)), "f32(3) * 2f"),
            (n.eq_(3).or(gain.eq_(2.0f32)), "f32(n) * gain"),
            (gain.eq_(0.0f32), "f32(n) * gain"),
            (n.le(3), "f32(n) * gain"),
        ] {
            let text = known_params(&branch(cond)).to_string();
            let values: Vec<&str> = text.lines().filter_map(|l| l.split_once("] = ")).map(|l| l.1).collect();
            assert_eq!(values, [then, "f32(n) * gain"], "{text}");
        }
    }
}
