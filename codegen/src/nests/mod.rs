//! Loop nests, with producers injected at their levels.
//!
//! Takes a plan; gives statements over coordinates (`Realize`, `Produce`, `Provide`), what each Func is stored in, and the regions
//! of the inputs that they read.
//!
//! One walk from outside in. At every level (root, or the body of a loop) the Funcs that are stored or computed there are
//! opened, consumers first: their regions are inferred and let-bound ([`crate::nests::bounds_inference`]), a sliding region is
//! narrowed ([`crate::nests::sliding_window`]), folds are checked ([`crate::nests::storage_folding`]), storage is sized
//! ([`crate::nests::allocation_bounds`]). Then the storage is realised and the nests follow, producers first. Behind the walk, what storage
//! needs no more of its region than a ring is folded.
//!
//! Names: loop `v` of stage k of `f` is `f.s<k>.<v>`; the origin of a block of split variable `x` is let-bound
//! as `f.s<k>.<x>.base` and stays opaque, so that it cancels; likewise a variable that was fused. Lets, guards and conditions
//! are placed as far out as the variables they use allow; what concerns rows is thus decided outside of the vector loop.

pub mod allocation_bounds;
pub mod bound;
pub mod bounds_inference;
pub mod bounds_query;
mod checks;
mod emit;
pub mod joint_regions;
pub mod param_ranges;
mod policies;
pub mod prefetch;
pub mod sinks;
pub mod sliding_window;
mod slots;
pub mod storage_folding;
mod together;

use crate::analysis::algebra::build::add;
use crate::analysis::algebra::poly::{Polys, rebuild};
use crate::analysis::algebra::{Facts, Interval};
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::block;
use crate::ir::stmt::{Required, Stmt};
use crate::nests::storage_folding::{Live, fold_storage};
use crate::plan::plans::{Change, FuncPlan, Level, Plan, Split, Stage, illegal};
use crate::plan::uses::{Uses, uses};
use crate::schedule::{ForKind, LoopLevel, Memory, StageId};
use rustc_hash::{FxHashMap, FxHashSet};

/// A loop or condition around the place where the walk is.
#[derive(Clone, Debug)]
pub enum Around {
    /// A loop of more than one iteration.
    Loop(LoopLevel, Name, ForKind),
    /// A loop known to have at most one iteration.
    Once(LoopLevel),
    /// A condition that may hold again after it did not.
    Gate,
}

/// Storage of an intermediate.
#[derive(Clone, Debug)]
pub struct Storage {
    /// `(min, extent)` per dimension.
    pub region: Vec<(Expr, Expr)>,
    /// Where it is kept.
    pub memory: Memory,
    /// Constants that the extents do not exceed, where there are some.
    pub sizes: Vec<Option<i64>>,
    /// Circular storage per dimension: coordinates modulo this.
    pub fold: Vec<Option<u32>>,
}

/// State of the walk.
pub struct Nests<'p> {
    /// What to compute.
    pub plan: &'p Plan,
    /// Who calls whom.
    pub uses: Uses,
    /// Everything bound so far.
    pub facts: Facts,
    /// Regions by Func and level.
    pub regions: FxHashMap<(Name, Level), Vec<Interval>>,
    /// What the loops of a Func cover at its compute level: the region less what sliding saves.
    pub produced: FxHashMap<Name, Vec<Interval>>,
    /// A slid end, and that end before sliding.
    pub unslid: FxHashMap<Name, Expr>,
    /// Bound names of the bounds of reduction variables.
    pub rvar_names: FxHashMap<(StageId, Name), (Expr, Expr)>,
    /// Storage of the Funcs that have some.
    pub storage: FxHashMap<Name, Storage>,
    /// What is in use at once of the Funcs whose storage may be folded.
    pub live: FxHashMap<Name, Live>,
    /// Own tile of each sink.
    pub own: FxHashMap<Name, Vec<Interval>>,
    /// Outputs each of whose points is computed once.
    pub once: FxHashSet<Name>,
    /// Regions of the inputs.
    pub required: Vec<(Name, Vec<Interval>)>,
    /// What [`crate::nests::bound`] counts on.
    pub bound_checks: Vec<Stmt>,
    /// Loops and gates, outermost first.
    pub around: Vec<Around>,
    /// What whole joint nests need of the Funcs that several of their stages read.
    pub all: FxHashMap<Name, Vec<Interval>>,
    /// Of the same Funcs at their store levels: what is needed, before it is rounded.
    pub needed: FxHashMap<(Name, Level), Vec<Interval>>,
    /// Joint loops with iterations that may be none of some stage.
    pub differing: FxHashSet<LoopLevel>,
    /// Of stages that have special versions, the one being emitted.
    current: FxHashMap<StageId, &'p Stage>,
    /// Lets of the levels being opened.
    pending: Vec<Vec<(Name, Expr)>>,
    /// Lets of levels that were opened (a body emitted twice repeats them).
    opened: FxHashMap<Level, Vec<(Name, Expr)>>,
}

