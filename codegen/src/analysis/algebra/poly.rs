//! Polynomials with i64 coefficients over integer atoms: the normal form of index arithmetic.
//!
//! An atom is a scalar expression that is no sum or product (variable, parameter, min, max, load, quotient and
//! remainder by a positive constant, ...), the lane number `ramp(0, 1, n)`, or any other vector expression. Index
//! arithmetic does not wrap, so a widening cast from i32 to i64 is transparent, and i32 and i64 share this form.

pub(crate) use crate::analysis::algebra::mono::Mono;

use crate::expr::{Expr, ExprKind};
use crate::types::{ScalarType, Type};
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
