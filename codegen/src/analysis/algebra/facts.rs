//! Facts about integers at a place in the program.

use crate::analysis::algebra::poly::{Poly, Polys, is_index};
use crate::analysis::algebra::upper::{Search, Workspace};
use crate::expr::walk::visit;
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
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
    declared: usize,
    answers: Rc<Answers>,
    workspace: Rc<RefCell<Workspace>>,
}

/// Answers given with what is known, by polynomials without their constants. A scope that binds a new name, which no older
/// question mentions, starts from those of the scope around it.
#[derive(Debug, Default)]
pub(super) struct Answers {
    own: RefCell<FxHashMap<Poly, Option<i64>>>,
    outer: Option<Rc<Answers>>,
}

impl Answers {
    /// The answer given before, if the question was asked.
    pub(super) fn get(&self, terms: &Poly) -> Option<Option<i64>> {
        let mut scope = Some(self);
        while let Some(s) = scope {
            if let Some(r) = s.own.borrow().get(terms) {
                return Some(*r);
            }
            scope = s.outer.as_deref();
        }
        None
    }

    /// Records an answer.
    pub(super) fn insert(&self, terms: Poly, answer: Option<i64>) {
        self.own.borrow_mut().insert(terms, answer);
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
        self.declared += 1;
        self.answers = Rc::new(Answers { own: RefCell::default(), outer: Some(self.answers.clone()) });
        self.variables.insert(name, Range { lo, hi, depth: self.declared });
    }

    /// `lo <= param <= hi`, from here on.
    pub fn param_interval(&mut self, param: impl Into<Param>, lo: Option<Expr>, hi: Option<Expr>) {
        self.declared += 1;
        self.answers = Rc::default();
        self.params.insert(param.into(), Range { lo, hi, depth: self.declared });
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
            ExprKind::Binary(op, a, b) if is_index(a.ty()) && a.ty().lanes == 1 => {
                let mut polys = Polys::default();
                let Some(d) = polys.of(a).plus(&polys.of(b), -1) else { return };
                use BinaryOp::*;
                match (op, holds) {
                    (Le, true) | (Gt, false) => self.at_most(&d, 1, 0),
                    (Lt, true) | (Ge, false) => self.at_most(&d, 1, 1),
                    (Ge, true) | (Lt, false) => self.at_most(&d, -1, 0),
                    (Gt, true) | (Le, false) => self.at_most(&d, -1, 1),
                    (Eq, true) | (Ne, false) => {
                        self.at_most(&d, 1, 0);
                        self.at_most(&d, -1, 0);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// `sign * d + plus <= 0`.
    fn at_most(&mut self, d: &Poly, sign: i64, plus: i64) {
        if let Some(f) = d.clone().scaled(sign).and_then(|f| f.offset(plus))
            && !f.terms.is_empty()
            && !self.inequalities.contains(&f)
        {
            self.answers = Rc::default();
            self.inequalities.push(f);
        }
    }

    /// A name is bound anew: what mentions the old one is void, answers too.
    fn forget(&mut self, name: &Name) {
        let known = self.variables.remove(name).is_some();
        if known {
            self.answers = Rc::default();
        } else if self.inequalities.is_empty() {
            return;
        }
        let mentions = |e: &Expr| {
            let mut found = false;
            visit(e, &mut |n| {
                found |= matches!(n.kind(), ExprKind::Var(v) if v == name);
                !found
            });
            found
        };
        for r in self.variables.values_mut().chain(self.params.values_mut()) {
            r.lo = r.lo.take().filter(|e| !mentions(e));
            r.hi = r.hi.take().filter(|e| !mentions(e));
        }
        let before = self.inequalities.len();
        self.inequalities.retain(|f| !f.terms.iter().any(|(m, _)| m.iter().any(mentions)));
        if self.inequalities.len() < before {
            self.answers = Rc::default();
        }
    }

    pub(super) fn answers(&self) -> &Answers {
        &self.answers
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

    /// A constant that `e` never exceeds; for a vector, in no lane. None if none was found. The expression must be index
    /// arithmetic (i32 or i64 without wrap).
    pub fn upper(&self, e: &Expr) -> Option<i64> {
        self.search(|s| {
            let p = s.polys.of(e);
            s.upper(p)
        })
    }

    /// A constant that `e` is never less than.
    pub fn lower(&self, e: &Expr) -> Option<i64> {
        self.search(|s| {
            let p = s.polys.of(e).scaled(-1)?;
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
            let d = s.polys.of(a).plus(&s.polys.of(b), -1)?;
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
        let mut search = Search::new(self, self.workspace.take());
        let result = f(&mut search);
        self.workspace.replace(search.end());
        result
    }
}
