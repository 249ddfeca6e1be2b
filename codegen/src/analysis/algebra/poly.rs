//! Polynomials with i64 coefficients over integer atoms: the normal form of index arithmetic.
//!
//! An atom is a scalar expression that is no sum or product (variable, parameter, min, max, load, quotient and
//! remainder by a positive constant, ...), the lane number `ramp(0, 1, n)`, or any other vector expression. Index
//! arithmetic does not wrap, so a widening cast from i32 to i64 is transparent, and i32 and i64 share this form.
//!
//! Quotients are floored by a positive constant c: `(c a + r) / c = a + r / c`. `x - c (x / c)` is kept as `x % c`.

pub(crate) use crate::analysis::algebra::mono::Mono;
pub(crate) use crate::analysis::algebra::rebuild::{rebuild, splat};

use crate::analysis::algebra::rebuild::constant;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::hash::{Hash, Hasher};

/// `constant + sum coef * mono`; no coefficient is 0, no monomial occurs twice. The order of the terms is that of first
/// mention and carries no meaning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Poly {
    /// Monomials and coefficients.
    pub terms: SmallVec<[(Mono, i64); 3]>,
    /// The constant term.
    pub constant: i64,
}

/// Products with more terms than this stay unexpanded.
const MAX_TERMS: usize = 24;

impl PartialEq for Poly {
    fn eq(&self, o: &Poly) -> bool {
        self.constant == o.constant
            && self.terms.len() == o.terms.len()
            && self.terms.iter().all(|(m, c)| o.coef(m) == *c)
    }
}
impl Eq for Poly {}
impl Hash for Poly {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let mut sum = self.constant as u64;
        for (m, c) in &self.terms {
            let m = m.iter().fold(*c as u64, |s, e| s.wrapping_mul(31).wrapping_add(e.structural_hash()));
            sum = sum.wrapping_add(m);
        }
        h.write_u64(sum);
    }
}

impl Poly {
    /// A constant.
    pub(crate) fn constant(constant: i64) -> Poly {
        Poly { terms: smallvec![], constant }
    }

    /// An atom.
    pub(crate) fn atom(e: Expr) -> Poly {
        Poly { terms: smallvec![(Mono::Atom(e), 1)], constant: 0 }
    }

    /// The value, if it has no terms.
    pub(crate) fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The atom, if it is one with coefficient 1.
    pub(crate) fn as_atom(&self) -> Option<&Expr> {
        match &self.terms[..] {
            [(m, 1)] if self.constant == 0 && m.len() == 1 => Some(&m[0]),
            _ => None,
        }
    }

    /// `self - o`, if that is a constant.
    pub(crate) fn difference(&self, o: &Poly) -> Option<i64> {
        let same = self.terms.len() == o.terms.len() && self.terms.iter().all(|(m, c)| o.coef(m) == *c);
        if same { self.constant.checked_sub(o.constant) } else { None }
    }

    /// A name or two, plus a constant: in plain sight it cancels against others, and costs no more than a name.
    pub(crate) fn is_plain(&self) -> bool {
        let name = |e: &Expr| match e.kind() {
            ExprKind::Var(_) => e.ty().lanes == 1,
            ExprKind::Param(_) => true,
            _ => false,
        };
        self.terms.len() <= 2 && self.terms.iter().all(|(m, c)| *c == 1 && m.len() == 1 && name(&m[0]))
    }

    /// Coefficient of a monomial.
    pub(crate) fn coef(&self, m: &Mono) -> i64 {
        self.terms.iter().find(|(n, _)| n == m).map_or(0, |(_, c)| *c)
    }

    /// `self + k * o`, or none if a coefficient leaves i64.
    pub(crate) fn plus(mut self, o: &Poly, k: i64) -> Option<Poly> {
        self.constant = self.constant.checked_add(o.constant.checked_mul(k)?)?;
        for (m, c) in &o.terms {
            self.add_term(m, c.checked_mul(k)?)?;
        }
        Some(self)
    }

    /// `self` less its term with `m`.
    pub(crate) fn without(&self, m: &Mono) -> Poly {
        let terms = self.terms.iter().filter(|(n, _)| n != m).cloned().collect();
        Poly { terms, constant: self.constant }
    }

    /// `self + c`.
    pub(crate) fn offset(mut self, c: i64) -> Option<Poly> {
        self.constant = self.constant.checked_add(c)?;
        Some(self)
    }

    fn add_term(&mut self, m: &Mono, c: i64) -> Option<()> {
        match self.terms.iter().position(|(n, _)| n == m) {
            Some(i) => {
                self.terms[i].1 = self.terms[i].1.checked_add(c)?;
                if self.terms[i].1 == 0 {
                    self.terms.remove(i);
                }
            }
            None if c != 0 => self.terms.push((m.clone(), c)),
            None => {}
        }
        Some(())
    }

    /// `k * self`.
    pub(crate) fn scaled(mut self, k: i64) -> Option<Poly> {
        if k == 0 {
            return Some(Poly::default());
        }
        self.constant = self.constant.checked_mul(k)?;
        for (_, c) in &mut self.terms {
            *c = c.checked_mul(k)?;
        }
        Some(self)
    }

    /// The product, or none if it is too large.
    pub(crate) fn times(&self, o: &Poly) -> Option<Poly> {
        if self.terms.len() * o.terms.len() > MAX_TERMS {
            return None;
        }
        let mut out = o.clone().scaled(self.constant)?;
        for (m, c) in &self.terms {
            out.add_term(m, c.checked_mul(o.constant)?)?;
            for (n, d) in &o.terms {
                out.add_term(&m.times(n), c.checked_mul(*d)?)?;
            }
        }
        Some(out)
    }

    /// Splits into `c * quotient + rest`, where the rest holds the terms that c does not divide and a constant in
    /// `[0, c)`.
    pub(crate) fn split_multiples(&self, c: i64) -> (Poly, Poly) {
        let mut q = Poly::constant(self.constant.div_euclid(c));
        let mut r = Poly::constant(self.constant.rem_euclid(c));
        for (m, k) in &self.terms {
            if k % c == 0 {
                q.terms.push((m.clone(), k / c));
            } else {
                r.terms.push((m.clone(), *k));
            }
        }
        (q, r)
    }
}

/// The lane number as an atom of `lanes` lanes.
pub(crate) fn lane_atom(lanes: u16) -> Expr {
    Expr::new(ExprKind::Ramp(Expr::from(0), Expr::from(1)), Type::I32.with_lanes(lanes))
}

/// The number of lanes, if `e` is a [`lane_atom`].
pub(crate) fn as_lane(e: &Expr) -> Option<u16> {
    match e.kind() {
        ExprKind::Ramp(a, b) if a.as_int() == Some(0) && b.as_int() == Some(1) => Some(e.ty().lanes),
        _ => None,
    }
}

/// True for the types of index arithmetic.
pub fn is_index(ty: Type) -> bool {
    matches!(ty.scalar, ScalarType::I32 | ScalarType::I64)
}

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

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1) as i64
}

/// Rewrites `k x - k c (x / c)` as `k (x mod c)`.
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
    let has = |(m, d): &(Mono, i64)| d.checked_mul(k).is_some_and(|dk| p.coef(m) == dk);
    if inner.terms.is_empty() || !inner.terms.iter().all(has) {
        return None;
    }
    let rest = p.clone().plus(&inner, k.checked_neg()?)?.plus(&Poly::atom(atom.clone()), -coef)?;
    let modulo = polys.modulo(&inner, c, atom.ty())?;
    rest.plus(&modulo, k)
}
