//! Stages that a run does not need are not computed.
//!
//! Before: nests. A Func all of whose uses stand under conditions of parameters alone, as in `select(quality > 0, f(x), g(x))`, is
//! computed and read under the union of these conditions: of the arms of such a `select`, and of the branches of an `If`. Of a
//! condition that depends on coordinates, too, such as `quality > 0 && x < 8`, the part counts that does not. The loops
//! that read it exist twice, once without it. After: the same values; nothing that is not computed is read.
//! The conditions hold for the whole run, so that what a sliding window keeps stays whole. Storage and regions are as before.
//! Follows building of nests, which is where uses meet what they use; consumers go first, so that what only a skipped Func needs is
//! skipped with it. Outputs are always computed, and what an output is computed inside of.

use crate::expr::walk::{Memo, any, rewrite};
use crate::expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
use crate::ir::rewrite::{for_each_child, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use rustc_hash::FxHashSet;

/// See the module's description.
pub(crate) fn skip_stages(s: &Stmt, outputs: &[Name]) -> Stmt {
    if has_literals(s) { skip(s, outputs) } else { s.clone() }
}

/// Is there anything that a Func may be needed under?
fn has_literals(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| match s {
        Stmt::If { cond, .. } => found |= decides(cond),
        Stmt::Provide { values, .. } => {
            let choice = |n: &Expr| matches!(n.kind(), ExprKind::Select(c, ..) if decides(c));
            found = found || values.iter().any(|v| any(v, choice));
        }
        _ => {}
    });
    found
}

fn skip(s: &Stmt, outputs: &[Name]) -> Stmt {
    let s = map_children(s, &mut Expr::clone, &mut |s| skip(s, outputs));
    let Stmt::Realize { func, region, body } = &s else { return s };
    match Skipped::of(func, body, outputs) {
        Some(skipped) => {
            let body = Box::new(skipped.apply(body));
            Stmt::Realize { func: func.clone(), region: region.clone(), body }
        }
        None => s,
    }
}

/// A condition of parameters, and whether it has to hold.
type Literal = (Expr, bool);

/// A Func that is needed where one of some literals holds.
struct Skipped<'a> {
    func: &'a Name,
    /// Are conditions further in asked first?
    inner: bool,
    needed: Vec<Literal>,
}

impl<'a> Skipped<'a> {
    /// The Func, if it can be skipped in `body`, during which its storage exists.
    fn of(func: &'a Name, body: &Stmt, outputs: &[Name]) -> Option<Skipped<'a>> {
        let mut fixed = outputs.contains(func);
        visit_stmts(body, &mut |s| {
            if let Stmt::Produce { stage, body } = s
                && stage.func == *func
            {
                visit_stmts(body, &mut |s| {
                    fixed |= matches!(s, Stmt::Produce { stage, .. } if outputs.contains(&stage.func));
                });
            }
        });
        // Further out first: those skip more. But the branches around a Func skipped before do not decide about this one.
        let ways = [false, true].into_iter().filter(|_| !fixed);
        ways.map(|inner| Skipped { func, inner, needed: vec![] }).find_map(|s| s.collected(body))
    }

    /// With the literals of all uses in `body`, if each has one and they are not all there is.
    fn collected(mut self, body: &Stmt) -> Option<Skipped<'a>> {
        if !self.stmt(body) || self.needed.is_empty() {
            return None;
        }
        let mut distinct = vec![];
        for l in std::mem::take(&mut self.needed) {
            if !distinct.contains(&l) {
                distinct.push(l);
            }
        }
        let both = |(c, holds): &Literal| distinct.contains(&(c.clone(), !holds));
        (!distinct.iter().any(both)).then_some(Skipped { needed: distinct, ..self })
    }

    fn is_own(&self, s: &Stmt) -> bool {
        matches!(s, Stmt::Produce { stage, .. } if stage.func == *self.func)
    }

    /// Collects the literals of the uses in a statement; false if there is one without.
    fn stmt(&mut self, s: &Stmt) -> bool {
        if self.is_own(s) {
            return true;
        }
        let mut all = true;
        match s {
            // Elsewhere a value of the Func decides what runs: no condition can take that away.
            Stmt::Provide { .. } => own_exprs(s, &mut |e| all = all && self.expr(e)),
            _ => own_exprs(s, &mut |e| all &= !self.reads(e)),
        }
        all && match s {
            Stmt::If { cond, then, otherwise } => {
                let arms = [(Some(then), true), (otherwise.as_ref(), false)];
                arms.into_iter().all(|(arm, holds)| match (arm, implied(cond, holds)) {
                    (Some(arm), Some(_)) if self.inner && self.tried(arm) => true,
                    (Some(arm), Some(l)) => {
                        self.needed.extend(self.read_in(arm).then_some(l));
                        true
                    }
                    (arm, _) => arm.is_none_or(|s| self.stmt(s)),
                })
            }
            s => {
                for_each_child(s, &mut |s| all = all && self.stmt(s));
                all
            }
        }
    }

    /// As [`Skipped::stmt`], which leaves nothing behind if it fails.
    fn tried(&mut self, s: &Stmt) -> bool {
        let before = self.needed.len();
        let all = self.stmt(s);
        if !all {
            self.needed.truncate(before);
        }
        all
    }

    /// As [`Skipped::stmt`] for a value; a node that is shared is looked at once.
    fn expr(&mut self, e: &Expr) -> bool {
        let mut seen = FxHashSet::default();
        let mut stack = vec![e];
        while let Some(n) = stack.pop() {
            if !seen.insert(n.id()) {
                continue;
            }
            match n.kind() {
                ExprKind::Call { name, .. } if name == self.func => return false,
                ExprKind::Select(c, a, b) => {
                    stack.push(c);
                    for (arm, holds) in [(a, true), (b, false)] {
                        match implied(c, holds) {
                            Some(l) => self.needed.extend(self.reads(arm).then_some(l)),
                            None => stack.push(arm),
                        }
                    }
                }
                _ => n.for_each_child(|c| stack.push(c)),
            }
        }
        true
    }

