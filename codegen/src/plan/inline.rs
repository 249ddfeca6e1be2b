//! Substitutes inlined Funcs.

use crate::expr::walk::{Memo, Substitution, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline};
use rustc_hash::FxHashMap;

/// Replaces every call of a Func in `inlined` by its definition. `order` is the realization order, so that each
/// definition substituted is already free of calls of inlined Funcs. The Funcs themselves disappear.
///
/// Before: no Func in `inlined` has updates or is an output. After: nothing calls them.
pub(crate) fn inline(p: &Pipeline, order: &[Name], inlined: &dyn Fn(&Name) -> bool) -> Pipeline {
    let mut out = Pipeline { funcs: Default::default(), ..p.clone() };
    let mut bodies: FxHashMap<Name, Func> = FxHashMap::default();
    for name in order {
        let mut f = p.funcs[name].clone();
        let mut calls = Inliner { bodies: &bodies, memo: Memo::default(), sites: FxHashMap::default() };
        f.values.iter_mut().for_each(|e| *e = calls.apply(e));
        for u in &mut f.updates {
            u.args.iter_mut().chain(&mut u.values).for_each(|e| *e = calls.apply(e));
            u.rdom.predicate.iter_mut().for_each(|e| *e = calls.apply(e));
            for r in &mut u.rdom.vars {
                (r.min, r.extent) = (calls.apply(&r.min), calls.apply(&r.extent));
            }
        }
        if inlined(name) {
            bodies.insert(name.clone(), f);
        } else {
            out.funcs.insert(name.clone(), f);
        }
    }
    out
}

/// Substitution of calls in one Func's definitions. All elements of a tuple called at the same place share one
/// substitution, so that what they share stays shared.
struct Inliner<'a> {
    bodies: &'a FxHashMap<Name, Func>,
    memo: Memo,
    sites: FxHashMap<(Name, Vec<Expr>), Vec<Expr>>,
}

impl Inliner<'_> {
    fn apply(&mut self, e: &Expr) -> Expr {
        let (bodies, sites) = (self.bodies, &mut self.sites);
        rewrite(e, &mut self.memo, &mut |_, n| {
            let ExprKind::Call { name, args, value } = n.kind() else { return n };
            let Some(f) = bodies.get(name) else { return n };
            let values = sites.entry((name.clone(), args.clone())).or_insert_with(|| {
                let map = f.vars.iter().map(|v| v.name().clone()).zip(args.iter().cloned()).collect();
                let mut s = Substitution::new(&map);
                f.values.iter().map(|v| s.apply(v)).collect()
            });
            values[*value].clone()
        })
    }
}
