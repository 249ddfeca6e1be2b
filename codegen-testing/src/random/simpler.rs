//! Simpler variants of Funcs, and smaller inputs, for shrinking.

use super::reads;
use crate::check::with_halo;
use crate::reference::{Realization, Value};
use crate::smaller::smaller;
use sumsq_codegen::{Expr, Func, Pipeline, Update};

/// The Func without its last update, or with simpler definitions.
pub fn simpler(f: &Func) -> Vec<Func> {
    let mut out = vec![];
    let mut with = |change: &dyn Fn(&mut Func)| {
        let mut g = f.clone();
        change(&mut g);
        out.push(g);
    };
    if !f.updates.is_empty() {
        with(&|g| drop(g.updates.pop()));
    }
    for (k, v) in f.values.iter().enumerate() {
        for e in smaller(v) {
            with(&|g| g.values[k] = e.clone());
        }
    }
    for (i, update) in f.updates.iter().enumerate() {
        for u in simpler_updates(update) {
            with(&|g| g.updates[i] = u.clone());
        }
    }
    out
}

fn simpler_updates(update: &Update) -> Vec<Update> {
    let mut out = vec![];
    let mut with = |change: &dyn Fn(&mut Update)| {
        let mut u = update.clone();
        change(&mut u);
        out.push(u);
    };
    if let Some(p) = &update.rdom.predicate {
        with(&|u| u.rdom.predicate = None);
        for e in smaller(p) {
            with(&|u| u.rdom.predicate = Some(e.clone()));
        }
    }
    for (i, r) in update.rdom.vars.iter().enumerate() {
        if r.extent.as_int() != Some(1) {
            with(&|u| u.rdom.vars[i].extent = Expr::from(1));
        }
    }
    for (k, v) in update.values.iter().enumerate() {
        for e in smaller(v) {
            with(&|u| u.values[k] = e.clone());
        }
    }
    for (k, a) in update.args.iter().enumerate() {
        for e in smaller(a) {
            with(&|u| u.args[k] = e.clone());
        }
    }
    out
}

/// The first half of an input in dimension `d`.
pub fn cut(r: &Realization, d: usize) -> Realization {
    let mut extents = r.extents.clone();
    extents[d] /= 2;
    let mut out = Realization::zeros(&r.types, &extents).moved_to(&r.min);
    for (i, at) in out.points().iter().enumerate() {
        for k in 0..r.types.len() {
            out.planes[k][i] = r.get(at, k).unwrap_or(Value::zero(r.types[k]));
        }
    }
    with_halo(&out, &r.halo)
}

/// Tells whether another Func reads this one.
pub fn is_read(p: &Pipeline, name: &str) -> bool {
    p.funcs.values().filter(|g| *g.name != *name).any(|g| {
        let updates = g.updates.iter().flat_map(|u| {
            let bounds = u.rdom.vars.iter().flat_map(|r| [&r.min, &r.extent]);
            u.args.iter().chain(&u.values).chain(&u.rdom.predicate).chain(bounds)
        });
        g.values.iter().chain(updates).any(|e| reads(e, name))
    })
}
