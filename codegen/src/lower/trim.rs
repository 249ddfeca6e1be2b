//! Loops without the iterations that do nothing.
//!
//! Before: nests over coordinates. A serial or parallel loop whose whole body is under a condition that bounds the loop variable from
//! one side (a predicate of a reduction domain such as `r <= x`, the tail of a split) runs only where it holds: for
//! `k v + e <= 0` with a constant k > 0 up to `floor(-e / k)`, for k < 0 from `ceil(e / -k)`. After: those conditions are gone. Nothing
//! else changes, the order of the iterations in particular. Only conditions on coordinates are solved: one that reads
//! memory may depend on what the loop stores. A serial loop under `v = e` is no loop any more: v is e where that is one of its values. There e may read
//! what the loop does not store, if nothing else decides whether it is read. Follows [`crate::nests`] and precedes a simplification.

use crate::analysis::algebra::build;
use crate::analysis::algebra::build::{add, sub};
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Mono, is_index};
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{any, substitute, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::{map_children, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::{FxHashMap, FxHashSet};

/// See the module's description.
pub fn trim(s: &Stmt) -> Stmt {
    let Stmt::For {
        var,
        min,
        extent,
        kind: kind @ (ForKind::Serial | ForKind::Parallel | ForKind::GpuBlock),
        body,
    } = s
    else {
        return map_children(s, &mut Expr::clone, &mut trim);
    };
    let stored = if *kind == ForKind::Serial { Some(stored(body)) } else { None };
    let mut ends = Ends { var, stored, min: None, max: None, at: None };
    let body = Box::new(trim(&ends.solve(body, &FxHashMap::default())));
    let (first, end) = (ends.min.map_or(min.clone(), |m| build::max(min, &m)), add(min, extent));
    let end = ends.max.map_or(end.clone(), |m| build::min(&end, &build::offset(&m, 1)));
    if let Some(value) = ends.at {
        let v = Expr::var(var.clone());
        let then = Stmt::If { cond: first.le(&v).and(v.lt(&end)), then: body, otherwise: None };
        return Stmt::Let { name: var.clone(), value, body: Box::new(then) };
    }
    Stmt::For { var: var.clone(), extent: sub(&end, &first), min: first, kind: *kind, body }
}

/// Bounds of the loop variable by the conditions solved so far, in terms of what is known outside of the loop.
struct Ends<'a> {
    var: &'a Name,
    /// What the loop stores, as long as every iteration comes to where the conditions are; none if one value may not be all.
    stored: Option<FxHashSet<Name>>,
    min: Option<Expr>,
    max: Option<Expr>,
    /// The only value.
    at: Option<Expr>,
}

/// The Funcs that `s` stores.
fn stored(s: &Stmt) -> FxHashSet<Name> {
    let mut found = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        if let Stmt::Provide { func, .. } = s {
            found.insert(func.clone());
        }
    });
    found
}

