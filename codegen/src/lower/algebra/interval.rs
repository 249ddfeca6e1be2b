//! Intervals whose ends are expressions, and arithmetic on them.
//!
//! Where `upper` gives a constant, this gives ends in terms of what is fixed: the regions that a program computes. Exact for
//! sums of independent terms, min, max, div and mod by constants; a superset elsewhere.

use super::build::{self, constant, div, mul, offset, sub};
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
pub struct Span {
    /// First value, if there is a bound.
    pub min: Option<Expr>,
    /// Last value, if there is a bound.
    pub max: Option<Expr>,
}

impl Span {
    /// Both ends are known.
    pub fn new(min: Expr, max: Expr) -> Span {
        Span { min: Some(min), max: Some(max) }
    }
    /// The first value, if it is a constant.
    pub fn constant_min(&self) -> Option<i64> {
        self.min.as_ref()?.as_int()
    }
    /// The last value, if it is a constant.
    pub fn constant_max(&self) -> Option<i64> {
        self.max.as_ref()?.as_int()
    }
    /// Under a function that never decreases.
    pub fn map(&self, f: impl Fn(&Expr) -> Expr) -> Span {
        Span { min: self.min.as_ref().map(&f), max: self.max.as_ref().map(&f) }
    }

    /// Everything in either.
    pub fn union(self, o: Span) -> Span {
        let both =
            |f: fn(&Expr, &Expr) -> Expr, a: Option<Expr>, b: Option<Expr>| a.zip(b).map(|(a, b)| f(&a, &b));
        Span { min: both(build::min, self.min, o.min), max: both(build::max, self.max, o.max) }
    }

    /// `min(self, o)` or `max(self, o)`: the minimum is bounded above by either operand, the maximum below.
    pub fn extremum(self, op: BinaryOp, o: Span) -> Span {
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
    pub fn negative(&self) -> Span {
        let negate = |e: &Expr| mul(e, &Expr::int(e.ty(), -1));
        Span { min: self.max.as_ref().map(negate), max: self.min.as_ref().map(negate) }
    }

    /// `abs(self)`, none below 0. An end that is unknown may be the least of its type, which has no magnitude: without bounds.
    pub fn magnitude(&self) -> Span {
        let (Some(lo), Some(hi)) = (&self.min, &self.max) else { return Span::default() };
        let Span { min: Some(below), max: Some(beyond) } = self.negative() else { return Span::default() };
        let zero = Expr::int(lo.ty(), 0);
        Span::new(build::max(&build::max(lo, &below), &zero), build::max(hi, &beyond))
    }

    /// `self mod d` for a constant d > 0: within one period `[min mod d, max mod d]`, else `[0, d - 1]`.
    pub fn modulo(&self, d: &Expr) -> Span {
        let (zero, last) = (Expr::int(d.ty(), 0), offset(d, -1));
        let Span { min: Some(lo), max: Some(hi) } = self else { return Span::new(zero, last) };
        let (first, end) = (build::modulo(lo, d), build::modulo(hi, d));
        let (qlo, qhi) = (div(lo, d), div(hi, d));
        match constant(&(&qhi - &qlo)) {
            Some(0) => Span::new(first, end),
            Some(_) => Span::new(zero, last),
            None => {
                let one_period = qlo.eq_(&qhi);
                Span::new(Expr::select(&one_period, first, zero), Expr::select(&one_period, end, last))
            }
        }
    }

    /// `self * o`: the extremes lie at the corners.
    pub fn product(&self, o: &Span) -> Span {
        let (Some(a0), Some(a1), Some(b0), Some(b1)) = (&self.min, &self.max, &o.min, &o.max) else {
            return Span::default();
        };
        let corners = [mul(a0, b0), mul(a0, b1), mul(a1, b0), mul(a1, b1)];
        let fold =
            |f: fn(&Expr, &Expr) -> Expr| corners[1..].iter().fold(corners[0].clone(), |x, y| f(&x, y));
        Span::new(fold(build::min), fold(build::max))
    }
}
