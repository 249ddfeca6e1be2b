//! Questions to facts: bounds and the truth of conditions.

use crate::analysis::algebra::facts::Facts;
use crate::analysis::algebra::poly::is_index;
use crate::analysis::algebra::upper::Search;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

impl Facts {
    /// A constant that `e` never exceeds; for a vector, in no lane. None if none was found. The expression must be index
    /// arithmetic (i32 or i64 without wrap).
    pub fn upper(&self, e: &Expr) -> Option<i64> {
        self.upper_within(e, i64::MAX)
    }

    /// As [`Facts::upper`], where a constant above `goal` is of no use.
    pub fn upper_within(&self, e: &Expr, goal: i64) -> Option<i64> {
        self.search(|s| {
            let p = s.workspace.polys.of(e);
            s.upper(p, goal)
        })
    }

    /// A constant that `e` is never less than.
    pub fn lower(&self, e: &Expr) -> Option<i64> {
        self.search(|s| {
            let p = s.workspace.polys.of(e).scaled(-1)?;
            s.upper(p, i64::MAX)?.checked_neg()
        })
    }

    /// `e / c`, floored, if that is the same wherever the facts hold, and c > 0.
    pub fn quotient(&self, e: &Expr, c: i64) -> Option<i64> {
        let some = self.search(|s| {
            let p = s.workspace.polys.of(e);
            s.reached(&p)
        });
        let k = some.or_else(|| self.upper(e))?.div_euclid(c);
        let first = Expr::int(e.ty(), k.checked_mul(c)?);
        (self.is_at_most(&first, e, 0) && self.is_at_most(e, &first, c - 1)).then_some(k)
    }

    /// True if `a <= b` always (in every lane). False means not proved.
    pub fn proves_le(&self, a: &Expr, b: &Expr) -> bool {
        self.is_at_most(a, b, 0)
    }

    /// `upper(a - b)`.
    pub fn upper_of_difference(&self, a: &Expr, b: &Expr) -> Option<i64> {
        self.least_bound(a, b, i64::MAX)
    }

    /// Is `a - b <= k` proved?
    fn is_at_most(&self, a: &Expr, b: &Expr, k: i64) -> bool {
        self.least_bound(a, b, k).is_some()
    }

    /// The least bound of `a - b` up to `goal`.
    fn least_bound(&self, a: &Expr, b: &Expr, goal: i64) -> Option<i64> {
        self.search(|s| {
            let d = s.workspace.polys.of(a).plus(&s.workspace.polys.of(b), -1)?;
            s.upper(d, goal)
        })
    }

    /// The truth of a condition, if it can be decided (the same in all lanes).
    pub fn decide(&self, cond: &Expr) -> Option<bool> {
        use BinaryOp::*;
        match cond.kind() {
            ExprKind::Int(v) => Some(*v != 0),
            ExprKind::Likely(c) | ExprKind::Broadcast(c) => self.decide(c),
            ExprKind::Unary(UnaryOp::Not, c) => self.decide(c).map(|b| !b),
            ExprKind::Binary(And, a, b) => match (self.decide(a), self.decide(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            ExprKind::Binary(Or, a, b) => match (self.decide(a), self.decide(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            ExprKind::Binary(op, a, b) if op.is_comparison() && is_index(a.ty()) => match op {
                Le => self.decide_le(a, b, 0),
                Lt => self.decide_le(a, b, -1),
                Ge => self.decide_le(b, a, 0),
                Gt => self.decide_le(b, a, -1),
                Eq => self.decide_eq(a, b),
                _ => self.decide_eq(a, b).map(|b| !b),
            },
            _ => None,
        }
    }

    /// `a - b <= k`.
    fn decide_le(&self, a: &Expr, b: &Expr, k: i64) -> Option<bool> {
        if self.is_at_most(a, b, k) {
            return Some(true);
        }
        self.is_at_most(b, a, -k - 1).then_some(false)
    }

    fn decide_eq(&self, a: &Expr, b: &Expr) -> Option<bool> {
        let (above, below) = (self.least_bound(a, b, 0), self.least_bound(b, a, 0));
        match (above, below) {
            (Some(0), Some(0)) => Some(true),
            (Some(u), _) | (_, Some(u)) if u < 0 => Some(false),
            (_, Some(u)) if u < 0 => Some(false),
            _ => None,
        }
    }

    fn search<T>(&self, f: impl FnOnce(&mut Search<'_>) -> T) -> T {
        f(&mut Search::new(self))
    }
}