impl Ends<'_> {
    /// `s` without the conditions that the ends now imply. `lets`: values of the names bound on the way.
    fn solve(&mut self, s: &Stmt, lets: &FxHashMap<Name, Expr>) -> Stmt {
        match s {
            Stmt::Let { name, value, body } => {
                let mut inner = lets.clone();
                inner.insert(name.clone(), substitute(value, lets));
                let body = Box::new(self.solve(body, &inner));
                Stmt::Let { name: name.clone(), value: value.clone(), body }
            }
            Stmt::If { cond, then, otherwise: None } => {
                let cond = self.without(cond, lets);
                self.stored = self.stored.take().filter(|_| cond.is_none());
                let then = self.solve(then, lets);
                match cond {
                    Some(cond) => Stmt::If { cond, then: Box::new(then), otherwise: None },
                    None => then,
                }
            }
            s => s.clone(),
        }
    }

    /// The parts of a conjunction that remain.
    fn without(&mut self, cond: &Expr, lets: &FxHashMap<Name, Expr>) -> Option<Expr> {
        match cond.kind() {
            ExprKind::Likely(c) => self.without(c, lets).map(|c| c.likely()),
            ExprKind::Binary(BinaryOp::And, a, b) => {
                let a = self.without(a, lets);
                self.stored = self.stored.take().filter(|_| a.is_none());
                match (a, self.without(b, lets)) {
                    (Some(a), Some(b)) => Some(a.and(b)),
                    (a, b) => a.or(b),
                }
            }
            ExprKind::Binary(op, a, b) if is_index(a.ty()) && a.ty().lanes == 1 => {
                let (a, b) = (substitute(a, lets), substitute(b, lets));
                let solved = match op {
                    BinaryOp::Le => self.at_most_zero(&a, &b, 0),
                    BinaryOp::Lt => self.at_most_zero(&a, &b, 1),
                    BinaryOp::Ge => self.at_most_zero(&b, &a, 0),
                    BinaryOp::Gt => self.at_most_zero(&b, &a, 1),
                    BinaryOp::Eq => self.zero(&a, &b),
                    _ => None,
                };
                if solved.is_some() { None } else { Some(cond.clone()) }
            }
            _ => Some(cond.clone()),
        }
    }

    /// Learns from `a - b = 0`, if that has the variable as a term, and all that is read is the same in every iteration.
    fn zero(&mut self, a: &Expr, b: &Expr) -> Option<()> {
        let stored = self.stored.as_ref().filter(|_| self.at.is_none())?;
        let is_stored = |n: &Expr| match n.kind() {
            ExprKind::Call { name, .. } => stored.contains(name),
            n => matches!(n, ExprKind::Load { .. }),
        };
        if any(a, is_stored) || any(b, is_stored) {
            return None;
        }
        let own = Expr::var(self.var.clone());
        let mut polys = Polys::default();
        let e = polys.of(a).plus(&polys.of(b), -1)?;
        let m = Mono::Atom(own);
        let k = e.coef(&m);
        let value = rebuild(&e.without(&m).scaled(-k)?, a.ty());
        (k.abs() == 1 && !uses_var(&value, self.var)).then(|| self.at = Some(value))
    }

    /// Learns from `a - b + more <= 0`, if that is affine in the variable and reads nothing.
    fn at_most_zero(&mut self, a: &Expr, b: &Expr, more: i64) -> Option<()> {
        let reads = |n: &Expr| matches!(n.kind(), ExprKind::Call { .. } | ExprKind::Load { .. });
        if any(a, reads) || any(b, reads) {
            return None;
        }
        let mut polys = Polys::default();
        let mut e = polys.of(a).plus(&polys.of(b), -1)?.offset(more)?;
        let own = |e: &Expr| matches!(e.kind(), ExprKind::Var(v) if v == self.var);
        let at = e.terms.iter().position(|(m, _)| matches!(&m[..], [x] if own(x)))?;
        let (_, k) = e.terms.remove(at);
        if e.terms.iter().any(|(m, _)| m.iter().any(|x| uses_var(x, self.var))) {
            return None;
        }
        let ty = a.ty();
        if k > 0 {
            let max = polys.div(&e.scaled(-1)?, k, ty)?;
            let max = rebuild(&max, ty);
            self.max = Some(self.max.as_ref().map_or(max.clone(), |m| build::min(m, &max)));
        } else {
            // ceil(e / c) = floor((e + c - 1) / c)
            let c = k.checked_neg()?;
            let min = rebuild(&polys.div(&e.offset(c - 1)?, c, ty)?, ty);
            self.min = Some(self.min.as_ref().map_or(min.clone(), |m| build::max(m, &min)));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::stmt::Target;
    use crate::lower::simplify::simplify;

    fn v(n: &str) -> Expr {
        Expr::var(n)
    }
    fn provide(value: Expr) -> Stmt {
        Stmt::Provide { func: "f".into(), args: vec![], values: vec![value], to: Target::Output }
    }
    fn if_(cond: Expr, then: Stmt) -> Stmt {
        Stmt::If { cond, then: Box::new(then), otherwise: None }
    }
    /// The loop over v in [0, n) around `body`, trimmed.
    fn over(body: Stmt) -> String {
        let (min, extent, body) = (Expr::from(0), Expr::param("n", crate::ScalarType::I32), Box::new(body));
        let kind = ForKind::Serial;
        simplify(&trim(&Stmt::For { var: "v".into(), min, extent, kind, body })).to_string()
    }

    #[test]
    fn ends_are_those_of_the_condition() {
        let cond = v("v").le(v("x")).and((v("v") * 3).ge(v("y") + 1)).and(v("v").modulo(2).eq_(0));
        assert_eq!(
            over(if_(cond, provide(v("v")))),
            "for v in [max(0, y / 3 + 1), max(0, y / 3 + 1) + (min(n, x + 1) - max(0, y / 3 + 1))) {\n  \
             if v % 2 == 0 {\n    f.out() = v\n  }\n}\n"
        );
        // Through a let and an outer condition.
        let inner = if_((v("t") * 2).lt(v("m")).likely(), provide(v("t")));
        let body = Stmt::Let { name: "t".into(), value: v("v") - 1, body: Box::new(inner) };
        assert_eq!(
            over(if_(v("p").eq_(0), body)),
            "for v in [0, min(n, (m + 1) / 2 + 1)) {\n  if p == 0 {\n    f.out() = v - 1\n  }\n}\n"
        );
    }

    #[test]
    fn what_reads_or_is_not_affine_stays() {
        let read = Expr::call("g", crate::ScalarType::I32, vec![v("v")], 0);
        for cond in [v("v").le(read), (v("v") * v("v")).le(v("x")), (v("v") / 2).le(v("x") - v("v"))] {
            let text = over(if_(cond.clone(), provide(v("v"))));
            assert!(text.starts_with("for v in [0, n) {\n  if "), "{text}");
        }
        // Not the whole body.
        let body = Stmt::Block(vec![if_(v("v").le(v("x")), provide(v("v"))), provide(v("x"))]);
        assert!(over(body).starts_with("for v in [0, n)"));
    }

    #[test]
    fn a_loop_of_which_one_value_counts_is_none() {
        let call = |f: &str| Expr::call(f, crate::ScalarType::I32, vec![v("x")], 0);
        let at_read = if_(call("g").eq_(v("v") + v("base")), provide(v("v")));
        let text = "let v = g(x) - base\nif 0 <= v && v < min(n, m - base + 1) {\n  f.out() = v\n}\n";
        assert_eq!(over(if_((v("v") + v("base")).le(v("m")), at_read.clone())), text);
        // It may change in the loop; it is read where `v` says so; twice the variable; two values.
        let stored = if_(call("f").eq_(v("v")), provide(v("v")));
        let guarded = if_(v("v").modulo(3).eq_(0), at_read.clone());
        let twice = if_(call("g").eq_(v("v") * 2), provide(v("v")));
        let of_itself = if_(v("v").eq_(v("v") / 2 + 1), provide(v("v")));
        for body in [stored, guarded, twice, of_itself, Stmt::Block(vec![at_read.clone(), at_read])] {
            let text = over(body);
            assert!(text.starts_with("for v in [0, n) {"), "{text}");
        }
    }
}
