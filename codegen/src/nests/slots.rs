//! One stage being emitted: what goes into which loop.
//!
//! Slot 0 is before the first loop, slot j + 1 inside loop j, counted from outside, before what is computed there; the last one
//! is behind what is computed inside of the innermost loop. Lets, guards and conditions go to the first slot in which what they
//! use has a value.

use crate::analysis::algebra::build::{add, mul, offset, sub};
use crate::analysis::algebra::{Interval, build};
use crate::error::Error;
use crate::expr::walk::{Substitution, variables};
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use crate::func::calls;
use crate::ir::stmt::Stmt;
use crate::nests::sinks::Destination;
use crate::nests::{Nests, branch};
use crate::plan::plans::{Change, FuncPlan, Fuse, Level, Split, Stage, blocks, illegal, points};
use crate::schedule::Tail;
use rustc_hash::FxHashMap;

/// Something placed as far out as its variables allow.
#[derive(Clone)]
pub(super) enum Item {
    Let(Name, Expr),
    /// Bounds of a reduction variable.
    Bounds(Name, Expr, Expr),
    /// A fact that holds from here on.
    Known(Expr),
    /// The points of two loops, of these extents, that became one of this name: counted by an i32.
    Points([Expr; 2], Name),
    /// Tail of a split, `value <= max`: once false, false for the rest of the loop.
    Tail(Expr, Expr),
    /// A predicate of the reduction domain.
    Predicate(Expr),
    /// SkipUnless.
    Skip(Expr),
    /// The coordinate, and the interval in which the point goes to the output buffer.
    Own(Expr, Interval),
}

/// What the innermost statement does.
#[derive(Clone)]
pub(super) enum Mode {
    /// Stores where the Func's values go; to the output under these conditions on vector lanes.
    Store(Vec<Expr>),
    /// Stores to intermediate storage only: the point is not in the own tile.
    NotOwn,
    /// Stores zeros to intermediate storage.
    Zero,
}

/// One stage being emitted.
#[derive(Clone)]
pub(super) struct Emit<'p> {
    pub(super) f: &'p FuncPlan,
    pub(super) s: &'p Stage,
    /// Items per slot: one more than there are loops, and one.
    pub(super) slots: Vec<Vec<Item>>,
    /// Values of the split-off, still symbolic variables, in full names.
    pub(super) locals: FxHashMap<Name, Expr>,
    /// Loop minimum and maximum per local name of a loop.
    pub(super) bounds: FxHashMap<Name, (Expr, Expr)>,
    pub(super) destination: Destination,
}

impl Emit<'_> {
    /// The bounds of a local name.
    fn interval(&self, name: &Name) -> Interval {
        let (min, max) = self.bounds[name].clone();
        Interval { min, max }
    }
}

impl<'p> Nests<'p> {
    /// One stage: its special versions under their conditions, then what remains. Each computes the producers placed in its
    /// loops over regions of its own.
    pub(super) fn stage(&mut self, f: &'p FuncPlan, s: &'p Stage) -> Result<Stmt, Error> {
        self.versions(s, &mut |nests, version| {
            let cx = nests.emit(f, version)?;
            nests.slot(&cx, 0, Mode::Store(vec![]))
        })
    }

    /// What `each` makes of every version of a stage, under its condition.
    pub(super) fn versions(
        &mut self,
        s: &'p Stage,
        each: &mut dyn FnMut(&mut Self, &'p Stage) -> Result<Stmt, Error>,
    ) -> Result<Stmt, Error> {
        let mut special = vec![];
        for (cond, version) in &s.special {
            let scope = self.facts.clone();
            self.facts.assume(cond);
            let outside = self.inferred();
            special.push((cond, self.versions(version, each)?));
            self.restore(outside);
            self.facts = scope;
        }
        if !special.is_empty() || s.version > 0 {
            self.current.insert(s.id.clone(), s);
        }
        let rest = each(self, s)?;
        Ok(special.into_iter().rev().fold(rest, |rest, (cond, body)| branch(cond.clone(), body, Some(rest))))
    }

    /// What goes into which loop of one version of a stage.
    pub(super) fn emit(&mut self, f: &'p FuncPlan, s: &'p Stage) -> Result<Emit<'p>, Error> {
        let mut cx = Emit {
            f,
            s,
            slots: vec![vec![]; s.dims.len() + 2],
            locals: FxHashMap::default(),
            bounds: FxHashMap::default(),
            destination: self.destination(f, s),
        };
        self.bind_locals(&mut cx)?;
        self.place_items(&mut cx)?;
        Ok(cx)
    }

