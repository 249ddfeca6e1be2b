//! Loops without the iterations that do nothing.
//!
//! Before: nests over coordinates. A serial or parallel loop whose whole body is under a condition that bounds the loop variable from
//! one side (a predicate of a reduction domain such as `r <= x`, the tail of a split) runs only where it holds: for
//! `k v + e <= 0` with a constant k > 0 up to `floor(-e / k)`, for k < 0 from `ceil(e / -k)`. After: those conditions are gone. Nothing
//! else changes, the order of the iterations in particular. Only conditions on coordinates are solved: one that reads
//! memory may depend on what the loop stores. Follows [`crate::nests`] and precedes a simplification.

use crate::analysis::algebra::build;
use crate::analysis::algebra::build::{add, sub};
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::is_index;
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{any, substitute, uses_var};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;
use rustc_hash::FxHashMap;

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
    let mut ends = Ends { var, min: None, max: None };
    let body = Box::new(trim(&ends.solve(body, &FxHashMap::default())));
    let (first, end) = (ends.min.map_or(min.clone(), |m| build::max(min, &m)), add(min, extent));
    let end = ends.max.map_or(end.clone(), |m| build::min(&end, &build::offset(&m, 1)));
    Stmt::For { var: var.clone(), extent: sub(&end, &first), min: first, kind: *kind, body }
}

/// Bounds of the loop variable by the conditions solved so far, in terms of what is known outside of the loop.
struct Ends<'a> {
    var: &'a Name,
    min: Option<Expr>,
    max: Option<Expr>,
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
                let then = self.solve(then, lets);
                match self.without(cond, lets) {
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
            ExprKind::Binary(BinaryOp::And, a, b) => match (self.without(a, lets), self.without(b, lets)) {
                (Some(a), Some(b)) => Some(a.and(b)),
                (a, b) => a.or(b),
            },
            ExprKind::Binary(op, a, b) if is_index(a.ty()) && a.ty().lanes == 1 => {
                let (a, b) = (substitute(a, lets), substitute(b, lets));
                let solved = match op {
                    BinaryOp::Le => self.at_most_zero(&a, &b, 0),
                    BinaryOp::Lt => self.at_most_zero(&a, &b, 1),
                    BinaryOp::Ge => self.at_most_zero(&b, &a, 0),
                    BinaryOp::Gt => self.at_most_zero(&b, &a, 1),
                    _ => None,
                };
                if solved.is_some() { None } else { Some(cond.clone()) }
            }
            _ => Some(cond.clone()),
        }
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
}
