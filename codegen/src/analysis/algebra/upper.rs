//! `upper`: a constant above an index expression.
//!
//! A step replaces one monomial by something that is not smaller and asks again:
//! - a min or max in the "must" position (max with a positive, min with a negative coefficient), and a select: the largest
//!   answer over the arms, which loses nothing;
//! - in the "may" position: the smallest answer over the arms;
//! - `m (x / c)`, m > 0: `m x / c`; m < 0: `m (x - c + 1) / c`; two quotients of opposite sign by the same c:
//!   `floor(a / c) - floor(b / c) <= floor((a - b + c - 1) / c)`;
//! - `m (x mod d)`: for d >= 1 `m (d - 1)` or, if x is not negative, `m x`; 0 for m < 0;
//! - a known inequality `f <= 0` times a positive number is subtracted;
//! - the latest declared variable: its end, by the sign of its coefficient.
//!
//! All ways are tried within a budget, and answers are memoised. More budget never makes an answer wrong, and
//! the budget counts steps, so answers do not depend on the machine.

use crate::analysis::algebra::facts::{Facts, Range, Workspace};
use crate::analysis::algebra::forms::quotient;
use crate::analysis::algebra::poly::{Mono, Poly, as_lane};
use crate::expr::{BinaryOp, Expr, ExprKind};
use std::cell::RefMut;

/// Steps of one query.
const BUDGET: usize = 600;
/// Replacements on one path.
const DEPTH: usize = 24;
/// Uses of known inequalities on one path.
const INEQUALITIES: usize = 3;

/// One query.
pub(super) struct Search<'a> {
    facts: &'a Facts,
    pub workspace: RefMut<'a, Workspace>,
    budget: usize,
}

