//! What must hold of a pipeline before it can be evaluated.

use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, Update, calls};
use crate::lower::rewrite::nodes;
use rustc_hash::FxHashMap;

/// Checks names, arities and types of all calls, that Funcs do not call each other in a circle, and that updates call
/// their own Func with every pure variable in its place.
pub fn check(p: &Pipeline) -> Result<(), Error> {
    for f in p.funcs.values() {
        for e in expressions(f) {
            if let Some((n, fault)) = nodes([e]).into_iter().find_map(|n| Some((n, n.type_fault()?))) {
                return Err(error(p, format!("{}: {fault}: {n}", f.name)));
            }
            for call in calls(e) {
                check_call(p, f, &call)?;
            }
        }
        check_definitions(p, f)?;
    }
    for o in &p.outputs {
        if !p.funcs.contains_key(&o.func) {
            return Err(error(p, format!("output `{}` is not a Func of the pipeline", o.func)));
        }
    }
    check_acyclic(p)
}

/// An error of this pipeline.
pub fn error(p: &Pipeline, message: String) -> Error {
    Error::Pipeline { pipeline: p.name.clone(), message }
}

/// Every expression of an update.
pub fn update_expressions(u: &Update) -> impl Iterator<Item = &Expr> {
    let bounds = u.rdom.vars.iter().flat_map(|v| [&v.min, &v.extent]);
    u.args.iter().chain(&u.values).chain(&u.rdom.predicate).chain(bounds)
}

/// Every expression of a Func.
fn expressions(f: &Func) -> impl Iterator<Item = &Expr> {
    f.values.iter().chain(f.updates.iter().flat_map(update_expressions))
}

/// Whether update `u` of `f` has the pure variable of dimension `d` in its own place.
pub fn is_pure_in(f: &Func, u: &Update, d: usize) -> bool {
    matches!(u.args[d].kind(), ExprKind::Var(v) if *v == f.vars[d].0)
}

fn check_call(p: &Pipeline, f: &Func, call: &Expr) -> Result<(), Error> {
    let ExprKind::Call { name, args, value } = call.kind() else { return Ok(()) };
    let (dims, types) = match (p.funcs.get(name), p.inputs.get(name)) {
        (Some(g), _) => (g.vars.len(), g.types()),
        (None, Some(i)) => (i.dims, i.types.clone()),
        (None, None) => return Err(error(p, format!("`{}` calls `{name}`, which is not defined", f.name))),
    };
    if args.len() != dims {
        let n = args.len();
        return Err(error(p, format!("`{}` calls `{name}` with {n} coordinates; it has {dims}", f.name)));
    }
    if types.get(*value) != Some(&call.ty().scalar) {
        let ty = call.ty();
        return Err(error(p, format!("`{}` calls value {value} of `{name}` as {ty}; it is not", f.name)));
    }
    Ok(())
}

fn check_definitions(p: &Pipeline, f: &Func) -> Result<(), Error> {
    if f.values.iter().flat_map(calls).any(|c| is_call_of(&c, &f.name)) {
        return Err(error(p, format!("the pure definition of `{}` calls itself: use an update", f.name)));
    }
    for (k, u) in f.updates.iter().enumerate() {
        let stage = format!("`{}.update({k})`", f.name);
        if u.args.len() != f.vars.len() {
            let (n, dims) = (u.args.len(), f.vars.len());
            return Err(error(p, format!("{stage} has {n} coordinates; the Func has {dims}")));
        }
        if !u.values.iter().map(|v| v.ty().scalar).eq(f.types()) {
            return Err(error(p, format!("{stage} has other types than the pure definition")));
        }
        let pure: Vec<usize> = (0..f.vars.len()).filter(|&d| is_pure_in(f, u, d)).collect();
        for call in update_expressions(u).flat_map(calls).filter(|c| is_call_of(c, &f.name)) {
            let ExprKind::Call { args, .. } = call.kind() else { continue };
            if let Some(&d) = pure.iter().find(|&&d| args[d] != u.args[d]) {
                let var = &f.vars[d].0;
                return Err(error(p, format!("{stage} calls its Func without `{var}` in its own place")));
            }
        }
    }
    Ok(())
}

fn is_call_of(call: &Expr, func: &str) -> bool {
    matches!(call.kind(), ExprKind::Call { name, .. } if **name == *func)
}

/// Depth-first search with an explicit stack; an edge to a Func still open closes a circle.
fn check_acyclic(p: &Pipeline) -> Result<(), Error> {
    #[derive(PartialEq, Clone, Copy)]
    enum Mark {
        Open,
        Done,
    }
    let mut marks: FxHashMap<Name, Mark> = FxHashMap::default();
    for root in p.funcs.keys() {
        let mut stack = vec![root.clone()];
        while let Some(name) = stack.last().cloned() {
            match marks.get(&name) {
                Some(Mark::Open) => {
                    marks.insert(name, Mark::Done);
                    stack.pop();
                    continue;
                }
                Some(Mark::Done) => {
                    stack.pop();
                    continue;
                }
                None => {
                    marks.insert(name.clone(), Mark::Open);
                }
            }
            for call in expressions(&p.funcs[&name]).flat_map(calls) {
                let ExprKind::Call { name: callee, .. } = call.kind() else { continue };
                if *callee == name || !p.funcs.contains_key(callee) {
                    continue;
                }
                match marks.get(callee) {
                    Some(Mark::Open) => {
                        return Err(error(p, format!("`{name}` and `{callee}` call each other in a circle")));
                    }
                    Some(Mark::Done) => {}
                    None => stack.push(callee.clone()),
                }
            }
        }
    }
    Ok(())
}
