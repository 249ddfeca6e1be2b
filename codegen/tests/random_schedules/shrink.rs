//! Makes a failing case smaller: fewer directives, then fewer outputs and simpler Funcs, then smaller sizes.

use crate::program::Case;
use crate::run::{Outcome, run};
use crate::schedules::reads;
use std::fmt::Write;
use sumsq_codegen::{Expr, Func};

/// The smallest failing case found, and how it fails.
pub fn shrink(case: &Case) -> (Case, String) {
    let mut smallest = case.clone();
    let mut message = failure(case).unwrap_or_default();
    loop {
        let smaller = candidates(&smallest).into_iter().find_map(|c| failure(&c).map(|m| (c, m)));
        match smaller {
            Some((c, m)) => (smallest, message) = (c, m),
            None => return (smallest, message),
        }
    }
}

fn failure(case: &Case) -> Option<String> {
    match run(case) {
        Outcome::Wrong(message) => Some(message),
        Outcome::Same | Outcome::Refused(_) => None,
    }
}

/// Cases that are smaller by one step.
fn candidates(case: &Case) -> Vec<Case> {
    let mut out = vec![];
    for (stage, directives) in &case.schedule.stages {
        for i in 0..directives.len() {
            let mut c = case.clone();
            c.schedule.stages[stage].remove(i);
            out.push(c);
        }
    }
    for i in 0..case.pipeline.outputs.len() {
        if case.pipeline.outputs.len() > 1 {
            let mut c = case.clone();
            c.pipeline.outputs.remove(i);
            c.extents.remove(i);
            out.push(c);
        }
    }
    for (name, f) in &case.pipeline.funcs {
        if !is_needed(case, name) {
            let mut c = case.clone();
            c.pipeline.funcs.shift_remove(name);
            c.schedule.stages.retain(|s, _| s.func != *name);
            out.push(c);
        }
        out.extend(simpler(f).into_iter().map(|f| {
            let mut c = case.clone();
            c.free_sums.remove(name);
            c.pipeline.funcs[name] = f;
            c
        }));
    }
    for (i, extents) in case.extents.iter().enumerate() {
        for (d, _) in extents.iter().enumerate().filter(|(_, extent)| **extent > 1) {
            let mut c = case.clone();
            c.extents[i][d] -= 1;
            out.push(c);
        }
    }
    out
}

/// Whether a Func is an output or is called.
fn is_needed(case: &Case, name: &str) -> bool {
    case.pipeline.outputs.iter().any(|o| *o.func == *name)
        || case.pipeline.funcs.values().filter(|g| *g.name != *name).any(|g| {
            let updates =
                g.updates.iter().flat_map(|u| u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
            g.values.iter().chain(updates).any(|e| reads(e, name))
        })
}

/// The Func without its last update, or with a value replaced by one of its operands or a constant.
fn simpler(f: &Func) -> Vec<Func> {
    let mut out = vec![];
    if !f.updates.is_empty() {
        let mut g = f.clone();
        g.updates.pop();
        out.push(g);
    }
    for (k, v) in f.values.iter().enumerate() {
        for e in smaller_values(v) {
            let mut g = f.clone();
            g.values[k] = e;
            out.push(g);
        }
    }
    for (u, update) in f.updates.iter().enumerate() {
        for (k, v) in update.values.iter().enumerate() {
            for e in smaller_values(v) {
                let mut g = f.clone();
                g.updates[u].values[k] = e;
                out.push(g);
            }
        }
    }
    out
}

fn smaller_values(v: &Expr) -> Vec<Expr> {
    if v.as_int().is_some() || v.as_float().is_some() {
        return vec![];
    }
    let mut out = vec![Expr::constant(v.ty(), 1.0)];
    v.for_each_child(|c| {
        if c.ty() == v.ty() && !matches!(v.kind(), sumsq_codegen::ExprKind::Call { .. }) {
            out.push(c.clone());
        }
    });
    out
}

/// A case as text.
pub fn text(case: &Case) -> String {
    let mut s = String::new();
    for (name, i) in &case.pipeline.inputs {
        let _ = writeln!(s, "input {name}: {} {:?}", i.types[0].name(), case.bindings.inputs[name].extents);
    }
    for f in case.pipeline.funcs.values() {
        let vars: Vec<_> = f.vars.iter().map(|v| &*v.0).collect();
        let _ = writeln!(s, "{}({}) = {}", f.name, vars.join(", "), list(&f.values));
        for u in &f.updates {
            let _ = write!(s, "{}({}) = {}", f.name, list(&u.args), list(&u.values));
            for r in &u.rdom.vars {
                let _ = write!(s, " for {} in {} + [0, {})", r.name, r.min, r.extent);
            }
            if let Some(p) = &u.rdom.predicate {
                let _ = write!(s, " where {p}");
            }
            let _ = writeln!(s);
        }
    }
    for (o, e) in case.pipeline.outputs.iter().zip(&case.extents) {
        let _ = writeln!(s, "output {} {e:?}", o.func);
    }
    format!("{s}schedule:\n{}", case.schedule)
}

fn list(es: &[Expr]) -> String {
    es.iter().map(|e| format!("{} : {}", e, e.ty())).collect::<Vec<_>>().join(", ")
}
