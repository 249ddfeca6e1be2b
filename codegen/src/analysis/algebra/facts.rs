//! Facts about integers at a place in the program.

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::points::Points;
use crate::analysis::algebra::poly::{Poly, is_index};
use crate::expr::walk::{uses_var, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::{RefCell, RefMut};
use std::collections::hash_map::Entry;
use std::rc::Rc;

/// Inclusive bounds of a variable; an end is an expression over outer variables and parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Range {
    pub lo: Option<Expr>,
    pub hi: Option<Expr>,
    /// Later declarations may refer to earlier ones, so the latest is eliminated first.
    pub depth: usize,
}

/// Bounds of variables and parameters, and known inequalities. Cheap enough to clone where a scope is
/// entered; a clone that is dropped is the scope left.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    variables: FxHashMap<Name, Range>,
    params: FxHashMap<Param, Range>,
    /// Each is <= 0.
    inequalities: Vec<Poly>,
    /// Variables that bounds or inequalities mention, or did.
    mentioned: Rc<FxHashSet<Name>>,
    declared: usize,
    /// The scope in the workspace that has the answers.
    scope: usize,
    workspace: Rc<RefCell<Workspace>>,
}

/// Memory that one query leaves to the next.
#[derive(Debug)]
pub(super) struct Workspace {
    /// Forms of expressions, which no fact changes.
    pub polys: Polys,
    /// Empty between queries: only its memory stays.
    pub memo: FxHashMap<Poly, Answer>,
    /// The first is that in which nothing is known.
    pub scopes: Vec<Scope>,
}

/// The least bound that was found, and the goal that it was looked for with: no answer says that no bound up to there was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    bound: Option<i64>,
    goal: i64,
}

impl Answer {
    pub(super) fn new(bound: Option<i64>, goal: i64) -> Answer {
        Answer { bound, goal }
    }

    /// The bound that it gives where the goal is this one; none where it does not say.
    pub(super) fn to(self, goal: i64) -> Option<Option<i64>> {
        match self.bound {
            Some(bound) => Some((bound <= goal).then_some(bound)),
            None => (goal <= self.goal).then_some(None),
        }
    }
}

/// Answers given with what is known at one place, by polynomials without their constants. Where the same is learnt in the same order
/// again (another pass comes to the loop, a condition stands twice), the scope is the same.
#[derive(Debug, Default)]
pub(super) struct Scope {
    answers: FxHashMap<Poly, Answer>,
    pub points: Points,
    /// A scope whose answers hold here, too.
    outer: Option<usize>,
    inner: FxHashMap<Learnt, usize>,
}

/// One step from a scope to the next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Learnt {
    Interval(Name, Option<Expr>, Option<Expr>),
    Param(Param, Option<Expr>, Option<Expr>),
    AtMostZero(Poly),
    Forgotten(Name),
}

impl Default for Workspace {
    fn default() -> Workspace {
        let (polys, memo) = Default::default();
        Workspace { polys, memo, scopes: vec![Scope::default()] }
    }
}

impl Workspace {
    /// The answer given before to a question like this one.
    pub(super) fn answer(&self, mut scope: usize, terms: &Poly, goal: i64) -> Option<Option<i64>> {
        loop {
            let s = &self.scopes[scope];
            if let Some(r) = s.answers.get(terms).and_then(|answer| answer.to(goal)) {
                return Some(r);
            }
            scope = s.outer?;
        }
    }

    /// Records an answer.
    pub(super) fn remember(&mut self, scope: usize, terms: Poly, answer: Answer) {
        self.scopes[scope].answers.insert(terms, answer);
    }

    /// The scope that `learnt` leads to. Binding a new name, which no older question mentions, leaves all answers right.
    fn enter(&mut self, scope: usize, learnt: Learnt) -> usize {
        let next = self.scopes.len();
        match self.scopes[scope].inner.entry(learnt) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let outer = matches!(new.key(), Learnt::Interval(..)).then_some(scope);
                new.insert(next);
                self.scopes.push(Scope { outer, ..Scope::default() });
                next
            }
        }
    }
}

impl Facts {
    /// Nothing is known.
    pub fn new() -> Facts {
        Facts::default()
    }

