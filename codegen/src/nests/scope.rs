//! The place where the walk is.

use crate::analysis::algebra::build::{add, offset};
use crate::analysis::algebra::{Facts, Interval};
use crate::expr::{Expr, Name};
use crate::plan::plans::{FuncPlan, Level, Plan, Stage, is_joint, own_var};
use crate::plan::uses::Uses;
use crate::schedule::{ForKind, LoopLevel, StageId};
use rustc_hash::FxHashMap;

/// A loop or condition around the place where the walk is.
#[derive(Clone, Debug)]
pub enum Around {
    /// A loop of more than one iteration.
    Loop(LoopLevel, Name, ForKind),
    /// A loop known to have at most one iteration.
    Once(LoopLevel),
    /// A condition that may hold again after it did not.
    Gate,
    /// A condition that holds up to this end.
    Tail(Expr),
}

/// The machine part that runs what stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Surroundings {
    /// A CPU, or the host of a GPU.
    Host,
    /// A block of a GPU: all its threads alike.
    Block,
    /// A thread of a GPU.
    Thread,
}

/// The plan to carry out, and what holds at the place where the walk is.
///
/// Invariant: the facts follow from the loops, conditions and lets around the place. Who leaves a loop, a branch or a version of a
/// stage puts back the scope that held before; what is inferred ([`crate::nests::regions::Regions`]) goes on.
#[derive(Clone)]
pub struct Scope<'p> {
    /// The plan to carry out. The same everywhere.
    pub plan: &'p Plan,
    /// Calls of every Func. The same everywhere.
    pub uses: &'p Uses,
    /// Everything bound and assumed so far.
    pub facts: Facts,
    /// Loops and gates, outermost first.
    pub around: Vec<Around>,
    /// Of stages that have special versions, the one being emitted.
    pub versions: FxHashMap<StageId, &'p Stage>,
}

impl<'p> Scope<'p> {
    /// Outside of everything.
    pub fn new(plan: &'p Plan, uses: &'p Uses) -> Scope<'p> {
        Scope { plan, uses, facts: Facts::new(), around: vec![], versions: FxHashMap::default() }
    }

    /// Part of a device that runs the code here, or the host.
    pub fn surroundings(&self) -> Surroundings {
        let inside =
            |of: ForKind| self.around.iter().any(|a| matches!(a, Around::Loop(_, _, kind) if *kind == of));
        match (inside(ForKind::GpuThread), inside(ForKind::GpuBlock)) {
            (true, _) => Surroundings::Thread,
            (false, true) => Surroundings::Block,
            (false, false) => Surroundings::Host,
        }
    }

    /// Lanes of the vectors around: each has storage of its own for what is computed here.
    pub fn lanes(&self) -> i64 {
        let lanes = self.around.iter().filter_map(|a| match a {
            Around::Loop(_, var, ForKind::Vectorized) => {
                let [first, last] = self.facts.range(var)?;
                self.facts.upper(&(last - first + 1))
            }
            _ => None,
        });
        lanes.fold(1, i64::saturating_mul)
    }

    /// `cond` holds here, and may hold again after it did not.
    pub fn enter_gate(&mut self, cond: &Expr) {
        self.facts.assume(cond);
        self.around.push(Around::Gate);
    }

    /// `value` is not above `end` here.
    pub fn enter_tail(&mut self, value: &Expr, end: &Expr) {
        self.facts.assume(&value.le(end));
        self.around.push(Around::Tail(end.clone()));
    }

    /// The version of a stage that is being emitted.
    pub fn version_of(&self, id: &StageId) -> &'p Stage {
        let plan = self.plan;
        self.versions.get(id).copied().unwrap_or_else(|| &plan.funcs[&id.func].stages[id.stage])
    }

    /// Stages that call `name`, with the coordinates.
    pub fn callers(&self, name: &Name) -> &'p [(StageId, Vec<Vec<Expr>>)] {
        self.uses.get(name).map_or(&[], Vec::as_slice)
    }

    /// Coordinates at which stage `id` calls `name`.
    pub fn calls_in(&self, id: &StageId, name: &Name) -> &'p [Vec<Expr>] {
        self.callers(name).iter().find(|u| u.0 == *id).map_or(&[], |u| u.1.as_slice())
    }

    /// Is all of `func` computed inside `level`?
    pub fn is_inside(&self, func: &Name, level: &Level) -> bool {
        let Level::At(target) = level else { return true };
        let mut at = &self.plan.funcs[func].compute;
        while let Level::At(l) = at {
            if let Some(outer) = self.plan.loop_at(&l.stage, target) {
                let dims = &self.version_of(&l.stage).dims;
                let depth = |v: &str| dims.iter().position(|d| *d.name == *v);
                let (inner, outer) = (depth(own_var(l)), depth(outer));
                // What all stages of a loop share is around what each has of its own.
                return inner < outer || inner == outer && (is_joint(target) || !is_joint(l));
            }
            at = &self.plan.funcs[&l.stage.func].compute;
        }
        false
    }

    /// Loops and gates between the store level of `f` and here, outermost first.
    pub fn since_store(&self, f: &FuncPlan) -> &[Around] {
        match &f.store {
            Level::At(store) => self.since(store),
            Level::Root => &self.around,
        }
    }

    /// Variables of the loops between the store level of `f` and here, outermost first.
    pub fn loops_since_store(&self, f: &FuncPlan) -> impl Iterator<Item = &Name> {
        self.since_store(f).iter().filter_map(|a| match a {
            Around::Loop(_, var, _) => Some(var),
            Around::Once(_) | Around::Gate | Around::Tail(_) => None,
        })
    }

    /// Loops and gates between a loop and here, outermost first.
    pub fn since(&self, level: &LoopLevel) -> &[Around] {
        let at = self.around.iter().position(|a| match a {
            Around::Loop(l, ..) | Around::Once(l) => l == level,
            Around::Gate | Around::Tail(_) => false,
        });
        &self.around[at.map_or(0, |i| i + 1)..]
    }

    /// Does `stage` read the output buffer of sink `func`, being in a later nest than the sink's consumer?
    pub fn reads_output(&self, func: &Name, stage: &StageId) -> bool {
        let Some(f) = self.plan.funcs.get(func) else { return false };
        if !f.sink || f.store == Level::Root || self.is_inside(&stage.func, &f.compute) {
            return false;
        }
        let at_compute = matches!(&f.compute, Level::At(l) if l.stage == *stage);
        let order = |n: &Name| self.plan.funcs.get_index_of(n);
        !at_compute && order(self.root_of(&stage.func)) > order(self.root_of(func))
    }

    /// The Func at root in whose nest `func` is computed.
    fn root_of<'a>(&'a self, func: &'a Name) -> &'a Name {
        let mut name = func;
        while let Level::At(l) = &self.plan.funcs[name].compute {
            name = &l.stage.func;
        }
        name
    }

    /// Domain of an input or output buffer in dimension `d`.
    pub fn domain(&self, name: &Name, d: usize) -> Interval {
        let shape = self.plan.pipeline.shape(name);
        let min = shape.min(d);
        Interval { max: offset(&add(&min, &shape.extent(d)), -1), min }
    }
}
