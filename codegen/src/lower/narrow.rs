//! Index arithmetic on vectors in 32 bits, where that is enough.
//!
//! Before: indices are i64, so that a vector of them has twice the size of one of coordinates, and products of vectors of i64 are slow on
//! most CPUs. After: the index of a gather or scatter that provably stays within i32, as does every coefficient, is computed in
//! i32 and widened at the end, which the address computation of gathers does at no cost. Sums and products are those of the integers
//! modulo 2^32: parts may wrap where the whole does not. Operands of quotients and the like keep their type. The last pass: nothing
//! after it may take these sums apart again.

use crate::analysis::algebra::Facts;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{Expr, ExprKind};
use crate::ir::rewrite::{for_each_child, map_children, own_exprs};
use crate::ir::stmt::Stmt;
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashSet;

/// See the module's description.
pub(crate) fn narrow_with(s: &Stmt, facts: &Facts) -> Stmt {
    let mut marks = Marks::default();
    marks.mark(s);
    walk(s, facts, &marks)
}

/// The statements that hold a gather or scatter, by address: facts and copies are made only on the way to one.
#[derive(Default)]
struct Marks {
    statements: FxHashSet<*const Stmt>,
    /// Expressions below which there is none.
    without: FxHashSet<usize>,
}

impl Marks {
    /// Tells whether `s` holds one; marks it and what is in it.
    fn mark(&mut self, s: &Stmt) -> bool {
        let mut found = match s {
            Stmt::Store { index, .. } | Stmt::Accumulate { index, .. } => is_candidate(index),
            _ => false,
        };
        own_exprs(s, &mut |e| found |= self.gathers(e));
        for_each_child(s, &mut |s| found |= self.mark(s));
        if found {
            self.statements.insert(s);
        }
        found
    }

    fn gathers(&mut self, e: &Expr) -> bool {
        let (mut stack, mut seen) = (vec![e], vec![]);
        while let Some(e) = stack.pop() {
            if matches!(e.kind(), ExprKind::Load { index, .. } if is_candidate(index)) {
                // What was seen so far may lead here.
                for id in seen {
                    self.without.remove(&id);
                }
                return true;
            }
            if self.without.insert(e.id()) {
                seen.push(e.id());
                e.for_each_child(|c| stack.push(c));
            }
        }
        false
    }
}

/// Is the index made of vectors of i64? A ramp is a dense or strided access, made of scalars.
fn is_candidate(index: &Expr) -> bool {
    let ty = index.ty();
    ty.scalar == ScalarType::I64
        && ty.lanes > 1
        && !matches!(
            index.kind(),
            ExprKind::Ramp(..) | ExprKind::Cast(_) | ExprKind::Interleave(_) | ExprKind::Concat(_)
        )
}

fn walk(s: &Stmt, facts: &Facts, marks: &Marks) -> Stmt {
    if !marks.statements.contains(&std::ptr::from_ref(s)) {
        return s.clone();
    }
    let mut inner = facts.clone();
    match s {
        Stmt::Let { .. } => return lets(s, inner, marks),
        Stmt::For { var, min, extent, .. } => inner.enter_for(var, min, extent),
        Stmt::If { cond, then, otherwise } => {
            let mut no = facts.clone();
            inner.assume(cond);
            no.assume_not(cond);
            let (cond, then) =
                (loads(cond, facts, &mut Memo::default()), Box::new(walk(then, &inner, marks)));
            let otherwise = otherwise.as_ref().map(|o| Box::new(walk(o, &no, marks)));
            return Stmt::If { cond, then, otherwise };
        }
        _ => {}
    }
    let mut memo = Memo::default();
    let mut s = map_children(s, &mut |e| loads(e, facts, &mut memo), &mut |s| walk(s, &inner, marks));
    if let Stmt::Store { index, .. } | Stmt::Accumulate { index, .. } = &mut s {
        *index = narrowed(index, facts);
    }
    s
}

