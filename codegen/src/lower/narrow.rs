//! Index arithmetic on vectors in 32 bits, where that is enough.
//!
//! Before: indices are i64, so that a vector of them has twice the size of one of coordinates, and products of vectors of i64 are slow on
//! most CPUs. After: the index of a gather or scatter that provably stays within i32, as does every coefficient, is computed in
//! i32 and widened at the end, which the address computation of gathers does at no cost. Sums and products are those of the integers
//! modulo 2^32: parts may wrap where the whole does not. Operands of quotients and the like keep their type. The last pass: nothing
//! after it may take these sums apart again.

use super::algebra::Facts;
use super::algebra::poly::{Polys, rebuild};
use super::rewrite::{Memo, map_children, own_exprs, rewrite, visit_stmts};
use crate::expr::{Expr, ExprKind};
use crate::stmt::Stmt;
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashSet;

/// See the module's description.
pub fn narrow(s: &Stmt) -> Stmt {
    walk(s, &Facts::new())
}

/// Is there a gather or scatter at all?
fn has_candidates(s: &Stmt) -> bool {
    let (mut found, mut seen) = (false, FxHashSet::default());
    visit_stmts(s, &mut |s| {
        if let Stmt::Store { index, .. } | Stmt::Accumulate { index, .. } = s {
            found |= is_candidate(index);
        }
        own_exprs(s, &mut |e| {
            let mut stack = vec![e];
            while let Some(e) = stack.pop().filter(|_| !found) {
                if seen.insert(e.id()) {
                    found |= matches!(e.kind(), ExprKind::Load { index, .. } if is_candidate(index));
                    e.for_each_child(|c| stack.push(c));
                }
            }
        });
    });
    found
}

/// Is the index made of vectors of i64? A ramp is a dense or strided access, made of scalars.
fn is_candidate(index: &Expr) -> bool {
    let ty = index.ty();
    ty.scalar == ScalarType::I64
        && ty.lanes > 1
        && !matches!(index.kind(), ExprKind::Ramp(..) | ExprKind::Cast(_))
}

fn walk(s: &Stmt, facts: &Facts) -> Stmt {
    // Facts and copies only on the way to something.
    if !matches!(s, Stmt::Let { .. } | Stmt::Block(_)) && !has_candidates(s) {
        return s.clone();
    }
    let mut inner = facts.clone();
    match s {
        Stmt::Let { name, value, .. } => inner.enter_let(name, value),
        Stmt::For { var, min, extent, .. } => inner.enter_for(var, min, extent),
        Stmt::If { cond, then, otherwise } => {
            let mut no = facts.clone();
            inner.assume(cond);
            no.assume_not(cond);
            let (cond, then) = (loads(cond, facts, &mut Memo::default()), Box::new(walk(then, &inner)));
            let otherwise = otherwise.as_ref().map(|o| Box::new(walk(o, &no)));
            return Stmt::If { cond, then, otherwise };
        }
        _ => {}
    }
    let mut memo = Memo::default();
    let mut s = map_children(s, &mut |e| loads(e, facts, &mut memo), &mut |s| walk(s, &inner));
    if let Stmt::Store { index, .. } | Stmt::Accumulate { index, .. } = &mut s {
        *index = narrowed(index, facts);
    }
    s
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
        let kind = ExprKind::Load { buffer: "rows.0".into(), index: ramp, predicate: None };
        Expr::new(kind, Type::I32.with_lanes(8))
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
        let kind =
            ExprKind::Load { buffer: "f.0".into(), index: row * pitch + lane.clone(), predicate: None };
        let value = Expr::new(kind, Type::F32.with_lanes(8));
        let (buffer, predicate) = ("out.0".into(), None);
        Stmt::Store { buffer, index: lane, value, predicate, aligned: false, non_temporal: false }
    }

    #[test]
    fn only_what_fits_is_narrowed() {
        let text = narrow(&gather(9, 16)).to_string();
        assert!(text.contains(" = f.0[i64(min(max(rows.0["), "{text}");
        assert!(text.contains("x8(9)) * x8(16) + ramp(0, 1, 8))]"), "{text}");
        for (last, pitch) in [(i32::MAX, 16), (9, 1 << 40), (1 << 20, 1 << 12)] {
            let wide = gather(last, pitch);
            assert_eq!(narrow(&wide), wide);
        }
    }
}
