//! One dense store instead of several strided ones.
//!
//! Before: vectors, both bodies of loops. Stores to `b + 0, b + k, b + 2 k, ...`, to `b + 1, b + k + 1, ...` and so on up to
//! `b + k - 1`, which follow each other in any order, are the channels of an interleaved image, or every k-th column of an unrolled
//! loop. After: one store of their values interleaved, to `b, b + 1, ...`; likewise masks. No value may read what a store of the
//! group writes. Not in a GPU's kernels, whose lanes are threads. Follows partitioning, so that no likely condition is interleaved.

use crate::analysis::algebra::build;
use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Flat};
use crate::ir::rewrite::{block, map_children};
use crate::ir::stmt::Stmt;
use crate::schedule::ForKind;

/// Longest stride whose gaps are closed.
const MAX_STRIDE: i64 = 8;
/// Most lanes of a store.
const MAX_LANES: i64 = 128;

/// See the module's description. `aliases`: pairs of buffers that may be the same memory.
pub(crate) fn interleave(s: &Stmt, aliases: &[(Flat, Flat)]) -> Stmt {
    if matches!(s, Stmt::For { kind: ForKind::GpuBlock, .. }) {
        return s.clone();
    }
    let Stmt::Block(list) = s else {
        return map_children(s, &mut Expr::clone, &mut |s| interleave(s, aliases));
    };
    let mut out = vec![];
    let mut rest = &list[..];
    while let Some(first) = rest.first() {
        let (s, n) = match dense(rest, aliases) {
            Some((s, n)) => (s, n),
            None => (interleave(first, aliases), 1),
        };
        out.push(s);
        rest = &rest[n..];
    }
    block(out)
}

/// A strided store, taken apart.
struct Strided<'a> {
    buffer: &'a Flat,
    base: &'a Expr,
    value: &'a Expr,
    predicate: Option<&'a Expr>,
}

fn strided(s: &Stmt) -> Option<(Strided<'_>, i64)> {
    let Stmt::Store { buffer, index, value, predicate, non_temporal: false, .. } = s else { return None };
    let ExprKind::Ramp(base, stride) = index.kind() else { return None };
    let stride = stride.as_int().filter(|k| (2..=MAX_STRIDE).contains(k))?;
    Some((Strided { buffer, base, value, predicate: predicate.as_ref() }, stride))
}

/// The stores at the start of a block as one, and how many there are.
fn dense(list: &[Stmt], aliases: &[(Flat, Flat)]) -> Option<(Stmt, usize)> {
    let (first, stride) = strided(list.first()?)?;
    let (buffer, n) = (first.buffer, stride as usize);
    let lanes = first.value.ty().lanes as i64 * stride;
    if list.len() < n || lanes > MAX_LANES {
        return None;
    }
    let mut parts = vec![];
    for s in &list[..n] {
        let (part, k) = strided(s)?;
        let same = k == stride
            && part.buffer == buffer
            && part.value.ty() == first.value.ty()
            && part.predicate.is_some() == first.predicate.is_some();
        if !same || part.predicate.into_iter().chain([part.value]).any(|e| reads(e, buffer, aliases)) {
            return None;
        }
        parts.push((build::constant(&(part.base - first.base))?, part));
    }
    parts.sort_by_key(|p| p.0);
    let from = parts[0].0;
    if !parts.iter().enumerate().all(|(i, p)| p.0 == from + i as i64) {
        return None;
    }
    let base = parts[0].1.base.clone();
    let one = Expr::int(base.ty(), 1);
    let ty = base.ty().with_lanes(lanes as u16);
    let index = Expr::new(ExprKind::Ramp(base, one), ty);
    let value = Expr::interleave(parts.iter().map(|p| p.1.value.clone()).collect());
    let masks: Option<Vec<Expr>> = parts.iter().map(|p| p.1.predicate.cloned()).collect();
    let (buffer, predicate) = (buffer.clone(), masks.map(Expr::interleave));
    Some((Stmt::Store { buffer, index, value, predicate, aligned: false, non_temporal: false }, n))
}

/// May `e` read what is in `buffer`?
fn reads(e: &Expr, buffer: &Flat, aliases: &[(Flat, Flat)]) -> bool {
    let shared = |other: &Flat| {
        other == buffer
            || aliases.iter().any(|(a, b)| (a == buffer && b == other) || (b == buffer && a == other))
    };
    any(e, |n| matches!(n.kind(), ExprKind::Load { buffer, .. } if shared(buffer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ScalarType, Type};

    fn ramp(from: i64, stride: i64) -> Expr {
        let base = Expr::var("x").cast(ScalarType::I64) * stride + from;
        Expr::new(ExprKind::Ramp(base, Expr::int(ScalarType::I64, stride)), Type::I64.with_lanes(4))
    }
    fn load(buffer: &str) -> Expr {
        Expr::load(buffer, ramp(0, 1), Type::F32.with_lanes(4))
    }
    fn store(from: i64, stride: i64, value: Expr, predicate: Option<Expr>) -> Stmt {
        let (buffer, index) = ("f.0".into(), ramp(from, stride));
        Stmt::Store { buffer, index, value, predicate, aligned: false, non_temporal: false }
    }

    #[test]
    fn all_columns_in_any_order_are_one_store() {
        let s = Stmt::Block(vec![
            store(1, 3, load("b.0"), None),
            store(-1, 3, load("r.0"), None),
            store(0, 3, load("g.0"), None),
            store(7, 3, load("r.0"), None),
        ]);
        let dense = "f.0[ramp(i64(x) * 3:i64 + -1:i64, 1:i64, 12)] = interleave(r.0[ramp(i64(x) * 1:i64 + 0:i64, 1:i64, 4)], ";
        let text = interleave(&s, &[]).to_string();
        assert!(text.starts_with(dense) && text.lines().count() == 2, "{text}");
    }

    #[test]
    fn what_is_not_whole_or_reads_itself_stays() {
        let pair = |second: Stmt| Stmt::Block(vec![store(0, 2, load("a.0"), None), second]);
        let mask = Expr::new(ExprKind::Broadcast(Expr::var("m").eq_(0)), Type::BOOL.with_lanes(4));
        let aliases = [(Flat::from("f.0"), Flat::from("old.0"))];
        for (second, one) in [
            (store(1, 2, load("b.0"), None), true),
            (store(2, 2, load("b.0"), None), false),
            (store(1, 4, load("b.0"), None), false),
            (store(1, 2, load("f.0"), None), false),
            (store(1, 2, load("old.0"), None), false),
            (store(1, 2, load("b.0"), Some(mask.clone())), false),
        ] {
            let s = pair(second);
            let text = interleave(&s, &aliases).to_string();
            assert_eq!(text.contains("interleave("), one, "{text}");
        }
        let masked = |from| store(from, 2, load("a.0"), Some(mask.clone()));
        let text = interleave(&Stmt::Block(vec![masked(0), masked(1)]), &[]).to_string();
        assert!(text.contains(" if interleave("), "{text}");
    }
}
