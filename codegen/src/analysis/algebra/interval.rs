//! Intervals whose ends are expressions, and arithmetic on them.
//!
//! Where `upper` gives a constant, this gives ends in terms of what is fixed: the regions that a program computes. Exact for
//! sums of independent terms, min, max, div and mod by what is fixed; a superset elsewhere.
//!
//! An interval may be empty, as what the last block of a split has left to do. All arithmetic is monotone for those, too: if
//! `a.min <= b.min` and `b.max <= a.max`, so it is of the results, although `b` may be empty. So an empty iteration needs nothing
//! beyond what its whole loop needs.

use crate::analysis::algebra::build;
use crate::analysis::algebra::build::{constant, div, mul, offset, sub};
use crate::expr::{BinaryOp, Expr};

/// Inclusive bounds; empty where `min > max`.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// First value.
    pub min: Expr,
    /// Last value.
    pub max: Expr,
}

impl Interval {
    /// A single value.
    pub fn point(e: &Expr) -> Interval {
        Interval { min: e.clone(), max: e.clone() }
    }
    /// The smallest interval that contains both.
    pub fn union(&self, o: &Interval) -> Interval {
        Interval { min: build::min(&self.min, &o.min), max: build::max(&self.max, &o.max) }
    }
    /// `max - min + 1`.
    pub fn extent(&self) -> Expr {
        offset(&sub(&self.max, &self.min), 1)
    }
}

/// An interval whose ends may be unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    /// First value, if there is a bound.
    pub min: Option<Expr>,
    /// Last value, if there is a bound.
    pub max: Option<Expr>,
}

impl Span {
    /// Both ends are known.
    pub(crate) fn new(min: Expr, max: Expr) -> Span {
        Span { min: Some(min), max: Some(max) }
    }
    /// The first value, if it is a constant.
    pub(crate) fn constant_min(&self) -> Option<i64> {
        self.min.as_ref()?.as_int()
    }
    /// The last value, if it is a constant.
    pub(crate) fn constant_max(&self) -> Option<i64> {
        self.max.as_ref()?.as_int()
    }
    /// Under a function that never decreases.
    pub(crate) fn map(&self, f: impl Fn(&Expr) -> Expr) -> Span {
        Span { min: self.min.as_ref().map(&f), max: self.max.as_ref().map(&f) }
    }

    /// Everything in either.
    pub(crate) fn union(self, o: Span) -> Span {
        let both =
            |f: fn(&Expr, &Expr) -> Expr, a: Option<Expr>, b: Option<Expr>| a.zip(b).map(|(a, b)| f(&a, &b));
        Span { min: both(build::min, self.min, o.min), max: both(build::max, self.max, o.max) }
    }

    /// `min(self, o)` or `max(self, o)`: the minimum is bounded above by either operand, the maximum below.
    pub(crate) fn extremum(self, op: BinaryOp, o: Span) -> Span {
        let f: fn(&Expr, &Expr) -> Expr = if op == BinaryOp::Min { build::min } else { build::max };
        let both = |x: Option<Expr>, y: Option<Expr>| x.zip(y).map(|(x, y)| f(&x, &y));
        let either = |x: Option<Expr>, y: Option<Expr>| match (x, y) {
            (Some(x), Some(y)) => Some(f(&x, &y)),
            (x, y) => x.or(y),
        };
        match op {
            BinaryOp::Min => Span { min: both(self.min, o.min), max: either(self.max, o.max) },
            _ => Span { min: either(self.min, o.min), max: both(self.max, o.max) },
        }
    }

    /// `-self`.
    pub(crate) fn negative(&self) -> Span {
        let negate = |e: &Expr| mul(e, &Expr::int(e.ty(), -1));
        Span { min: self.max.as_ref().map(negate), max: self.min.as_ref().map(negate) }
    }

    /// `abs(self)`, none below 0. An end that is unknown may be the least of its type, which has no magnitude: without bounds.
    pub(crate) fn magnitude(&self) -> Span {
        let (Some(lo), Some(hi)) = (&self.min, &self.max) else { return Span::default() };
        let Span { min: Some(below), max: Some(beyond) } = self.negative() else { return Span::default() };
        let zero = Expr::int(lo.ty(), 0);
        Span::new(build::max(&build::max(lo, &below), &zero), build::max(hi, &beyond))
    }

