//! The floats that depend on those that are derived for.

use crate::expr::walk::nodes;
use crate::expr::{ExprKind, Name};
use crate::func::Pipeline;
use crate::gradient::support::{Stage, consumers_first};
use rustc_hash::FxHashSet;

/// Names of `wrt`, and of Funcs that read some of these, directly or not, in their values.
pub(super) fn active(p: &Pipeline, wrt: impl IntoIterator<Item = Name>) -> FxHashSet<Name> {
    let mut active: FxHashSet<Name> = wrt.into_iter().collect();
    for name in consumers_first(p, p.funcs.keys().cloned()).into_iter().rev() {
        let f = &p.funcs[&name];
        let stages = Stage::all(f);
        let read = nodes(stages.iter().flat_map(|s| s.values)).into_iter().any(|e| match e.kind() {
            ExprKind::Call { name, .. } => active.contains(name),
            ExprKind::Param(param) => param.name().is_some_and(|n| active.contains(n)),
            _ => false,
        });
        if read && f.types().iter().any(|t| t.is_float()) {
            active.insert(name);
        }
    }
    active
}
