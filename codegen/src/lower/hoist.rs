//! Loop invariants out of loops.
//!
//! Before: vectors, simplified. After: arithmetic in floats and in data types that does not change in a loop is let-bound in front of
//! the outermost such loop, once for all of the loop's statements. The back end hoists too, but not out of the body of a parallel
//! loop, which is a function of its own.
//!
//! Moved is only what the body of the loop evaluates unconditionally, and what can neither fail nor read: no load (it might be out of
//! bounds where the loop does not run), nothing under an `If`. At worst a loop without iterations has cost some arithmetic. Index
//! arithmetic stays: addresses are made where they are used, and conditions too, which [`super::partition`], the next pass, looks for.
//! A broadcast is no work; what it broadcasts may be. Nothing moves out of a GPU's loops: its threads would evaluate it all the same;
//! nor out of loops around those, in front of which there is no function of the host to compute it.

use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::{Memo, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{map_children, own_exprs};
use crate::ir::stmt::Stmt;
use crate::lower::kernels::has_kernel;
use crate::types::ScalarType;
use rustc_hash::{FxHashMap, FxHashSet};

/// See the module's description.
pub(crate) fn hoist(s: &Stmt) -> Stmt {
    let Stmt::For { var, min, extent, kind, body } = s else {
        return map_children(s, &mut Expr::clone, &mut hoist);
    };
    let mut found = Invariants::new(var, body);
    if !kind.is_gpu() && !has_kernel(body) {
        found.collect(body);
    }
    let Invariants { names, order, .. } = found;
    let body = if order.is_empty() { hoist(body) } else { hoist(&replaced(body, &names)) };
    let (var, min, extent) = (var.clone(), min.clone(), extent.clone());
    let inner = Stmt::For { var, min, extent, kind: *kind, body: Box::new(body) };
    let bind = |body, value: Expr| Stmt::Let { name: names[&value].clone(), value, body: Box::new(body) };
    order.into_iter().rev().fold(inner, bind)
}

/// The invariants of one loop.
struct Invariants<'a> {
    loop_var: &'a Name,
    /// Names bound by the loop or inside of it.
    inside: FxHashSet<Name>,
    /// Invariance of nodes that need no memory; it holds for the whole body, as every name is bound once.
    fixed: FxHashMap<usize, bool>,
    names: FxHashMap<Expr, Name>,
    /// Keys of `names` in the order of discovery.
    order: Vec<Expr>,
}

