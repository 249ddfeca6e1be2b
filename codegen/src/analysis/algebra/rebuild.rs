//! From polynomials back to expressions.

use crate::analysis::algebra::poly::{Mono, Poly, as_lane};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::Type;

/// A constant in every lane.
pub(super) fn constant(ty: Type, v: i64) -> Expr {
    splat(Expr::int(Type::of(ty.scalar), v), ty.lanes)
}

/// A scalar widened to `lanes`; vectors as they are.
pub(crate) fn splat(e: Expr, lanes: u16) -> Expr {
    if lanes == 1 || e.ty().lanes > 1 {
        return e;
    }
    let ty = e.ty().with_lanes(lanes);
    Expr::new(ExprKind::Broadcast(e), ty)
}

/// The expression of a polynomial: terms in their order (a positive one first, if any), the constant last. With `ty` of
/// several lanes, an affine function of the lane number becomes a `Ramp`, a uniform value a `Broadcast`.
pub(crate) fn rebuild(p: &Poly, ty: Type) -> Expr {
    if ty.lanes == 1 {
        return rebuild_terms(p, ty);
    }
    let mut base = Poly::constant(p.constant);
    let (mut stride, mut rest) = (Poly::default(), Poly::default());
    for (m, c) in &p.terms {
        let lanes = m.iter().filter(|e| as_lane(e).is_some()).count();
        if m.iter().all(|e| e.ty().lanes == 1) {
            base.terms.push((m.clone(), *c));
        } else if lanes == 1 && m.iter().filter(|e| e.ty().lanes > 1).count() == 1 {
            let others = Mono::product(m.iter().filter(|e| as_lane(e).is_none()).cloned());
            if others.is_empty() {
                stride.constant += c;
            } else {
                stride.terms.push((others, *c));
            }
        } else {
            rest.terms.push((m.clone(), *c));
        }
    }
    let scalar = Type::of(ty.scalar);
    let affine = if stride != Poly::default() {
        Some(Expr::new(ExprKind::Ramp(rebuild_terms(&base, scalar), rebuild_terms(&stride, scalar)), ty))
    } else if base != Poly::default() || rest.terms.is_empty() {
        Some(splat(rebuild_terms(&base, scalar), ty.lanes))
    } else {
        None
    };
    match affine {
        Some(a) if rest.terms.is_empty() => a,
        Some(a) => Expr::binary(BinaryOp::Add, rebuild_terms(&rest, ty), a),
        None => rebuild_terms(&rest, ty),
    }
}

/// Terms and constant in the given type.
fn rebuild_terms(p: &Poly, ty: Type) -> Expr {
    let mut terms: Vec<&(Mono, i64)> = p.terms.iter().collect();
    match terms.iter().position(|(_, c)| *c > 0) {
        Some(i) => terms[..=i].rotate_right(1),
        None if p.constant > 0 => {
            let rest = Poly { terms: p.terms.clone(), constant: 0 };
            return rest.terms.iter().fold(constant(ty, p.constant), |e, (m, c)| append(e, m, *c, ty));
        }
        None => {}
    }
    let Some(((m, c), others)) = terms.split_first() else { return constant(ty, p.constant) };
    let first = match *c {
        1 => product(m, ty),
        -1 => product(m, ty).unary(UnaryOp::Neg),
        c => Expr::binary(BinaryOp::Mul, product(m, ty), constant(ty, c)),
    };
    let sum = others.iter().fold(first, |e, (m, c)| append(e, m, *c, ty));
    match p.constant {
        0 => sum,
        c if c < 0 && c != i64::MIN => Expr::binary(BinaryOp::Sub, sum, constant(ty, -c)),
        c => Expr::binary(BinaryOp::Add, sum, constant(ty, c)),
    }
}

fn append(e: Expr, m: &Mono, c: i64, ty: Type) -> Expr {
    let (op, k) = if c < 0 && c != i64::MIN { (BinaryOp::Sub, -c) } else { (BinaryOp::Add, c) };
    let p = product(m, ty);
    let p = if k == 1 { p } else { Expr::binary(BinaryOp::Mul, p, constant(ty, k)) };
    Expr::binary(op, e, p)
}

fn product(m: &Mono, ty: Type) -> Expr {
    let factors = m.iter().map(|e| splat(e.cast(ty.scalar), ty.lanes));
    factors.reduce(|a, b| Expr::binary(BinaryOp::Mul, a, b)).unwrap_or_else(|| constant(ty, 1))
}
