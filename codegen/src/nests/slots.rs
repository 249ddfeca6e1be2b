//! One stage being emitted: what goes into which loop.
//!
//! Slot 0 is before the first loop, slot j + 1 inside loop j, counted from outside, before what is computed there; the last one
//! is behind what is computed inside of the innermost loop. Lets, guards and conditions go to the first slot in which what they
//! use has a value ([`crate::nests::place`]).

use crate::analysis::algebra::Interval;
use crate::analysis::algebra::build::offset;
use crate::expr::walk::variables;
use crate::expr::{Expr, ExprKind, Name};
use crate::nests::names::{full_name, local_expr};
use crate::nests::outputs::Destination;
use crate::nests::regions::{Regions, RunUp};
use crate::plan::extents::{blocks, points};
use crate::plan::plans::{Change, FuncPlan, Stage};
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

/// Action of the innermost statement.
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
    pub f: &'p FuncPlan,
    pub s: &'p Stage,
    /// Items per slot: one more than there are loops, and one.
    pub slots: Vec<Vec<Item>>,
    /// Values of the split-off, still symbolic variables, in full names.
    pub locals: FxHashMap<Name, Expr>,
    /// Loop minimum and maximum per local name of a loop.
    pub bounds: FxHashMap<Name, (Expr, Expr)>,
    pub destination: Destination,
}

impl<'p> Emit<'p> {
    /// Stage `s`, with nothing in its slots yet.
    pub(super) fn new(
        regions: &Regions,
        f: &'p FuncPlan,
        s: &'p Stage,
        destination: Destination,
    ) -> Emit<'p> {
        let slots = vec![vec![]; s.dims.len() + 2];
        let (locals, bounds) = (FxHashMap::default(), FxHashMap::default());
        let mut cx = Emit { f, s, slots, locals, bounds, destination };
        cx.bind_locals(regions);
        cx
    }

    /// The bounds of a local name.
    pub(super) fn interval(&self, name: &Name) -> Interval {
        let (min, max) = self.bounds[name].clone();
        Interval { min, max }
    }

    /// Loop `j`, counted from outside, begins as early as `run_up` says.
    pub(super) fn begin_early(&mut self, j: usize, run_up: &RunUp) {
        let name = &self.s.dims[self.s.dims.len() - 1 - j].name;
        self.bounds.entry(name.clone()).and_modify(|(min, _)| *min = offset(min, -run_up.length));
    }

    /// Loop bounds, and every local name in terms of loops.
    fn bind_locals(&mut self, regions: &Regions) {
        let (f, s) = (self.f, self.s);
        let produced = &regions.produced[&f.func.name];
        for (v, i) in f.func.vars.iter().zip(produced) {
            self.bounds.insert(v.name().clone(), (i.min.clone(), i.max.clone()));
        }
        for r in &s.rvars {
            let named = |e: &Expr, end: &str| match e.kind() {
                ExprKind::Int(_) | ExprKind::Param(_) => e.clone(),
                _ => Expr::var(full_name(s, &format!("{}.{end}", r.name))),
            };
            let ends = (named(&r.min, "min"), named(&r.max, "max"));
            self.bounds.insert(r.name.clone(), ends);
        }
        // A kept variable of an rfactor is a dimension with bounds of its own.
        let zero = || Expr::from(0);
        for c in &s.changes {
            match c {
                Change::Split(t) => {
                    let (min, max) = &self.bounds[&t.old];
                    let last = offset(&blocks(min, max, &t.factor), -1);
                    self.bounds.entry(t.outer.clone()).or_insert((zero(), last));
                    self.bounds.entry(t.inner.clone()).or_insert((zero(), offset(&t.factor, -1)));
                }
                Change::Fuse(t) => {
                    let last = offset(&points(&self.interval(&t.inner), &self.interval(&t.outer)), -1);
                    self.bounds.entry(t.fused.clone()).or_insert((zero(), last));
                }
                Change::Rename { old, new } => {
                    let same = self.bounds[old].clone();
                    self.bounds.entry(new.clone()).or_insert(same);
                }
            }
        }
        let names: Vec<Name> = self.bounds.keys().cloned().collect();
        for n in names {
            self.locals.insert(n.clone(), local_expr(s, &n));
        }
    }

    /// The first slot in which a local name has a value.
    pub(super) fn slot_of(&self, name: &Name) -> usize {
        let s = self.s;
        if let Some(c) = s.replaced(name) {
            let after = c.after().into_iter().map(|n| self.slot_of(n)).max();
            return after.unwrap_or(0).max(self.bounds_slot(name));
        }
        s.dims.iter().position(|d| d.name == *name).map_or(0, |i| s.dims.len() - i)
    }

    /// The first slot in which the bounds of a local name have values.
    pub(super) fn bounds_slot(&self, name: &Name) -> usize {
        let from = self.s.origins(name);
        let bounded = self.s.rvars.iter().filter(|r| from.contains(&r.name));
        let deps = bounded.flat_map(|r| variables(&r.min).into_iter().chain(variables(&r.max)));
        deps.map(|v| self.slot_of(&v)).max().unwrap_or(0)
    }
}
