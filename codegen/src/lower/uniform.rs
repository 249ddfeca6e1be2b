//! Values that are the same for all threads of a kernel, once in front of its loops.
//!
//! Before: a kernel whose loops compute with single elements of buffers that it only reads: scalars, parameters. After: the largest expressions
//! of such elements and constants that a serial loop holds, up to [`MOST`] of them, are let-bound inside of the loops over blocks. The assembler of
//! the driver does not move them: it would have to load where nothing was loaded, and it leaves conversions where they stand.

use crate::expr::walk::{Memo, any, rewrite, visit};
use crate::expr::{BinaryOp, Expr, ExprKind, Flat, Name};
use crate::ir::rewrite::{for_each_child, map_children, own_exprs, visit_stmts};
use crate::ir::segments::parameters;
use crate::ir::stmt::Stmt;
use crate::lower::kernels::has_kernel;
use crate::schedule::ForKind;
use crate::types::ScalarType;
use rustc_hash::{FxHashMap, FxHashSet};

/// Values that are kept, each in a register or two of every thread.
const MOST: usize = 4;

/// See the module's description. `s` is a kernel, `aliases` are pairs of buffers that may be the same memory.
pub(super) fn uniform(s: &Stmt, aliases: &[(Flat, Flat)]) -> Stmt {
    let mut stored = FxHashSet::default();
    visit_stmts(s, &mut |s| match s {
        Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } | Stmt::Allocate { buffer, .. } => {
            stored.insert(buffer);
        }
        _ => {}
    });
    for (a, b) in aliases {
        if stored.contains(a) || stored.contains(b) {
            stored.extend([a, b]);
        }
    }
    let mut found = Found { stored, fixed: FxHashMap::default(), all: vec![] };
    found.collect(s, false);
    found.all.sort_by_key(|e| !any(e, is_dear));
    let names: Vec<(Expr, Name)> = found
        .all
        .iter()
        .take(MOST)
        .enumerate()
        .map(|(n, e)| (e.clone(), format!("uniform.{n}").into()))
        .collect();
    if names.is_empty() { s.clone() } else { bound(s, &names) }
}

/// Divisions and functions: they take as long as all that is left of a short loop, so they come first.
fn is_dear(e: &Expr) -> bool {
    match e.operation() {
        ExprKind::Binary(op, ..) => *op == BinaryOp::Div || op.function().is_some(),
        ExprKind::Unary(op, _) => op.function().is_some(),
        _ => false,
    }
}

struct Found<'a> {
    stored: FxHashSet<&'a Flat>,
    /// Of nodes: is it the same for all threads, and does it load?
    fixed: FxHashMap<usize, (bool, bool)>,
    all: Vec<Expr>,
}

impl Found<'_> {
    fn collect(&mut self, s: &Stmt, in_loop: bool) {
        if in_loop {
            own_exprs(s, &mut |e| self.add(e));
        }
        let in_loop = in_loop || matches!(s, Stmt::For { kind: ForKind::Serial, .. });
        for_each_child(s, &mut |s| self.collect(s, in_loop));
    }

    /// Adds the largest parts of `e` that are the same for all threads and load something.
    fn add(&mut self, e: &Expr) {
        let mut seen = FxHashSet::default();
        let mut parts = vec![];
        visit(e, &mut |n| {
            let (same, loads) = self.fixed(n);
            if seen.insert(n.id()) && same && loads {
                parts.push(n.clone());
            }
            !same
        });
        for part in parts {
            if !self.all.contains(&part) {
                self.all.push(part);
            }
        }
    }

    fn fixed(&mut self, e: &Expr) -> (bool, bool) {
        let mut fixed = std::mem::take(&mut self.fixed);
        let of = self.below(e, &mut fixed);
        self.fixed = fixed;
        of
    }

    fn below(&self, e: &Expr, fixed: &mut FxHashMap<usize, (bool, bool)>) -> (bool, bool) {
        if let Some(&known) = fixed.get(&e.id()) {
            return known;
        }
        let of = match e.operation() {
            ExprKind::Load { buffer, index, predicate: None } => {
                // Every buffer has a first element; others may be read only where a condition says that they are there.
                let is_parameters = [ScalarType::F32, ScalarType::F64].map(parameters).contains(buffer);
                let there = index.as_int().is_some_and(|i| i == 0 || is_parameters);
                let same = there && !self.stored.contains(buffer);
                (same, same)
            }
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Param(_) => (true, false),
            ExprKind::Cast(..) | ExprKind::Binary(..) | ExprKind::Unary(..) | ExprKind::Fma(..) => {
                let mut all = (true, false);
                e.for_each_child(|c| {
                    let (same, loads) = self.below(c, fixed);
                    all = (all.0 && same, all.1 || loads);
                });
                all
            }
            _ => (false, false),
        };
        fixed.insert(e.id(), of);
        of
    }
}

