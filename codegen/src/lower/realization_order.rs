//! Producers before consumers.

use super::rewrite::nodes;
use super::validate::error;
use crate::error::Error;
use crate::expr::{ExprKind, Name};
use crate::func::{Func, Pipeline};
use indexmap::{IndexMap, IndexSet};

/// The Funcs that the outputs need, producers first; otherwise in the order of the pipeline. Everything else is
/// dropped. A cycle is an error.
pub fn realization_order(p: &Pipeline) -> Result<Vec<Name>, Error> {
    let callees: IndexMap<&Name, IndexSet<Name>> =
        p.funcs.values().map(|f| (&f.name, callees(p, f))).collect();
    let needed = reachable(p, &callees);
    let mut order: IndexSet<Name> = IndexSet::new();
    // Repeatedly take the first Func whose producers are all placed: stable and iterative.
    while order.len() < needed.len() {
        let ready = |n: &&Name| !order.contains(*n) && callees[*n].iter().all(|c| order.contains(c));
        let Some(next) = p.funcs.keys().filter(|n| needed.contains(*n)).find(ready) else {
            let rest: Vec<&str> = needed.iter().filter(|n| !order.contains(*n)).map(|n| &**n).collect();
            return Err(error(p, format!("these Funcs call each other in a circle: {}", rest.join(", "))));
        };
        order.insert(next.clone());
    }
    Ok(order.into_iter().collect())
}

/// Other Funcs that `f` calls, anywhere in its definitions.
pub fn callees(p: &Pipeline, f: &Func) -> IndexSet<Name> {
    let updates = f.updates.iter().flat_map(|u| {
        let bounds = u.rdom.vars.iter().flat_map(|r| [&r.min, &r.extent]);
        u.args.iter().chain(&u.values).chain(&u.rdom.predicate).chain(bounds)
    });
    let mut out = IndexSet::new();
    for e in nodes(f.values.iter().chain(updates)) {
        if let ExprKind::Call { name, .. } = e.kind()
            && *name != f.name
            && p.funcs.contains_key(name)
        {
            out.insert(name.clone());
        }
    }
    out
}

fn reachable(p: &Pipeline, callees: &IndexMap<&Name, IndexSet<Name>>) -> IndexSet<Name> {
    let mut out: IndexSet<Name> = IndexSet::new();
    let mut stack: Vec<Name> = p.outputs.iter().map(|o| o.func.clone()).collect();
    while let Some(n) = stack.pop() {
        if out.insert(n.clone()) {
            stack.extend(callees[&n].iter().cloned());
        }
    }
    out
}
