//! Storage that nobody reads is not computed.
//!
//! Before: flat, vectorised, simplified: a condition that is constant has taken away the reads that it guarded. After: every
//! allocated buffer is loaded somewhere; the stores to others are gone with them, and so on where only those stores read
//! something. Loops that are empty now are left to the simplification after this pass. Precedes partitioning, which would look for
//! likely conditions in code that goes away.

use crate::expr::walk::visit;
use crate::expr::{ExprKind, Flat};
use crate::ir::rewrite::{map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use rustc_hash::FxHashSet;

/// See the module's description.
pub(crate) fn dead_allocations(s: &Stmt) -> Stmt {
    let mut s = s.clone();
    loop {
        let mut dead = allocated(&s);
        loaded(&s).iter().for_each(|b| {
            dead.remove(b);
        });
        if dead.is_empty() {
            return s;
        }
        s = without(&s, &dead);
    }
}

fn allocated(s: &Stmt) -> FxHashSet<Flat> {
    let mut names = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        if let Stmt::Allocate { buffer, .. } = s {
            names.insert(buffer.clone());
        }
    });
    names
}

fn loaded(s: &Stmt) -> FxHashSet<Flat> {
    let mut names = FxHashSet::default();
    let mut seen = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        own_exprs(s, &mut |e| {
            visit(e, &mut |n| {
                if let ExprKind::Load { buffer, .. } = n.kind() {
                    names.insert(buffer.clone());
                }
                seen.insert(n.id())
            })
        })
    });
    names
}

/// The statement without the storage called `dead` and what is stored in it.
fn without(s: &Stmt, dead: &FxHashSet<Flat>) -> Stmt {
    match s {
        Stmt::Allocate { buffer, body, .. } if dead.contains(buffer) => without(body, dead),
        Stmt::Store { buffer, .. } | Stmt::Accumulate { buffer, .. } | Stmt::PrefetchByte { buffer, .. }
            if dead.contains(buffer) =>
        {
            Stmt::Block(vec![])
        }
        s => map_children(s, &mut Clone::clone, &mut |s| without(s, dead)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expr;
    use crate::schedule::Memory;
    use crate::types::{ScalarType, Type};

    fn at(i: i64) -> Expr {
        Expr::int(Type::I64, i)
    }
    fn load(buffer: &str) -> Expr {
        Expr::load(buffer, at(0), Type::I32)
    }
    fn store(buffer: &str, value: Expr) -> Stmt {
        let (predicate, aligned, non_temporal) = (None, false, false);
        Stmt::Store { buffer: buffer.into(), index: at(0), value, predicate, aligned, non_temporal }
    }
    fn allocate(buffer: &str, body: Vec<Stmt>) -> Stmt {
        let (ty, memory, body) = (ScalarType::I32, Memory::Heap, Box::new(Stmt::Block(body)));
        Stmt::Allocate { buffer: buffer.into(), ty, extent: at(1), memory, zeroed: false, body }
    }

    #[test]
    fn what_only_dead_stores_read_is_dead_too() {
        let chain = |last: Expr| {
            let inner = allocate("b", vec![store("b", load("a")), store("out", last)]);
            allocate("a", vec![store("a", Expr::from(7)), inner])
        };
        let used = chain(load("b"));
        assert_eq!(dead_allocations(&used), used);
        let kept = |s: &Stmt| {
            let mut buffers = vec![];
            visit_stmts(s, &mut |s| match s {
                Stmt::Store { buffer, .. } | Stmt::Allocate { buffer, .. } => {
                    buffers.push(buffer.to_string())
                }
                _ => {}
            });
            buffers
        };
        assert_eq!(kept(&dead_allocations(&chain(Expr::from(1)))), ["out"]);
        assert_eq!(kept(&dead_allocations(&chain(load("a")))), ["a", "a", "out"]);
    }
}