/// What was inferred for the levels that are open, to come back to behind one of several versions of a nest.
struct Inferred {
    regions: FxHashMap<(Name, Level), Vec<Interval>>,
    produced: FxHashMap<Name, Vec<Interval>>,
    unslid: FxHashMap<Name, Expr>,
    needed: FxHashMap<(Name, Level), Vec<Interval>>,
    opened: FxHashMap<Level, Vec<(Name, Expr)>>,
}

/// What the walk leaves for later passes.
pub struct Built {
    /// The whole body.
    pub body: Stmt,
    /// Storage by Func.
    pub storage: FxHashMap<Name, Storage>,
    /// Which regions of the inputs are read.
    pub required: Required,
}

/// Builds the statement of `plan`. After: every name is bound; no region is symbolic.
pub fn build_nests(plan: &Plan) -> Result<Built, Error> {
    let mut nests = Nests {
        plan,
        uses: uses(plan.funcs.values().flat_map(|f| &f.stages)),
        facts: Facts::new(),
        regions: FxHashMap::default(),
        produced: FxHashMap::default(),
        unslid: FxHashMap::default(),
        rvar_names: FxHashMap::default(),
        storage: FxHashMap::default(),
        live: FxHashMap::default(),
        own: FxHashMap::default(),
        once: FxHashSet::default(),
        required: vec![],
        bound_checks: vec![],
        around: vec![],
        all: FxHashMap::default(),
        needed: FxHashMap::default(),
        differing: FxHashSet::default(),
        current: FxHashMap::default(),
        pending: vec![],
        opened: FxHashMap::default(),
    };
    nests.enter_param_ranges();
    nests.check_sinks()?;
    let body = nests.level(&Level::Root, &[], &mut |_| Ok(Stmt::Block(vec![])))?;
    nests.check_in_place()?;
    nests.decide_folds();
    nests.check_sizes()?;
    let body = fold_storage(&body, &nests.storage);
    let lets = nests.opened.remove(&Level::Root).unwrap_or_default();
    let ends = |dims: Vec<Interval>| dims.into_iter().map(|i| (i.min, i.max)).collect();
    let inputs = nests.required.into_iter().map(|(name, dims)| (name, ends(dims))).collect();
    Ok(Built { body, storage: nests.storage, required: Required { lets, inputs } })
}