impl<'a> Invariants<'a> {
    fn new(loop_var: &'a Name, body: &Stmt) -> Invariants<'a> {
        let mut inside = FxHashSet::from_iter([loop_var.clone()]);
        crate::ir::rewrite::visit_stmts(body, &mut |s| {
            if let Stmt::Let { name, .. } | Stmt::For { var: name, .. } = s {
                inside.insert(name.clone());
            }
        });
        let (fixed, names) = (FxHashMap::default(), FxHashMap::default());
        Invariants { loop_var, inside, fixed, names, order: vec![] }
    }

    /// Looks at what runs in every iteration.
    fn collect(&mut self, s: &Stmt) {
        own_exprs(s, &mut |e| self.maximal(e));
        match s {
            Stmt::Block(list) => list.iter().for_each(|s| self.collect(s)),
            Stmt::For { kind, .. } if kind.is_gpu() => {}
            Stmt::Let { body, .. }
            | Stmt::For { body, .. }
            | Stmt::Allocate { body, .. }
            | Stmt::Produce { body, .. } => self.collect(body),
            _ => {}
        }
    }

    /// Names the largest invariant parts of `e` that are worth it.
    fn maximal(&mut self, e: &Expr) {
        let mut seen = FxHashSet::default();
        let mut stack = vec![e];
        while let Some(e) = stack.pop() {
            if !seen.insert(e.id()) {
                continue;
            }
            if !(is_work(e) && self.is_fixed(e)) {
                e.for_each_child(|c| stack.push(c));
            } else if !self.names.contains_key(e) {
                let name = format!("{}.fixed.{}", self.loop_var, self.names.len());
                self.names.insert(e.clone(), name.into());
                self.order.push(e.clone());
            }
        }
    }

    fn is_fixed(&mut self, root: &Expr) -> bool {
        let mut stack = vec![(root, false)];
        while let Some((e, ready)) = stack.pop() {
            if self.fixed.contains_key(&e.id()) {
                continue;
            }
            let own = match e.kind() {
                ExprKind::Var(v) => !self.inside.contains(v),
                ExprKind::Load { .. } | ExprKind::Call { .. } | ExprKind::Likely(_) => false,
                _ => true,
            };
            if !own {
                self.fixed.insert(e.id(), false);
            } else if ready {
                let mut all = true;
                e.for_each_child(|c| all &= self.fixed[&c.id()]);
                self.fixed.insert(e.id(), all);
            } else {
                stack.push((e, true));
                e.for_each_child(|c| stack.push((c, false)));
            }
        }
        self.fixed[&root.id()]
    }
}

/// An operation on data.
fn is_work(e: &Expr) -> bool {
    let operation = matches!(
        e.kind(),
        ExprKind::Unary(..)
            | ExprKind::Binary(..)
            | ExprKind::Fma(..)
            | ExprKind::Select(..)
            | ExprKind::Cast(_)
            | ExprKind::VectorReduce(..)
            | ExprKind::Strict(_)
    );
    operation && !is_index(e.ty()) && e.ty().scalar != ScalarType::Bool
}

/// `s` with names for the invariants.
fn replaced(s: &Stmt, names: &FxHashMap<Expr, Name>) -> Stmt {
    fn walk(s: &Stmt, names: &FxHashMap<Expr, Name>, memo: &mut Memo) -> Stmt {
        let mut by_name = |e: &Expr| {
            rewrite(e, memo, &mut |old, new| match names.get(old) {
                Some(n) => Expr::new(ExprKind::Var(n.clone()), old.ty()),
                None => new,
            })
        };
        let own = map_children(s, &mut by_name, &mut Stmt::clone);
        map_children(&own, &mut Expr::clone, &mut |s| walk(s, names, memo))
    }
    walk(s, names, &mut Memo::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ForKind;
    use crate::types::Type;

    fn f32(name: &str) -> Expr {
        Expr::param(name, Type::F32)
    }
    fn load(buffer: &str, at: &str) -> Expr {
        let index = Expr::var(at).cast(ScalarType::I64);
        Expr::load(buffer, index, Type::F32)
    }
    fn store(value: Expr) -> Stmt {
        Stmt::store("f.0", Expr::var("x").cast(ScalarType::I64), value)
    }
    fn for_(var: &str, kind: ForKind, body: Stmt) -> Stmt {
        let (min, extent) = (Expr::from(0), Expr::param("n", Type::I32));
        Stmt::For { var: var.into(), min, extent, kind, body: Box::new(body) }
    }

    #[test]
    fn each_part_goes_as_far_as_it_can() {
        let row = Expr::var("y").cast(ScalarType::F32) * f32("a");
        let value = load("in.0", "x") * (row.clone() + f32("b").sqrt()) + row;
        let s = for_("y", ForKind::Parallel, for_("x", ForKind::Serial, store(value)));
        let text = "\
let y.fixed.0 = sqrt(b)
parallel for y in [0, n) {
  let x.fixed.0 = f32(y) * a
  let x.fixed.1 = f32(y) * a + y.fixed.0
  for x in [0, n) {
    f.0[i64(x)] = in.0[i64(x)] * x.fixed.1 + x.fixed.0
  }
}
";
        assert_eq!(hoist(&s).to_string(), text);
    }

    #[test]
    fn what_reads_or_may_not_run_stays() {
        let guarded = |value: Expr| Stmt::If {
            cond: Expr::var("x").lt(3),
            then: Box::new(store(value)),
            otherwise: None,
        };
        for body in [store(load("in.0", "y").sqrt()), guarded(f32("a").sqrt()), store(f32("a"))] {
            let s = for_("x", ForKind::Serial, body);
            assert_eq!(hoist(&s), s);
        }
    }
}
