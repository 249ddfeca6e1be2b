//! Loop nests, with producers injected at their levels.
//!
//! One walk from outside in. At every level (root, or the body of a loop) the Funcs that are stored or computed there are
//! opened, consumers first: their regions are inferred and let-bound ([`super::bounds_inference`]), a sliding region is
//! narrowed ([`super::sliding_window`]), folds are checked ([`super::storage_folding`]), storage is sized
//! ([`super::allocation_bounds`]). Then the storage is realised and the nests follow, producers first.
//!
//! Names: loop `v` of stage k of `f` is `f.s<k>.<v>`; the origin of a block of split variable `x` is let-bound
//! as `f.s<k>.<x>.base` and stays opaque, so that it cancels. Lets, guards and conditions are placed as far out as
//! the variables they use allow; what concerns rows is thus decided outside of the vector loop.

use super::apply_schedule::{FuncPlan, Level, Plan, Split, Stage, illegal, origin};
use super::bounds_inference::{Uses, uses};
use super::bounds_query::BoundsQuery;
use super::facts::{Definition, Definitions};
use super::intervals::Interval;
use super::linear::{self, Linear, add, mul, offset, sub};
use super::rewrite::block;
use super::rfactor::blocks;
use super::sinks::Destination;
use super::substitute::{Substitution, variables};
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name};
use crate::schedule::{ForKind, LoopLevel, Memory, StageId, Tail};
use crate::stmt::{Stmt, Target};
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
}

/// State of the walk.
pub struct Nests<'p> {
    /// What to compute.
    pub plan: &'p Plan,
    /// Who calls whom.
    pub uses: Uses,
    /// Everything bound so far.
    pub facts: Definitions,
    /// Regions by Func and level.
    pub regions: FxHashMap<(Name, Level), Vec<Interval>>,
    /// What the loops of a Func cover at its compute level: the region less what sliding saves.
    pub produced: FxHashMap<Name, Vec<Interval>>,
    /// A slid minimum, and the minimum before sliding.
    pub unslid: FxHashMap<Name, Expr>,
    /// Bound names of the bounds of reduction variables.
    pub rvar_names: FxHashMap<(StageId, Name), (Expr, Expr)>,
    /// Storage of the Funcs that have some.
    pub storage: FxHashMap<Name, Storage>,
    /// Own tile of each sink.
    pub own: FxHashMap<Name, Vec<Interval>>,
    /// Outputs each of whose points is computed once.
    pub once: FxHashSet<Name>,
    /// Regions of the inputs.
    pub required: Vec<(Name, Vec<Interval>)>,
    /// Loops and gates, outermost first.
    pub around: Vec<Around>,
    /// Lets of the levels being opened.
    pending: Vec<Vec<(Name, Expr)>>,
    /// Lets of levels that were opened (a body emitted twice repeats them).
    opened: FxHashMap<Level, Vec<(Name, Expr)>>,
}

/// What the walk leaves for later passes.
pub struct Built {
    /// The whole body.
    pub body: Stmt,
    /// Storage by Func.
    pub storage: FxHashMap<Name, Storage>,
    /// Which regions of the inputs are read.
    pub query: BoundsQuery,
}

/// Builds the statement of `plan`. After: every name is bound; no region is symbolic.
pub fn build_nests(plan: &Plan) -> Result<Built, Error> {
    let mut nests = Nests {
        plan,
        uses: uses(plan.funcs.values().flat_map(|f| &f.stages)),
        facts: Definitions::default(),
        regions: FxHashMap::default(),
        produced: FxHashMap::default(),
        unslid: FxHashMap::default(),
        rvar_names: FxHashMap::default(),
        storage: FxHashMap::default(),
        own: FxHashMap::default(),
        once: FxHashSet::default(),
        required: vec![],
        around: vec![],
        pending: vec![],
        opened: FxHashMap::default(),
    };
    nests.check_sinks()?;
    let body = nests.level(&Level::Root, &mut |_| Ok(Stmt::Block(vec![])))?;
    nests.check_in_place()?;
    let lets = nests.opened.remove(&Level::Root).unwrap_or_default();
    let query = BoundsQuery { pipeline: plan.pipeline.name.clone(), lets, inputs: nests.required };
    Ok(Built { body, storage: nests.storage, query })
}