    /// Loop bounds, and every local name in terms of loops.
    pub(super) fn bind_locals(&mut self, cx: &mut Emit<'p>) -> Result<(), Error> {
        let (f, s) = (cx.f, cx.s);
        let produced = self.produced[&f.func.name].clone();
        for (v, i) in f.func.vars.iter().zip(&produced) {
            cx.bounds.insert(v.0.clone(), (i.min.clone(), i.max.clone()));
        }
        for r in &s.rvars {
            let named = |e: &Expr, end: &str| match e.kind() {
                ExprKind::Int(_) | ExprKind::Param(_) => e.clone(),
                _ => Expr::var(self.full_name(s, &format!("{}.{end}", r.name))),
            };
            let ends = (named(&r.min, "min"), named(&r.max, "max"));
            cx.bounds.insert(r.name.clone(), ends);
        }
        // A kept variable of an rfactor is a dimension with bounds of its own.
        let zero = || Expr::from(0);
        for c in &s.changes {
            match c {
                Change::Split(t) => {
                    let (min, max) = &cx.bounds[&t.old];
                    let last = offset(&blocks(min, max, &t.factor), -1);
                    cx.bounds.entry(t.outer.clone()).or_insert((zero(), last));
                    cx.bounds.entry(t.inner.clone()).or_insert((zero(), offset(&t.factor, -1)));
                }
                Change::Fuse(t) => {
                    let last = offset(&points(&cx.interval(&t.inner), &cx.interval(&t.outer)), -1);
                    cx.bounds.entry(t.fused.clone()).or_insert((zero(), last));
                }
                Change::Rename { old, new } => {
                    let same = cx.bounds[old].clone();
                    cx.bounds.entry(new.clone()).or_insert(same);
                }
            }
        }
        let names: Vec<Name> = cx.bounds.keys().cloned().collect();
        for n in names {
            cx.locals.insert(n.clone(), self.local_expr(s, &n));
        }
        Ok(())
    }

    /// Sorts lets, guards and conditions into slots.
    pub(super) fn place_items(&mut self, cx: &mut Emit<'p>) -> Result<(), Error> {
        let s = cx.s;
        // Bounds of reduction variables may read memory at pure variables: inside the guards of those.
        self.place_changes(cx, false);
        for r in &s.rvars {
            let deps = variables(&r.min).into_iter().chain(variables(&r.max));
            let slot = deps.map(|v| self.slot_of(cx, &v)).max().unwrap_or(0);
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
            let mut subst = Substitution::new(&cx.locals);
            let item = Item::Bounds(r.name.clone(), subst.apply(&r.min), subst.apply(&r.max));
            cx.slots[slot].push(item);
        }
        self.place_changes(cx, true);
        // At root, what is fused is checked before anything runs.
        if cx.f.compute != Level::Root {
            self.place_points(cx);
        }
        let mut subst = Substitution::new(&cx.locals);
        let mut conds = vec![];
        for c in s.predicate.iter().flat_map(conjuncts) {
            let slot = variables(&c).iter().map(|v| self.slot_of(cx, v)).max().unwrap_or(0);
            let slot = slot.max(self.computed_slot(s, &c));
            conds.push((slot, Item::Predicate(subst.apply(&c))));
        }
        for (v, c) in &s.skips {
            conds.push(self.skip(cx, v, c)?);
        }
        for (d, own) in self.own_intervals(cx.f, cx.destination).into_iter().enumerate() {
            let var = &cx.f.func.vars[d].0;
            conds.push((self.slot_of(cx, var), Item::Own(cx.locals[var].clone(), own)));
        }
        for (slot, item) in conds {
            cx.slots[slot].push(item);
        }
        Ok(())
    }

