//! Statements: facts on the way in, dead code on the way out.

use super::expr::{Mode, Simplifier};
use crate::analysis::algebra::Facts;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::visit;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::block;
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::FxHashSet;

pub(super) fn simplify_stmt(s: &Stmt, facts: &Facts) -> Stmt {
    let mut used = FxHashSet::default();
    Simplifier::new(facts.clone()).stmt(s, &mut used)
}

fn nothing() -> Stmt {
    Stmt::Block(vec![])
}

fn is_nothing(s: &Stmt) -> bool {
    matches!(s, Stmt::Block(v) if v.is_empty())
}

/// Names that simplified code below mentions.
type Used = FxHashSet<Name>;

fn note(e: &Expr, used: &mut Used) {
    visit(e, &mut |n| {
        if let ExprKind::Var(v) = n.kind() {
            used.insert(v.clone());
        }
        true
    });
}

impl Simplifier {
    /// Simplifies and records what is used.
    fn own(&mut self, e: &Expr, mode: Mode, used: &mut Used) -> Expr {
        let e = self.expr(e, mode);
        note(&e, used);
        e
    }

    pub(super) fn stmt(&mut self, s: &Stmt, used: &mut Used) -> Stmt {
        match s {
            Stmt::Block(v) => {
                block(v.iter().map(|s| self.stmt(s, used)).filter(|s| !is_nothing(s)).collect())
            }
            Stmt::Let { name, value, body } => self.let_(name, value, body, used),
            Stmt::For { var, min, extent, kind, body } => self.for_(var, min, extent, *kind, body, used),
            Stmt::If { cond, then, otherwise } => self.if_(cond, then, otherwise.as_deref(), used),
            Stmt::Assert { cond, message, args } => {
                let cond = self.own(cond, Mode::Data, used);
                if cond.as_int() == Some(1) {
                    return nothing();
                }
                let args = args.iter().map(|a| self.own(a, Mode::Index, used)).collect();
                Stmt::Assert { cond, message: message.clone(), args }
            }
            Stmt::Realize { func, region, body } => {
                let body = self.stmt(body, used);
                if is_nothing(&body) {
                    return body;
                }
                let mut one = |e: &Expr| self.own(e, Mode::Index, used);
                let region = region.iter().map(|(min, extent)| (one(min), one(extent))).collect();
                Stmt::Realize { func: func.clone(), region, body: Box::new(body) }
            }
            Stmt::Produce { stage, body } => {
                let body = self.stmt(body, used);
                if is_nothing(&body) {
                    body
                } else {
                    Stmt::Produce { stage: stage.clone(), body: Box::new(body) }
                }
            }
            Stmt::Provide { func, args, values, to } => Stmt::Provide {
                func: func.clone(),
                args: args.iter().map(|a| self.own(a, Mode::Index, used)).collect(),
                values: values.iter().map(|v| self.own(v, Mode::Data, used)).collect(),
                to: to.clone(),
            },
            Stmt::Allocate { buffer, ty, extent, memory, zeroed, body } => {
                let body = self.stmt(body, used);
                if is_nothing(&body) {
                    return body;
                }
                let extent = self.own(extent, Mode::Index, used);
                let (buffer, body) = (buffer.clone(), Box::new(body));
                Stmt::Allocate { buffer, ty: *ty, extent, memory: *memory, zeroed: *zeroed, body }
            }
            Stmt::Store { buffer, index, value, predicate, aligned, non_temporal } => {
                let Some(predicate) = self.predicate(predicate.as_ref(), used) else { return nothing() };
                Stmt::Store {
                    buffer: buffer.clone(),
                    index: self.own(index, Mode::Index, used),
                    value: self.own(value, Mode::Data, used),
                    predicate,
                    aligned: *aligned,
                    non_temporal: *non_temporal,
                }
            }
            Stmt::PrefetchByte { buffer, byte } => {
                Stmt::PrefetchByte { buffer: buffer.clone(), byte: self.own(byte, Mode::Index, used) }
            }
            Stmt::Prefetch { name, args } => Stmt::Prefetch {
                name: name.clone(),
                args: args.iter().map(|a| self.own(a, Mode::Index, used)).collect(),
            },
            Stmt::Accumulate { buffer, op, index, value, predicate } => {
                let Some(predicate) = self.predicate(predicate.as_ref(), used) else { return nothing() };
                Stmt::Accumulate {
                    buffer: buffer.clone(),
                    op: *op,
                    index: self.own(index, Mode::Index, used),
                    value: self.own(value, Mode::Data, used),
                    predicate,
                }
            }
        }
    }

