//! Emits the loops of a stage with what is in their slots.

use crate::analysis::algebra::{Facts, Interval};
use crate::analysis::associative::operands;
use crate::error::Error;
use crate::expr::walk::Substitution;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{bind, block, branch, under};
use crate::ir::stmt::{Stmt, Target};
use crate::nests::checks::points_check;
use crate::nests::names::full_name;
use crate::nests::place::place;
use crate::nests::policies::with_policy;
use crate::nests::prefetch::prefetches;
use crate::nests::reach::{only_value, reaches};
use crate::nests::regions::Regions;
use crate::nests::scope::{Around, Scope};
use crate::nests::slots::{Emit, Item, Mode};
use crate::nests::walk::Walk;
use crate::plan::plans::{Dim, FuncPlan, Level, Stage, illegal};
use crate::schedule::{ForKind, LoopLevel};

/// Loops of constant extents (vectors, copies, threads) are at most that long.
pub(super) const MAX_COPIES: i64 = 1024;

impl<'p> Walk<'p> {
    /// One stage: its special versions under their conditions, then what remains. Each computes the producers placed in its
    /// loops over regions of its own.
    pub(super) fn stage(&mut self, f: &'p FuncPlan, s: &'p Stage) -> Result<Stmt, Error> {
        self.versions(s, &mut |walk, version| {
            let cx = place(walk.scope.plan, &walk.regions, &walk.found, f, version)?;
            walk.item(&cx, 0, 0, Mode::Store(vec![]))
        })
    }

    /// One stage as one block of one thread.
    pub(super) fn single(&mut self, f: &'p FuncPlan, s: &'p Stage) -> Result<Stmt, Error> {
        let loops = [("gpu_block", ForKind::GpuBlock), ("gpu_thread", ForKind::GpuThread)];
        let mut scope = self.scope.clone();
        for (name, kind) in loops {
            let level = LoopLevel { stage: s.id.clone(), var: name.into() };
            scope.around.push(Around::Loop(level, full_name(s, name), kind));
        }
        let body = self.at(scope, |walk| walk.stage(f, s))?;
        let once = |body, (name, kind)| {
            let (min, extent) = (Expr::from(0), Expr::from(1));
            Stmt::For { var: full_name(s, name), min, extent, kind, body: Box::new(body) }
        };
        Ok(loops.into_iter().rev().fold(body, once))
    }

    /// Item `i` of slot `j` and those after it, then what is inside.
    fn item(&mut self, cx: &Emit<'p>, j: usize, i: usize, mode: Mode) -> Result<Stmt, Error> {
        let Some(item) = cx.slots[j].get(i) else { return self.inside(cx, j, mode) };
        match item {
            Item::Let(name, value) => {
                self.scope.facts.enter_let(name, value);
                Ok(bind(name.clone(), value.clone(), self.item(cx, j, i + 1, mode)?))
            }
            Item::Bounds(r, min, max) => {
                let lets = enter_bounds(&mut self.scope, &mut self.regions, cx, r, [min, max]);
                let body = self.item(cx, j, i + 1, mode)?;
                Ok(lets.into_iter().rev().fold(body, |b, (n, v)| bind(n, v, b)))
            }
            Item::Known(fact) => {
                self.scope.facts.assume(fact);
                self.item(cx, j, i + 1, mode)
            }
            Item::Points(extents, fused) => {
                let check = points_check(&self.scope.facts, &cx.s.id, extents, fused);
                let rest = self.item(cx, j, i + 1, mode)?;
                Ok(block(check.into_iter().chain([rest]).collect()))
            }
            Item::Tail(value, max) if self.scope.facts.proves_le(value, max) => self.item(cx, j, i + 1, mode),
            Item::Tail(value, max) => {
                let cond = value.le(max).likely();
                let body = self.at(self.scope.clone(), |walk| {
                    walk.scope.enter_tail(value, max);
                    walk.item(cx, j, i + 1, mode)
                });
                Ok(branch(cond, body?, None))
            }
            Item::Predicate(cond) => Ok(branch(cond.clone(), self.gated(cx, j, i, cond, mode)?, None)),
            Item::Skip(cond) => {
                let body = self.gated(cx, j, i, cond, mode)?;
                let is_zeroed = cx.destination.intermediate && cx.s.id.stage == 0;
                let zero = is_zeroed.then(|| self.item(cx, j, i + 1, Mode::Zero)).transpose()?;
                Ok(branch(cond.clone(), body, zero))
            }
            Item::Own(x, own) => self.own_item(cx, j, i, (x, own), mode),
        }
    }

    /// Returns what follows item `i` of slot `j`, where `cond` holds and may hold again after it did not.
    fn gated(&mut self, cx: &Emit<'p>, j: usize, i: usize, cond: &Expr, mode: Mode) -> Result<Stmt, Error> {
        self.at(self.scope.clone(), |walk| {
            walk.scope.enter_gate(cond);
            walk.item(cx, j, i + 1, mode)
        })
    }

