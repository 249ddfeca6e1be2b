//! Checks that a pipeline makes sense at all, so that every later pass, and the reference evaluator, may assume it.
//!
//! After it: every called name exists, with the right arity, value index and type; every variable is declared; the
//! pure variables of an update definition stand in their own place in every access to its Func; names are unique.

use crate::error::Error;
use crate::expr::walk::nodes;
use crate::expr::{Expr, ExprKind, Name, Param, Part};
use crate::func::{Constraint, Func, Layout, Pipeline, Update};
use crate::types::{ScalarType, Type};
use rustc_hash::FxHashSet;

/// Checks `p`.
pub fn validate(p: &Pipeline) -> Result<(), Error> {
    if let Some(fault) = p.faults.first() {
        return Err(error(p, fault.clone()));
    }
    for (name, f) in &p.funcs {
        if *name != f.name || p.inputs.contains_key(name) {
            return Err(error(p, format!("the name {name} is used twice")));
        }
        check_func(p, f)?;
    }
    check_names(p)?;
    let mut seen = FxHashSet::default();
    for o in &p.outputs {
        let Some(f) = p.funcs.get(&o.func) else {
            return Err(error(p, format!("output {} is not a Func of the pipeline", o.func)));
        };
        if !seen.insert(o.func.clone()) {
            return Err(error(p, format!("{} is an output twice", o.func)));
        }
        if o.halo.len() != f.vars.len() {
            return Err(error(
                p,
                format!("output {} needs one halo per dimension ({})", o.func, f.vars.len()),
            ));
        }
    }
    for i in p.inputs.values() {
        if i.types.is_empty() {
            return Err(error(p, format!("{} has no value", i.name)));
        }
        if i.layout == Layout::Strided && i.halo.iter().any(|&h| h > 0) {
            return Err(error(p, format!("input {} is strided and has a halo", i.name)));
        }
        if i.halo.len() != i.dims {
            return Err(error(p, format!("input {} needs one halo per dimension ({})", i.name, i.dims)));
        }
    }
    for (name, dims, layout, constraints) in buffers(p) {
        let wanted = if layout == Layout::Strided { dims } else { 0 };
        if constraints.len() != wanted {
            return Err(error(p, format!("{name} needs {wanted} constraints, it has {}", constraints.len())));
        }
        for c in constraints {
            let parts = [(&c.min, Type::I32), (&c.extent, Type::I32), (&c.stride, Type::I64)];
            for (e, ty) in parts.into_iter().filter_map(|(e, ty)| Some((e.as_ref()?, ty))) {
                check_exprs(p, &format!("a constraint of {name}"), [e], &FxHashSet::default())?;
                if e.ty() != ty || nodes([e]).iter().any(|n| matches!(n.kind(), ExprKind::Call { .. })) {
                    return Err(error(
                        p,
                        format!("a constraint of {name} is no {ty} known before the run: {e}"),
                    ));
                }
            }
        }
    }
    if p.outputs.is_empty() {
        return Err(error(p, "there is no output".into()));
    }
    Ok(())
}

/// Name, dimensions, layout and constraints of all buffers.
fn buffers(p: &Pipeline) -> impl Iterator<Item = (&Name, usize, Layout, &[Constraint])> {
    let inputs = p.inputs.values().map(|i| (&i.name, i.dims, i.layout, &i.constraints[..]));
    let outputs =
        p.outputs.iter().map(|o| (&o.func, p.funcs[&o.func].vars.len(), o.layout, &o.constraints[..]));
    inputs.chain(outputs)
}

/// No name starts with that of a Func or input and a dot: those stand for parts of it, such as `f.out` or `f.extent.0`. No parameter
/// reads as a part of a buffer.
pub fn check_names(p: &Pipeline) -> Result<(), Error> {
    for name in p.funcs.keys().chain(p.inputs.keys()).chain(p.params.keys()) {
        if let Some(whole) = part_of(p, name) {
            return Err(error(p, format!("the name {name} is one of those for parts of {whole}")));
        }
    }
    match p.params.keys().find(|name| Param::parse(name).name().is_none()) {
        Some(name) => Err(error(p, format!("the name {name} is one of those for parts of buffers"))),
        None => Ok(()),
    }
}

/// The Func or input of which `name` could be a part.
pub fn part_of<'n>(p: &Pipeline, name: &'n str) -> Option<&'n str> {
    let wholes = name.match_indices('.').map(|(i, _)| &name[..i]);
    wholes.into_iter().find(|w| p.funcs.contains_key(*w) || p.inputs.contains_key(*w))
}

