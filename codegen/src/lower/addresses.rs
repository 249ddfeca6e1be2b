//! Indices that begin with what changes least.
//!
//! Before: the index of a scalar or dense access is a sum in no order. After: its terms are in the order of the loops in which they change, those
//! of no loop first, the constant last. The back end adds one part after the other to the buffer's address, so that LLVM moves each prefix in front of
//! the loop that leaves it alone, and what remains in an innermost loop is an operand of the access. The last pass: a simplification would sort
//! the terms again. Kernels of a GPU have [`super::offsets`].

use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::Poly;
use crate::analysis::algebra::rebuild::rebuild;
use crate::expr::walk::{Memo, rewrite, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::ir::rewrite::map_children;
use crate::ir::stmt::Stmt;
use crate::types::Type;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// See the module's description.
pub(crate) fn addresses(s: &Stmt) -> Stmt {
    Addresses::default().stmt(s, 0)
}

#[derive(Default)]
struct Addresses {
    /// Number of the loops around the innermost one in which a name changes, and this one; names of no loop are left out.
    depths: FxHashMap<Name, usize>,
    polys: Polys,
    memo: Memo,
}

impl Addresses {
    /// `depth`: number of loops around `s`.
    fn stmt(&mut self, s: &Stmt, depth: usize) -> Stmt {
        let inner = match s {
            Stmt::For { kind, .. } if kind.is_gpu() => return s.clone(),
            Stmt::For { var, .. } => {
                self.depths.insert(var.clone(), depth + 1);
                depth + 1
            }
            Stmt::Let { name, value, .. } => {
                let changes = self.depth(value, depth);
                self.depths.insert(name.clone(), changes);
                depth
            }
            _ => depth,
        };
        let mut s = map_children(s, &mut |e| self.loads(e, depth), &mut Stmt::clone);
        s = map_children(&s, &mut Expr::clone, &mut |s| self.stmt(s, inner));
        if let Stmt::Store { index, .. } = &mut s {
            *index = self.ordered(index, depth);
        }
        s
    }

    /// `e` with the indices of its loads in order.
    fn loads(&mut self, e: &Expr, depth: usize) -> Expr {
        let mut memo = std::mem::take(&mut self.memo);
        let e = rewrite(e, &mut memo, &mut |_, new| match new.kind() {
            ExprKind::Load { buffer, index, predicate } => {
                let (buffer, index, predicate) =
                    (buffer.clone(), self.ordered(index, depth), predicate.clone());
                Expr::new(ExprKind::Load { buffer, index, predicate }, new.ty())
            }
            _ => new,
        });
        self.memo = memo;
        e
    }

    fn ordered(&mut self, index: &Expr, depth: usize) -> Expr {
        match index.kind() {
            ExprKind::Ramp(first, step) if step.as_int() == Some(1) => {
                Expr::new(ExprKind::Ramp(self.ordered(first, depth), step.clone()), index.ty())
            }
            ExprKind::Interleave(rows) | ExprKind::Concat(rows) => {
                index.with_children(rows.iter().map(|row| self.ordered(row, depth)).collect())
            }
            _ if index.ty() == Type::I64 => self.sum(index, depth),
            _ => index.clone(),
        }
    }

    fn sum(&mut self, index: &Expr, depth: usize) -> Expr {
        let p = self.polys.of(index);
        let mut parts: BTreeMap<usize, Poly> = BTreeMap::new();
        for (m, c) in &p.terms {
            let changes = m.iter().map(|e| self.depth(e, depth)).max().unwrap_or(0);
            parts.entry(changes).or_default().terms.push((m.clone(), *c));
        }
        if p.constant != 0 {
            parts.insert(usize::MAX, Poly::constant(p.constant));
        }
        let add = |a, b| Expr::binary(BinaryOp::Add, a, b);
        parts.values().map(|p| rebuild(p, Type::I64)).reduce(add).unwrap_or_else(|| index.clone())
    }

    /// The depth of the innermost loop in which `e` changes; what it reads may change in all.
    fn depth(&self, e: &Expr, depth: usize) -> usize {
        let mut found = 0;
        visit(e, &mut |e| {
            found = found.max(match e.kind() {
                ExprKind::Var(name) => self.depths.get(name).copied().unwrap_or(0),
                ExprKind::Load { .. } => depth,
                _ => 0,
            });
            true
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Part;
    use crate::schedule::ForKind;
    use crate::types::ScalarType;

    #[test]
    fn what_changes_in_no_loop_comes_first_and_constants_last() {
        let wide = |name: &str| Expr::var(name).cast(ScalarType::I64);
        let stride = Expr::part("a", Part::Stride(1));
        let index = wide("x") + 3i64 + (wide("y") - wide("low")) * stride.clone() - stride;
        let store = Stmt::store("a.0", index, Expr::from(0));
        let for_ = |var: &str, body| {
            let (var, min, extent, kind) = (var.into(), Expr::from(0), Expr::from(8), ForKind::Serial);
            Stmt::For { var, min, extent, kind, body: Box::new(body) }
        };
        let text = addresses(&for_("y", for_("x", store))).to_string();
        let expected = "a.0[-(i64(low) * a.stride.1) - a.stride.1 + i64(y) * a.stride.1 + i64(x) + 3:i64]";
        assert!(text.contains(expected), "{text}");
    }
}
