//! Divisions by what all lanes share, as products with its reciprocal.
//!
//! Before: vectors, simplified, of a pipeline with the directive `reciprocals`. After: a float is divided neither by a constant nor, in a vector, by what all its lanes
//! share: it is multiplied by the reciprocal, which is rounded once more. A constant whose reciprocal is no normal number stays. Of what a GPU
//! computes, each lane being a thread, constants alone are concerned.
//! Runs after `vectorize`, which says what lanes share, and before `hoist`, which moves reciprocals out of loops.

use crate::expr::walk::{Memo, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::types::ScalarType;

/// See the module's description.
pub(crate) fn reciprocals(s: &Stmt) -> Stmt {
    walk(s, true, &mut Memo::default())
}

fn walk(s: &Stmt, shared: bool, memo: &mut Memo) -> Stmt {
    let own =
        map_children(s, &mut |e| rewrite(e, memo, &mut |_, new| product(new, shared)), &mut Stmt::clone);
    match s {
        // The same expressions mean something else there.
        Stmt::For { kind, .. } if shared && kind.is_gpu() => {
            let mut memo = Memo::default();
            map_children(&own, &mut Expr::clone, &mut |s| walk(s, false, &mut memo))
        }
        _ => map_children(&own, &mut Expr::clone, &mut |s| walk(s, shared, memo)),
    }
}

/// `e`, or the product that it becomes; `shared`: lanes are those of one vector.
fn product(e: Expr, shared: bool) -> Expr {
    let ExprKind::Binary(BinaryOp::Div, a, b) = e.kind() else { return e };
    if !matches!(e.ty().scalar, ScalarType::F32 | ScalarType::F64) {
        return e;
    }
    let broadcast = |x: Expr| Expr::new(ExprKind::Broadcast(x), b.ty());
    match (b.as_float(), b.kind()) {
        (Some(c), _) => match reciprocal(c, b.ty().scalar) {
            Some(r) if b.ty().lanes == 1 => a * &r,
            Some(r) => a * &broadcast(r),
            None => e,
        },
        (None, ExprKind::Broadcast(x)) if shared => {
            a * &broadcast(Expr::binary(BinaryOp::Div, Expr::float(x.ty(), 1.0), x))
        }
        _ => e,
    }
}

/// `1 / c`, rounded, if both are normal numbers.
fn reciprocal(c: f64, ty: ScalarType) -> Option<Expr> {
    let r = ty.round(1.0 / c);
    let is_normal = |v: f64| match ty {
        ScalarType::F32 => (v as f32).is_normal(),
        _ => v.is_normal(),
    };
    (is_normal(c) && is_normal(r)).then(|| Expr::float(ty, r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ForKind;
    use crate::types::Type;

    fn load(lanes: u16) -> Expr {
        let zero = Expr::int(Type::I64, 0);
        let index = match lanes {
            1 => zero,
            n => Expr::new(ExprKind::Ramp(zero, Expr::int(Type::I64, 1)), Type::I64.with_lanes(n)),
        };
        Expr::load("a", index, Type::F32.with_lanes(lanes))
    }

    fn splat(e: Expr) -> Expr {
        let ty = e.ty().with_lanes(4);
        Expr::new(ExprKind::Broadcast(e), ty)
    }

    fn text(value: &Expr) -> String {
        let index = Expr::int(Type::I64, 0);
        let value = value.clone();
        let s = Stmt::store("b", index, value);
        reciprocals(&s).to_string().trim().to_string()
    }

    #[test]
    fn what_lanes_share_is_inverted_once() {
        let p = Expr::param("p", ScalarType::F32);
        assert_eq!(text(&(load(1) / Expr::from(4.0f32))), "b[0:i64] = a[0:i64] * 0.25f");
        let vector = |value: Expr| text(&value).replace("b[0:i64] = a[ramp(0:i64, 1:i64, 4)]", "a");
        assert_eq!(vector(load(4) / splat(Expr::from(3.0f32))), "a * x4(0.33333334f)");
        assert_eq!(vector(load(4) / splat(p.clone())), "a * x4(1f / p)");
        // A scalar by a scalar is one division either way.
        assert_eq!(text(&(load(1) / &p)), "b[0:i64] = a[0:i64] / p");
        for kept in [0.0f32, f32::INFINITY, f32::NAN, 1e-40, 3e38] {
            assert!(text(&(load(1) / Expr::from(kept))).contains(" / "), "{kept}");
        }
    }

    #[test]
    fn lanes_of_a_gpu_divide_each_for_itself() {
        let value = load(4) / splat(Expr::param("p", ScalarType::F32)) / splat(Expr::from(2.0f32));
        let (index, predicate) = (Expr::int(Type::I64, 0), None);
        let body =
            Stmt::Store { buffer: "b".into(), index, value, predicate, aligned: false, non_temporal: false };
        let (min, extent) = (Expr::from(0), Expr::from(9));
        let s = Stmt::For { var: "v".into(), min, extent, kind: ForKind::GpuThread, body: Box::new(body) };
        assert!(reciprocals(&s).to_string().contains(" / x4(p) * x4(0.5f)"), "{}", reciprocals(&s));
    }
}
