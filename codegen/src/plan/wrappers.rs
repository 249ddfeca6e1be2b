//! Wrappers and clones: Funcs that a schedule puts between a Func or input and some of its consumers.
//!
//! Before: a validated pipeline. After: one Func more per `in_` or `clone_in`, which the named consumers call instead: with
//! loops and storage of its own, such as a copy of a tile of an input. Bounds of reduction variables, which are read outside of
//! the loops that they bound, still call inputs only. Precedes everything that looks at who calls whom.

use crate::analysis::associative::redirect_all;
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Func, Pipeline, Var, calls};
use crate::plan::plans::illegal;
use crate::schedule::{Directive, Schedule, StageId};
use crate::types::ScalarType;

/// `p` with the wrappers that `schedule` asks for, in its order.
pub(crate) fn wrappers(p: &Pipeline, schedule: &Schedule) -> Result<Pipeline, Error> {
    let mut out = p.clone();
    for (id, directives) in &schedule.stages {
        for d in directives {
            match d {
                Directive::In { consumers, wrapper } => {
                    let f = identity(&out, id, d, wrapper)?;
                    insert(&mut out, id, d, consumers, f)?;
                }
                Directive::CloneIn { consumers, clone } => {
                    let Some(f) = out.funcs.get(&id.func) else {
                        return Err(illegal(id, d.to_string(), "there is no such Func"));
                    };
                    let f = mapped(f, clone.clone(), &mut |e| redirect_all(e, &id.func, clone));
                    insert(&mut out, id, d, consumers, f)?;
                }
                d if out.inputs.contains_key(&id.func) => {
                    let rule = "an input has no loops; schedule a wrapper of it (in_)";
                    return Err(illegal(id, d.to_string(), rule));
                }
                _ => {}
            }
        }
    }
    Ok(out)
}

/// `wrapper(v...) = f(v...)`; the dimensions of an input are called `_0`, `_1`, ...
fn identity(p: &Pipeline, id: &StageId, d: &Directive, wrapper: &Name) -> Result<Func, Error> {
    let (vars, types): (Vec<Var>, Vec<ScalarType>) = match (p.funcs.get(&id.func), p.inputs.get(&id.func)) {
        (Some(f), _) => (f.vars.clone(), f.types()),
        (_, Some(i)) => ((0..i.dims).map(|k| Var::new(format!("_{k}"))).collect(), i.types.clone()),
        _ => return Err(illegal(id, d.to_string(), "there is no such Func or input")),
    };
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let value = |(k, ty): (usize, &ScalarType)| Expr::call(id.func.clone(), *ty, at.clone(), k);
    Ok(Func::new(wrapper.clone(), &vars, types.iter().enumerate().map(value).collect()))
}

/// Adds `new`, and lets `consumers` (everything else that calls the Func, if none are named) call it.
fn insert(p: &mut Pipeline, id: &StageId, d: &Directive, consumers: &[Name], new: Func) -> Result<(), Error> {
    let refuse = |rule: String| Err(illegal(id, d.to_string(), rule));
    if id.stage > 0 {
        return refuse("a wrapper is of the Func, not of an update".into());
    }
    if p.funcs.contains_key(&new.name) || p.inputs.contains_key(&new.name) {
        return refuse(format!("the name {} is taken", new.name));
    }
    for c in consumers {
        let Some(f) = p.funcs.get(c).filter(|_| *c != id.func) else {
            return refuse(format!("there is no other Func {c}"));
        };
        if !exprs(f).any(|e| reads(e, &id.func)) {
            return refuse(format!("{c} does not call it"));
        }
    }
    let old = std::mem::take(&mut p.funcs);
    for (name, f) in old {
        let redirected = name != id.func && (consumers.is_empty() || consumers.contains(&name));
        let f = match redirected {
            true => mapped(&f, name.clone(), &mut |e| redirect_all(e, &id.func, &new.name)),
            false => f,
        };
        p.funcs.insert(name, f);
    }
    p.funcs.insert(new.name.clone(), new);
    Ok(())
}

/// A Func of another name with every expression mapped, but for the bounds of reduction variables.
fn mapped(f: &Func, name: Name, map: &mut dyn FnMut(&Expr) -> Expr) -> Func {
    let mut g = Func { name, ..f.clone() };
    g.values.iter_mut().for_each(|e| *e = map(e));
    for u in &mut g.updates {
        u.args.iter_mut().chain(&mut u.values).chain(&mut u.rdom.predicate).for_each(|e| *e = map(e));
    }
    g
}

/// The expressions that [`mapped`] maps.
fn exprs(f: &Func) -> impl Iterator<Item = &Expr> {
    let updates = f.updates.iter().flat_map(|u| u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
    f.values.iter().chain(updates)
}

fn reads(e: &Expr, func: &Name) -> bool {
    calls(e).iter().any(|c| matches!(c.kind(), crate::expr::ExprKind::Call { name, .. } if name == func))
}
