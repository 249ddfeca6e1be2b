//! Sums over rectangles of neighbours, row by row.
//!
//! Before: coordinates; in integers, a sum of `a(i) b(j) f(x + j, y + i)` with constant weights. After: `a(i)` times the sum over j, added up over i,
//! the last dimension that moves: the same modulo the type's range. Fewer products, and rows that are unrolled share the sums that lie in the same
//! row of `f`. Integers that are coordinates stay as they are, since those do not wrap.

use crate::analysis::algebra::forms::{Polys, gcd};
use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::{Memo, rewrite, visit};
use crate::expr::{BinaryOp, Expr, ExprKind};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// See the module's description.
pub(crate) fn separable(s: &Stmt) -> Stmt {
    let Stmt::Provide { values, .. } = s else { return map_children(s, &mut Expr::clone, &mut separable) };
    let mut by = FxHashMap::default();
    for value in values {
        visit(value, &mut |e| {
            let rows = is_sum(e).then(|| by_rows(e)).flatten();
            let found = rows.is_some();
            by.extend(rows.map(|rows| (e.id(), rows)));
            !found
        });
    }
    if by.is_empty() {
        return s.clone();
    }
    let mut memo = Memo::default();
    let mut replaced =
        |e: &Expr| rewrite(e, &mut memo, &mut |old, new| by.get(&old.id()).cloned().unwrap_or(new));
    map_children(s, &mut replaced, &mut Stmt::clone)
}

fn is_sum(e: &Expr) -> bool {
    let wraps = e.ty().scalar.is_int() && !is_index(e.ty()) && e.ty().lanes == 1;
    wraps && matches!(e.kind(), ExprKind::Binary(BinaryOp::Add, ..))
}

/// A term and its weight, by the offset of its row and those along the row.
type Rows = BTreeMap<i64, BTreeMap<Vec<i64>, (Expr, i64)>>;

fn by_rows(sum: &Expr) -> Option<Expr> {
    let mut terms = vec![];
    collect(sum, 1, &mut terms)?;
    let rows = rows(terms)?;
    // The first row without its greatest divisor is what all are multiples of.
    let base: Vec<i64> = rows.values().next()?.values().map(|(_, weight)| *weight).collect();
    let divisor = base.iter().fold(0, |a, b| gcd(a, *b));
    let mut total: Option<Expr> = None;
    for row in rows.values() {
        let weights = row.values().map(|(_, weight)| *weight);
        let by = row.values().next()?.1.checked_mul(divisor)? / base[0];
        let is_multiple = weights.zip(&base).all(|(w, b)| Some(w) == (b / divisor).checked_mul(by));
        if row.len() != base.len() || !is_multiple {
            return None;
        }
        let along = row.values().zip(&base).map(|((term, _), b)| weighted(term, b / divisor));
        let along = weighted(&along.reduce(|a, b| a + b)?, by);
        total = Some(match total {
            Some(total) => total + along,
            None => along,
        });
    }
    total
}

fn weighted(e: &Expr, by: i64) -> Expr {
    if by == 1 { e.clone() } else { e.clone() * Expr::int(e.ty(), by) }
}

/// The terms of a sum with their weights; none if they are too large to be multiplied.
fn collect(e: &Expr, by: i64, terms: &mut Vec<(Expr, i64)>) -> Option<()> {
    match e.kind() {
        ExprKind::Binary(BinaryOp::Add, a, b) => {
            collect(a, by, terms)?;
            collect(b, by, terms)
        }
        ExprKind::Binary(BinaryOp::Sub, a, b) => {
            collect(a, by, terms)?;
            collect(b, -by, terms)
        }
        ExprKind::Binary(BinaryOp::Mul, a, b) if b.as_int().is_some() => {
            collect(a, by.checked_mul(b.as_int()?)?, terms)
        }
        _ => {
            terms.push((e.clone(), by));
            Some(())
        }
    }
}

/// Terms that read one Func around one place, as a full rectangle of at least two rows and columns.
fn rows(terms: Vec<(Expr, i64)>) -> Option<Rows> {
    let mut polys = Polys::default();
    let (first, _) = terms.first()?;
    let ExprKind::Call { name, args: origin, value } = first.kind() else { return None };
    let mut offsets = vec![];
    for (term, _) in &terms {
        let ExprKind::Call { name: n, args, value: v } = term.kind() else { return None };
        if n != name || v != value {
            return None;
        }
        let apart = args.iter().zip(origin).map(|(a, b)| polys.of(a).difference(&polys.of(b)));
        offsets.push(apart.collect::<Option<Vec<i64>>>()?);
    }
    let along = (0..origin.len()).rev().find(|&d| offsets.iter().any(|o| o[d] != 0))?;
    let mut rows = Rows::new();
    for (mut offset, (term, weight)) in offsets.into_iter().zip(terms) {
        let row = rows.entry(std::mem::take(&mut offset[along])).or_default();
        if weight == 0 || row.insert(offset, (term, weight)).is_some() {
            return None;
        }
    }
    let first = rows.values().next()?;
    let same = rows.values().all(|row| row.keys().eq(first.keys()));
    (same && rows.len() > 1 && first.len() > 1).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ScalarType, Type};

    fn tap(x: i32, y: i32, ty: Type) -> Expr {
        let args = [("x", x), ("y", y)]
            .map(|(name, by)| if by == 0 { Expr::var(name) } else { Expr::var(name) + by });
        Expr::new(ExprKind::Call { name: "f".into(), args: args.to_vec(), value: 0 }, ty)
    }

    #[test]
    fn weights_that_are_products_are_taken_apart() {
        let ty = Type::of(ScalarType::U16);
        let weighted = |x: i32, y: i32, w: i64| tap(x, y, ty) * Expr::int(ty, w);
        let sum = weighted(0, 0, 2) + weighted(1, 0, 6) + weighted(0, 1, 3) + weighted(1, 1, 9);
        let text = by_rows(&sum).map(|e| e.to_string());
        let expected =
            "(f(x, y) + f(x + 1, y) * 3:u16) * 2:u16 + (f(x, y + 1) + f(x + 1, y + 1) * 3:u16) * 3:u16";
        assert_eq!(text.as_deref(), Some(expected));
        assert!(by_rows(&(sum + weighted(0, 2, 2))).is_none());
        let other = weighted(0, 0, 2) + weighted(1, 0, 6) + weighted(0, 1, 3) + weighted(1, 1, 8);
        assert!(by_rows(&other).is_none());
    }
}