    /// `lo <= name <= hi` for a variable; replaces what was known of the name.
    pub fn interval(&mut self, name: impl Into<Name>, lo: Option<Expr>, hi: Option<Expr>) {
        let name = name.into();
        self.forget(&name);
        lo.iter().chain(&hi).for_each(|e| self.mention(e));
        self.declared += 1;
        self.learnt(Learnt::Interval(name.clone(), lo.clone(), hi.clone()));
        self.variables.insert(name, Range { lo, hi, depth: self.declared });
    }

    /// `lo <= param <= hi`, from here on.
    pub fn param_interval(&mut self, param: impl Into<Param>, lo: Option<Expr>, hi: Option<Expr>) {
        let param = param.into();
        lo.iter().chain(&hi).for_each(|e| self.mention(e));
        self.declared += 1;
        self.learnt(Learnt::Param(param.clone(), lo.clone(), hi.clone()));
        self.params.insert(param, Range { lo, hi, depth: self.declared });
    }

    /// The body of `for var in [min, min + extent)` is entered, so the extent is at least 1.
    pub fn enter_for(&mut self, var: &Name, min: &Expr, extent: &Expr) {
        let hi = min.clone() + extent.clone() - 1;
        self.interval(var.clone(), Some(min.clone()), Some(hi));
        self.assume(&Expr::int(extent.ty(), 1).le(extent.clone()));
        // var <= min + n / s - 1 gives (var - min) s <= n - s also for a divisor that is no constant (a run-time
        // strip height, at least 1 wherever it divides the extent of a loop that runs).
        if let ExprKind::Binary(BinaryOp::Div, n, s) = extent.kind()
            && s.as_int().is_none()
        {
            let v = Expr::new(ExprKind::Var(var.clone()), min.ty());
            self.assume(&((v - min.clone()) * s.clone()).le(n.clone() - s.clone()));
        }
    }

    /// `let name = value` is entered.
    pub fn enter_let(&mut self, name: &Name, value: &Expr) {
        if is_index(value.ty()) && value.ty().lanes == 1 {
            self.interval(name.clone(), Some(value.clone()), Some(value.clone()));
        } else {
            self.forget(name);
        }
    }

    /// `cond` holds here. Learns from conjunctions and comparisons of index expressions.
    pub fn assume(&mut self, cond: &Expr) {
        self.learn(cond, true);
    }

    /// `cond` does not hold here.
    pub fn assume_not(&mut self, cond: &Expr) {
        self.learn(cond, false);
    }

    /// The polynomial f for which a comparison of scalar indices says f <= 0; none for other conditions.
    pub(crate) fn at_most_zero(&self, cond: &Expr) -> Option<Poly> {
        let ExprKind::Binary(op, a, b) = cond.kind() else { return None };
        self.said_by(*op, a, b)
    }