/// An error about the algorithm of `p`.
pub fn error(p: &Pipeline, message: String) -> Error {
    Error::Pipeline { pipeline: p.name.clone(), message }
}

fn check_func(p: &Pipeline, f: &Func) -> Result<(), Error> {
    let vars: FxHashSet<Name> = f.vars.iter().map(|v| v.name().clone()).collect();
    if vars.len() != f.vars.len() {
        return Err(error(p, format!("{} has two dimensions of one name", f.name)));
    }
    if f.values.is_empty() {
        return Err(error(p, format!("{} has no value", f.name)));
    }
    check_exprs(p, &f.name, &f.values, &vars)?;
    if nodes(&f.values).iter().any(|e| matches!(e.kind(), ExprKind::Call { name, .. } if *name == f.name)) {
        return Err(error(
            p,
            format!("the pure definition of {} calls itself: use an update definition", f.name),
        ));
    }
    for (k, u) in f.updates.iter().enumerate() {
        check_update(p, f, k, u, &vars)?;
    }
    Ok(())
}

fn check_update(p: &Pipeline, f: &Func, k: usize, u: &Update, vars: &FxHashSet<Name>) -> Result<(), Error> {
    let at = format!("{}.update({k})", f.name);
    if u.args.len() != f.vars.len() || u.values.len() != f.values.len() {
        return Err(error(p, format!("{at} has other dimensions or tuple elements than {}", f.name)));
    }
    for (v, old) in u.values.iter().zip(&f.values) {
        if v.ty() != old.ty() {
            return Err(error(p, format!("{at} stores {} into {}", v.ty(), old.ty())));
        }
    }
    let mut scope = FxHashSet::default();
    for (i, a) in u.args.iter().enumerate() {
        if is_var(a, f.vars[i].name()) {
            scope.insert(f.vars[i].name().clone());
        }
    }
    // Bounds of a reduction variable may use the pure variables, but not other reduction variables.
    for r in &u.rdom.vars {
        check_exprs(p, &at, [&r.min, &r.extent], &scope)?;
        if [&r.min, &r.extent].iter().any(|e| e.ty() != Type::I32) {
            return Err(error(p, format!("{at}: the bounds of {} are no i32", r.name)));
        }
        for e in [&r.min, &r.extent] {
            let func =
                |e: &&&Expr| matches!(e.kind(), ExprKind::Call { name, .. } if p.funcs.contains_key(name));
            if nodes([e]).iter().any(|n| func(&n)) {
                return Err(error(p, format!("{at}: the bounds of {} may call inputs only", r.name)));
            }
        }
        if vars.contains(&r.name) {
            return Err(error(p, format!("{at}: {} is a pure and a reduction variable", r.name)));
        }
    }
    let reduction: FxHashSet<Name> = u.rdom.vars.iter().map(|r| r.name.clone()).collect();
    if reduction.len() != u.rdom.vars.len() {
        return Err(error(p, format!("{at} has two reduction variables of one name")));
    }
    let pure = scope.clone();
    scope.extend(reduction);
    if let Some(e) = u.rdom.predicate.as_ref().filter(|e| e.ty() != Type::BOOL) {
        return Err(error(p, format!("{at}: the predicate is {}, not bool: {e}", e.ty())));
    }
    if u.args.iter().any(|a| a.ty() != Type::I32) {
        return Err(error(p, format!("{at}: a coordinate of {} is not an i32", f.name)));
    }
    check_exprs(p, &at, u.args.iter().chain(&u.values).chain(&u.rdom.predicate), &scope)?;
    check_self_reads(p, f, &at, u, &pure)
}

/// Every pure variable stands alone in its own place, on the left-hand side and in every self read: distinct values of it are then
/// independent, whatever the other coordinates make of it.
fn check_self_reads(
    p: &Pipeline,
    f: &Func,
    at: &str,
    u: &Update,
    pure: &FxHashSet<Name>,
) -> Result<(), Error> {
    let misplaced = |args: &[Expr]| {
        let places = f.vars.iter().zip(args).filter(|(v, _)| pure.contains(v.name()));
        places.filter(|(v, a)| !is_var(a, v.name())).map(|(v, _)| v.name().clone()).next()
    };
    let mut all: Vec<&[Expr]> = vec![&u.args];
    for e in nodes(u.args.iter().chain(&u.values).chain(&u.rdom.predicate)) {
        if let ExprKind::Call { name, args, .. } = e.kind()
            && *name == f.name
        {
            all.push(args);
        }
    }
    match all.into_iter().find_map(misplaced) {
        None => Ok(()),
        Some(v) => Err(error(
            p,
            format!(
                "{at}: pure variable {v} must stand in its own place in every access to {}; use an RDom",
                f.name
            ),
        )),
    }
}