    /// A condition on the output store: outside of the vector loop the body is emitted for both cases. Loops of a GPU further inside stand directly in
    /// each other, so that those take the condition with them.
    fn own_item(
        &mut self,
        cx: &Emit<'p>,
        j: usize,
        i: usize,
        (x, own): (&Expr, &Interval),
        mode: Mode,
    ) -> Result<Stmt, Error> {
        let Mode::Store(mut lanes) = mode else { return self.item(cx, j, i + 1, mode) };
        let Some(cond) = in_own_tile(&self.scope.facts, x, own) else {
            return self.item(cx, j, i + 1, Mode::Store(lanes));
        };
        let dims = &cx.s.dims;
        let in_vector = dims[dims.len() - j..].iter().any(|d| d.kind.is_vector());
        if in_vector || j == dims.len() || dims[..dims.len() - j].iter().any(|d| d.kind.is_gpu()) {
            lanes.push(cond);
            return self.item(cx, j, i + 1, Mode::Store(lanes));
        }
        // Of stages with versions it is the last one's regions that stay behind, which the first one of the second body would take.
        let plan = self.scope.plan;
        let versions = plan.funcs.values().any(|f| f.stages.iter().any(|s| !s.special.is_empty()));
        let outside = versions.then(|| self.regions.clone());
        let own = self.item(cx, j, i + 1, Mode::Store(lanes))?;
        if let Some(outside) = outside {
            self.regions = outside;
        }
        let other = cx.destination.intermediate.then(|| self.item(cx, j, i + 1, Mode::NotOwn)).transpose()?;
        Ok(branch(cond, own, other))
    }

    /// Returns what is inside loop `j - 1` (inside the stage, for j = 0): its producers, then the next loop or the last slot; in that, the
    /// store.
    pub(super) fn inside(&mut self, cx: &Emit<'p>, j: usize, mode: Mode) -> Result<Stmt, Error> {
        let n = cx.s.dims.len();
        if j > n {
            return Ok(leaf(cx, &mode));
        }
        let rest = |walk: &mut Self| match j {
            j if j == n => walk.item(cx, n + 1, 0, mode.clone()),
            j => walk.at(walk.scope.clone(), |walk| walk.one_loop(cx, j, &mode)),
        };
        if j == 0 || matches!(mode, Mode::Zero) {
            return rest(self);
        }
        let var = cx.s.dims[n - j].name.clone();
        let fetches = prefetches(&self.scope, &self.regions, cx.s, &var)?;
        let level = Level::At(LoopLevel { stage: cx.s.id.clone(), var });
        let reach = reaches(&self.scope, &self.regions, cx.s, j - 1, &level);
        let rest = |walk: &mut Self| match &reach {
            Some(cond) => {
                let body = walk.at(walk.scope.clone(), |walk| {
                    walk.scope.enter_gate(cond);
                    rest(walk)
                });
                Ok(branch(cond.clone(), body?, None))
            }
            None => rest(walk),
        };
        let run_up = self.regions.run_ups.get(&level).cloned().flatten();
        let body = self.level(&level, &[], &mut |walk| match &run_up {
            Some(r) => {
                let begun = r.first.le(Expr::var(r.var.clone()));
                let body = walk.at(walk.scope.clone(), |walk| {
                    walk.scope.facts.assume(&begun);
                    rest(walk)
                });
                Ok(branch(if r.windows { begun.likely() } else { begun }, body?, None))
            }
            None => rest(walk),
        })?;
        Ok(block(fetches.into_iter().chain([body]).collect()))
    }

    /// Loop `j`, counted from outside.
    fn one_loop(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let mut inner = cx.clone();
        if !matches!(mode, Mode::Zero)
            && let Some(run_up) = self.run_up(cx, j)
        {
            inner.begin_early(j, &run_up);
        }
        let Entered { var, min, max, extent, kind, once } = enter_loop(&mut self.scope, &mut inner, j)?;
        let body = self.item(&inner, j + 1, 0, mode.clone())?;
        if let Some(some) = once {
            let body = bind(var, min.clone(), body);
            return Ok(if some { body } else { branch(min.le(&max).likely(), body, None) });
        }
        // Lanes of a reduction that have different values add to one element in each iteration, and in none at once.
        let lanes = |d: &Dim| d.reduction && matches!(d.kind, ForKind::Vectorized | ForKind::GpuLane);
        let is_serial = kind == ForKind::Serial && !cx.s.dims.iter().any(lanes);
        if let Some((value, body)) = only_value(&var, &body).filter(|_| is_serial) {
            let v = Expr::var(var.clone());
            return Ok(bind(var, value, branch(min.le(&v).and(v.le(&max)), body, None)));
        }
        let body = Box::new(with_policy(cx.s, j, &var, body)?);
        Ok(Stmt::For { var, min, extent, kind, body })
    }
}