    /// `self mod d` for one value d >= 1: within one period `[min mod d, max mod d]`, else `[0, d - 1]`. Of nothing it is
    /// `[d - 1, 0]` or, within one period, as above: nothing as well, and inside of whatever else came out for a larger span, as an
    /// iteration of a split that has nothing left to do must not need more than the whole loop.
    pub(crate) fn modulo(&self, d: &Expr) -> Span {
        let (zero, last) = (Expr::int(d.ty(), 0), offset(d, -1));
        let Span { min: Some(lo), max: Some(hi) } = self else { return Span::new(zero, last) };
        let (first, end) = (build::modulo(lo, d), build::modulo(hi, d));
        let (qlo, qhi) = (div(lo, d), div(hi, d));
        match constant(&(&qhi - &qlo)) {
            Some(0) => Span::new(first, end),
            Some(periods) if periods > 0 => Span::new(zero, last),
            Some(_) => Span::new(last, zero),
            None => {
                // Where the facts show that there is something, the inner choice falls away.
                let choose = |beyond: &Expr, nothing: &Expr, within: Expr| {
                    Expr::select(
                        qlo.lt(&qhi),
                        beyond.clone(),
                        Expr::select(qhi.lt(&qlo), nothing.clone(), within),
                    )
                };
                Span::new(choose(&zero, &last, first), choose(&last, &zero, end))
            }
        }
    }

    /// `self / d` for one value d of any sign, 0 included.
    pub(crate) fn quotient(&self, d: &Expr) -> Span {
        let (Some(lo), Some(hi)) = (&self.min, &self.max) else { return Span::default() };
        by_sign((lo, hi), d, div)
    }

    /// `self * o`. Where both are intervals, the extremes lie at the corners, here written as one formula for all signs that
    /// is monotone for empty intervals, too (Lakeyev 1995, of Kaucher's product): with `+` and `-` for the positive and negative
    /// part, from `max(a0+ b0+, a1- b1-) - max(a1+ b0-, a0- b1+)` to `max(a1+ b1+, a0- b0-) - max(a0+ b1-, a1- b0+)`.
    pub(crate) fn product(&self, o: &Span) -> Span {
        let (Some(a0), Some(a1), Some(b0), Some(b1)) = (&self.min, &self.max, &o.min, &o.max) else {
            return Span::default();
        };
        if a0 == a1 {
            return by_sign((b0, b1), a0, mul);
        }
        if b0 == b1 {
            return by_sign((a0, a1), b0, mul);
        }
        let zero = Expr::int(a0.ty(), 0);
        let [p0, p1, q0, q1] = [a0, a1, b0, b1].map(|e| build::max(e, &zero));
        let [m0, m1, n0, n1] = [a0, a1, b0, b1].map(|e| build::max(&sub(&zero, e), &zero));
        let larger = |a: (&Expr, &Expr), b: (&Expr, &Expr)| build::max(&mul(a.0, a.1), &mul(b.0, b.1));
        Span::new(
            sub(&larger((&p0, &q0), (&m1, &n1)), &larger((&p1, &n0), (&m0, &q1))),
            sub(&larger((&p1, &q1), (&m0, &n0)), &larger((&p0, &n1), (&m1, &q0))),
        )
    }
}

/// `[ends]` under `f(., k)`, which never decreases for `k >= 0` and never increases for `k <= 0`.
fn by_sign(ends: (&Expr, &Expr), k: &Expr, f: fn(&Expr, &Expr) -> Expr) -> Span {
    let (a, b) = (f(ends.0, k), f(ends.1, k));
    match k.as_int() {
        Some(k) if k >= 0 => Span::new(a, b),
        Some(_) => Span::new(b, a),
        None => {
            let grows = k.ge(Expr::int(k.ty(), 0));
            Span::new(Expr::select(&grows, &a, &b), Expr::select(&grows, &b, &a))
        }
    }
}