impl<'p> Nests<'p> {
    /// The version of a stage that is being emitted.
    pub fn version_of(&self, id: &StageId) -> &'p Stage {
        let plan = self.plan;
        self.current.get(id).copied().unwrap_or_else(|| &plan.funcs[&id.func].stages[id.stage])
    }

    /// Loop or bound name in the body.
    pub fn full_name(&self, s: &Stage, local: &str) -> Name {
        match s.version {
            0 => format!("{}.s{}.{local}", s.id.func, s.id.stage).into(),
            v => format!("{}.s{}.v{v}.{local}", s.id.func, s.id.stage).into(),
        }
    }

    /// A local name in terms of the loops and block origins of its stage.
    pub fn local_expr(&self, s: &Stage, local: &Name) -> Expr {
        match s.replaced(local) {
            Some(Change::Split(t)) => add(&self.base_expr(s, t), &self.local_expr(s, &t.inner)),
            Some(Change::Rename { new, .. }) => self.local_expr(s, new),
            Some(Change::Fuse(_)) | None => Expr::var(self.full_name(s, local)),
        }
    }

    /// `outer * factor + min` of a split: its let-bound name, or the sum itself where `outer` has lanes.
    pub fn base_expr(&self, s: &Stage, t: &Split) -> Expr {
        Expr::var(self.full_name(s, &format!("{}.base", t.old)))
    }

    /// Binds `name` at the level being opened, unless the value is a name or two, plus a constant: those cancel better
    /// in plain sight, and do not grow along a chain. Returns what stands for the value.
    pub fn name(&mut self, name: String, value: &Expr) -> Expr {
        let p = Polys::default().of(value);
        if p.is_plain() {
            return rebuild(&p, value.ty());
        }
        let name: Name = name.into();
        self.facts.enter_let(&name, value);
        match self.pending.last_mut() {
            Some(lets) => lets.push((name.clone(), value.clone())),
            None => unreachable!("name: no level is open"),
        }
        Expr::new(ExprKind::Var(name), value.ty())
    }

    /// Everything at `level`: what is stored there and, under `conds`, computed there, then `rest`.
    pub(super) fn level(
        &mut self,
        level: &Level,
        conds: &[Expr],
        rest: &mut dyn FnMut(&mut Self) -> Result<Stmt, Error>,
    ) -> Result<Stmt, Error> {
        let plan = self.plan;
        let here: Vec<&FuncPlan> =
            plan.funcs.values().filter(|f| f.compute == *level || f.store == *level).collect();
        if here.is_empty() && *level != Level::Root {
            return rest(self);
        }
        let mut checks = vec![];
        if !self.opened.contains_key(level) {
            self.pending.push(vec![]);
            for f in here.iter().rev() {
                self.open(f, level)?;
            }
            for t in plan.together.iter().filter(|t| plan.funcs[&t.funcs[0]].compute == *level) {
                t.shared.iter().try_for_each(|func| self.need_of_all(func, level))?;
            }
            if *level == Level::Root {
                checks = self.param_checks();
                checks.extend(self.input_checks()?);
                checks.extend(self.sink_checks()?);
                checks.extend(self.take_bound_checks()?);
            }
            let lets = self.pending.pop().unwrap_or_default();
            self.opened.insert(level.clone(), lets);
        } else {
            let lets = self.opened[level].clone();
            lets.iter().for_each(|(n, v)| self.facts.enter_let(n, v));
        }
        let body = self.realize(&here, level, conds, rest)?;
        Ok(checks::guarded(&self.opened[level], checks, body))
    }

    /// Infers the regions of `f` at `level`.
    fn open(&mut self, f: &FuncPlan, level: &Level) -> Result<(), Error> {
        let name = &f.func.name;
        if f.compute == *level {
            if !self.is_inside(name, &f.store) {
                return Err(illegal(&f.stages[0].id, "store_at", "is not at or outside of compute_at"));
            }
            let required = self.region(name, level)?;
            self.check_store_races(f)?;
            self.check_folds(f, &required)?;
            self.note_live(f, &required);
        }
        if f.store == *level {
            self.own_tile(f)?;
            self.allocate(f)?;
        }
        if f.compute == *level {
            let required = self.region(name, level)?;
            let produced = self.slide(f, &required)?;
            self.produced.insert(name.clone(), produced);
        }
        Ok(())
    }

    /// Storage and nests of `here`, each around those after it, and `rest` innermost.
    fn realize(
        &mut self,
        here: &[&'p FuncPlan],
        level: &Level,
        conds: &[Expr],
        rest: &mut dyn FnMut(&mut Self) -> Result<Stmt, Error>,
    ) -> Result<Stmt, Error> {
        let Some(f) = here.first() else { return rest(self) };
        let plan = self.plan;
        let together = plan.together.iter().find(|t| f.compute == *level && t.funcs.contains(&f.func.name));
        let (own, later) = here.split_at(together.map_or(1, |t| t.funcs.len()));
        let mut parts = vec![];
        match together {
            Some(t) => {
                for ids in &t.steps {
                    parts.push(self.joint_nest(ids)?);
                }
            }
            None if f.compute == *level => {
                for s in &f.stages {
                    parts.push(self.joint_nest(std::slice::from_ref(&s.id))?);
                }
            }
            None => {}
        }
        for f in own.iter().filter(|f| f.compute == *level) {
            parts.extend(self.copy_to_output(f)?);
        }
        parts = parts.into_iter().map(|s| guarded(conds, s)).collect();
        parts.push(self.realize(later, level, conds, rest)?);
        let stored = own.iter().rev().filter(|f| f.store == *level);
        Ok(stored.fold(block(parts), |body, f| match self.storage.get(&f.func.name) {
            Some(store) => Stmt::Realize {
                func: f.func.name.clone(),
                region: store.region.clone(),
                body: Box::new(body),
            },
            None => body,
        }))
    }

    fn inferred(&self) -> Inferred {
        Inferred {
            regions: self.regions.clone(),
            produced: self.produced.clone(),
            unslid: self.unslid.clone(),
            needed: self.needed.clone(),
            opened: self.opened.clone(),
        }
    }

    fn restore(&mut self, i: Inferred) {
        (self.regions, self.produced, self.unslid) = (i.regions, i.produced, i.unslid);
        (self.needed, self.opened) = (i.needed, i.opened);
    }
}

/// `let name = value` around `body`.
pub fn bind(name: Name, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name, value, body: Box::new(body) }
}

/// `body` under conditions, the first one outermost.
fn guarded(conds: &[Expr], body: Stmt) -> Stmt {
    conds.iter().rev().fold(body, |body, c| branch(c.clone(), body, None))
}

/// `if cond { then } else { otherwise }`.
fn branch(cond: Expr, then: Stmt, otherwise: Option<Stmt>) -> Stmt {
    Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
}