    /// The polynomial f for which `a op b` says f <= 0.
    fn said_by(&self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Poly> {
        let (sign, plus) = match op {
            BinaryOp::Le => (1, 0),
            BinaryOp::Lt => (1, 1),
            BinaryOp::Ge => (-1, 0),
            BinaryOp::Gt => (-1, 1),
            _ => return None,
        };
        if !is_index(a.ty()) || a.ty().lanes != 1 {
            return None;
        }
        let polys = &mut self.workspace.borrow_mut().polys;
        polys.of(a).plus(&polys.of(b), -1)?.scaled(sign)?.offset(plus)
    }

    fn learn(&mut self, cond: &Expr, holds: bool) {
        match cond.kind() {
            ExprKind::Likely(c) => self.learn(c, holds),
            ExprKind::Unary(UnaryOp::Not, c) => self.learn(c, !holds),
            ExprKind::Binary(BinaryOp::And, a, b) if holds => {
                self.learn(a, true);
                self.learn(b, true);
            }
            ExprKind::Binary(BinaryOp::Or, a, b) if !holds => {
                self.learn(a, false);
                self.learn(b, false);
            }
            ExprKind::Binary(op, a, b) => {
                use BinaryOp::*;
                let said: &[BinaryOp] = match (op, holds) {
                    (Le, true) | (Gt, false) => &[Le],
                    (Lt, true) | (Ge, false) => &[Lt],
                    (Ge, true) | (Lt, false) => &[Ge],
                    (Gt, true) | (Le, false) => &[Gt],
                    (Eq, true) | (Ne, false) => &[Le, Ge],
                    _ => &[],
                };
                for &op in said {
                    self.said_by(op, a, b).into_iter().for_each(|f| self.at_most(f));
                }
            }
            _ => {}
        }
    }

    /// `f <= 0`. Of inequalities that differ by their constants the strongest is kept: it implies the others.
    fn at_most(&mut self, f: Poly) {
        if f.terms.is_empty() {
            return;
        }
        match self.inequalities.iter_mut().find_map(|known| f.difference(known).map(|more| (known, more))) {
            Some((_, ..=0)) => return,
            Some((known, _)) => *known = f.clone(),
            None => self.inequalities.push(f.clone()),
        }
        f.terms.iter().flat_map(|(m, _)| m.iter()).for_each(|atom| self.mention(atom));
        self.learnt(Learnt::AtMostZero(f));
    }

    /// Keeps the variables of `e` in mind.
    fn mention(&mut self, e: &Expr) {
        visit(e, &mut |n| {
            if let ExprKind::Var(v) = n.kind()
                && !self.mentioned.contains(v)
            {
                Rc::make_mut(&mut self.mentioned).insert(v.clone());
            }
            true
        });
    }

    /// A name is bound anew: what mentions the old one is void, answers too.
    fn forget(&mut self, name: &Name) {
        let known = self.variables.remove(name).is_some();
        let mentioned = self.mentioned.contains(name);
        if mentioned {
            self.void(name);
        }
        if known || mentioned {
            self.learnt(Learnt::Forgotten(name.clone()));
        }
    }

    /// Drops what mentions a variable.
    fn void(&mut self, name: &Name) {
        let mentions = |e: &Expr| uses_var(e, name);
        for r in self.variables.values_mut().chain(self.params.values_mut()) {
            r.lo = r.lo.take().filter(|e| !mentions(e));
            r.hi = r.hi.take().filter(|e| !mentions(e));
        }
        self.inequalities.retain(|f| !f.terms.iter().any(|(m, _)| m.iter().any(mentions)));
        Rc::make_mut(&mut self.mentioned).remove(name);
    }

    fn learnt(&mut self, what: Learnt) {
        self.scope = self.workspace.borrow_mut().enter(self.scope, what);
    }

    /// The scope in the workspace that has the answers.
    pub(super) fn scope(&self) -> usize {
        self.scope
    }

    pub(super) fn inequalities(&self) -> &[Poly] {
        &self.inequalities
    }

    /// Returns what is known of a variable.
    pub(super) fn named(&self, name: &Name) -> Option<&Range> {
        self.variables.get(name)
    }

    /// Bounds of an atom that is a variable or a parameter.
    pub(super) fn range_of(&self, atom: &Expr) -> Option<&Range> {
        match atom.kind() {
            ExprKind::Var(n) => self.variables.get(n),
            ExprKind::Param(p) => self.params.get(p),
            _ => None,
        }
    }

    /// Memory for a query.
    pub(super) fn workspace(&self) -> RefMut<'_, Workspace> {
        self.workspace.borrow_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are the same ones where the same is learnt in the same order; a name that is bound anew leads elsewhere.
    #[test]
    fn a_scope_is_what_was_learnt() {
        let (x, n) = (Name::from("x"), Expr::var("n"));
        let root = Facts::new();
        let inside = |extent: &Expr| {
            let mut f = root.clone();
            f.enter_for(&x, &Expr::from(0), extent);
            f
        };
        let (a, b, shorter) = (inside(&n), inside(&n), inside(&(n.clone() - 1)));
        assert_eq!(a.scope(), b.scope());
        assert_ne!(a.scope(), shorter.scope());
        assert_eq!(a.upper_of_difference(&Expr::var("x"), &n), Some(-1));
        let known = |f: &Facts| f.workspace().scopes[f.scope()].answers.len();
        assert_eq!((known(&b), known(&shorter)), (1, 0));
        let mut again = a.clone();
        again.interval("x", None, None);
        assert_ne!(again.scope(), a.scope());
        assert_eq!(again.upper_of_difference(&Expr::var("x"), &n), None);
    }
}
