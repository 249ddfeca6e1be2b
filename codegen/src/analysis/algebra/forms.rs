//! Expressions as polynomials.
//!
//! Quotients are floored by a positive constant c: `(c a + r) / c = a + r / c`. `x - c (x / c)` is kept as `x % c`,
//! `c (x / c) + x % c` as `x`.

use crate::analysis::algebra::poly::{Mono, Poly, as_lane, lane_atom};
use crate::analysis::algebra::rebuild::{constant, rebuild};
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;

/// Conversion of expressions to polynomials, memoised by node.
#[derive(Default, Debug)]
pub(crate) struct Polys {
    memo: FxHashMap<usize, (Expr, Poly)>,
    affine: bool,
}

impl Polys {
    /// Products of two sums are atoms: multiplied out, their terms would forget what they share, which interval arithmetic needs.
    pub(crate) fn affine() -> Polys {
        Polys { affine: true, ..Polys::default() }
    }

    /// The polynomial of an i32 or i64 expression. Does not look inside atoms; min and max are atoms.
    pub(crate) fn of(&mut self, e: &Expr) -> Poly {
        if let Some((_, p)) = self.memo.get(&e.id()) {
            return p.clone();
        }
        let p = fold_mod(self.build(e).unwrap_or_else(|| Poly::atom(e.clone())), self);
        self.memo.insert(e.id(), (e.clone(), p.clone()));
        p
    }

    /// None if `e` is an atom (or too large).
    fn build(&mut self, e: &Expr) -> Option<Poly> {
        match e.kind() {
            ExprKind::Int(v) => Some(Poly::constant(*v)),
            ExprKind::Unary(UnaryOp::Neg, a) => self.of(a).scaled(-1),
            ExprKind::Binary(BinaryOp::Add, a, b) => self.of(a).plus(&self.of(b), 1),
            ExprKind::Binary(BinaryOp::Sub, a, b) => self.of(a).plus(&self.of(b), -1),
            ExprKind::Binary(BinaryOp::Mul, a, b) => {
                let (a, b) = (self.of(a), self.of(b));
                let scaled = a.terms.is_empty() || b.terms.is_empty();
                if scaled || !self.affine { a.times(&b) } else { None }
            }
            ExprKind::Binary(BinaryOp::Div, a, b) => {
                let a = self.of(a);
                self.div(&a, b.as_int()?, e.ty())
            }
            ExprKind::Binary(BinaryOp::Mod, a, b) => {
                let a = self.of(a);
                self.modulo(&a, b.as_int()?, e.ty())
            }
            ExprKind::Cast(a) if e.ty().scalar == ScalarType::I64 && a.ty().scalar == ScalarType::I32 => {
                Some(self.of(a))
            }
            ExprKind::Broadcast(a) if a.ty().lanes == 1 => Some(self.of(a)),
            ExprKind::Ramp(a, b) if a.ty().lanes == 1 && as_lane(e).is_none() => {
                let lane = Poly::atom(lane_atom(e.ty().lanes));
                self.of(a).plus(&self.of(b).times(&lane)?, 1)
            }
            ExprKind::Ramp(..) if e.ty().scalar == ScalarType::I64 => {
                Some(Poly::atom(lane_atom(e.ty().lanes)))
            }
            _ => None,
        }
    }

    /// `p / c`, floored.
    pub(crate) fn div(&mut self, p: &Poly, c: i64, ty: Type) -> Option<Poly> {
        match c {
            0 => return Some(Poly::constant(0)),
            i64::MIN => return None,
            c if c < 0 => return self.div(p, -c, ty)?.scaled(-1),
            _ => {}
        }
        let (q, r) = p.split_multiples(c);
        if r.terms.is_empty() {
            return Some(q);
        }
        if let Some(k) = lanes_only_quotient(&r, c) {
            return q.offset(k);
        }
        // floor((g r + k) / (g c)) = floor((r + floor(k / g)) / c)
        let g = r.terms.iter().fold(c, |g, (_, k)| gcd(g, *k));
        let r = Poly {
            terms: r.terms.into_iter().map(|(m, k)| (m, k / g)).collect(),
            constant: r.constant.div_euclid(g),
        };
        let c = c / g;
        // (x / a) / c = x / (a c)
        if let Some((x, a)) = r.as_atom().and_then(quotient)
            && let Some(ac) = a.checked_mul(c)
        {
            let x = self.of(&x);
            return q.plus(&self.div(&x, ac, ty)?, 1);
        }
        let atom = Expr::binary(BinaryOp::Div, rebuild(&r, ty), constant(ty, c));
        q.plus(&Poly::atom(atom), 1)
    }

