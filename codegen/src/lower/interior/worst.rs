//! The worst case of a condition.

use crate::analysis::algebra::forms::{Polys, quotient};
use crate::analysis::algebra::poly::{Mono, Poly};
use crate::expr::walk::{any, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use rustc_hash::FxHashSet;

/// Replacements on the way to it.
const STEPS: usize = 24;

/// The worst case of `p <= 0` among all threads and iterations of loops.
pub(super) struct Worst<'a> {
    polys: Polys,
    /// Variables with their first and last values, the latest last.
    ranges: Vec<(Name, Poly, Poly)>,
    /// Variables of the loops around.
    around: &'a FxHashSet<Name>,
}

impl<'a> Worst<'a> {
    pub(super) fn new(around: &'a FxHashSet<Name>) -> Worst<'a> {
        Worst { polys: Polys::default(), ranges: vec![], around }
    }

    /// The body of a loop is entered.
    pub(super) fn enter(&mut self, var: &Name, first: &Expr, last: &Expr) {
        let [first, last] = [first, last].map(|e| self.polys.of(e));
        self.ranges.retain(|(v, ..)| v != var);
        self.ranges.push((var.clone(), first, last));
    }

    /// Two operands of a minimum or maximum, first that which is its value nearly everywhere: a constant, else what changes from tile to tile,
    /// with few loops.
    fn typical<'e>(&self, a: &'e Expr, b: &'e Expr) -> [&'e Expr; 2] {
        let rank = |e: &Expr| match (e.as_int(), self.moving(e)) {
            (Some(_), _) => 0,
            (None, 0) => usize::MAX,
            (None, n) => n,
        };
        if rank(a) <= rank(b) { [a, b] } else { [b, a] }
    }

    /// The number of loops that an expression depends on.
    fn moving(&self, e: &Expr) -> usize {
        let names = variables(e);
        names.iter().filter(|v| self.around.contains(*v) || self.position(v).is_some()).count()
    }

    fn position(&self, var: &Name) -> Option<usize> {
        self.ranges.iter().position(|(v, ..)| v == var)
    }

    /// The next to go: minima, maxima and quotients, then the latest variable. None of those is left in what it stands for.
    fn next(&self, p: &Poly) -> Option<(Mono, i64)> {
        let place = |e: &Expr| match e.kind() {
            ExprKind::Var(v) => self.position(v),
            _ if variables(e).iter().any(|v| self.position(v).is_some()) || is_cut(e) => Some(usize::MAX),
            _ => None,
        };
        let of = |m: &Mono| m.iter().filter_map(place).max();
        let all = p.terms.iter().filter_map(|t| Some((of(&t.0)?, t)));
        all.max_by_key(|(place, _)| *place).map(|(_, t)| t.clone())
    }

    /// The polynomial that is at most 0 where a minimum of two, or a maximum, has the operand that is typical.
    pub(super) fn cut(&mut self, is_min: bool, a: &Expr, b: &Expr) -> Option<Poly> {
        let [a, b] = self.typical(a, b).map(|e| self.polys.of(e));
        a.plus(&b, -1)?.scaled(if is_min { 1 } else { -1 })
    }

    /// Polynomials without what is inside: where none is above 0, `p` is not, for any thread and iteration. None if such are not known, or never hold.
    pub(super) fn of(&mut self, p: &Poly) -> Option<Vec<Poly>> {
        self.go(p, STEPS)
    }

    fn go(&mut self, p: &Poly, steps: usize) -> Option<Vec<Poly>> {
        let Some((m, k)) = self.next(p) else {
            return p.as_constant().is_none_or(|c| c <= 0).then(|| vec![p.clone()]);
        };
        let (left, [atom]) = (steps.checked_sub(1)?, &m[..]) else { return None };
        let rest = p.without(&m);
        match atom.kind() {
            ExprKind::Var(v) => {
                let (_, first, last) = &self.ranges[self.position(v)?];
                let p = rest.plus(if k > 0 { last } else { first }, k)?;
                self.go(&p, left)
            }
            ExprKind::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b) => {
                let arms = self.typical(a, b).map(|e| self.polys.of(e));
                // One is enough, or both are asked.
                let enough = if (*op == BinaryOp::Min) == (k > 0) { 1 } else { 2 };
                let mut all = vec![];
                for arm in &arms[..enough] {
                    all.extend(self.go(&rest.clone().plus(arm, k)?, left)?);
                }
                Some(all)
            }
            ExprKind::Binary(BinaryOp::Div, ..) => {
                let p = self.of_quotient(&rest, atom, k)?;
                self.go(&p, left)
            }
            _ => None,
        }
    }

    /// A polynomial without the quotient `atom`: where it is not above 0, `rest + k atom` is not.
    fn of_quotient(&mut self, rest: &Poly, atom: &Expr, k: i64) -> Option<Poly> {
        let (e, c) = quotient(atom)?;
        let e = self.polys.of(&e);
        // No size may be multiplied: it might leave its type. Quotients by c may, which are next.
        let by_c = |m: &Mono| matches!(&m[..], [q] if quotient(q).is_some_and(|(_, by)| by == c));
        let is_scalable = rest.terms.iter().all(|(m, _)| by_c(m));
        match k {
            // floor(e / c) <= -r where e <= -c r + c - 1, and r <= floor(e / c) where c r <= e.
            1 if is_scalable => rest.clone().scaled(c)?.plus(&e, 1)?.offset(1 - c),
            -1 if is_scalable => rest.clone().scaled(c)?.plus(&e, -1),
            k if k % c != 0 => None,
            k if k > 0 => rest.clone().plus(&e, k / c),
            k => rest.clone().plus(&e.offset(1 - c)?, k / c),
        }
    }
}

/// Minima and maxima may be cut off at a border, though no thread's variable is in them.
fn is_cut(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, ..)))
}
