//! Reads that lie beside each other in every lane, found before the stores that need them are emitted.

use super::access::Access;
use crate::expr::walk::visit;
use crate::expr::{BinaryOp, Expr, ExprKind, Flat};
use crate::ir::stmt::Stmt;
use crate::types::{ScalarType, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Reads of stores that follow each other, as those of an unrolled sum do, that lie beside each other in every lane: the first constant and the number of
/// all, by what comes before it and the constant of one.
#[derive(Default)]
pub(super) struct Runs(FxHashMap<(String, i64), (i64, u16)>);

impl Runs {
    /// The runs of what is read without a condition, where there are several stores of what none of them changes: powers of two, no longer than the
    /// vectors, whose lengths are such powers as well.
    pub(super) fn in_stores(list: &[Stmt]) -> Runs {
        let stores = || {
            list.iter().filter_map(|s| match s {
                Stmt::Store { buffer, value, .. } => Some((buffer, value)),
                _ => None,
            })
        };
        let changed: FxHashSet<&Flat> =
            if list.len() > 1 { stores().map(|s| s.0).collect() } else { FxHashSet::default() };
        let mut constants: FxHashMap<String, (u16, BTreeSet<i64>)> = FxHashMap::default();
        for (_, value) in stores().filter(|s| s.1.ty().lanes > 1) {
            visit(value, &mut |e| {
                if let ExprKind::Load { buffer, index, predicate: None } = e.kind()
                    && let Access::Gather(index) = Access::of(index)
                    && e.ty().scalar != ScalarType::Bool
                    && e.ty().lanes.is_power_of_two()
                    && !changed.contains(buffer)
                {
                    let (rest, constant) = split(index);
                    let most = e.ty().lanes.min((64 / e.ty().scalar.bytes()) as u16);
                    let all = constants.entry(run_key(buffer, e.ty(), &rest));
                    all.or_insert_with(|| (most, BTreeSet::new())).1.insert(constant);
                }
                true
            });
        }
        let mut runs = FxHashMap::default();
        for (key, (most, all)) in constants {
            let mut at = all.first().copied();
            while let Some(start) = at {
                let length = (start..).zip(all.range(start..)).take_while(|(a, b)| a == *b).count();
                let n = 1 << length.min(usize::from(most)).ilog2();
                if n > 1 {
                    runs.extend((start..start + n).map(|c| ((key.clone(), c), (start, n as u16))));
                }
                at = all.range(start + n..).next().copied();
            }
        }
        Runs(runs)
    }

    /// The first constant of a run and the number of all, by its key and the constant of one of its reads.
    pub(super) fn of(&self, key: &str, constant: i64) -> Option<(i64, u16)> {
        self.0.get(&(key.to_string(), constant)).copied()
    }
}

/// Equal for reads of which each has one number behind that of the other.
pub(super) fn run_key(buffer: &Flat, ty: Type, rest: &str) -> String {
    format!("{buffer} {ty} {rest}")
}

/// An index as text without its constant part, and that part: 0 where it is not at the end, or at that of what all lanes share.
pub(super) fn split(index: &Expr) -> (String, i64) {
    if let Some(c) = constant(index) {
        return (String::new(), c);
    }
    match index.kind() {
        // Sums of coordinates stay within i32 wherever they are read.
        ExprKind::Cast(e) if e.ty().scalar == ScalarType::I32 => {
            let (rest, c) = split(e);
            (format!("i64({rest})"), c)
        }
        ExprKind::Binary(BinaryOp::Add, a, b) => match (constant(b), b.kind()) {
            (Some(c), _) => (a.to_string(), c),
            (None, kind) => {
                let part = |e: &Expr| match e.kind() {
                    ExprKind::Cast(_) => split(e),
                    _ => (e.to_string(), 0),
                };
                let (of_a, of_b) = match kind {
                    ExprKind::Broadcast(shared) => (part(a), split(shared)),
                    _ => (part(a), part(b)),
                };
                (format!("{} + {}", of_a.0, of_b.0), of_a.1 + of_b.1)
            }
        },
        _ => (index.to_string(), 0),
    }
}

fn constant(e: &Expr) -> Option<i64> {
    match e.kind() {
        ExprKind::Broadcast(a) => a.as_int(),
        _ => e.as_int(),
    }
}
