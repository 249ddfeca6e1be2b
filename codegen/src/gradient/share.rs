//! Sums over the same iterations, gone through once: the adjoints of coefficients that one definition reads, of the parameters of a warp, of bias
//! and gain.
//!
//! ```text
//! d_k(0) += sum over x, y of t0(x, y)         d_k_tuple() = (sum of t0, sum of t1), in one loop over x and y
//! d_k(1) += sum over x, y of t1(x, y)    =>   d_k(0) += d_k_tuple()[0]
//!                                             d_k(1) += d_k_tuple()[1]
//! ```
//! Order and number of additions to each element are the same.

use crate::expr::walk::{substitute, uses_var, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RDom, RVar, Update, Var};
use crate::gradient::adjoints::reads_func;
use crate::gradient::support::consumers_first;
use crate::gradient::terms::{FEW_ITERATIONS, fresh};
use crate::plan::validate::is_var;
use rustc_hash::FxHashSet;

/// Sums of one tuple: each is a vector in a register.
const MOST: usize = 16;

/// An update that adds sums to elements which no loop moves.
struct Sum {
    func: Name,
    update: usize,
    /// Variables along which it runs.
    vars: Vec<Var>,
    loops: Vec<RVar>,
    /// Elements of the tuple, and what is added to each, summed over the loops.
    terms: Vec<(usize, Expr)>,
}

impl Sum {
    fn of(f: &Func, update: usize) -> Option<Sum> {
        let Update { args, values, rdom: RDom { vars: loops, predicate } } = &f.updates[update];
        let iterations = loops.iter().try_fold(1i64, |n, r| Some(n.saturating_mul(r.extent.as_int()?)));
        let is_fixed = |r: &RVar| variables(&r.min).is_empty() && variables(&r.extent).is_empty();
        let moves = |e: &Expr| loops.iter().any(|r| uses_var(e, &r.name));
        if iterations.is_some_and(|n| n <= FEW_ITERATIONS)
            || predicate.is_some()
            || !loops.iter().all(is_fixed)
            || args.iter().any(moves)
        {
            return None;
        }
        let mut terms = vec![];
        for (k, value) in values.iter().enumerate() {
            let old = f.at(args, k);
            match value.kind() {
                _ if *value == old => {}
                ExprKind::Binary(BinaryOp::Add, a, term) if *a == old && !reads_func(term, &f.name) => {
                    terms.push((k, term.clone()));
                }
                _ => return None,
            }
        }
        let own = f.vars.iter().zip(args).filter(|(v, a)| is_var(a, v.name()));
        let vars: Vec<Var> = own.map(|(v, _)| *v).collect();
        let is_known =
            |v: &Name| vars.iter().any(|own| own.name() == v) || loops.iter().any(|r| r.name == *v);
        let reads_known = |e: &Expr| variables(e).iter().all(is_known);
        let is_whole = args.iter().chain(terms.iter().map(|(_, t)| t)).all(reads_known);
        is_whole.then(|| Sum { func: f.name.clone(), update, vars, loops: loops.clone(), terms })
    }

    /// Do both run over the same iterations, and are the elements that need them the same?
    fn is_beside(&self, other: &Sum) -> bool {
        let range = |r: &RVar| (r.min.clone(), r.extent.clone());
        let same_elements = self.vars.is_empty() || self.func == other.func;
        same_elements
            && self.vars == other.vars
            && self.loops.iter().map(range).eq(other.loops.iter().map(range))
    }

    /// The Funcs that its terms depend on.
    fn needs(&self, p: &Pipeline) -> FxHashSet<Name> {
        let terms = self.terms.iter().map(|(_, t)| t.clone()).collect();
        let direct = Func::new("", &[], terms).callees(p);
        consumers_first(p, direct).into_iter().collect()
    }
}

/// Sums that become one tuple.
struct Group {
    sums: Vec<Sum>,
    needs: FxHashSet<Name>,
}

impl Group {
    /// Takes a sum that depends on `needs`, if it fits and nothing would come to depend on itself.
    fn take(&mut self, sum: Sum, needs: &FxHashSet<Name>) -> Option<Sum> {
        let terms: usize = self.sums.iter().map(|s| s.terms.len()).sum();
        let fits = terms + sum.terms.len() <= MOST && self.sums[0].is_beside(&sum);
        if !fits || self.needs.contains(&sum.func) || self.sums.iter().any(|s| needs.contains(&s.func)) {
            return Some(sum);
        }
        self.needs.extend(needs.iter().cloned());
        self.sums.push(sum);
        None
    }

    /// Makes the tuple, and the updates read it.
    fn share(self, p: &mut Pipeline) -> Name {
        let first = &self.sums[0];
        let name = fresh(p, &format!("{}_tuple", first.func));
        let terms = self.sums.iter().flat_map(|s| {
            let names = s.loops.iter().zip(&first.loops);
            let names = names.map(|(r, to)| (r.name.clone(), Expr::var(to.name.clone()))).collect();
            s.terms.iter().map(move |(_, t)| substitute(t, &names))
        });
        let terms: Vec<Expr> = terms.collect();
        let zeros = terms.iter().map(|t| Expr::constant(t.ty(), 0.0)).collect();
        let empty = Func::new(name.clone(), &first.vars, zeros);
        let own: Vec<Expr> = first.vars.iter().map(Var::expr).collect();
        let values = terms.into_iter().enumerate().map(|(k, t)| empty.at(&own, k) + t).collect();
        let rdom = RDom { vars: first.loops.clone(), predicate: None };
        let tuple = p.func(empty.clone().update(own.clone(), values, rdom));
        p.stored.insert(name.clone());
        let mut next = 0..;
        for s in self.sums {
            let f = &mut p.funcs[&s.func];
            for ((k, _), element) in s.terms.iter().zip(&mut next) {
                let old = f.at(&f.updates[s.update].args, *k);
                f.updates[s.update].values[*k] = old + tuple.at(&own, element);
            }
            f.updates[s.update].rdom = RDom::default();
        }
        name
    }
}

/// Has sums among the updates of `made` that run over the same iterations go through them together. Returns the Funcs that are new.
pub(super) fn share_sums(p: &mut Pipeline, made: &FxHashSet<Name>) -> Vec<Name> {
    let mut groups: Vec<Group> = vec![];
    let own = p.funcs.values().filter(|f| made.contains(&f.name) && !p.slices.contains(&f.name));
    for sum in own.flat_map(|f| (0..f.updates.len()).filter_map(|k| Sum::of(f, k))) {
        let needs = sum.needs(p);
        // What is computed slice by slice has one reader, which knows the slice.
        if needs.is_disjoint(&p.slices.iter().cloned().collect()) {
            let left = groups.iter_mut().try_fold(sum, |sum, g| g.take(sum, &needs));
            groups.extend(left.map(|sum| Group { needs, sums: vec![sum] }));
        }
    }
    groups.into_iter().filter(|g| g.sums.len() > 1).map(|g| g.share(p)).collect()
}
