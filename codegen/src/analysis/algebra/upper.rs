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
//! A question has a goal, above which no bound is of use: that of a comparison, or what another way has found already. A way is left as soon as
//! a value above its goal is reached at some point ([`Points`]). All other ways are tried within a budget, and answers are memoised. More budget
//! never makes an answer wrong, and the budget counts steps, so answers do not depend on the machine.
//!
//! [`Points`]: crate::analysis::algebra::points::Points

use crate::analysis::algebra::facts::{Answer, Facts, Range, Workspace};
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

    /// The least constant up to `goal` that `p` never exceeds. The same question is asked again and again while nothing new is known.
    pub(super) fn upper(&mut self, mut p: Poly, goal: i64) -> Option<i64> {
        // The answer for p is that for its terms plus the constant.
        let constant = std::mem::take(&mut p.constant);
        let goal = goal.saturating_sub(constant);
        if p.terms.is_empty() {
            return (goal >= 0).then_some(constant);
        }
        let scope = self.facts.scope();
        let bound = match self.workspace.answer(scope, &p, goal) {
            Some(r) => r,
            None => {
                let bound = self.go(p.clone(), goal, Left { depth: DEPTH, inequalities: INEQUALITIES });
                self.workspace.remember(scope, p, Answer::new(bound, goal));
                bound
            }
        };
        bound?.checked_add(constant)
    }

    fn go(&mut self, mut p: Poly, goal: i64, left: Left) -> Option<i64> {
        let constant = std::mem::take(&mut p.constant);
        let goal = goal.saturating_sub(constant);
        if p.terms.is_empty() {
            return (goal >= 0).then_some(constant);
        }
        let bound = match self.workspace.memo.get(&p).and_then(|answer| answer.to(goal)) {
            Some(r) => r,
            None if self.budget == 0 || left.depth == 0 => return None,
            None => {
                let reached = self.reached(&p);
                if reached.is_some_and(|reached| reached > goal) {
                    return None;
                }
                self.budget -= 1;
                // A path that comes back to the same question learns nothing from it.
                self.workspace.memo.insert(p.clone(), Answer::new(None, i64::MAX));
                let left = Left { depth: left.depth - 1, ..left };
                let mut best = Best { bound: None, goal, reached };
                self.steps(&p, &mut best, left);
                self.workspace.memo.insert(p, Answer::new(best.bound, goal));
                best.bound
            }
        };
        bound?.checked_add(constant)
    }

    /// The greatest value of `p` at some point.
    pub(super) fn reached(&mut self, p: &Poly) -> Option<i64> {
        let facts = self.facts;
        self.workspace.scopes[facts.scope()].points.reached(p, facts)
    }

    fn steps(&mut self, p: &Poly, best: &mut Best, left: Left) {
        best.found(self.in_plain_sight(p));
        if best.is_least() {
            return;
        }
        if let Some(r) = self.must(p, best.goal, left) {
            return best.found(r);
        }
        best.found(self.latest_variable(p, best.goal, left));
        for i in 0..p.terms.len() {
            if best.is_least() {
                return;
            }
            let (m, k) = p.terms[i].clone();
            match &m[..] {
                [atom] => self.atom_step(p, atom, k, best, left),
                _ => self.product_step(p, &m, k, best, left),
            };
        }
        if left.inequalities > 0 {
            let left = Left { inequalities: left.inequalities - 1, ..left };
            let facts = self.facts;
            for f in facts.inequalities() {
                if best.is_least() {
                    return;
                }
                self.subtract(p, f, best, left);
            }
        }
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
    fn must(&mut self, p: &Poly, goal: i64, left: Left) -> Option<Option<i64>> {
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
                self.replaced(p, m, *k, &e, goal, left)
            };
            // Where one arm has no bound, the other is not worth asking for.
            let Some(a) = arm(a) else { return Some(None) };
            return Some(arm(b).map(|b| a.max(b)));
        }
        None
    }

    /// `upper(p - k m + k by)`.
    fn replaced(&mut self, p: &Poly, m: &Mono, k: i64, by: &Poly, goal: i64, left: Left) -> Option<i64> {
        let q = p.without(m).plus(by, k)?;
        self.go(q, goal, left)
    }

    /// Replaces the variable declared last by its end. Only a variable that no other atom mentions is worth it first; but
    /// replacing it alone is right in any case, since the sum of bounds bounds the sum.
    fn latest_variable(&mut self, p: &Poly, goal: i64, left: Left) -> Option<i64> {
        let facts = self.facts;
        let ranged = p.terms.iter().filter_map(|(m, k)| match &m[..] {
            [atom] => facts.range_of(atom).map(|r| (m, *k, r)),
            _ => None,
        });
        let usable = ranged.filter(|(_, k, r)| end(r, *k).is_some());
        let (m, k, range) = usable.max_by_key(|(_, _, r)| r.depth)?;
        let end = self.workspace.polys.of(end(range, k)?);
        self.replaced(p, m, k, &end, goal, left)
    }

    /// Ways to get rid of one atom other than by its declared range.
    fn atom_step(&mut self, p: &Poly, atom: &Expr, k: i64, best: &mut Best, left: Left) -> Option<()> {
        let m = Mono::Atom(atom.clone());
        let by = |search: &mut Self, by: Poly, best: &mut Best| {
            best.found(search.replaced(p, &m, k, &by, best.goal, left));
        };
        if let Some(lanes) = as_lane(atom) {
            by(self, Poly::constant(lane_end(lanes, k)), best);
            return None;
        }
        match atom.kind() {
            ExprKind::Binary(BinaryOp::Min | BinaryOp::Max, a, b) => {
                for arm in [a, b] {
                    let arm = self.workspace.polys.of(arm);
                    by(self, arm, best);
                }
            }
            ExprKind::Binary(BinaryOp::Div, ..) => return self.quotient_step(p, atom, k, best, left),
            ExprKind::Binary(BinaryOp::Mod, ..) if k < 0 => by(self, Poly::constant(0), best),
            ExprKind::Binary(BinaryOp::Mod, x, d) => {
                let (x, d) = (self.workspace.polys.of(x), self.workspace.polys.of(d));
                if self.at_least(&d, 1, left)? {
                    by(self, d.clone().offset(-1)?, best);
                }
                if self.at_least(&x, 0, left)? {
                    by(self, x, best);
                }
            }
            ExprKind::Cast(x) if x.ty().scalar == crate::types::ScalarType::Bool => {
                by(self, Poly::constant((k > 0) as i64), best);
            }
            ExprKind::Cast(x) if x.ty().scalar.is_int() && x.ty().scalar.bytes() < 4 => {
                let ty = x.ty().scalar;
                let all = 1i64 << (8 * ty.bytes());
                let (lo, hi) = if ty.is_signed() { (-all / 2, all / 2 - 1) } else { (0, all - 1) };
                by(self, Poly::constant(if k > 0 { hi } else { lo }), best);
            }
            _ => {}
        }
        None
    }

    /// Is `x >= n` known? None where that cannot be asked.
    fn at_least(&mut self, x: &Poly, n: i64, left: Left) -> Option<bool> {
        let below = Poly::constant(n).plus(x, -1)?;
        Some(self.go(below, 0, left).is_some())
    }

    fn quotient_step(&mut self, p: &Poly, atom: &Expr, k: i64, best: &mut Best, left: Left) -> Option<()> {
        let (x, c) = quotient(atom)?;
        let m = Mono::Atom(atom.clone());
        let x = self.workspace.polys.of(&x);
        // A partner of opposite sign.
        for (n, l) in &p.terms {
            let [other] = &n[..] else { continue };
            let Some((y, d)) = quotient(other) else { continue };
            if k > 0 && d == c && *l < 0 {
                let pairs = k.min(l.checked_neg()?);
                let y = self.workspace.polys.of(&y);
                let difference = x.clone().plus(&y, -1)?;
                if let Some(u) = self.go(difference, i64::MAX, left) {
                    let bound = u.checked_add(c - 1)?.div_euclid(c).checked_mul(pairs)?;
                    let rest = p
                        .clone()
                        .plus(&Poly::atom(atom.clone()), -pairs)?
                        .plus(&Poly::atom(other.clone()), pairs)?
                        .offset(bound)?;
                    best.found(self.go(rest, best.goal, left));
                }
            }
        }
        // Bounded by itself, where x has a constant bound.
        let signed = x.clone().scaled(k.signum())?;
        if let Some(u) = self.go(signed, i64::MAX, left) {
            let u = (if k > 0 { u } else { u.checked_neg()? }).div_euclid(c);
            best.found(self.replaced(p, &m, k, &Poly::constant(u), best.goal, left));
        }
        // Over the rationals: c p <= ... , then divided by c and floored.
        let x = if k > 0 { x } else { x.offset(1 - c)? };
        let (rest, scale, k) = if k % c == 0 { (p.without(&m), 1, k / c) } else { (p.without(&m), c, k) };
        let whole = rest.scaled(scale)?.plus(&x, k)?;
        best.found(self.divided(whole, scale, best.goal, left));
        Some(())
    }

    /// `floor(upper(p) / by)`.
    fn divided(&mut self, p: Poly, by: i64, goal: i64, left: Left) -> Option<i64> {
        let goal = goal.saturating_mul(by).saturating_add(by - 1);
        Some(self.go(p, goal, left)?.div_euclid(by))
    }

    /// A product of atoms: each factor by its end where the others are not negative; 0 from above where all are
    /// not negative and the coefficient is negative.
    fn product_step(&mut self, p: &Poly, m: &Mono, k: i64, best: &mut Best, left: Left) -> Option<()> {
        let mut positive = vec![];
        for a in m.iter() {
            positive.push(self.at_least(&Poly::atom(a.clone()), 0, left)?);
        }
        if k < 0 && positive.iter().all(|&b| b) {
            best.found(self.replaced(p, m, k, &Poly::constant(0), best.goal, left));
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
                best.found(self.replaced(p, m, k, &by, best.goal, left));
            }
        }
        Some(())
    }

    /// Uses `f <= 0` to cancel a term of `p`, each term in turn: `a p - b f` with a, b > 0.
    fn subtract(&mut self, p: &Poly, f: &Poly, best: &mut Best, left: Left) {
        for (m, c) in &f.terms {
            let k = p.coef(m);
            if k == 0 || k.signum() != c.signum() {
                continue;
            }
            let Some((a, b)) =
                (if k % c == 0 { Some((1, k / c)) } else { c.checked_abs().zip(k.checked_abs()) })
            else {
                continue;
            };
            let Some(q) = p.clone().scaled(a).and_then(|q| q.plus(f, -b)) else { continue };
            best.found(self.divided(q, a, best.goal, left));
        }
    }
}

/// The state of a question: what it has found so far.
struct Best {
    bound: Option<i64>,
    /// A bound is of use up to here: less than the one that was found.
    goal: i64,
    /// No bound is below.
    reached: Option<i64>,
}

impl Best {
    fn found(&mut self, bound: Option<i64>) {
        if let Some(bound) = bound.filter(|bound| *bound <= self.goal) {
            self.bound = Some(bound);
            self.goal = bound.saturating_sub(1);
        }
    }

    /// Can there be no less?
    fn is_least(&self) -> bool {
        self.bound.is_some() && self.bound == self.reached
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
