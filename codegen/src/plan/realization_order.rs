//! Producers before consumers.

use crate::error::Error;
use crate::expr::Name;
use crate::func::Pipeline;
use crate::plan::validate::error;
use indexmap::{IndexMap, IndexSet};
use std::collections::BTreeSet;

/// The Funcs that the outputs need, producers first; otherwise in the order of the pipeline. Everything else is
/// dropped. A cycle is an error.
pub fn realization_order(p: &Pipeline) -> Result<Vec<Name>, Error> {
    let callees: IndexMap<&Name, IndexSet<Name>> =
        p.funcs.values().map(|f| (&f.name, f.callees(p))).collect();
    let needed = reachable(p, &callees);
    let mut waits: Vec<usize> = callees.values().map(IndexSet::len).collect();
    let mut callers: Vec<Vec<usize>> = vec![vec![]; callees.len()];
    for (i, (_, of)) in callees.iter().enumerate().filter(|(_, (f, _))| needed.contains(**f)) {
        of.iter().filter_map(|c| callees.get_index_of(c)).for_each(|c| callers[c].push(i));
    }
    let is_ready = |i: &usize| waits[*i] == 0 && needed.contains(&p.funcs[*i].name);
    let mut ready: BTreeSet<usize> = (0..p.funcs.len()).filter(is_ready).collect();
    let mut order: IndexSet<Name> = IndexSet::new();
    // The first Func whose producers are all placed comes next.
    while let Some(next) = ready.pop_first() {
        order.insert(p.funcs[next].name.clone());
        for &c in &callers[next] {
            waits[c] -= 1;
            if waits[c] == 0 {
                ready.insert(c);
            }
        }
    }
    if order.len() < needed.len() {
        let rest: Vec<&str> = needed.iter().filter(|n| !order.contains(*n)).map(|n| &**n).collect();
        return Err(error(p, format!("these Funcs call each other in a circle: {}", rest.join(", "))));
    }
    Ok(order.into_iter().collect())
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
