//! Puts lets, guards and conditions of a stage into its slots, each as far out as its variables allow: what concerns rows is thus
//! decided outside of the vector loop.

use crate::analysis::algebra::build;
use crate::analysis::algebra::build::{add, offset};
use crate::error::Error;
use crate::expr::walk::{Substitution, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::calls;
use crate::nests::found::Found;
use crate::nests::names::{base_expr, full_name, local_expr};
use crate::nests::outputs::{destination, own_intervals};
use crate::nests::regions::Regions;
use crate::nests::slots::{Emit, Item};
use crate::plan::extents::{block_origin, rounds_region};
use crate::plan::plans::{Change, FuncPlan, Fuse, Level, Plan, Split, Stage, illegal};
use crate::schedule::Tail;

/// One version of a stage, all of its slots filled.
pub(super) fn place<'p>(
    plan: &Plan,
    regions: &Regions,
    found: &Found,
    f: &'p FuncPlan,
    s: &'p Stage,
) -> Result<Emit<'p>, Error> {
    let mut cx = Emit::new(regions, f, s, destination(found, f, s));
    cx.place_items(plan, regions)?;
    Ok(cx)
}

impl Emit<'_> {
    /// Sorts lets, guards and conditions into slots.
    fn place_items(&mut self, plan: &Plan, regions: &Regions) -> Result<(), Error> {
        // Bounds of reduction variables may read memory at pure variables: inside the guards of those.
        self.place_changes(false);
        self.place_bounds()?;
        self.place_changes(true);
        // At root, what is fused is checked before anything runs.
        if self.f.compute != Level::Root {
            self.place_points();
        }
        self.place_conditions(plan, regions)
    }

    /// Bounds of reduction variables.
    fn place_bounds(&mut self) -> Result<(), Error> {
        let s = self.s;
        for r in &s.rvars {
            let deps = variables(&r.min).into_iter().chain(variables(&r.max));
            let slot = deps.map(|v| self.slot_of(&v)).max().unwrap_or(0);
            if let Some(i) = s.dims.iter().position(|d| s.origins(&d.name).contains(&r.name))
                && slot > 0
            {
                let from = |i: &usize| s.origins(&s.dims[*i].name).contains(&r.name);
                let first = (i..s.dims.len()).rev().find(from);
                if s.dims.len() - first.unwrap_or(i) - 1 < slot {
                    let rule = format!("the bounds of {} use a loop further in", r.name);
                    return Err(illegal(&s.id, "reorder", rule));
                }
            }
            let mut subst = Substitution::new(&self.locals);
            let item = Item::Bounds(r.name.clone(), subst.apply(&r.min), subst.apply(&r.max));
            self.slots[slot].push(item);
        }
        Ok(())
    }

    /// Predicates, skips, and the own tile: behind all lets.
    fn place_conditions(&mut self, plan: &Plan, regions: &Regions) -> Result<(), Error> {
        let s = self.s;
        let mut subst = Substitution::new(&self.locals);
        let mut conds = vec![];
        for c in s.predicate.iter().flat_map(conjuncts) {
            let slot = variables(&c).iter().map(|v| self.slot_of(v)).max().unwrap_or(0);
            let slot = slot.max(computed_slot(plan, s, &c));
            conds.push((slot, Item::Predicate(subst.apply(&c))));
        }
        for (v, c) in &s.skips {
            conds.push(self.skip(v, c)?);
        }
        for (d, own) in own_intervals(regions, self.f, self.destination).into_iter().enumerate() {
            let var = self.f.func.vars[d].name();
            conds.push((self.slot_of(var), Item::Own(self.locals[var].clone(), own)));
        }
        for (slot, item) in conds {
            self.slots[slot].push(item);
        }
        Ok(())
    }

    /// The condition of a `SkipUnless` on loop `v`, in which a variable whose blocks `v` counts stands for its first and its last value there.
    fn skip(&self, v: &Name, c: &Expr) -> Result<(usize, Item), Error> {
        let s = self.s;
        let (mut first, mut last) = (self.locals.clone(), None);
        let mut slot = |u: &Name| match s.splits().find(|t| t.old == *u && t.outer == *v) {
            Some(t) => {
                let base = base_expr(s, t);
                if !self.begins_aligned(t) {
                    let end = build::min(&offset(&add(&base, &t.factor), -1), &self.interval(u).max);
                    last = Some((u.clone(), end));
                }
                first.insert(u.clone(), base);
                self.slot_of(v).max(self.bounds_slot(u))
            }
            None => self.slot_of(u),
        };
        let needs = variables(c).iter().map(&mut slot).max().unwrap_or(0);
        let at = s.dims.iter().position(|d| d.name == *v).map_or(0, |i| s.dims.len() - i);
        if needs > at {
            let rule = "the condition uses a loop further in";
            return Err(illegal(&s.id, format!("skip_unless({v})"), rule));
        }
        let mut cond = Substitution::new(&first).apply(c);
        if let Some((u, end)) = last {
            first.insert(u, end);
            cond = cond.or(Substitution::new(&first).apply(c));
        }
        Ok((at, Item::Skip(cond)))
    }

    /// Does every block begin at a multiple of its size? What holds of runs of so many values is then known of the first.
    fn begins_aligned(&self, t: &Split) -> bool {
        let Some(factor) = t.factor.as_int().filter(|_| t.tail != Tail::ShiftInwards) else { return false };
        let dim = self.f.func.vars.iter().position(|v| *v.name() == t.old);
        let unit = dim.and_then(|d| self.f.align[d]).filter(|_| self.s.id.stage == 0);
        let min = self.interval(&t.old).min.as_int();
        min.is_some_and(|min| min % factor == 0) || unit.is_some_and(|unit| i64::from(unit) % factor == 0)
    }

    /// Block origins, parts of fused loops, and tails of the changes of reduction variables, or of all others: of pure ones, and of
    /// pure ones fused with what was a reduction variable before an rfactor kept it.
    fn place_changes(&mut self, reduction: bool) {
        let s = self.s;
        let chosen = |names: &[&Name]| {
            let mut from = names.iter().flat_map(|n| s.origins(n));
            from.all(|o| s.rvars.iter().any(|r| r.name == o)) == reduction
        };
        // A change made later is of what an earlier one made, whose value needs it: latest first.
        for c in s.changes.iter().rev().filter(|c| chosen(&c.before())) {
            match c {
                Change::Split(t) => self.place_base(t),
                Change::Fuse(t) => self.place_parts(t),
                Change::Rename { .. } => {}
            }
        }
        for t in s.splits().filter(|t| chosen(&[&t.old])).filter(|t| !rounds_region(s, t)) {
            let slot = self.slot_of(&t.old).max(self.bounds_slot(&t.old));
            let (_, max) = self.bounds[&t.old].clone();
            self.slots[slot].push(Item::Tail(self.locals[&t.old].clone(), max));
        }
        for c in s.changes.iter().filter(|c| chosen(&c.before())) {
            // Behind the tails of the fused loop: it counts on them.
            let Change::Fuse(t) = c else { continue };
            let max = self.interval(&t.outer).max;
            let slot = self.slot_of(&t.fused);
            self.slots[slot].push(Item::Known(self.locals[&t.outer].le(&max)));
        }
    }

    /// `f.s<k>.<old>.base`, the origin of the present block.
    fn place_base(&mut self, t: &Split) {
        let s = self.s;
        let slot = self.slot_of(&t.outer).max(self.bounds_slot(&t.old));
        let value = block_origin(s, t, &local_expr(s, &t.outer), &self.interval(&t.old));
        let name = full_name(s, &format!("{}.base", t.old));
        self.slots[slot].push(Item::Let(name, value));
    }

    /// The two variables that a fused loop counts.
    fn place_parts(&mut self, t: &Fuse) {
        let s = self.s;
        let slot = self.slot_of(&t.inner);
        let (inner, outer) = (self.interval(&t.inner), self.interval(&t.outer));
        let (fused, n) = (local_expr(s, &t.fused), inner.extent());
        let last = offset(&add(&inner.min, &n), -1);
        let value = add(&build::modulo(&fused, &n), &inner.min);
        let known = [inner.min.le(&self.locals[&t.inner]), self.locals[&t.inner].le(&last)];
        self.slots[slot].push(Item::Let(full_name(s, &t.inner), value));
        self.slots[slot].extend(known.map(Item::Known));
        let value = add(&build::div(&fused, &n), &outer.min);
        self.slots[slot].push(Item::Let(full_name(s, &t.outer), value));
        self.slots[slot].push(Item::Known(outer.min.le(&self.locals[&t.outer])));
    }

    /// Fused loops are counted once their bounds are known.
    fn place_points(&mut self) {
        for c in &self.s.changes {
            let Change::Fuse(t) = c else { continue };
            let extents = [&t.inner, &t.outer].map(|n| self.interval(n).extent());
            let slot = self.bounds_slot(&t.fused);
            self.slots[slot].push(Item::Points(extents, t.fused.clone()));
        }
    }
}

/// The first slot behind all that `e` reads of what is computed inside of the loops of `s`.
fn computed_slot(plan: &Plan, s: &Stage, e: &Expr) -> usize {
    let slot = |call: &Expr| {
        let ExprKind::Call { name, .. } = call.kind() else { return None };
        let Level::At(level) = &plan.funcs.get(name)?.compute else { return None };
        let i = s.dims.iter().position(|d| level.stage == s.id && d.name == level.var)?;
        Some(s.dims.len() - i + 1)
    };
    calls(e).iter().filter_map(slot).max().unwrap_or(0)
}

/// The parts of a conjunction.
pub(super) fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::Binary(BinaryOp::And, a, b) => {
            let mut v = conjuncts(a);
            v.extend(conjuncts(b));
            v
        }
        _ => vec![e.clone()],
    }
}
