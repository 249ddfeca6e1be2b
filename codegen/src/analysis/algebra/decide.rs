//! Questions to facts: bounds and the truth of conditions.

use crate::analysis::algebra::facts::Facts;
use crate::analysis::algebra::poly::is_index;
use crate::analysis::algebra::upper::Search;
use crate::expr::{BinaryOp, Expr, ExprKind, UnaryOp};

impl Facts {
    /// A constant that `e` never exceeds; for a vector, in no lane. None if none was found. The expression must be index
    /// arithmetic (i32 or i64 without wrap).
    pub fn upper(&self, e: &Expr) -> Option<i64> {
        self.search(|s| {
            let p = s.workspace.polys.of(e);
            s.upper(p)
        })
    }

    /// A constant that `e` is never less than.
    pub fn lower(&self, e: &Expr) -> Option<i64> {
        self.search(|s| {
            let p = s.workspace.polys.of(e).scaled(-1)?;
            s.upper(p)?.checked_neg()
        })
    }

    /// True if `a <= b` always (in every lane). False means not proved.
    pub fn proves_le(&self, a: &Expr, b: &Expr) -> bool {
        self.upper_of_difference(a, b).is_some_and(|u| u <= 0)
    }

    /// `upper(a - b)`.
    pub fn upper_of_difference(&self, a: &Expr, b: &Expr) -> Option<i64> {
        self.search(|s| {
            let d = s.workspace.polys.of(a).plus(&s.workspace.polys.of(b), -1)?;
            s.upper(d)
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
        if self.upper_of_difference(a, b).is_some_and(|u| u <= k) {
            return Some(true);
        }
        self.upper_of_difference(b, a).is_some_and(|u| u < -k).then_some(false)
    }

    fn decide_eq(&self, a: &Expr, b: &Expr) -> Option<bool> {
        let (above, below) = (self.upper_of_difference(a, b), self.upper_of_difference(b, a));
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
