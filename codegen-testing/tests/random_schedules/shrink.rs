//! Makes a failing case smaller: fewer directives, fewer outputs and Funcs, simpler definitions, smaller sizes.

use crate::run::{Outcome, run};
use std::fmt::Write;
use sumsq_codegen::Expr;
use sumsq_codegen_testing::random::program::Case;
use sumsq_codegen_testing::random::program::buffers::layout_text;
use sumsq_codegen_testing::random::simpler::{cut, is_read, simpler};
use sumsq_codegen_testing::reference::Value;

/// Runs before the search gives up: every one compiles.
const MOST_RUNS: usize = 1500;

/// The smallest failing case found, and how it fails.
pub fn shrink(case: &Case) -> (Case, String) {
    let mut smallest = case.clone();
    let mut message = failure(case).unwrap_or_default();
    let mut runs = 0;
    loop {
        let mut tried = candidates(&smallest).into_iter().take_while(|_| {
            runs += 1;
            runs < MOST_RUNS
        });
        match tried.find_map(|c| failure(&c).map(|m| (c, m))) {
            Some((c, m)) => (smallest, message) = (c, m),
            None => return (smallest, message),
        }
    }
}

fn failure(case: &Case) -> Option<String> {
    match run(case, &mut None) {
        // Without an output, what names its size is wrong in another way.
        Outcome::Wrong(message) if message.contains("has no value") => None,
        Outcome::Wrong(message) => Some(message),
        Outcome::Same | Outcome::Refused(_) | Outcome::RefusedByRun(..) | Outcome::TooLarge => None,
    }
}

/// Cases that are smaller by one step, the larger steps first.
fn candidates(case: &Case) -> Vec<Case> {
    let mut out = vec![];
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut c = case.clone();
        change(&mut c);
        out.push(c);
    };
    for stage in case.schedule.stages.keys() {
        with(&|c| drop(c.schedule.stages.shift_remove(stage)));
    }
    for i in 0..case.pipeline.outputs.len() {
        if case.pipeline.outputs.len() > 1 {
            with(&|c| {
                c.pipeline.outputs.remove(i);
                c.domains.remove(i);
            });
        }
    }
    for (name, f) in &case.pipeline.funcs {
        if !is_needed(case, name) {
            with(&|c| {
                c.pipeline.funcs.shift_remove(name);
                c.schedule.stages.retain(|s, _| s.func != *name);
            });
        }
        for simpler in simpler(f) {
            with(&|c| {
                c.free_sums.remove(name);
                c.pipeline.funcs[name] = simpler.clone();
            });
        }
    }
    for (stage, directives) in &case.schedule.stages {
        for i in 0..directives.len() {
            with(&|c| drop(c.schedule.stages[stage].remove(i)));
        }
    }
    // An output in the place of an input has its size.
    let output = |i: usize| &case.pipeline.outputs[i].func;
    for (i, domain) in
        case.domains.iter().enumerate().filter(|(i, _)| !case.in_place.contains_key(output(*i)))
    {
        for (d, &(min, extent)) in domain.iter().enumerate() {
            if min != 0 {
                with(&|c| c.domains[i][d].0 = 0);
            }
            for smaller in [extent / 2, extent.saturating_sub(1)] {
                if (1..extent).contains(&smaller) {
                    with(&|c| c.domains[i][d].1 = smaller);
                }
            }
        }
    }
    let replaced = |input: &str| case.in_place.values().any(|i| **i == *input);
    for (name, r) in case.bindings.inputs.iter().filter(|(name, _)| !replaced(name)) {
        for d in 0..r.extents.len() {
            if r.min[d] != 0 {
                with(&|c| c.bindings.inputs[name].min[d] = 0);
            }
            if r.extents[d] > 1 {
                with(&|c| c.bindings.inputs[name] = cut(r, d));
            }
        }
    }
    for (name, v) in &case.bindings.params {
        // A factor is at least 1.
        let least =
            if name.starts_with("factor") { Value::Int(1) } else { Value::zero(case.pipeline.params[name]) };
        if !v.same(least) {
            with(&|c| c.bindings.params[name] = least);
        }
    }
    out
}

/// Tells whether a Func is an output or is called.
fn is_needed(case: &Case, name: &str) -> bool {
    case.pipeline.outputs.iter().any(|o| *o.func == *name) || is_read(&case.pipeline, name)
}

/// A case as text.
pub fn text(case: &Case) -> String {
    let mut s = String::new();
    for (name, i) in &case.pipeline.inputs {
        let r = &case.bindings.inputs[name];
        let types: Vec<&str> = i.types.iter().map(|t| t.name()).collect();
        let (types, kind) = (types.join(", "), layout_text(i.layout));
        let _ =
            writeln!(s, "input {name}: {types}{kind} {:?} from {:?}, halo {:?}", r.extents, r.min, r.halo);
        for plane in r.planes.iter().filter(|p| p.len() <= 64) {
            let values: Vec<String> = plane.iter().map(Value::to_string).collect();
            let _ = writeln!(s, "  = {}", values.join(" "));
        }
    }
    for (name, v) in &case.bindings.params {
        let _ = writeln!(s, "param {name}: {} = {v}", case.pipeline.params[name].name());
    }
    for f in case.pipeline.funcs.values() {
        let vars: Vec<_> = f.vars.iter().map(|v| &**v.name()).collect();
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
    for (o, domain) in case.pipeline.outputs.iter().zip(&case.domains) {
        let _ = writeln!(s, "output {}{} over {domain:?}", o.func, layout_text(o.layout));
    }
    format!("{s}schedule:\n{}", case.schedule)
}

fn list(es: &[Expr]) -> String {
    es.iter().map(|e| format!("{} : {}", e, e.ty())).collect::<Vec<_>>().join(", ")
}