/// A chain of lets, which may be long, under one set of facts.
fn lets(s: &Stmt, mut facts: Facts, marks: &Marks) -> Stmt {
    let (mut at, mut chain) = (s, vec![]);
    while let Stmt::Let { name, value, body } = at {
        chain.push((name, loads(value, &facts, &mut Memo::default())));
        facts.enter_let(name, value);
        at = body;
    }
    let body = walk(at, &facts, marks);
    chain.into_iter().rev().fold(body, |body, (name, value)| Stmt::Let {
        name: name.clone(),
        value,
        body: Box::new(body),
    })
}

/// `e` with the indices of its gathers narrowed.
fn loads(e: &Expr, facts: &Facts, memo: &mut Memo) -> Expr {
    rewrite(e, memo, &mut |_, new| match new.kind() {
        ExprKind::Load { buffer, index, predicate } if is_candidate(index) => {
            let index = narrowed(index, facts);
            let kind = ExprKind::Load { buffer: buffer.clone(), index, predicate: predicate.clone() };
            Expr::new(kind, new.ty())
        }
        _ => new,
    })
}

/// The same index, computed in i32 if it is made of several vectors and fits.
fn narrowed(index: &Expr, facts: &Facts) -> Expr {
    if !is_candidate(index) {
        return index.clone();
    }
    let p = Polys::default().of(index);
    let fits = |v: Option<i64>| v.is_some_and(|v| i32::try_from(v).is_ok());
    // A row times a pitch that is known at run time alone may be anything: no need to search for its bounds.
    if p.terms.iter().any(|(atoms, _)| atoms.len() > 1) {
        return index.clone();
    }
    let coefficients = p.terms.iter().map(|t| t.1).chain([p.constant]);
    if !coefficients.map(Some).all(fits) || !fits(facts.upper(index)) || !fits(facts.lower(index)) {
        return index.clone();
    }
    rebuild(&p, Type::I32.with_lanes(index.ty().lanes)).cast(ScalarType::I64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Expr {
        let index = Expr::var("x").cast(ScalarType::I64);
        let ramp = Expr::new(ExprKind::Ramp(index, Expr::int(Type::I64, 1)), Type::I64.with_lanes(8));
        Expr::load("rows.0", ramp, Type::I32.with_lanes(8))
    }
    fn splat(v: i32) -> Expr {
        Expr::new(ExprKind::Broadcast(Expr::from(v)), Type::I32.with_lanes(8))
    }
    /// f.0[row * pitch + column], row in [0, last].
    fn gather(last: i32, pitch: i64) -> Stmt {
        let row = rows().max(splat(0)).min(splat(last)).cast(ScalarType::I64);
        let pitch = Expr::new(ExprKind::Broadcast(Expr::int(Type::I64, pitch)), Type::I64.with_lanes(8));
        let one = Expr::int(Type::I64, 1);
        let lane = Expr::new(ExprKind::Ramp(Expr::int(Type::I64, 0), one), Type::I64.with_lanes(8));
        let value = Expr::load("f.0", row * pitch + lane.clone(), Type::F32.with_lanes(8));
        let (buffer, predicate) = ("out.0".into(), None);
        Stmt::Store { buffer, index: lane, value, predicate, aligned: false, non_temporal: false }
    }

    #[test]
    fn only_what_fits_is_narrowed() {
        let text = narrow_with(&gather(9, 16), &Facts::new()).to_string();
        assert!(text.contains(" = f.0[i64(min(max(rows.0["), "{text}");
        assert!(text.contains("x8(9)) * x8(16) + ramp(0, 1, 8))]"), "{text}");
        for (last, pitch) in [(i32::MAX, 16), (9, 1 << 40), (1 << 20, 1 << 12)] {
            let wide = gather(last, pitch);
            assert_eq!(narrow_with(&wide, &Facts::new()), wide);
        }
    }
}
