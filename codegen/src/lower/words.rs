//! Whole words of shared memory.
//!
//! A GPU updates an element of less than 32 bits by exchanging the word that it lies in. After this pass the storage of such elements, where a block
//! shares it, covers whole words; elements behind those that the pipeline knows are 0. (The host's and the device's buffers are padded anyway.)

use crate::expr::{Expr, Flat};
use crate::ir::rewrite::{block, map_children, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::Memory;
use crate::types::Type;
use rustc_hash::FxHashSet;

/// Bytes of a word.
const WORD: i64 = 4;

/// See the module's description. `s` is a kernel.
pub(super) fn words(s: &Stmt) -> Stmt {
    let mut updated = FxHashSet::default();
    visit_stmts(s, &mut |s| {
        if let Stmt::Accumulate { buffer, .. } = s {
            updated.insert(buffer);
        }
    });
    if updated.is_empty() { s.clone() } else { walk(s, &updated) }
}

fn walk(s: &Stmt, updated: &FxHashSet<&Flat>) -> Stmt {
    let s = map_children(s, &mut Expr::clone, &mut |s| walk(s, updated));
    let Stmt::Allocate { buffer, ty, extent, memory: Memory::Shared, zeroed, body } = s else { return s };
    let (memory, per_word) = (Memory::Shared, WORD / ty.bytes() as i64);
    let all = match extent.as_int() {
        Some(n) if per_word > 1 && updated.contains(&buffer) => (n + per_word - 1) / per_word * per_word,
        _ => return Stmt::Allocate { buffer, ty, extent, memory, zeroed, body },
    };
    let behind = |i| Stmt::store(buffer.clone(), Expr::int(Type::I64, i), Expr::from(0).cast(ty));
    let mut list: Vec<Stmt> = (extent.as_int().unwrap_or(all)..all).map(behind).collect();
    list.push(*body);
    let (extent, body) = (Expr::int(Type::I64, all), Box::new(block(list)));
    Stmt::Allocate { buffer, ty, extent, memory, zeroed, body }
}
