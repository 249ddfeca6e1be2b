//! Index arithmetic in normal form: sums in which equal terms have cancelled, extrema without the arms that another one decides.
//!
//! Nothing has to be known for these; what facts decide is [`crate::analysis::algebra::Facts`]'s. Operands are i32 or i64 unless said otherwise, and do
//! not wrap, so sums may be reordered freely.

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Poly, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::types::Type;

/// The normal form of index arithmetic; anything else stays as it is.
pub(crate) fn normal(e: &Expr) -> Expr {
    if is_index(e.ty()) { rebuild(&Polys::default().of(e), e.ty()) } else { e.clone() }
}

/// The value of index arithmetic that is a constant.
pub(crate) fn constant(e: &Expr) -> Option<i64> {
    if is_index(e.ty()) { Polys::default().of(e).as_constant() } else { e.as_int() }
}

/// `a + b`.
pub(crate) fn add(a: &Expr, b: &Expr) -> Expr {
    normal(&(a + b))
}

/// `a - b`.
pub(crate) fn sub(a: &Expr, b: &Expr) -> Expr {
    normal(&(a - b))
}

/// `a + c`.
pub(crate) fn offset(a: &Expr, c: i64) -> Expr {
    normal(&(a + c))
}

/// `a * b`.
pub(crate) fn mul(a: &Expr, b: &Expr) -> Expr {
    normal(&(a * b))
}

/// `floor(a / b)`; `b >= 1`.
pub(crate) fn div(a: &Expr, b: &Expr) -> Expr {
    if a == b { Expr::int(a.ty(), 1) } else { normal(&(a / b)) }
}

/// `a mod b`; `b >= 1`.
pub(crate) fn modulo(a: &Expr, b: &Expr) -> Expr {
    if a == b { Expr::int(a.ty(), 0) } else { normal(&a.modulo(b)) }
}

/// `min(a, b)` of any type, decided where index arithmetic differs from an arm by a constant.
pub(crate) fn min(a: &Expr, b: &Expr) -> Expr {
    extremum(BinaryOp::Min, a, b)
}

/// `max(a, b)` of any type, likewise.
pub(crate) fn max(a: &Expr, b: &Expr) -> Expr {
    extremum(BinaryOp::Max, a, b)
}

fn extremum(op: BinaryOp, a: &Expr, b: &Expr) -> Expr {
    let (mut arms, mut more) = (vec![], vec![]);
    collect_arms(op, a, &mut arms);
    collect_arms(op, b, &mut more);
    for e in more {
        match arms.iter_mut().find_map(|arm| Some((e.minus(arm)?, arm))) {
            Some((d, arm)) if (op == BinaryOp::Min && d < 0) || (op == BinaryOp::Max && d > 0) => *arm = e,
            Some(_) => {}
            None => arms.push(e),
        }
    }
    let all = arms.into_iter().map(Arm::expr).reduce(|acc, e| Expr::binary(op, acc, e));
    all.unwrap_or_else(|| unreachable!("extremum: a has at least one arm"))
}

/// An operand of extrema.
enum Arm {
    /// Index arithmetic of this type.
    Index(Poly, Type),
    /// Anything else.
    Other(Expr),
}

impl Arm {
    fn of(e: &Expr) -> Arm {
        if is_index(e.ty()) { Arm::Index(Polys::default().of(e), e.ty()) } else { Arm::Other(e.clone()) }
    }

    fn expr(self) -> Expr {
        match self {
            Arm::Index(p, ty) => rebuild(&p, ty),
            Arm::Other(e) => e,
        }
    }

    /// `self - o`, where that is a constant.
    fn minus(&self, o: &Arm) -> Option<i64> {
        match (self, o) {
            (Arm::Index(a, _), Arm::Index(b, _)) => a.difference(b),
            (Arm::Other(a), Arm::Other(b)) if a == b => Some(0),
            (Arm::Other(a), Arm::Other(b)) => a.as_int()?.checked_sub(b.as_int()?),
            _ => None,
        }
    }
}

fn collect_arms(op: BinaryOp, e: &Expr, out: &mut Vec<Arm>) {
    match e.kind() {
        ExprKind::Binary(o, a, b) if *o == op => {
            collect_arms(op, a, out);
            collect_arms(op, b, out);
        }
        _ => out.push(Arm::of(e)),
    }
}

/// `a <= b` as an expression, folded where both differ by a constant.
pub(crate) fn le(a: &Expr, b: &Expr) -> Expr {
    match Arm::of(a).minus(&Arm::of(b)) {
        Some(d) => Expr::bool(d <= 0),
        None => a.le(b),
    }
}

/// Conjunction that drops constants.
pub(crate) fn and(a: &Expr, b: &Expr) -> Expr {
    match (a.as_int(), b.as_int()) {
        (Some(0), _) | (_, Some(1)) => a.clone(),
        (_, Some(0)) | (Some(1), _) => b.clone(),
        _ => a.and(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ScalarType;

    fn v(n: &str) -> Expr {
        Expr::var(n)
    }

    #[test]
    fn terms_cancel_and_arms_decide_each_other() {
        let (x, y, n) = (v("x"), v("y"), Expr::param("n", ScalarType::I32));
        let is = |e: &Expr, text: &str| assert_eq!(e.to_string(), text);
        is(&sub(&add(&x, &y), &offset(&x, -3)), "y + 3");
        is(&div(&(&x * 8 + 17), &Expr::from(8)), "x + 2");
        is(&sub(&x, &(&x / 4 * 4)), "x % 4");
        is(&mul(&(&x + 2), &n), "n * 2 + x * n");
        is(&max(&max(&x, &y), &(&x + 1)), "max(x + 1, y)");
        is(&min(&min(&x, &y), &(&x + 1)), "min(x, y)");
        is(&le(&(&x + 1), &x), "false");
        is(&and(&le(&x, &x), &x.lt(&y)), "x < y");
        let (a, b) = (Expr::int(ScalarType::U8, 3), Expr::int(ScalarType::U8, 200));
        is(&max(&a, &b), "200:u8");
    }

    /// An expression stays as it is if a coefficient would leave i64.
    #[test]
    fn large_coefficients_are_left_alone() {
        let big = Expr::int(ScalarType::I64, i64::MAX);
        let e = v("x").cast(ScalarType::I64) * big.clone();
        assert_eq!(constant(&(&e + &e)), None);
        assert_eq!(constant(&(&e - &e)), Some(0));
    }
}