    fn reads(&self, e: &Expr) -> bool {
        any(e, |n| matches!(n.kind(), ExprKind::Call { name, .. } if name == self.func))
    }

    /// Is the Func read in `s`, its own stages apart?
    fn read_in(&self, s: &Stmt) -> bool {
        if self.is_own(s) {
            return false;
        }
        let mut found = false;
        own_exprs(s, &mut |e| found |= self.reads(e));
        for_each_child(s, &mut |s| found = found || self.read_in(s));
        found
    }

    fn computed(&self, s: &Stmt) -> bool {
        let mut found = false;
        visit_stmts(s, &mut |s| found |= self.is_own(s));
        found
    }

    fn condition(&self) -> Expr {
        self.needed.iter().map(as_expr).reduce(|a, b| a.or(b)).unwrap_or_else(|| Expr::bool(true))
    }

    /// The Func computed, and read, where it is needed.
    fn apply(&self, s: &Stmt) -> Stmt {
        match s {
            Stmt::Produce { stage, body } if stage.func == *self.func => {
                let then = body.clone();
                let body = Box::new(Stmt::If { cond: self.condition(), then, otherwise: None });
                Stmt::Produce { stage: stage.clone(), body }
            }
            s if !self.computed(s) && !self.read_in(s) => s.clone(),
            // Loops as a whole, unless they compute the Func, too.
            Stmt::For { .. } | Stmt::Provide { .. } | Stmt::If { .. } if !self.computed(s) => {
                let otherwise = Some(Box::new(self.resolved(s, false)));
                // Of several conditions each may fail where another one holds.
                let then = if self.needed.len() == 1 { self.resolved(s, true) } else { s.clone() };
                Stmt::If { cond: self.condition(), then: Box::new(then), otherwise }
            }
            s => map_children(s, &mut Expr::clone, &mut |s| self.apply(s)),
        }
    }

    /// `s` where all literals hold, or none.
    fn resolved(&self, s: &Stmt, all: bool) -> Stmt {
        let mut memo = Memo::default();
        let known = |c: &Expr| {
            if let Some((c, holds)) = literal(c, true)
                && let Some((_, needed)) = self.needed.iter().find(|l| l.0 == c)
            {
                return Some((*needed == holds) == all);
            }
            // What implies a literal fails with it.
            let fails = |holds: &bool| !all && implied(c, *holds).is_some_and(|l| self.needed.contains(&l));
            [true, false].into_iter().find(fails).map(|holds| !holds)
        };
        let mut expr = |e: &Expr| {
            rewrite(e, &mut memo, &mut |_, new| match new.kind() {
                ExprKind::Select(c, a, b) => match known(c) {
                    Some(true) => a.clone(),
                    Some(false) => b.clone(),
                    None => new,
                },
                _ => new,
            })
        };
        match s {
            Stmt::If { cond, then, otherwise } if known(cond).is_some() => match (known(cond), otherwise) {
                (Some(true), _) => self.resolved(then, all),
                (_, Some(o)) => self.resolved(o, all),
                (_, None) => Stmt::Block(vec![]),
            },
            s => map_children(s, &mut expr, &mut |s| self.resolved(s, all)),
        }
    }
}

/// `cond == holds` as a literal, if it is one: of parameters and constants, the same through the whole run.
fn literal(cond: &Expr, holds: bool) -> Option<Literal> {
    match cond.kind() {
        ExprKind::Likely(c) => literal(c, holds),
        ExprKind::Unary(UnaryOp::Not, c) => literal(c, !holds),
        _ => {
            let constant = |n: &Expr| {
                !matches!(n.kind(), ExprKind::Var(_) | ExprKind::Call { .. } | ExprKind::Load { .. })
            };
            let given = any(cond, |n| matches!(n.kind(), ExprKind::Param(_)));
            (given && !any(cond, |n| !constant(n))).then(|| (cond.clone(), holds))
        }
    }
}

/// Returns what `cond == holds` implies that is a literal: the conjunction of its parts that are.
fn implied(cond: &Expr, holds: bool) -> Option<Literal> {
    if let Some(l) = literal(cond, holds) {
        return Some(l);
    }
    let mut parts = vec![];
    let mut seen = FxHashSet::default();
    let mut stack = vec![(cond, holds)];
    while let Some((c, holds)) = stack.pop() {
        if !seen.insert((c.id(), holds)) {
            continue;
        }
        match c.kind() {
            ExprKind::Likely(a) => stack.push((a, holds)),
            ExprKind::Unary(UnaryOp::Not, a) => stack.push((a, !holds)),
            ExprKind::Binary(BinaryOp::And, a, b) if holds => stack.extend([(b, true), (a, true)]),
            ExprKind::Binary(BinaryOp::Or, a, b) if !holds => stack.extend([(b, false), (a, false)]),
            _ => parts.extend(literal(c, holds)),
        }
    }
    if let [_] = parts[..] {
        return parts.pop();
    }
    let all = parts.iter().map(as_expr).reduce(|a, b| a.and(b));
    all.map(|all| (all, true))
}

/// Does either value of `cond` imply a literal?
fn decides(cond: &Expr) -> bool {
    [true, false].into_iter().any(|holds| implied(cond, holds).is_some())
}

fn as_expr((c, holds): &Literal) -> Expr {
    if *holds { c.clone() } else { c.not_() }
}
