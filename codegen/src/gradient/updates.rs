//! Adjoints through one update definition: from that of the Func behind it to that of the Func before it, and to what it reads.
//!
//! | form | behind to before | values |
//! |---|---|---|
//! | in place: no loops, own coordinates | through the values | seeded with the adjoint there |
//! | sum: `f(a) = f(a) + t` | the same | t is seeded with the adjoint at a |
//! | replacement: `f(a) = c ? t : f(a)` | 0 where replaced | t of the iteration that stays is seeded (`replace`) |
//! | scan: each element once, of earlier ones | the scan, reversed (`scan`) | seeded with that |
//! | anything else | all states are kept, one per step (`steps`) | seeded with the step's |
//!
//! The first form that fits is taken; each is exact.

use crate::error::Error;
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::{Func, Update};
use crate::gradient::adjoints::{Reverse, reads_func, reread};
use crate::gradient::slopes::arms;
use crate::gradient::space::Space;
use crate::gradient::support::Stage;
use crate::gradient::terms::{Adjoint, fresh};

/// An update on the way backwards.
pub(super) struct Site<'f> {
    pub f: &'f Func,
    /// Its number.
    pub k: usize,
    pub u: &'f Update,
    pub space: Space,
    /// Names what is made for it.
    pub name: String,
}

impl Site<'_> {
    /// Is nothing but `values` of elements of the Func itself read?
    pub(super) fn is_placed_freely(&self) -> bool {
        self.u.args.iter().chain(&self.u.rdom.predicate).all(|e| !reads_func(e, &self.f.name))
    }

    /// Is `e` element `value` of the Func where the update writes?
    pub(super) fn is_old(&self, e: &Expr, value: usize) -> bool {
        match e.kind() {
            ExprKind::Call { name, args, value: v } => {
                *name == self.f.name && *v == value && *args == self.u.args
            }
            _ => false,
        }
    }

    pub(super) fn reads_itself(&self, e: &Expr) -> bool {
        reads_func(e, &self.f.name)
    }

    /// Float elements with their values.
    pub(super) fn floats(&self) -> impl Iterator<Item = (usize, &Expr)> {
        self.u.values.iter().enumerate().filter(|(_, v)| v.ty().scalar.is_float())
    }
}

impl Reverse<'_> {
    /// Takes the adjoint `d` of `f` behind its update `k`, which is in the pipeline, to the one before it.
    pub(super) fn update(&mut self, f: &Func, k: usize, d: Adjoint) -> Result<Adjoint, Error> {
        let stages = Stage::all(f);
        let stage = &stages[k + 1];
        let space = Space::new(&f.vars, &self.support[&f.name], |v| stage.is_pure(f, v), &stage.rdom);
        let name = format!("{}_update{k}", f.name);
        let site = Site { f, k, u: &f.updates[k], space, name };
        if site.u.rdom.vars.is_empty()
            && site.u.rdom.predicate.is_none()
            && (0..f.vars.len()).all(|v| stage.is_pure(f, v))
        {
            return self.in_place(&site, d);
        }
        if let Some(terms) = sum(&site) {
            let seeds = terms.into_iter().filter_map(|(j, t)| Some((t, d.at(&site.u.args, j)?))).collect();
            self.spread(&site.name.as_str().into(), &site.space, seeds)?;
            return Ok(d);
        }
        if let Some(r) = replacement(&site) {
            return self.replace(&site, &r, d);
        }
        match self.scan(&site, &d)? {
            Some(d) => Ok(d),
            None => self.steps(&site, d),
        }
    }

    /// Of an update that makes each element of the one before it.
    fn in_place(&mut self, site: &Site, d: Adjoint) -> Result<Adjoint, Error> {
        let before = self.before(site.f, site.k);
        let to_before = |e: &Expr| {
            reread(e, &site.f.name, &mut |args, k, ty| Expr::call(before.name.clone(), ty, args, k))
        };
        let seeds: Vec<(Expr, Expr)> =
            site.floats().filter_map(|(j, v)| Some((to_before(v), d.at(&site.u.args, j)?))).collect();
        self.active.insert(before.name.clone());
        let own = self.reads(&seeds, &[before.name.clone()].into_iter().collect());
        let sums = |k: usize| {
            let parts = own.iter().filter(|r| r.value == k);
            let parts = parts.map(|r| crate::gradient::reverse::selected(&r.cond, r.adjoint.clone()));
            parts.reduce(|a, b| a + b)
        };
        let name = fresh(self.p, &format!("d_{}", before.name));
        let next = d.map(name, |k, old| sums(k).unwrap_or_else(|| Expr::constant(old.ty(), 0.0)));
        self.active.remove(&before.name);
        let next = self.keep(next);
        self.spread(&Name::from(&*site.name), &site.space, seeds)?;
        Ok(next)
    }
}

