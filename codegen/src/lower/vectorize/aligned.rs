//! Marks dense stores that start at a multiple of the vector's size.

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::{Poly, is_index};
use crate::expr::{Expr, ExprKind, Flat, Name, Param, Part};
use crate::func::PITCH;
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use rustc_hash::{FxHashMap, FxHashSet};

/// Sets `aligned` where it is provable: every buffer starts 64-byte aligned and every stride of a dimension >= 1 is a
/// multiple of [`PITCH`] elements, but for those in `unaligned`.
pub(super) fn mark_aligned(s: &Stmt, unaligned: &FxHashSet<Flat>) -> Stmt {
    walk(s, &mut FxHashMap::default(), unaligned)
}

/// `known`: a divisor of each let-bound integer.
fn walk(s: &Stmt, known: &mut FxHashMap<Name, i64>, unaligned: &FxHashSet<Flat>) -> Stmt {
    match s {
        Stmt::Let { name, value, body } => {
            let divisor = if is_index(value.ty()) && value.ty().lanes == 1 {
                divisor(&Polys::default().of(value), known, |_| 1)
            } else {
                1
            };
            let outer = known.insert(name.clone(), divisor);
            let body = walk(body, known, unaligned);
            restore(known, name, outer);
            Stmt::Let { name: name.clone(), value: value.clone(), body: Box::new(body) }
        }
        Stmt::For { var, min, extent, kind, body } => {
            let outer = known.insert(var.clone(), 1);
            let body = Box::new(walk(body, known, unaligned));
            restore(known, var, outer);
            Stmt::For { var: var.clone(), min: min.clone(), extent: extent.clone(), kind: *kind, body }
        }
        Stmt::Store { buffer, index, value, .. } if value.ty().lanes > 1 && !unaligned.contains(buffer) => {
            let ExprKind::Ramp(base, stride) = index.kind() else { return s.clone() };
            let lanes = value.ty().lanes as i64;
            let multiple = divisor(&Polys::default().of(base), known, |_| 1) % lanes == 0;
            let mut s = s.clone();
            if let Stmt::Store { aligned, .. } = &mut s {
                *aligned |= multiple && stride.as_int() == Some(1);
            }
            s
        }
        _ => map_children(s, &mut Expr::clone, &mut |s| walk(s, known, unaligned)),
    }
}

fn restore(known: &mut FxHashMap<Name, i64>, name: &Name, outer: Option<i64>) {
    match outer {
        Some(d) => known.insert(name.clone(), d),
        None => known.remove(name),
    };
}

/// A constant that divides the polynomial (a power of two, capped). `other`: one that divides an atom of which nothing is known here.
pub(in crate::lower) fn divisor(p: &Poly, known: &FxHashMap<Name, i64>, other: impl Fn(&Expr) -> i64) -> i64 {
    let power = |v: i64| 1i64 << v.trailing_zeros().min(20);
    let of_atom = |e: &Expr| match e.kind() {
        ExprKind::Var(n) => known.get(n).map_or(1, |d| power(*d)),
        ExprKind::Param(Param::Of(_, Part::Stride(_))) => PITCH,
        // The pitch of an intermediate is a multiple, plus a skew or none.
        ExprKind::Select(_, a, b) => a.as_int().zip(b.as_int()).map_or(1, |(a, b)| power(a).min(power(b))),
        _ => other(e),
    };
    let terms = p.terms.iter().map(|(m, c)| m.iter().fold(power(*c), |d, e| (d * of_atom(e)).min(1 << 20)));
    terms.fold(power(p.constant), i64::min)
}
