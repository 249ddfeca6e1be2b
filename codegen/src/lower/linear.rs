//! Small integer expressions kept tidy: sums are linear forms over atoms, so that equal terms cancel.
//!
//! Coordinates do not wrap (design section 4), so sums may be reordered freely.

use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::Type;

/// `constant + sum of coefficient * atom`, atoms distinct, coefficients not zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Atoms in order of first appearance.
    pub terms: Vec<(Expr, i64)>,
    /// The constant part.
    pub constant: i64,
    ty: Type,
}

impl Linear {
    /// The form of an integer expression.
    pub fn of(e: &Expr) -> Linear {
        let mut l = Linear { terms: vec![], constant: 0, ty: e.ty() };
        l.add_scaled(e, 1);
        l
    }

    /// `self += scale * e`.
    pub fn add_scaled(&mut self, e: &Expr, scale: i64) {
        match e.kind() {
            ExprKind::Int(v) => self.constant += scale * v,
            ExprKind::Unary(UnaryOp::Neg, a) => self.add_scaled(a, -scale),
            ExprKind::Binary(BinaryOp::Add, a, b) => {
                self.add_scaled(a, scale);
                self.add_scaled(b, scale);
            }
            ExprKind::Binary(BinaryOp::Sub, a, b) => {
                self.add_scaled(a, scale);
                self.add_scaled(b, -scale);
            }
            ExprKind::Binary(BinaryOp::Mul, a, b) => match (a.as_int(), b.as_int()) {
                (Some(c), _) => self.add_scaled(b, scale * c),
                (_, Some(c)) => self.add_scaled(a, scale * c),
                _ => self.add_atom(e, scale),
            },
            _ => self.add_atom(e, scale),
        }
    }