    /// `p mod c`, in `[0, |c|)`.
    pub(crate) fn modulo(&mut self, p: &Poly, c: i64, ty: Type) -> Option<Poly> {
        let c = c.checked_abs()?;
        if c <= 1 {
            return Some(Poly::constant(0));
        }
        let mut r = Poly::constant(p.constant.rem_euclid(c));
        for (m, k) in &p.terms {
            // Small negative coefficients stay as they are: `(w - x) % c` reads better than `(w + x * (c - 1)) % c`.
            let k = if k.abs() < c { *k } else { k % c };
            if k != 0 {
                r.terms.push((m.clone(), k));
            }
        }
        if r.terms.is_empty() {
            return Some(r);
        }
        if let Some(k) = lanes_only_quotient(&r, c) {
            return r.offset(c.checked_mul(-k)?);
        }
        if let Some(a) = r.as_atom()
            && let ExprKind::Binary(BinaryOp::Mod, x, d) = a.kind()
            && let Some(d) = d.as_int()
            && d > 0
            && (d % c == 0 || c % d == 0)
        {
            // (x mod d) mod c: of two moduli that divide each other the smaller one decides.
            return if d <= c {
                Some(r)
            } else {
                let x = self.of(x);
                self.modulo(&x, c, ty)
            };
        }
        Some(Poly::atom(Expr::binary(BinaryOp::Mod, rebuild(&r, ty), constant(ty, c))))
    }
}

/// `x / a` with constant a > 0.
pub(crate) fn quotient(e: &Expr) -> Option<(Expr, i64)> {
    match e.kind() {
        ExprKind::Binary(BinaryOp::Div, x, a) => a.as_int().filter(|&a| a > 0).map(|a| (x.clone(), a)),
        _ => None,
    }
}

/// The quotient by c of `k * lane + constant`, if it is the same in all lanes.
fn lanes_only_quotient(r: &Poly, c: i64) -> Option<i64> {
    let [(m, k)] = &r.terms[..] else { return None };
    let [atom] = &m[..] else { return None };
    let last = r.constant.checked_add(k.checked_mul(as_lane(atom)? as i64 - 1)?)?;
    let q = r.constant.div_euclid(c);
    (q == last.div_euclid(c)).then_some(q)
}

/// The greatest common divisor; 1 of two zeros.
pub(crate) fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1) as i64
}

/// Rewrites `k x - k c (x / c)` as `k (x mod c)`, and `k c (x / c) + k (x mod c)` as `k x`.
fn fold_mod(mut p: Poly, polys: &mut Polys) -> Poly {
    let mut i = 0;
    while i < p.terms.len() {
        if let Some(q) = fold_mod_at(&p, i, polys) {
            p = q;
            i = 0;
        } else {
            i += 1;
        }
    }
    p
}

fn fold_mod_at(p: &Poly, i: usize, polys: &mut Polys) -> Option<Poly> {
    let (m, coef) = &p.terms[i];
    let [atom] = &m[..] else { return None };
    let (x, c) = quotient(atom)?;
    if coef % c != 0 {
        return None;
    }
    let k = -(coef / c);
    let inner = polys.of(&x);
    let modulo = polys.modulo(&inner, c, atom.ty())?;
    if modulo.as_atom().is_some_and(|modulo| p.coef(&Mono::Atom(modulo.clone())) == -k) {
        return p.without(m).plus(&modulo, k)?.plus(&inner, -k);
    }
    let has = |(m, d): &(Mono, i64)| d.checked_mul(k).is_some_and(|dk| p.coef(m) == dk);
    if inner.terms.is_empty() || !inner.terms.iter().all(has) {
        return None;
    }
    let rest = p.clone().plus(&inner, k.checked_neg()?)?.plus(&Poly::atom(atom.clone()), -coef)?;
    rest.plus(&modulo, k)
}
