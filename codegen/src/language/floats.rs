//! The same algorithm in other floats: a float32 pipeline in float64, say, to have its values to more digits.

use crate::expr::walk::{Memo, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RDom, RVar, Update};
use crate::types::ScalarType;

/// `p` with all floats of type `to`. Inputs and float parameters keep their types and are converted where they are read, but for those in
/// `retyped`, which are of type `to` as well. Bits that are reinterpreted keep their width: a float is rounded to its old type for it.
pub fn in_floats(p: &Pipeline, to: ScalarType, retyped: &[&str]) -> Pipeline {
    let mut of = Retyping { p, to, retyped, memo: Memo::default() };
    let funcs = p.funcs.iter().map(|(name, f)| (name.clone(), of.func(f))).collect();
    let mut new = Pipeline { funcs, ..p.clone() };
    for (_, input) in new.inputs.iter_mut().filter(|(name, _)| retyped.contains(&&***name)) {
        input.types.iter_mut().filter(|t| t.is_float()).for_each(|t| *t = to);
    }
    for (_, ty) in new.params.iter_mut().filter(|(name, ty)| ty.is_float() && retyped.contains(&&***name)) {
        *ty = to;
    }
    new
}

struct Retyping<'p> {
    p: &'p Pipeline,
    to: ScalarType,
    retyped: &'p [&'p str],
    memo: Memo,
}

impl Retyping<'_> {
    fn func(&mut self, f: &Func) -> Func {
        let list = |of: &mut Self, all: &[Expr]| all.iter().map(|e| of.expr(e)).collect();
        let values = list(self, &f.values);
        let updates = f.updates.iter().map(|u| {
            let range = |r: &RVar| RVar {
                name: r.name.clone(),
                min: self.expr(&r.min),
                extent: self.expr(&r.extent),
            };
            let vars = u.rdom.vars.iter().map(range).collect();
            let predicate = u.rdom.predicate.as_ref().map(|e| self.expr(e));
            let rdom = RDom { vars, predicate };
            Update { args: list(self, &u.args), values: list(self, &u.values), rdom }
        });
        Func { name: f.name.clone(), vars: f.vars.clone(), updates: updates.collect(), values }
    }

    fn expr(&mut self, e: &Expr) -> Expr {
        let Retyping { p, to, retyped, memo } = self;
        rewrite(e, memo, &mut |old, new| node(p, *to, retyped, old, new))
    }
}

/// The replacement of node `old`, whose operands in `new` are replaced already.
fn node(p: &Pipeline, to: ScalarType, retyped: &[&str], old: &Expr, new: Expr) -> Expr {
    let was = old.ty().scalar;
    if !was.is_float() {
        return match (old.kind(), new.kind()) {
            (ExprKind::Reinterpret(a), ExprKind::Reinterpret(b)) => b.cast(a.ty().scalar).reinterpret(was),
            _ => new,
        };
    }
    let read = |name: &Name, as_it_is: Expr, in_new: &dyn Fn() -> Expr| {
        if p.funcs.contains_key(name) || retyped.contains(&&**name) { in_new() } else { as_it_is.cast(to) }
    };
    match new.operation() {
        _ if new.is_strict() => node(p, to, retyped, old, new.unmarked()).marked(),
        ExprKind::Float(v) => Expr::float(to, *v),
        ExprKind::Cast(a) => a.cast(to),
        ExprKind::Reinterpret(_) => new.cast(to),
        ExprKind::Param(param) => match param.name() {
            Some(name) => read(name, new.clone(), &|| Expr::param(name.clone(), to)),
            None => new.cast(to),
        },
        ExprKind::Call { name, args, value } => {
            read(name, new.clone(), &|| Expr::call(name.clone(), to, args.clone(), *value))
        }
        ExprKind::Unary(op, a) => a.unary(*op),
        ExprKind::Binary(op, a, b) => Expr::binary(*op, a, b),
        ExprKind::Fma(a, b, c) => Expr::fma(a, b, c),
        ExprKind::Select(c, a, b) => Expr::select(c, a, b),
        _ => new,
    }
}