/// Something placed as far out as its variables allow.
#[derive(Clone)]
enum Item {
    Let(Name, Expr),
    /// Bounds of a reduction variable.
    Bounds(Name, Expr, Expr),
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
enum Mode {
    /// Stores where the Func's values go; to the output under these conditions on vector lanes.
    Store(Vec<Expr>),
    /// Stores to intermediate storage only: the point is not in the own tile.
    NotOwn,
    /// Stores zeros to intermediate storage.
    Zero,
}

/// One stage being emitted.
#[derive(Clone)]
struct Emit<'p> {
    f: &'p FuncPlan,
    s: &'p Stage,
    /// Items per slot: slot 0 before the first loop, slot j + 1 inside loop j (counted from outside).
    slots: Vec<Vec<Item>>,
    /// Values of the split-off, still symbolic variables, in full names.
    locals: FxHashMap<Name, Expr>,
    /// Loop minimum and maximum per local name of a loop.
    bounds: FxHashMap<Name, (Expr, Expr)>,
    destination: Destination,
}

impl<'p> Nests<'p> {
    /// Loop or bound name in the body.
    pub fn full_name(&self, s: &Stage, local: &str) -> Name {
        format!("{}.s{}.{local}", s.id.func, s.id.stage).into()
    }

    /// A local name in terms of the loops and block origins of its stage.
    pub fn local_expr(&self, s: &Stage, local: &Name) -> Expr {
        match s.splits.iter().find(|t| t.old == *local) {
            Some(t) => add(&self.base_expr(s, t), &self.local_expr(s, &t.inner)),
            None => Expr::var(self.full_name(s, local)),
        }
    }

    /// `outer * factor + min` of a split: its let-bound name, or the sum itself where `outer` has lanes.
    pub fn base_expr(&self, s: &Stage, t: &Split) -> Expr {
        Expr::var(self.full_name(s, &format!("{}.base", t.old)))
    }

    /// Binds `name` at the level being opened, unless the value is a name or two, plus a constant: those cancel better
    /// in plain sight, and do not grow along a chain. Returns what stands for the value.
    pub fn name(&mut self, name: String, value: &Expr) -> Expr {
        let l = Linear::of(value);
        let plain =
            |(a, c): &(Expr, i64)| *c == 1 && matches!(a.kind(), ExprKind::Var(_) | ExprKind::Param(_));
        if l.terms.len() <= 2 && l.terms.iter().all(plain) {
            return l.to_expr();
        }
        let name: Name = name.into();
        self.facts.bind(&name, value);
        match self.pending.last_mut() {
            Some(lets) => lets.push((name.clone(), value.clone())),
            None => unreachable!("name: no level is open"),
        }
        Expr::new(ExprKind::Var(name), value.ty())
    }