/// Position of a query on its path.
#[derive(Clone, Copy)]
struct Left {
    depth: usize,
    inequalities: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(facts: &'a Facts) -> Search<'a> {
        let mut workspace = facts.workspace();
        workspace.memo.clear();
        Search { facts, workspace, budget: BUDGET }
    }

    /// A constant that `p` never exceeds. The same question is asked again and again while nothing new is known.
    pub(super) fn upper(&mut self, mut p: Poly) -> Option<i64> {
        // The answer for p is that for its terms plus the constant.
        let constant = std::mem::take(&mut p.constant);
        if p.terms.is_empty() {
            return Some(constant);
        }
        let scope = self.facts.scope();
        let bound = match self.workspace.answer(scope, &p) {
            Some(r) => r,
            None => {
                let r = self.go(p.clone(), Left { depth: DEPTH, inequalities: INEQUALITIES });
                self.workspace.remember(scope, p, r);
                r
            }
        };
        bound?.checked_add(constant)
    }

    fn go(&mut self, mut p: Poly, left: Left) -> Option<i64> {
        let constant = std::mem::take(&mut p.constant);
        if p.terms.is_empty() {
            return Some(constant);
        }
        let bound = match self.workspace.memo.get(&p) {
            Some(r) => *r,
            None if self.budget == 0 || left.depth == 0 => return None,
            None => {
                self.budget -= 1;
                // A path that comes back to the same question learns nothing from it.
                self.workspace.memo.insert(p.clone(), None);
                let left = Left { depth: left.depth - 1, ..left };
                let r = self.steps(&p, left);
                self.workspace.memo.insert(p, r);
                r
            }
        };
        bound?.checked_add(constant)
    }

    fn steps(&mut self, p: &Poly, left: Left) -> Option<i64> {
        let plain = self.in_plain_sight(p);
        if let Some(r) = self.must(p, left) {
            return smaller(plain, r);
        }
        let mut best = smaller(plain, self.latest_variable(p, left));
        for i in 0..p.terms.len() {
            let (m, k) = p.terms[i].clone();
            let next = match &m[..] {
                [atom] => self.atom_step(p, atom, k, left),
                _ => self.product_step(p, &m, k, left),
            };
            best = smaller(best, next);
        }
        if left.inequalities > 0 {
            let left = Left { inequalities: left.inequalities - 1, ..left };
            let facts = self.facts;
            for f in facts.inequalities() {
                best = smaller(best, self.subtract(p, f, left));
            }
        }
        best
    }

    /// The bound that an assumption states as it is, of `p` at the lane where it is greatest. Looked for before anything is replaced: a long
    /// way to what variables stand for may use up the budget.
    fn in_plain_sight(&self, p: &Poly) -> Option<i64> {
        let mut rest = p.clone();
        for (m, k) in &p.terms {
            if let [atom] = &m[..]
                && let Some(lanes) = as_lane(atom)
            {
                rest = rest.without(m).offset(k.checked_mul(lane_end(lanes, *k))?)?;
            }
        }
        self.facts.inequalities().iter().filter_map(|f| rest.difference(f)).min()
    }

    /// Splits on an atom whose arms must all be bounded; the outer option says whether there is one.
    fn must(&mut self, p: &Poly, left: Left) -> Option<Option<i64>> {
        for (m, k) in &p.terms {
            let [atom] = &m[..] else { continue };
            let (a, b) = match atom.kind() {
                ExprKind::Select(_, a, b) => (a, b),
                ExprKind::Binary(BinaryOp::Max, a, b) if *k > 0 => (a, b),
                ExprKind::Binary(BinaryOp::Min, a, b) if *k < 0 => (a, b),
                _ => continue,
            };
            let mut arm = |e: &Expr| {
                let e = self.workspace.polys.of(e);
                self.replaced(p, m, *k, &e, left)
            };
            // Where one arm has no bound, the other is not worth asking for.
            let Some(a) = arm(a) else { return Some(None) };
            return Some(arm(b).map(|b| a.max(b)));
        }
        None
    }

    /// `upper(p - k m + k by)`.
    fn replaced(&mut self, p: &Poly, m: &Mono, k: i64, by: &Poly, left: Left) -> Option<i64> {
        let q = p.without(m).plus(by, k)?;
        self.go(q, left)
    }

    /// Replaces the variable declared last by its end. Only a variable that no other atom mentions is worth it first; but
    /// replacing it alone is right in any case, since the sum of bounds bounds the sum.
    fn latest_variable(&mut self, p: &Poly, left: Left) -> Option<i64> {
        let facts = self.facts;
        let ranged = p.terms.iter().filter_map(|(m, k)| match &m[..] {
            [atom] => facts.range_of(atom).map(|r| (m, *k, r)),
            _ => None,
        });
        let usable = ranged.filter(|(_, k, r)| end(r, *k).is_some());
        let (m, k, range) = usable.max_by_key(|(_, _, r)| r.depth)?;
        let end = self.workspace.polys.of(end(range, k)?);
        self.replaced(p, m, k, &end, left)
    }

    /// Ways to get rid of one atom other than by its declared range.
    fn atom_step(&mut self, p: &Poly, atom: &Expr, k: i64, left: Left) -> Option<i64> {
        let m = Mono::Atom(atom.clone());
        if let Some(lanes) = as_lane(atom) {
            return self.replaced(p, &m, k, &Poly::constant(lane_end(lanes, k)), left);
        }
        match atom.kind() {
            ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, a, b) => {
                let mut arm = |e: &Expr| {
                    let e = self.workspace.polys.of(e);
                    self.replaced(p, &m, k, &e, left)
                };
                let a = arm(a);
                smaller(a, arm(b))
            }
            ExprKind::Binary(BinaryOp::Div, ..) => self.quotient_step(p, atom, k, left),
            ExprKind::Binary(BinaryOp::Mod, ..) if k < 0 => self.replaced(p, &m, k, &Poly::constant(0), left),
            ExprKind::Binary(BinaryOp::Mod, x, d) => {
                let (x, d) = (self.workspace.polys.of(x), self.workspace.polys.of(d));
                let whole = match self.at_least(&d, 1, left)? {
                    true => self.replaced(p, &m, k, &d.clone().offset(-1)?, left),
                    false => None,
                };
                match self.at_least(&x, 0, left)? {
                    true => smaller(whole, self.replaced(p, &m, k, &x, left)),
                    false => whole,
                }
            }
            ExprKind::Cast(x) if x.ty().scalar == crate::types::ScalarType::Bool => {
                self.replaced(p, &m, k, &Poly::constant((k > 0) as i64), left)
            }
            ExprKind::Cast(x) if x.ty().scalar.is_int() && x.ty().scalar.bytes() < 4 => {
                let ty = x.ty().scalar;
                let all = 1i64 << (8 * ty.bytes());
                let (lo, hi) = if ty.is_signed() { (-all / 2, all / 2 - 1) } else { (0, all - 1) };
                self.replaced(p, &m, k, &Poly::constant(if k > 0 { hi } else { lo }), left)
            }
            _ => None,
        }
    }

    /// Is `x >= n` known? None where that cannot be asked.
    fn at_least(&mut self, x: &Poly, n: i64, left: Left) -> Option<bool> {
        let below = Poly::constant(n).plus(x, -1)?;
        Some(self.go(below, left).is_some_and(|u| u <= 0))
    }