    /// The condition of a `SkipUnless` on loop `v`, in which a variable whose blocks `v` counts stands for its first value there.
    pub(super) fn skip(&self, cx: &Emit<'p>, v: &Name, c: &Expr) -> Result<(usize, Item), Error> {
        let s = cx.s;
        let mut locals = cx.locals.clone();
        let mut slot = |u: &Name| match s.splits().find(|t| t.old == *u && t.outer == *v) {
            Some(t) => {
                locals.insert(u.clone(), self.base_expr(s, t));
                self.slot_of(cx, v).max(self.bounds_slot(cx, u))
            }
            None => self.slot_of(cx, u),
        };
        let needs = variables(c).iter().map(&mut slot).max().unwrap_or(0);
        let at = s.dims.iter().position(|d| d.name == *v).map_or(0, |i| s.dims.len() - i);
        if needs > at {
            let rule = "the condition uses a loop further in";
            return Err(illegal(&s.id, format!("skip_unless({v})"), rule));
        }
        Ok((at, Item::Skip(Substitution::new(&locals).apply(c))))
    }

    /// Block origins, parts of fused loops, and tails of the changes of reduction variables, or of all others: of pure ones, and of
    /// pure ones fused with what was a reduction variable before an rfactor kept it.
    pub(super) fn place_changes(&self, cx: &mut Emit<'p>, reduction: bool) {
        let s = cx.s;
        let chosen = |names: &[&Name]| {
            let mut from = names.iter().flat_map(|n| s.origins(n));
            from.all(|o| s.rvars.iter().any(|r| r.name == o)) == reduction
        };
        // A change made later is of what an earlier one made, whose value needs it: latest first.
        for c in s.changes.iter().rev().filter(|c| chosen(&c.before())) {
            match c {
                Change::Split(t) => self.place_base(cx, t),
                Change::Fuse(t) => self.place_parts(cx, t),
                Change::Rename { .. } => {}
            }
        }
        for t in s.splits().filter(|t| chosen(&[&t.old])).filter(|t| !rounds_region(s, t)) {
            let slot = self.slot_of(cx, &t.old).max(self.bounds_slot(cx, &t.old));
            let (_, max) = cx.bounds[&t.old].clone();
            cx.slots[slot].push(Item::Tail(cx.locals[&t.old].clone(), max));
        }
        for c in s.changes.iter().filter(|c| chosen(&c.before())) {
            // Behind the tails of the fused loop: it counts on them.
            let Change::Fuse(t) = c else { continue };
            let max = cx.interval(&t.outer).max;
            let slot = self.slot_of(cx, &t.fused);
            cx.slots[slot].push(Item::Known(cx.locals[&t.outer].le(&max)));
        }
    }

    /// `f.s<k>.<old>.base`, the origin of the present block.
    fn place_base(&self, cx: &mut Emit<'p>, t: &Split) {
        let s = cx.s;
        let slot = self.slot_of(cx, &t.outer).max(self.bounds_slot(cx, &t.old));
        let value = self.block_origin(s, t, &self.local_expr(s, &t.outer), &cx.interval(&t.old));
        let name = self.full_name(s, &format!("{}.base", t.old));
        cx.slots[slot].push(Item::Let(name, value));
    }

    /// Where block `outer` of a split of `bounds` starts. Never falls as `outer` rises: the origins of several blocks lie
    /// between those of the first and of the last one.
    pub fn block_origin(&self, s: &Stage, t: &Split, outer: &Expr, bounds: &Interval) -> Expr {
        let Interval { min, max } = bounds;
        let origin = add(&mul(outer, &t.factor), min);
        if t.tail != Tail::ShiftInwards || origin == *min || self.divides(s, t, min, max) {
            return origin;
        }
        let last = offset(&sub(max, &t.factor), 1);
        build::max(&build::min(&origin, &last), min)
    }