/// The kernel with the values bound inside of its loops over blocks.
fn bound(s: &Stmt, names: &[(Expr, Name)]) -> Stmt {
    match s {
        s if has_kernel(s) => map_children(s, &mut Expr::clone, &mut |s| bound(s, names)),
        s => {
            let body = replaced(s, names, &mut Memo::default());
            names.iter().rev().fold(body, |body, (value, name)| Stmt::Let {
                name: name.clone(),
                value: value.clone(),
                body: Box::new(body),
            })
        }
    }
}

fn replaced(s: &Stmt, names: &[(Expr, Name)], memo: &mut Memo) -> Stmt {
    let mut of = |e: &Expr| {
        rewrite(e, memo, &mut |old, new| match names.iter().find(|(value, _)| value == old) {
            Some((value, name)) => Expr::new(ExprKind::Var(name.clone()), value.ty()),
            None => new,
        })
    };
    let own = map_children(s, &mut of, &mut Stmt::clone);
    map_children(&own, &mut Expr::clone, &mut |s| replaced(s, names, memo))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    fn load(of: &str, index: Expr) -> Expr {
        let buffer = Flat::plane(of, 0);
        Expr::load(buffer, index, Type::of(ScalarType::F64))
    }

    fn kernel(value: Expr) -> Stmt {
        let body = Stmt::store(Flat::plane("s", 0), Expr::var("k"), value);
        let nest = |var: &str, kind, body| {
            let (min, extent) = (Expr::from(0), Expr::from(4));
            Stmt::For { var: var.into(), min, extent, kind, body: Box::new(body) }
        };
        let threads = nest("t", ForKind::GpuThread, nest("k", ForKind::Serial, body));
        nest("b", ForKind::GpuBlock, threads)
    }

    #[test]
    fn scalars_are_read_and_converted_once() {
        let beta = load("beta", Expr::from(0)).cast(ScalarType::F32);
        let value = load("a", Expr::var("k")).cast(ScalarType::F32) * beta;
        let text = uniform(&kernel(value), &[]).to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let at = |part: &str| lines.iter().position(|l| l.contains(part)).expect(part);
        assert!(at("for b") < at("beta.0[0]") && at("beta.0[0]") < at("for t"), "{text}");
        assert!(lines[at("beta.0[0]")].contains("f32("), "{text}");
        assert!(lines[at("s.0[k]")].contains("uniform.0"), "{text}");
    }

    #[test]
    fn what_the_kernel_writes_stays() {
        let s = kernel(load("s", Expr::from(0)) + load("a", Expr::var("k")));
        assert_eq!(uniform(&s, &[]), s);
        let s = kernel(load("t", Expr::from(0)) + load("a", Expr::var("k")));
        assert_ne!(uniform(&s, &[]), s);
        assert_eq!(
            uniform(&s, &[(Flat::plane("s", 0), Flat::plane("t", 0))]),
            s,
            "it may be what is written"
        );
    }

    #[test]
    fn elements_that_may_not_be_there_stay() {
        let s = kernel(load("t", Expr::from(5)) + load("a", Expr::var("k")));
        assert_eq!(uniform(&s, &[]), s);
    }
}