/// Is `e` just the variable `v`?
pub fn is_var(e: &Expr, v: &Name) -> bool {
    matches!(e.kind(), ExprKind::Var(n) if n == v)
}

/// Checks types, names and arities of everything in `exprs`, whose variables are `vars`; `at` says where they stand.
pub fn check_exprs<'a>(
    p: &Pipeline,
    at: &str,
    exprs: impl IntoIterator<Item = &'a Expr>,
    vars: &FxHashSet<Name>,
) -> Result<(), Error> {
    for e in nodes(exprs) {
        if let Some(fault) = e.type_fault() {
            return Err(error(p, format!("{at}: {fault}: {e}")));
        }
        match e.kind() {
            ExprKind::Var(v) if !vars.contains(v) => {
                return Err(error(p, format!("{at}: variable {v} is not one of its own")));
            }
            ExprKind::Param(n) => check_param(p, at, n, e.ty())?,
            ExprKind::Call { name, args, value } => check_call(p, at, e, name, args, *value)?,
            ExprKind::Load { .. }
            | ExprKind::Ramp(..)
            | ExprKind::Broadcast(_)
            | ExprKind::VectorReduce(..)
            | ExprKind::Interleave(_)
            | ExprKind::Concat(_) => {
                return Err(error(p, format!("{at}: vector nodes and loads do not belong in a definition")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_param(p: &Pipeline, at: &str, param: &Param, ty: Type) -> Result<(), Error> {
    match declared_param(p, param) {
        Some(declared) if declared == ty => Ok(()),
        Some(declared) if param.name().is_some() => {
            Err(error(p, format!("{at}: parameter {param} is {declared}, not {ty}")))
        }
        _ => Err(error(p, format!("{at}: parameter {param}: {ty} is not declared"))),
    }
}

/// The type of a parameter that `p` declares, or of a part of one of its buffers that definitions may read.
pub fn declared_param(p: &Pipeline, param: &Param) -> Option<Type> {
    let (buffer, part) = match param {
        Param::Named(name) => return p.params.get(name).map(|ty| Type::of(*ty)),
        Param::Of(buffer, part) => (buffer, part),
    };
    let strided = p.shape(buffer).layout == Layout::Strided;
    let readable = match part {
        Part::Extent(_) => true,
        Part::Min(_) | Part::Step(_) => strided,
        Part::Stride(_) | Part::Phase => false,
    };
    let dims = match p.inputs.get(buffer) {
        Some(i) => i.dims,
        None => p.outputs.iter().find(|o| o.func == *buffer).and_then(|o| p.funcs.get(&o.func))?.vars.len(),
    };
    (readable && part.dimension() < dims).then_some(part.ty())
}

/// The types of the values of a Func or input.
pub fn declared_values(p: &Pipeline, name: &str) -> Option<Vec<ScalarType>> {
    match (p.funcs.get(name), p.inputs.get(name)) {
        (Some(f), _) => Some(f.types()),
        (None, i) => i.map(|i| i.types.clone()),
    }
}

fn check_call(
    p: &Pipeline,
    at: &str,
    e: &Expr,
    name: &Name,
    args: &[Expr],
    value: usize,
) -> Result<(), Error> {
    let (dims, types): (usize, Vec<ScalarType>) = match (p.funcs.get(name), p.inputs.get(name)) {
        (Some(f), _) => (f.vars.len(), f.types()),
        (_, Some(i)) => (i.dims, i.types.clone()),
        _ => return Err(error(p, format!("{at} calls {name}, which is neither a Func nor an input"))),
    };
    if args.len() != dims {
        return Err(error(p, format!("{at} calls {name} with {} coordinates, it has {dims}", args.len())));
    }
    if types.get(value) != Some(&e.ty().scalar) {
        return Err(error(p, format!("{at} reads {name} element {value} as {}, it has {types:?}", e.ty())));
    }
    if args.iter().any(|a| a.ty() != Type::I32) {
        return Err(error(p, format!("{at}: a coordinate of {name} is not an i32")));
    }
    Ok(())
}