    /// `self += scale * atom` for an atom that is not taken apart.
    pub fn add_atom(&mut self, atom: &Expr, scale: i64) {
        match self.terms.iter().position(|(a, _)| a == atom) {
            Some(i) => {
                self.terms[i].1 += scale;
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            None if scale != 0 => self.terms.push((atom.clone(), scale)),
            None => {}
        }
    }

    /// The constant, if there are no terms.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// As an expression: positive terms first, then the constant.
    pub fn to_expr(&self) -> Expr {
        let scaled = |a: &Expr, c: i64| if c == 1 { a.clone() } else { a * c };
        let mut sum: Option<Expr> = None;
        for (a, c) in self.terms.iter().filter(|t| t.1 > 0) {
            let t = scaled(a, *c);
            sum = Some(match sum {
                None => t,
                Some(s) => s + t,
            });
        }
        for (a, c) in self.terms.iter().filter(|t| t.1 < 0) {
            sum = Some(match sum {
                None if self.constant != 0 => Expr::int(self.ty, self.constant) - scaled(a, -c),
                None => Expr::int(self.ty, 0) - scaled(a, -c),
                Some(s) => s - scaled(a, -c),
            });
        }
        let constant_used = self.terms.iter().all(|t| t.1 < 0) && !self.terms.is_empty();
        match sum {
            None => Expr::int(self.ty, self.constant),
            Some(s) if constant_used || self.constant == 0 => s,
            Some(s) if self.constant < 0 => s - Expr::int(self.ty, -self.constant),
            Some(s) => s + Expr::int(self.ty, self.constant),
        }
    }
}

/// `a + b`, tidy.
pub fn add(a: &Expr, b: &Expr) -> Expr {
    let mut l = Linear::of(a);
    l.add_scaled(b, 1);
    l.to_expr()
}

/// `a - b`, tidy.
pub fn sub(a: &Expr, b: &Expr) -> Expr {
    let mut l = Linear::of(a);
    l.add_scaled(b, -1);
    l.to_expr()
}

/// `a + c`, tidy.
pub fn offset(a: &Expr, c: i64) -> Expr {
    let mut l = Linear::of(a);
    l.constant += c;
    l.to_expr()
}

/// `a * b`, tidy; one of them is usually a constant.
pub fn mul(a: &Expr, b: &Expr) -> Expr {
    match (a.as_int(), b.as_int()) {
        (_, Some(c)) => scale(a, c),
        (Some(c), _) => scale(b, c),
        _ => a * b,
    }
}

fn scale(a: &Expr, c: i64) -> Expr {
    let mut l = Linear { terms: vec![], constant: 0, ty: a.ty() };
    l.add_scaled(a, c);
    l.to_expr()
}

/// `floor(a / b)`, tidy; `b >= 1`. Multiples of a constant `b` are taken out: `(b q + r) / b = q + r / b`.
pub fn div(a: &Expr, b: &Expr) -> Expr {
    let Some(c) = b.as_int().filter(|&c| c > 0) else {
        return if a == b { Expr::int(a.ty(), 1) } else { a / b };
    };
    let l = Linear::of(a);
    let mut quotient = Linear { terms: vec![], constant: l.constant.div_euclid(c), ty: l.ty };
    let mut rest = Linear { terms: vec![], constant: l.constant.rem_euclid(c), ty: l.ty };
    for (atom, k) in &l.terms {
        match k % c {
            0 => quotient.add_atom(atom, k / c),
            _ => rest.add_atom(atom, *k),
        }
    }
    if !rest.terms.is_empty() {
        // Keep the user's constant inside when nothing was taken out: (x + 17) / 16 reads better that way.
        quotient.add_atom(&(rest.to_expr() / Expr::int(a.ty(), c)), 1);
    }
    quotient.to_expr()
}

/// `a mod b`, tidy; `b >= 1`.
pub fn modulo(a: &Expr, b: &Expr) -> Expr {
    match (a.as_int(), b.as_int()) {
        (_, Some(1)) => Expr::int(a.ty(), 0),
        (Some(a), Some(n)) if n > 0 => Expr::int(b.ty(), a.rem_euclid(n)),
        _ => a.modulo(b),
    }
}

/// `min(a, b)`, decided where the difference to an arm is constant.
pub fn min(a: &Expr, b: &Expr) -> Expr {
    extremum(BinaryOp::Min, a, b)
}

/// `max(a, b)`, decided where the difference to an arm is constant.
pub fn max(a: &Expr, b: &Expr) -> Expr {
    extremum(BinaryOp::Max, a, b)
}

fn extremum(op: BinaryOp, a: &Expr, b: &Expr) -> Expr {
    let mut arms = vec![];
    collect_arms(op, a, &mut arms);
    let mut more = vec![];
    collect_arms(op, b, &mut more);
    'next: for e in more {
        for arm in &mut arms {
            if !arm.ty().scalar.is_int() {
                break;
            }
            if let Some(d) = Linear::of(&sub(&e, arm)).as_constant() {
                if (op == BinaryOp::Min && d < 0) || (op == BinaryOp::Max && d > 0) {
                    *arm = e.clone();
                }
                continue 'next;
            }
        }
        if !arms.contains(&e) {
            arms.push(e);
        }
    }
    let mut it = arms.into_iter();
    let first = it.next().expect("extremum: at least one arm");
    it.fold(first, |acc, e| Expr::binary(op, acc, e))
}

fn collect_arms(op: BinaryOp, e: &Expr, out: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Binary(o, a, b) if *o == op => {
            collect_arms(op, a, out);
            collect_arms(op, b, out);
        }
        _ => out.push(if e.ty().scalar.is_int() { Linear::of(e).to_expr() } else { e.clone() }),
    }
}

/// `a <= b` as an expression, folded where both differ by a constant.
pub fn le(a: &Expr, b: &Expr) -> Expr {
    match Linear::of(&sub(a, b)).as_constant() {
        Some(d) => Expr::bool(d <= 0),
        None => a.le(b),
    }
}

/// Conjunction that drops constants.
pub fn and(a: &Expr, b: &Expr) -> Expr {
    match (a.as_int(), b.as_int()) {
        (Some(0), _) | (_, Some(1)) => a.clone(),
        (_, Some(0)) | (Some(1), _) => b.clone(),
        _ => a.and(b),
    }
}