    /// Everything at `level`: what is stored and computed there, then `rest`.
    fn level(
        &mut self,
        level: &Level,
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
            if *level == Level::Root {
                checks = self.input_checks()?;
                checks.extend(self.sink_checks()?);
            }
            let lets = self.pending.pop().unwrap_or_default();
            self.opened.insert(level.clone(), lets);
        } else {
            let lets = self.opened[level].clone();
            lets.iter().for_each(|(n, v)| self.facts.bind(n, v));
        }
        let mut body = self.realize(&here, level, rest)?;
        if !checks.is_empty() {
            checks.push(body);
            body = Stmt::Block(checks);
        }
        let lets = self.opened[level].iter().rev();
        Ok(lets.fold(body, |body, (n, v)| bind(n.clone(), v.clone(), body)))
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
        rest: &mut dyn FnMut(&mut Self) -> Result<Stmt, Error>,
    ) -> Result<Stmt, Error> {
        let Some((f, later)) = here.split_first() else { return rest(self) };
        let mut parts = vec![];
        if f.compute == *level {
            for s in f.stages.iter().filter(|s| !self.keeps(f, s)).collect::<Vec<_>>() {
                parts.push(Stmt::Produce { stage: s.id.clone(), body: Box::new(self.stage(f, s)?) });
            }
            parts.extend(self.copy_to_output(f)?);
        }
        match self.realize(later, level, rest)? {
            Stmt::Block(b) => parts.extend(b),
            s => parts.push(s),
        }
        let body = block(parts);
        Ok(match self.storage.get(&f.func.name).filter(|_| f.store == *level) {
            Some(store) => Stmt::Realize {
                func: f.func.name.clone(),
                region: store.region.clone(),
                body: Box::new(body),
            },
            None => body,
        })
    }

    /// The loops of one stage.
    fn stage(&mut self, f: &'p FuncPlan, s: &'p Stage) -> Result<Stmt, Error> {
        let mut cx = Emit {
            f,
            s,
            slots: vec![vec![]; s.dims.len() + 1],
            locals: FxHashMap::default(),
            bounds: FxHashMap::default(),
            destination: self.destination(f, s),
        };
        self.bind_locals(&mut cx)?;
        self.place_items(&mut cx)?;
        self.slot(&cx, 0, Mode::Store(vec![]))
    }

    /// Loop bounds, and every local name in terms of loops.
    fn bind_locals(&mut self, cx: &mut Emit<'p>) -> Result<(), Error> {
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
        for t in &s.splits {
            let (min, max) = cx.bounds[&t.old].clone();
            let blocks = offset(&blocks(&min, &max, &t.factor), -1);
            // A kept variable of an rfactor is a dimension with bounds of its own.
            cx.bounds.entry(t.outer.clone()).or_insert((Expr::from(0), blocks));
            cx.bounds.entry(t.inner.clone()).or_insert((Expr::from(0), offset(&t.factor, -1)));
        }
        let names: Vec<Name> = cx.bounds.keys().cloned().collect();
        for n in names {
            cx.locals.insert(n.clone(), self.local_expr(s, &n));
        }
        Ok(())
    }

    /// Sorts lets, guards and conditions into slots.
    fn place_items(&mut self, cx: &mut Emit<'p>) -> Result<(), Error> {
        let s = cx.s;
        // Bounds of reduction variables may read memory at pure variables: inside the guards of those.
        self.place_splits(cx, false);
        for r in &s.rvars {
            let deps = variables(&r.min).into_iter().chain(variables(&r.max));
            let slot = deps.map(|v| self.slot_of(cx, &v)).max().unwrap_or(0);
            if let Some(i) = s.dims.iter().position(|d| origin(s, &d.name) == r.name)
                && slot > 0
            {
                let first = (i..s.dims.len()).rev().find(|&i| origin(s, &s.dims[i].name) == r.name);
                if s.dims.len() - first.unwrap_or(i) - 1 < slot {
                    let rule = format!("the bounds of {} use a loop further in", r.name);
                    return Err(illegal(&s.id, "reorder", rule));
                }
            }
            let mut subst = Substitution::new(&cx.locals);
            let item = Item::Bounds(r.name.clone(), subst.apply(&r.min), subst.apply(&r.max));
            cx.slots[slot].push(item);
        }
        self.place_splits(cx, true);
        let mut subst = Substitution::new(&cx.locals);
        let mut conds = vec![];
        for c in s.predicate.iter().flat_map(conjuncts) {
            let slot = variables(&c).iter().map(|v| self.slot_of(cx, v)).max().unwrap_or(0);
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
    fn skip(&self, cx: &Emit<'p>, v: &Name, c: &Expr) -> Result<(usize, Item), Error> {
        let s = cx.s;
        let mut locals = cx.locals.clone();
        let mut slot = |u: &Name| match s.splits.iter().find(|t| t.old == *u && t.outer == *v) {
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

    /// Block origins and tails of the splits of reduction variables, or of pure ones.
    fn place_splits(&self, cx: &mut Emit<'p>, reduction: bool) {
        let s = cx.s;
        let chosen = |t: &&Split| s.rvars.iter().any(|r| r.name == origin(s, &t.old)) == reduction;
        // A split made later is of a product of an earlier one, whose origin needs it: latest first.
        for t in s.splits.iter().rev().filter(chosen) {
            let slot = self.slot_of(cx, &t.outer).max(self.bounds_slot(cx, &t.old));
            let (min, _) = cx.bounds[&t.old].clone();
            let value = add(&mul(&self.local_expr(s, &t.outer), &t.factor), &min);
            let name = self.full_name(s, &format!("{}.base", t.old));
            cx.slots[slot].push(Item::Let(name, value));
        }
        for t in s.splits.iter().filter(chosen).filter(|t| !rounds_region(s, t)) {
            let slot = self.slot_of(cx, &t.old).max(self.bounds_slot(cx, &t.old));
            let (_, max) = cx.bounds[&t.old].clone();
            cx.slots[slot].push(Item::Tail(cx.locals[&t.old].clone(), max));
        }
    }

    /// The first slot in which a local name has a value.
    fn slot_of(&self, cx: &Emit, name: &Name) -> usize {
        let s = cx.s;
        if let Some(t) = s.splits.iter().find(|t| t.old == *name) {
            return self
                .slot_of(cx, &t.outer)
                .max(self.slot_of(cx, &t.inner))
                .max(self.bounds_slot(cx, name));
        }
        s.dims.iter().position(|d| d.name == *name).map_or(0, |i| s.dims.len() - i)
    }

    /// The first slot in which the bounds of a local name have values.
    fn bounds_slot(&self, cx: &Emit, name: &Name) -> usize {
        let r = origin(cx.s, name);
        let Some(r) = cx.s.rvars.iter().find(|v| v.name == r) else { return 0 };
        let deps = variables(&r.min).into_iter().chain(variables(&r.max));
        deps.map(|v| self.slot_of(cx, &v)).max().unwrap_or(0)
    }

    /// The items of slot `j`, then what is inside.
    fn slot(&mut self, cx: &Emit<'p>, j: usize, mode: Mode) -> Result<Stmt, Error> {
        self.item(cx, j, 0, mode)
    }

    fn item(&mut self, cx: &Emit<'p>, j: usize, i: usize, mode: Mode) -> Result<Stmt, Error> {
        let Some(item) = cx.slots[j].get(i) else { return self.inside(cx, j, mode) };
        match item {
            Item::Let(name, value) => {
                self.facts.bind(name, value);
                Ok(bind(name.clone(), value.clone(), self.item(cx, j, i + 1, mode)?))
            }
            Item::Bounds(r, min, max) => {
                let ends = cx.bounds[r].clone();
                self.rvar_names.insert((cx.s.id.clone(), r.clone()), ends.clone());
                let mut lets = vec![];
                for (name, value) in [(&ends.0, min), (&ends.1, max)] {
                    if let ExprKind::Var(n) = name.kind() {
                        self.facts.bind(n, value);
                        lets.push((n.clone(), value.clone()));
                    }
                }
                let body = self.item(cx, j, i + 1, mode)?;
                Ok(lets.into_iter().rev().fold(body, |b, (n, v)| bind(n, v, b)))
            }
            Item::Tail(value, max) if self.facts.proves_le(value, max) => self.item(cx, j, i + 1, mode),
            Item::Tail(value, max) => {
                let cond = value.le(max).likely();
                let scope = self.facts.enter();
                self.facts.assume(&cond);
                let body = self.item(cx, j, i + 1, mode)?;
                self.facts.leave(scope);
                Ok(branch(cond, body, None))
            }
            Item::Predicate(cond) => Ok(branch(cond.clone(), self.gated(cx, j, i, cond, mode)?, None)),
            Item::Skip(cond) => {
                let body = self.gated(cx, j, i, cond, mode);
                let zero = match cx.destination.intermediate && cx.s.id.stage == 0 {
                    true => Some(self.item(cx, j, i + 1, Mode::Zero)?),
                    false => None,
                };
                Ok(branch(cond.clone(), body?, zero))
            }
            Item::Own(x, own) => self.own_item(cx, j, i, (x, own), mode),
        }
    }

    /// What follows item `i` of slot `j`, where `cond` holds and may hold again after it did not.
    fn gated(&mut self, cx: &Emit<'p>, j: usize, i: usize, cond: &Expr, mode: Mode) -> Result<Stmt, Error> {
        let scope = self.facts.enter();
        self.facts.assume(cond);
        self.around.push(Around::Gate);
        let body = self.item(cx, j, i + 1, mode);
        self.around.pop();
        self.facts.leave(scope);
        body
    }

    /// A condition on the output store: outside of the vector loop the body is emitted for both cases.
    fn own_item(
        &mut self,
        cx: &Emit<'p>,
        j: usize,
        i: usize,
        (x, own): (&Expr, &Interval),
        mode: Mode,
    ) -> Result<Stmt, Error> {
        let Mode::Store(mut lanes) = mode else { return self.item(cx, j, i + 1, mode) };
        let ends = [(&own.min, x), (x, &own.max)];
        let open =
            ends.into_iter().filter(|(a, b)| !self.facts.proves_le(a, b)).map(|(a, b)| a.le(b).likely());
        let Some(cond) = open.reduce(|a, b| a.and(b)) else {
            return self.item(cx, j, i + 1, Mode::Store(lanes));
        };
        let dims = &cx.s.dims;
        let in_vector = dims[dims.len() - j..].iter().any(|d| d.kind == ForKind::Vectorized);
        if in_vector || j == dims.len() {
            lanes.push(cond);
            return self.item(cx, j, i + 1, Mode::Store(lanes));
        }
        let own = self.item(cx, j, i + 1, Mode::Store(lanes))?;
        let other = match cx.destination.intermediate {
            true => Some(self.item(cx, j, i + 1, Mode::NotOwn)?),
            false => None,
        };
        Ok(branch(cond, own, other))
    }

    /// What is inside loop `j - 1` (inside the stage, for j = 0): its producers, then the next loop or the store.
    fn inside(&mut self, cx: &Emit<'p>, j: usize, mode: Mode) -> Result<Stmt, Error> {
        let n = cx.s.dims.len();
        let rest = |nests: &mut Self| match j {
            j if j == n => nests.leaf(cx, &mode),
            j => nests.one_loop(cx, j, &mode),
        };
        if j == 0 || matches!(mode, Mode::Zero) {
            return rest(self);
        }
        let var = cx.s.dims[n - j].name.clone();
        let level = Level::At(LoopLevel { stage: cx.s.id.clone(), var });
        self.level(&level, &mut |nests| rest(nests))
    }

    /// Loop `j`, counted from outside.
    fn one_loop(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let scope = self.facts.enter();
        let s = self.loop_body(cx, j, mode);
        self.facts.leave(scope);
        s
    }

    fn loop_body(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let s = cx.s;
        let dim = &s.dims[s.dims.len() - 1 - j];
        let (min, max) = cx.bounds[&dim.name].clone();
        let (max, trimmed) = self.trim(cx, j, &min, &max);
        let var = self.full_name(s, &dim.name);
        let extent = Interval { min: min.clone(), max: max.clone() }.extent();
        // Asked before the loop is entered: inside, there is at least one iteration.
        let (most, least) = (self.facts.upper(&extent), self.facts.lower(&extent));
        self.facts.bind_loop(&var, &min, &max);
        let level = LoopLevel { stage: s.id.clone(), var: dim.name.clone() };
        let mut inner = cx.clone();
        if let Some(i) = trimmed {
            inner.slots[j + 1].remove(i);
        }
        if most.is_some_and(|u| u <= 1) {
            self.facts.bind(&var, &min);
            let some = least.is_some_and(|l| l >= 1);
            self.around.push(Around::Once(level));
            let body = self.slot(&inner, j + 1, mode.clone());
            self.around.pop();
            let body = bind(var, min.clone(), body?);
            return Ok(if some { body } else { branch(min.le(&max).likely(), body, None) });
        }
        let mut extent = extent;
        if matches!(dim.kind, ForKind::Vectorized | ForKind::Unrolled) {
            let Some(most) = most.filter(|&m| m <= MAX_COPIES) else {
                let rule = "the extent has no small constant bound; split the loop first";
                return Err(illegal(&s.id, format!("{:?}({})", dim.kind, dim.name), rule));
            };
            if least != Some(most) {
                inner.slots[j + 1].insert(0, Item::Tail(Expr::var(var.clone()), max.clone()));
                self.facts.bind_loop(&var, &min, &offset(&min, most - 1));
            }
            extent = Expr::from(most as i32);
        }
        self.around.push(Around::Loop(level, var.clone(), dim.kind));
        let body = self.slot(&inner, j + 1, mode.clone());
        self.around.pop();
        Ok(Stmt::For { var, min, extent, kind: dim.kind, body: Box::new(body?) })
    }

    /// A serial loop inside its block loop ends where the split variable does, which spares the guard: the new
    /// maximum, and which item of the slot inside it replaces.
    fn trim(&self, cx: &Emit, j: usize, min: &Expr, max: &Expr) -> (Expr, Option<usize>) {
        let s = cx.s;
        let dim = &s.dims[s.dims.len() - 1 - j];
        let unchanged = (max.clone(), None);
        if !matches!(dim.kind, ForKind::Serial | ForKind::Parallel)
            || cx.f.func.vars.iter().any(|v| v.0 == dim.name)
        {
            return unchanged;
        }
        let Some(t) = s.splits.iter().find(|t| t.inner == dim.name && !rounds_region(s, t)) else {
            return unchanged;
        };
        if self.slot_of(cx, &t.outer).max(self.bounds_slot(cx, &t.old)) > j {
            return unchanged;
        }
        let old_max = &cx.bounds[&t.old].1;
        let value = &cx.locals[&t.old];
        let item =
            cx.slots[j + 1].iter().position(|i| matches!(i, Item::Tail(v, m) if v == value && m == old_max));
        let Some(item) = item else { return unchanged };
        let last = sub(old_max, &self.base_expr(s, t));
        let never_short = self.facts.proves_le(&add(min, &offset(&t.factor, -1)), &last);
        (if never_short { max.clone() } else { linear::min(max, &last) }, Some(item))
    }

    /// The innermost statement.
    fn leaf(&mut self, cx: &Emit, mode: &Mode) -> Result<Stmt, Error> {
        let func = &cx.f.func.name;
        let mut subst = Substitution::new(&cx.locals);
        let args: Vec<Expr> = cx.s.args.iter().map(|a| subst.apply(a)).collect();
        let provide = |values: &[Expr], to: Target| Stmt::Provide {
            func: func.clone(),
            args: args.clone(),
            values: values.to_vec(),
            to,
        };
        if let Mode::Zero = mode {
            let zeros: Vec<Expr> = cx.s.values.iter().map(|v| Expr::constant(v.ty(), 0.0)).collect();
            return Ok(provide(&zeros, Target::Intermediate));
        }
        let values: Vec<Expr> = cx.s.values.iter().map(|v| subst.apply(v)).collect();
        let mut parts = vec![];
        if cx.destination.intermediate {
            parts.push(provide(&values, Target::Intermediate));
        }
        if let (Mode::Store(conds), true) = (mode, cx.destination.output) {
            let store = provide(&values, Target::Output);
            parts.push(conds.iter().rev().fold(store, |body, c| branch(c.clone(), body, None)));
        }
        Ok(block(parts))
    }

    /// What a name is defined as, for passes that look through loops.
    pub fn loop_min(&self, var: &Name) -> Option<Expr> {
        match self.facts.get(var) {
            Some(Definition::Loop(min, _)) => Some(min.clone()),
            _ => None,
        }
    }
}

/// Largest extent of a loop that is vectorised or unrolled.
const MAX_COPIES: i64 = 1024;

/// Does the split need no guard, because the region is rounded up to whole blocks of it or a split around it has one? A
/// RoundUp of a block's inside does not grow the region: it is guarded, unless the factors divide.
fn rounds_region(s: &Stage, t: &Split) -> bool {
    let inner = |n: &Name| s.splits.iter().any(|u| u.inner == *n);
    let parent = |n: &Name| s.splits.iter().find(|u| u.outer == *n).map(|u| u.old.clone());
    let mut name = t.old.clone();
    while !inner(&name) {
        match parent(&name) {
            Some(p) => name = p,
            None => return t.tail == Tail::RoundUp,
        }
    }
    false
}

/// The parts of a conjunction.
fn conjuncts(e: &Expr) -> Vec<Expr> {
    match e.kind() {
        ExprKind::Binary(crate::expr::BinaryOp::And, a, b) => {
            let mut v = conjuncts(a);
            v.extend(conjuncts(b));
            v
        }
        _ => vec![e.clone()],
    }
}

/// `let name = value` around `body`.
pub fn bind(name: Name, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name, value, body: Box::new(body) }
}

fn branch(cond: Expr, then: Stmt, otherwise: Option<Stmt>) -> Stmt {
    Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
}
