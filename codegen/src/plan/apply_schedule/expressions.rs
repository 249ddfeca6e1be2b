//! Expressions in directives: they take the types that the pipeline declares, and make sense by the rules of those in definitions.

use crate::error::Error;
use crate::expr::walk::{Memo, nodes, rewrite, variables};
use crate::expr::{Expr, ExprKind, Name, Param};
use crate::func::Pipeline;
use crate::plan::plans::{FuncPlan, Stage, illegal};
use crate::plan::validate::{check_exprs, declared_param, declared_values};
use crate::schedule::Directive;
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// Does `e` neither read memory nor use variables?
pub(super) fn of_parameters(e: &Expr) -> bool {
    !nodes([e]).iter().any(|e| matches!(e.kind(), ExprKind::Var(_) | ExprKind::Call { .. }))
}

/// `d` with the names in its condition told apart, if it is a `skip_unless`, which may hold variables and parameters: text
/// does not say which is which. What is no variable of the stage but a declared parameter is that, and the other way round.
pub(crate) fn named<'d>(p: &Pipeline, plan: &FuncPlan, s: &Stage, d: &'d Directive) -> Cow<'d, Directive> {
    let Directive::SkipUnless { var, cond } = d else { return Cow::Borrowed(d) };
    let scope = stage_variables(plan, s);
    let cond = rewrite(cond, &mut Memo::default(), &mut |_, e| match e.kind() {
        ExprKind::Var(n) if !scope.contains(n) && p.params.contains_key(n) => {
            Expr::param(n.clone(), e.ty().scalar)
        }
        ExprKind::Param(Param::Named(n)) if scope.contains(n) && !p.params.contains_key(n) => {
            Expr::var(n.clone())
        }
        _ => e,
    });
    Cow::Owned(Directive::SkipUnless { var: var.clone(), cond })
}

/// The directive with parameters and calls of the types that `p` declares, which schedule text does not say, and numbers of the
/// types of what they are combined with.
pub(crate) fn typed(p: &Pipeline, d: &Directive) -> Directive {
    let mut memo = Memo::default();
    let mut of = |e: &Expr| rewrite(e, &mut memo, &mut |_, new| retyped(p, new));
    let mut d = d.clone();
    match &mut d {
        Directive::Split { factor: e, .. } | Directive::NonTemporal(e) => *e = of(e),
        Directive::Specialize { cond: e, .. } | Directive::SkipUnless { cond: e, .. } => *e = of(e),
        Directive::Bound { min, extent, .. } => {
            *extent = of(extent);
            *min = min.as_ref().map(of);
        }
        _ => {}
    }
    d
}

/// A node whose operands are typed.
fn retyped(p: &Pipeline, new: Expr) -> Expr {
    use ExprKind::*;
    match new.kind() {
        ExprKind::Param(n) => declared_param(p, n).map_or(new.clone(), |ty| Expr::param(n.clone(), ty)),
        Call { name, args, value } => {
            let ty = declared_values(p, name).and_then(|types| types.get(*value).copied());
            ty.map_or(new.clone(), |ty| Expr::call(name.clone(), ty, args.clone(), *value))
        }
        Cast(a) => a.cast(new.ty().scalar),
        _ if new.type_fault().is_none() => new,
        Strict(_) => retyped(p, new.unmarked()).marked(),
        Unary(op, a) => a.unary(*op),
        Likely(a) => a.likely(),
        Reinterpret(a) => a.reinterpret(new.ty().scalar),
        _ => new.with_numbers_agreed(),
    }
}

/// Checks the expressions of `d`, a directive of stage `s`: types, and that what they name is declared. Where no variables are
/// allowed at all, the directive itself says so.
pub(crate) fn check(p: &Pipeline, plan: &FuncPlan, s: &Stage, d: &Directive) -> Result<(), Error> {
    let (exprs, condition): (Vec<&Expr>, bool) = match d {
        Directive::Split { factor, .. } => (vec![factor], false),
        Directive::Bound { min, extent, .. } => (min.iter().chain([extent]).collect(), false),
        Directive::Specialize { cond, .. } | Directive::SkipUnless { cond, .. } => (vec![cond], true),
        Directive::NonTemporal(when) => (vec![when], true),
        _ => return Ok(()),
    };
    let fail = |rule: String| Err(illegal(&s.id, d.to_string(), rule));
    let scope = match d {
        Directive::SkipUnless { .. } => stage_variables(plan, s),
        _ => exprs.iter().flat_map(|e| variables(e)).collect(),
    };
    match check_exprs(p, "the expression", exprs.iter().copied(), &scope) {
        Err(Error::Pipeline { message, .. }) => return fail(message),
        outcome => outcome?,
    }
    match exprs.iter().find(|e| condition && e.ty().scalar.is_float()) {
        Some(e) => fail(format!("the condition is {}, neither bool nor an integer", e.ty())),
        None => Ok(()),
    }
}

/// Variables of the definition, loops, and what was one before a directive replaced it.
fn stage_variables(plan: &FuncPlan, s: &Stage) -> FxHashSet<Name> {
    let vars = plan.func.vars.iter().map(|v| v.name()).chain(s.rvars.iter().map(|r| &r.name));
    let changed = s.changes.iter().flat_map(|c| c.before().into_iter().chain(c.after()));
    vars.chain(changed).chain(s.dims.iter().map(|d| &d.name)).cloned().collect()
}
