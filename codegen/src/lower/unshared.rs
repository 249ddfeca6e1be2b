//! Updates of what a thread has for itself, as loads and stores.
//!
//! Before: a kernel, in which an atomic stage may have storage in a thread's loops. After: atomic updates are of memory that several threads
//! reach. A thread's own has none, and needs none.

use crate::expr::{Expr, ExprKind, Flat};
use crate::ir::rewrite::{map_children, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::Memory;
use rustc_hash::FxHashSet;

/// See the module's description.
pub(super) fn unshared(s: &Stmt) -> Stmt {
    let mut own = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        if let Stmt::Allocate { buffer, memory: Memory::Stack | Memory::Register, .. } = s {
            own.insert(buffer.clone());
        }
    });
    if own.is_empty() { s.clone() } else { walk(s, &own) }
}

fn walk(s: &Stmt, own: &FxHashSet<Flat>) -> Stmt {
    match s {
        Stmt::Accumulate { buffer, op, index, value, predicate } if own.contains(buffer) => {
            let load =
                ExprKind::Load { buffer: buffer.clone(), index: index.clone(), predicate: predicate.clone() };
            let before = Expr::new(load, value.ty());
            Stmt::Store {
                buffer: buffer.clone(),
                index: index.clone(),
                value: Expr::new(ExprKind::Binary(*op, before, value.clone()), value.ty()),
                predicate: predicate.clone(),
                aligned: false,
                non_temporal: false,
            }
        }
        s => map_children(s, &mut Expr::clone, &mut |s| walk(s, own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::BinaryOp;
    use crate::types::{ScalarType, Type};

    #[test]
    fn a_threads_own_sum_is_a_load_and_a_store() {
        let add = |of: &str| Stmt::Accumulate {
            buffer: Flat::plane(of, 0),
            op: BinaryOp::Add,
            index: Expr::from(0).cast(ScalarType::I64),
            value: Expr::from(1.0f32),
            predicate: None,
        };
        let own = Stmt::Allocate {
            buffer: Flat::plane("own", 0),
            ty: ScalarType::F32,
            extent: Expr::int(Type::I64, 1),
            memory: Memory::Stack,
            zeroed: false,
            body: Box::new(Stmt::Block(vec![add("own"), add("all")])),
        };
        let text = unshared(&own).to_string();
        assert!(text.contains("own.0[i64(0)] = own.0[i64(0)] + 1f"), "{text}");
        assert!(text.contains("atomic add all.0") && !text.contains("atomic add own.0"), "{text}");
    }
}
