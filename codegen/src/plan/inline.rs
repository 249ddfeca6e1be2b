//! Substitutes inlined Funcs.

use crate::error::Error;
use crate::expr::walk::{Memo, Substitution, nodes, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline};
use crate::plan::plans::illegal;
use crate::schedule::StageId;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Replaces every call of a Func in `inlined` by its definition. `order` is the realization order, so that each
/// definition substituted is already free of calls of inlined Funcs. The Funcs themselves disappear.
///
/// Before: no Func in `inlined` has updates or is an output. After: nothing calls them.
///
/// # Errors
/// Definitions that grow beyond all bounds: stencils of stencils do, where each value of all in between is computed for itself.
pub(crate) fn inline(
    p: &Pipeline,
    order: &[Name],
    inlined: &dyn Fn(&Name) -> bool,
) -> Result<Pipeline, Error> {
    let mut spent = 0;
    let mut out = Pipeline { funcs: Default::default(), ..p.clone() };
    let mut bodies: FxHashMap<Name, (Func, usize)> = FxHashMap::default();
    for name in order {
        let mut f = p.funcs[name].clone();
        let (memo, sites) = (Memo::default(), FxHashMap::default());
        let mut calls = Inliner { bodies: &bodies, memo, sites, spent: &mut spent, refused: None };
        f.values.iter_mut().for_each(|e| *e = calls.apply(e));
        for u in &mut f.updates {
            u.args.iter_mut().chain(&mut u.values).for_each(|e| *e = calls.apply(e));
            u.rdom.predicate.iter_mut().for_each(|e| *e = calls.apply(e));
            for r in &mut u.rdom.vars {
                (r.min, r.extent) = (calls.apply(&r.min), calls.apply(&r.extent));
            }
        }
        if let Some(refused) = calls.refused {
            let rule = format!(
                "more than {MOST_NODES} expressions would take the places of its calls; say compute_root, or compute_at of a loop"
            );
            return Err(illegal(&StageId { func: refused, stage: 0 }, "inline", rule));
        }
        if inlined(name) {
            let size = nodes(&f.values).len();
            bodies.insert(name.clone(), (f, size));
        } else {
            out.funcs.insert(name.clone(), f);
        }
    }
    Ok(out)
}

/// Most nodes of all definitions that take the place of calls.
const MOST_NODES: usize = 1 << 19;

/// Substitution of calls in one Func's definitions. All elements of a tuple called at the same place share one
/// substitution, so that what they share stays shared.
struct Inliner<'a> {
    /// With the number of nodes of their values.
    bodies: &'a FxHashMap<Name, (Func, usize)>,
    memo: Memo,
    sites: FxHashMap<(Name, Vec<Expr>), Vec<Expr>>,
    /// Nodes substituted so far, in all Funcs.
    spent: &'a mut usize,
    /// The Func with which they became too many.
    refused: Option<Name>,
}

impl Inliner<'_> {
    fn apply(&mut self, e: &Expr) -> Expr {
        let (bodies, sites) = (self.bodies, &mut self.sites);
        let (spent, refused) = (&mut *self.spent, &mut self.refused);
        rewrite(e, &mut self.memo, &mut |_, n| {
            let ExprKind::Call { name, args, value } = n.kind() else { return n };
            let Some((f, size)) = bodies.get(name) else { return n };
            let site = match sites.entry((name.clone(), args.clone())) {
                Entry::Occupied(there) => return there.get()[*value].clone(),
                Entry::Vacant(site) => site,
            };
            *spent += size;
            if *spent > MOST_NODES {
                refused.get_or_insert_with(|| name.clone());
                return n;
            }
            let map = f.vars.iter().map(|v| v.name().clone()).zip(args.iter().cloned()).collect();
            let mut s = Substitution::new(&map);
            let values = site.insert(f.values.iter().map(|v| s.apply(v)).collect());
            values[*value].clone()
        })
    }
}