    fn quotient_step(&mut self, p: &Poly, atom: &Expr, k: i64, left: Left) -> Option<i64> {
        let (x, c) = quotient(atom)?;
        let m = Mono::Atom(atom.clone());
        let x = self.workspace.polys.of(&x);
        let mut best = None;
        // A partner of opposite sign.
        for (n, l) in &p.terms {
            let [other] = &n[..] else { continue };
            let Some((y, d)) = quotient(other) else { continue };
            if k > 0 && d == c && *l < 0 {
                let pairs = k.min(l.checked_neg()?);
                let y = self.workspace.polys.of(&y);
                let difference = x.clone().plus(&y, -1)?;
                if let Some(u) = self.go(difference, left) {
                    let bound = u.checked_add(c - 1)?.div_euclid(c).checked_mul(pairs)?;
                    let rest = p
                        .clone()
                        .plus(&Poly::atom(atom.clone()), -pairs)?
                        .plus(&Poly::atom(other.clone()), pairs)?
                        .offset(bound)?;
                    best = smaller(best, self.go(rest, left));
                }
            }
        }
        // Bounded by itself, where x has a constant bound.
        let signed = x.clone().scaled(k.signum())?;
        if let Some(u) = self.go(signed, left) {
            let u = (if k > 0 { u } else { u.checked_neg()? }).div_euclid(c);
            best = smaller(best, self.replaced(p, &m, k, &Poly::constant(u), left));
        }
        // Over the rationals: c p <= ... , then divided by c and floored.
        let x = if k > 0 { x } else { x.offset(1 - c)? };
        let rest = p.without(&m);
        let relaxed = if k % c == 0 {
            self.relaxed(rest, 1, &x, k / c, left)
        } else {
            self.relaxed(rest, c, &x, k, left)
        };
        smaller(best, relaxed)
    }

    /// `floor(upper(scale * rest + k x) / scale)`.
    fn relaxed(&mut self, rest: Poly, scale: i64, x: &Poly, k: i64, left: Left) -> Option<i64> {
        let q = rest.scaled(scale)?.plus(x, k)?;
        Some(self.go(q, left)?.div_euclid(scale))
    }

    /// A product of atoms: each factor by its end where the others are not negative; 0 from above where all are
    /// not negative and the coefficient is negative.
    fn product_step(&mut self, p: &Poly, m: &Mono, k: i64, left: Left) -> Option<i64> {
        let mut best = None;
        let mut positive = vec![];
        for a in m.iter() {
            let negated = Poly::atom(a.clone()).scaled(-1)?;
            positive.push(self.go(negated, left).is_some_and(|u| u <= 0));
        }
        if k < 0 && positive.iter().all(|&b| b) {
            best = self.replaced(p, m, k, &Poly::constant(0), left);
        }
        let facts = self.facts;
        for i in 0..m.len() {
            if !(0..m.len()).all(|j| i == j || positive[j]) {
                continue;
            }
            let Some(end) = facts.range_of(&m[i]).and_then(|r| end(r, k)) else { continue };
            let others = Mono::product((0..m.len()).filter(|&j| j != i).map(|j| m[j].clone()));
            let others = Poly { terms: smallvec::smallvec![(others, 1)], constant: 0 };
            if let Some(by) = self.workspace.polys.of(end).times(&others) {
                best = smaller(best, self.replaced(p, m, k, &by, left));
            }
        }
        best
    }

    /// Uses `f <= 0` to cancel a term of `p`, each term in turn: `a p - b f` with a, b > 0.
    fn subtract(&mut self, p: &Poly, f: &Poly, left: Left) -> Option<i64> {
        let mut best = None;
        for (m, c) in &f.terms {
            let k = p.coef(m);
            if k == 0 || k.signum() != c.signum() {
                continue;
            }
            let (a, b) = if k % c == 0 { (1, k / c) } else { (c.checked_abs()?, k.checked_abs()?) };
            let Some(q) = p.clone().scaled(a).and_then(|q| q.plus(f, -b)) else { continue };
            best = smaller(best, self.go(q, left).map(|u| u.div_euclid(a)));
        }
        best
    }
}

/// The end of a range that bounds `k * x` from above.
fn end(r: &Range, k: i64) -> Option<&Expr> {
    if k > 0 { r.hi.as_ref() } else { r.lo.as_ref() }
}

/// The lane at which `k` times its number is greatest.
fn lane_end(lanes: u16, k: i64) -> i64 {
    if k > 0 { i64::from(lanes) - 1 } else { 0 }
}

fn smaller(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