    /// The two variables that a fused loop counts.
    fn place_parts(&self, cx: &mut Emit<'p>, t: &Fuse) {
        let s = cx.s;
        let slot = self.slot_of(cx, &t.inner);
        let (inner, outer) = (cx.interval(&t.inner), cx.interval(&t.outer));
        let (fused, n) = (self.local_expr(s, &t.fused), inner.extent());
        let last = offset(&add(&inner.min, &n), -1);
        let value = add(&build::modulo(&fused, &n), &inner.min);
        let known = [inner.min.le(&cx.locals[&t.inner]), cx.locals[&t.inner].le(&last)];
        cx.slots[slot].push(Item::Let(self.full_name(s, &t.inner), value));
        cx.slots[slot].extend(known.map(Item::Known));
        let value = add(&build::div(&fused, &n), &outer.min);
        cx.slots[slot].push(Item::Let(self.full_name(s, &t.outer), value));
        cx.slots[slot].push(Item::Known(outer.min.le(&cx.locals[&t.outer])));
    }

    /// Fused loops are counted once their bounds are known.
    fn place_points(&self, cx: &mut Emit<'p>) {
        for c in &cx.s.changes {
            let Change::Fuse(t) = c else { continue };
            let extents = [&t.inner, &t.outer].map(|n| cx.interval(n).extent());
            let slot = self.bounds_slot(cx, &t.fused);
            cx.slots[slot].push(Item::Points(extents, t.fused.clone()));
        }
    }

    /// Is the extent known to be a multiple of the factor?
    fn divides(&self, s: &Stage, t: &Split, min: &Expr, max: &Expr) -> bool {
        let extent = offset(&sub(max, min), 1);
        let rounded = rounds_region(s, t) || extent == t.factor;
        rounded || extent.as_int().zip(t.factor.as_int()).is_some_and(|(n, f)| n % f == 0)
    }

    /// The first slot in which a local name has a value.
    pub(super) fn slot_of(&self, cx: &Emit, name: &Name) -> usize {
        let s = cx.s;
        if let Some(c) = s.replaced(name) {
            let after = c.after().into_iter().map(|n| self.slot_of(cx, n)).max();
            return after.unwrap_or(0).max(self.bounds_slot(cx, name));
        }
        s.dims.iter().position(|d| d.name == *name).map_or(0, |i| s.dims.len() - i)
    }

    /// The first slot behind all that `e` reads of what is computed inside of the loops of `s`.
    fn computed_slot(&self, s: &Stage, e: &Expr) -> usize {
        let slot = |call: &Expr| {
            let ExprKind::Call { name, .. } = call.kind() else { return None };
            let Level::At(level) = &self.plan.funcs.get(name)?.compute else { return None };
            let i = s.dims.iter().position(|d| level.stage == s.id && d.name == level.var)?;
            Some(s.dims.len() - i + 1)
        };
        calls(e).iter().filter_map(slot).max().unwrap_or(0)
    }

    /// The first slot in which the bounds of a local name have values.
    pub(super) fn bounds_slot(&self, cx: &Emit, name: &Name) -> usize {
        let from = cx.s.origins(name);
        let bounded = cx.s.rvars.iter().filter(|r| from.contains(&r.name));
        let deps = bounded.flat_map(|r| variables(&r.min).into_iter().chain(variables(&r.max)));
        deps.map(|v| self.slot_of(cx, &v)).max().unwrap_or(0)
    }
}

/// Does the split need no guard, because the region is rounded up to whole blocks of it or a split around it has one? A
/// RoundUp of a block's inside does not grow the region: it is guarded, unless the factors divide.
pub(super) fn rounds_region(s: &Stage, t: &Split) -> bool {
    let mut name = &t.old;
    while let Some(c) = s.made(name) {
        match c {
            Change::Split(u) if u.outer == *name => name = &u.old,
            Change::Rename { old, .. } => name = old,
            Change::Split(_) | Change::Fuse(_) => return false,
        }
    }
    t.tail == Tail::RoundUp
}

/// The parts of a conjunction.
fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::Binary(BinaryOp::And, a, b) => {
            let mut v = conjuncts(a);
            v.extend(conjuncts(b));
            v
        }
        _ => vec![e.clone()],
    }
}