/// The term added to each float element, if the update does nothing else to them.
fn sum(site: &Site) -> Option<Vec<(usize, Expr)>> {
    if !site.is_placed_freely() {
        return None;
    }
    let mut terms = vec![];
    for (j, v) in site.floats() {
        match added(site, v, j)? {
            Some(term) if site.reads_itself(&term) => return None,
            Some(term) => terms.push((j, term)),
            None => {}
        }
    }
    Some(terms)
}

/// The t of which `e` is the old element `value` plus t, t none where it is nothing; none if `e` is no such sum.
fn added(site: &Site, e: &Expr, value: usize) -> Option<Option<Expr>> {
    use BinaryOp::{Add, Sub};
    if site.is_old(e, value) {
        return Some(None);
    }
    // One operand has the old element: shared parts are seen once.
    let alone = |with: &Expr, others: &[&Expr]| {
        site.reads_itself(with) && !others.iter().any(|o| site.reads_itself(o))
    };
    let inner = |with: &Expr, rest: Expr| Some(added(site, with, value)?.map_or(rest.clone(), |t| t + &rest));
    Some(match e.operation() {
        ExprKind::Binary(Add, a, b) if alone(a, &[b]) => Some(inner(a, b.clone())?),
        ExprKind::Binary(Add, a, b) if alone(b, &[a]) => Some(inner(b, a.clone())?),
        ExprKind::Binary(Sub, a, b) if alone(a, &[b]) => Some(inner(a, -b.clone())?),
        ExprKind::Fma(a, b, c) if alone(c, &[a, b]) => Some(inner(c, a * b)?),
        ExprKind::Select(c, a, b) if site.is_old(a, value) || site.is_old(b, value) => {
            let zero = Expr::constant(e.ty(), 0.0);
            let [a, b] = [added(site, a, value)?, added(site, b, value)?];
            Some(Expr::select(c, a.unwrap_or(zero.clone()), b.unwrap_or(zero)))
        }
        _ => return None,
    })
}

/// An update that replaces elements, or not.
pub(super) struct Replacement {
    /// Condition under which it does; none if it always does. May read the Func.
    pub cond: Option<Expr>,
    /// By what, per float element; an element that is not here is never replaced. Does not read the Func.
    pub by: Vec<(usize, Expr)>,
}

fn replacement(site: &Site) -> Option<Replacement> {
    if !site.is_placed_freely() {
        return None;
    }
    let mut found: Option<Option<Expr>> = None;
    let mut by = vec![];
    for (j, v) in site.floats().filter(|(j, v)| !site.is_old(v, *j)) {
        let mut operands = vec![];
        v.for_each_child(|c| operands.push(c.clone()));
        let chosen = arms(v).and_then(|(c, [a, b])| {
            let (first, second) = (&operands[a], &operands[b]);
            match (site.is_old(first, j), site.is_old(second, j)) {
                (false, true) => Some((c, first.clone())),
                (true, false) => Some((c.not_(), second.clone())),
                _ => None,
            }
        });
        let (cond, value) = match chosen {
            Some((c, value)) => (Some(c), value),
            None => (None, v.clone()),
        };
        if site.reads_itself(&value) || found.as_ref().is_some_and(|known| *known != cond) {
            return None;
        }
        found = Some(cond);
        by.push((j, value));
    }
    Some(Replacement { cond: found?, by })
}