/// Enters the bounds of a reduction variable: the lets, of those that have names.
pub(super) fn enter_bounds(
    scope: &mut Scope,
    regions: &mut Regions,
    cx: &Emit,
    r: &Name,
    values: [&Expr; 2],
) -> Vec<(Name, Expr)> {
    let ends = cx.bounds[r].clone();
    regions.rvars.insert((cx.s.id.clone(), r.clone()), ends.clone());
    let mut lets = vec![];
    for (name, value) in [&ends.0, &ends.1].into_iter().zip(values) {
        if let ExprKind::Var(n) = name.kind() {
            scope.facts.enter_let(n, value);
            lets.push((n.clone(), value.clone()));
        }
    }
    lets
}

/// That coordinate `x` lies in the own tile, unless it is known to.
pub(super) fn in_own_tile(facts: &Facts, x: &Expr, own: &Interval) -> Option<Expr> {
    let ends = [(&own.min, x), (x, &own.max)];
    let open = ends.into_iter().filter(|(a, b)| !facts.proves_le(a, b));
    open.map(|(a, b)| a.le(b).likely()).reduce(|a, b| a.and(b))
}

/// A loop of a stage.
pub(super) struct Entered {
    /// Its variable, in full.
    pub var: Name,
    /// First value.
    pub min: Expr,
    /// Last value of the range; `extent` may reach beyond.
    pub max: Expr,
    /// Number of iterations.
    pub extent: Expr,
    /// The way it runs.
    pub kind: ForKind,
    /// If there is at most one iteration: whether there is one for sure.
    pub once: Option<bool>,
}

/// Enters loop `j`, counted from outside: what is known inside, and what is around. Loops of constant extents are made
/// as long as they may become, and have a tail then.
pub(super) fn enter_loop(scope: &mut Scope, cx: &mut Emit, j: usize) -> Result<Entered, Error> {
    let s = cx.s;
    let dim = &s.dims[s.dims.len() - 1 - j];
    let (min, max) = cx.bounds[&dim.name].clone();
    let var = full_name(s, &dim.name);
    let mut extent = cx.interval(&dim.name).extent();
    let kind = dim.kind;
    // Asked before the loop is entered: inside, there is at least one iteration.
    let most = scope.facts.upper_within(&extent, if kind.is_constant() { i64::MAX } else { 1 });
    let least = most.and_then(|_| scope.facts.lower(&extent));
    scope.facts.enter_for(&var, &min, &extent);
    let level = LoopLevel { stage: s.id.clone(), var: dim.name.clone() };
    if !kind.is_gpu() && most.is_some_and(|u| u <= 1) {
        scope.facts.enter_let(&var, &min);
        scope.around.push(Around::Once(level));
        let once = Some(least.is_some_and(|l| l >= 1));
        if once == Some(false) {
            scope.around.extend([&min, &max].map(|end| Around::Tail(end.clone())));
        }
        return Ok(Entered { var, min, max, extent, kind, once });
    }
    if kind.is_constant() {
        let Some(most) = most.filter(|&m| m <= MAX_COPIES) else {
            let text = dim.directive();
            let rule = "the extent has no small constant bound; split the loop first";
            return Err(illegal(&s.id, text, rule));
        };
        if least != Some(most) {
            cx.slots[j + 1].insert(0, Item::Tail(Expr::var(var.clone()), max.clone()));
            scope.facts.enter_for(&var, &min, &Expr::from(most as i32));
        }
        extent = Expr::from(most as i32);
    }
    scope.around.push(Around::Loop(level, var.clone(), kind));
    Ok(Entered { var, min, max, extent, kind, once: None })
}

/// The innermost statement.
fn leaf(cx: &Emit, mode: &Mode) -> Stmt {
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
        return provide(&zeros, Target::Intermediate);
    }
    if let Some(parts) = cx.s.atomic.then(|| operands(func, &cx.s.args, &cx.s.values)).flatten() {
        let (ops, values): (_, Vec<Expr>) = parts.iter().map(|(op, e)| (*op, subst.apply(e))).unzip();
        return provide(&values, Target::Atomic(ops));
    }
    let values: Vec<Expr> = cx.s.values.iter().map(|v| subst.apply(v)).collect();
    let mut parts = vec![];
    if cx.destination.intermediate {
        parts.push(provide(&values, Target::Intermediate));
    }
    if let (Mode::Store(conds), true) = (mode, cx.destination.output) {
        // What is in storage of its own already is not computed again.
        let stored = |(k, v): (usize, &Expr)| Expr::call(func.clone(), v.ty().scalar, args.clone(), k);
        let is_stored = cx.destination.intermediate;
        let values = if is_stored { values.iter().enumerate().map(stored).collect() } else { values };
        parts.push(under(conds, provide(&values, Target::Output)));
    }
    block(parts)
}