    /// The predicate of a store, none where it always holds; nothing at all where it never does.
    fn predicate(&mut self, predicate: Option<&Expr>, used: &mut Used) -> Option<Option<Expr>> {
        let predicate = match predicate.map(|p| self.expr(p, Mode::Data)) {
            Some(p) if p.as_int() == Some(0) => return None,
            Some(p) if p.as_int() == Some(1) => None,
            p => p,
        };
        predicate.iter().for_each(|p| note(p, used));
        Some(predicate)
    }

    fn let_(&mut self, name: &Name, value: &Expr, body: &Stmt, used: &mut Used) -> Stmt {
        // Lets of integers are coordinates, as far as they do not hold data.
        let coordinate = is_index(value.ty()) && !self.holds_data(value);
        let mode = if coordinate { Mode::Index } else { Mode::Data };
        let value = self.expr(value, mode);
        let mut inner = self.inner();
        inner.known.remove(name);
        inner.facts.enter_let(name, &value);
        let atom = matches!(
            value.kind(),
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Param(_)
        );
        if atom || mode == Mode::Index && value.ty().lanes == 1 && Polys::default().of(&value).is_plain() {
            inner.known.insert(name.clone(), value.clone());
        }
        // The same name may be bound (and used) outside too.
        let outside = used.remove(name);
        let body = inner.stmt(body, used);
        let inside = used.remove(name);
        if outside {
            used.insert(name.clone());
        }
        if !inside || is_nothing(&body) {
            return body;
        }
        note(&value, used);
        Stmt::Let { name: name.clone(), value, body: Box::new(body) }
    }

    fn for_(
        &mut self,
        var: &Name,
        min: &Expr,
        extent: &Expr,
        kind: ForKind,
        body: &Stmt,
        used: &mut Used,
    ) -> Stmt {
        let min = self.expr(min, Mode::Index);
        let extent = self.expr(extent, Mode::Index);
        let upper = self.facts.upper_within(&extent, 1);
        if upper.is_some_and(|u| u <= 0) {
            return nothing();
        }
        if upper == Some(1) && !kind.is_gpu() && min.ty().lanes == 1 && extent.ty().lanes == 1 {
            let once = |body: &Stmt| Stmt::Let {
                name: var.clone(),
                value: min.clone(),
                body: Box::new(body.clone()),
            };
            if self.facts.lower(&extent) == Some(1) {
                return self.stmt(&once(body), used);
            }
            let cond = Expr::int(extent.ty(), 0).lt(extent).likely();
            return self.stmt(&Stmt::If { cond, then: Box::new(once(body)), otherwise: None }, used);
        }
        let mut inner = self.inner();
        inner.shadow(var);
        inner.facts.enter_for(var, &min, &extent);
        let body = inner.stmt(body, used);
        if is_nothing(&body) {
            return body;
        }
        note(&min, used);
        note(&extent, used);
        Stmt::For { var: var.clone(), min, extent, kind, body: Box::new(body) }
    }

    /// A loop variable hides what had its name.
    fn shadow(&mut self, var: &Name) {
        self.known.retain(|n, v| n != var && !matches!(v.kind(), ExprKind::Var(x) if x == var));
    }

    fn if_(&mut self, cond: &Expr, then: &Stmt, otherwise: Option<&Stmt>, used: &mut Used) -> Stmt {
        let cond = self.expr(cond, Mode::Data);
        match cond.as_int() {
            Some(0) => return otherwise.map_or_else(nothing, |o| self.stmt(o, used)),
            Some(_) => return self.stmt(then, used),
            None => {}
        }
        let mut inner = self.inner();
        inner.facts.assume(&cond);
        let then = inner.stmt(then, used);
        let otherwise = otherwise.map(|o| {
            let mut inner = self.inner();
            inner.facts.assume_not(&cond);
            inner.stmt(o, used)
        });
        let otherwise = otherwise.filter(|o| !is_nothing(o));
        if is_nothing(&then) && otherwise.is_none() {
            return nothing();
        }
        note(&cond, used);
        Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
    }
}
