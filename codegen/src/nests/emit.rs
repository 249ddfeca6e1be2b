//! Emits the loops of a stage with what is in their slots.

use crate::analysis::algebra::Interval;
use crate::analysis::associative::operands;
use crate::error::Error;
use crate::expr::walk::Substitution;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::block;
use crate::ir::stmt::{Stmt, Target};
use crate::nests::slots::{Emit, Item, Mode};
use crate::nests::{Around, Nests, bind, branch};
use crate::plan::plans::{Level, Stage, illegal};
use crate::schedule::{Directive, ForKind, LoopLevel};

impl<'p> Nests<'p> {
    /// The items of slot `j`, then what is inside.
    pub(super) fn slot(&mut self, cx: &Emit<'p>, j: usize, mode: Mode) -> Result<Stmt, Error> {
        self.item(cx, j, 0, mode)
    }

    pub(super) fn item(&mut self, cx: &Emit<'p>, j: usize, i: usize, mode: Mode) -> Result<Stmt, Error> {
        let Some(item) = cx.slots[j].get(i) else { return self.inside(cx, j, mode) };
        match item {
            Item::Let(name, value) => {
                self.facts.enter_let(name, value);
                Ok(bind(name.clone(), value.clone(), self.item(cx, j, i + 1, mode)?))
            }
            Item::Bounds(r, min, max) => {
                let lets = self.bounds_of(cx, r, min, max);
                let body = self.item(cx, j, i + 1, mode)?;
                Ok(lets.into_iter().rev().fold(body, |b, (n, v)| bind(n, v, b)))
            }
            Item::Known(fact) => {
                self.facts.assume(fact);
                self.item(cx, j, i + 1, mode)
            }
            Item::Points(extents, fused) => {
                let check = self.points_check(&cx.s.id, extents, fused);
                let rest = self.item(cx, j, i + 1, mode)?;
                Ok(block(check.into_iter().chain([rest]).collect()))
            }
            Item::Tail(value, max) if self.facts.proves_le(value, max) => self.item(cx, j, i + 1, mode),
            Item::Tail(value, max) => {
                let cond = value.le(max).likely();
                let scope = self.facts.clone();
                self.facts.assume(&cond);
                let body = self.item(cx, j, i + 1, mode)?;
                self.facts = scope;
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

    /// Enters the bounds of a reduction variable: the lets, of those that have names.
    pub(super) fn bounds_of(&mut self, cx: &Emit<'p>, r: &Name, min: &Expr, max: &Expr) -> Vec<(Name, Expr)> {
        let ends = cx.bounds[r].clone();
        self.rvar_names.insert((cx.s.id.clone(), r.clone()), ends.clone());
        let mut lets = vec![];
        for (name, value) in [(&ends.0, min), (&ends.1, max)] {
            if let ExprKind::Var(n) = name.kind() {
                self.facts.enter_let(n, value);
                lets.push((n.clone(), value.clone()));
            }
        }
        lets
    }

    /// What follows item `i` of slot `j`, where `cond` holds and may hold again after it did not.
    pub(super) fn gated(
        &mut self,
        cx: &Emit<'p>,
        j: usize,
        i: usize,
        cond: &Expr,
        mode: Mode,
    ) -> Result<Stmt, Error> {
        let scope = self.facts.clone();
        self.facts.assume(cond);
        self.around.push(Around::Gate);
        let body = self.item(cx, j, i + 1, mode);
        self.around.pop();
        self.facts = scope;
        body
    }

    /// A condition on the output store: outside of the vector loop the body is emitted for both cases.
    pub(super) fn own_item(
        &mut self,
        cx: &Emit<'p>,
        j: usize,
        i: usize,
        (x, own): (&Expr, &Interval),
        mode: Mode,
    ) -> Result<Stmt, Error> {
        let Mode::Store(mut lanes) = mode else { return self.item(cx, j, i + 1, mode) };
        let Some(cond) = self.in_own_tile(x, own) else {
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

    /// That coordinate `x` lies in the own tile, unless it is known to.
    pub(super) fn in_own_tile(&self, x: &Expr, own: &Interval) -> Option<Expr> {
        let ends = [(&own.min, x), (x, &own.max)];
        let open = ends.into_iter().filter(|(a, b)| !self.facts.proves_le(a, b));
        open.map(|(a, b)| a.le(b).likely()).reduce(|a, b| a.and(b))
    }

    /// What is inside loop `j - 1` (inside the stage, for j = 0): its producers, then the next loop or the last slot; in that, the
    /// store.
    pub(super) fn inside(&mut self, cx: &Emit<'p>, j: usize, mode: Mode) -> Result<Stmt, Error> {
        let n = cx.s.dims.len();
        if j > n {
            return self.leaf(cx, &mode);
        }
        let rest = |nests: &mut Self| match j {
            j if j == n => nests.slot(cx, n + 1, mode.clone()),
            j => nests.one_loop(cx, j, &mode),
        };
        if j == 0 || matches!(mode, Mode::Zero) {
            return rest(self);
        }
        let var = cx.s.dims[n - j].name.clone();
        let fetches = self.prefetches(cx.s, &var)?;
        let level = Level::At(LoopLevel { stage: cx.s.id.clone(), var });
        let body = self.level(&level, &[], &mut |nests| rest(nests))?;
        Ok(block(fetches.into_iter().chain([body]).collect()))
    }

    /// Loop `j`, counted from outside.
    pub(super) fn one_loop(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let scope = self.facts.clone();
        let s = self.loop_body(cx, j, mode);
        self.facts = scope;
        s
    }

    fn loop_body(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let mut inner = cx.clone();
        let Entered { var, min, max, extent, kind, once } = self.enter_loop(&mut inner, j)?;
        let body = self.slot(&inner, j + 1, mode.clone());
        self.around.pop();
        if let Some(some) = once {
            let body = bind(var, min.clone(), body?);
            return Ok(if some { body } else { branch(min.le(&max).likely(), body, None) });
        }
        let body = self.with_policy(cx.s, j, &var, body?)?;
        Ok(Stmt::For { var, min, extent, kind, body: Box::new(body) })
    }

    /// Enters loop `j`, counted from outside: what is known inside, and what is around. Vector and unrolled loops are made
    /// as long as they may become, and have a tail then.
    pub(super) fn enter_loop(&mut self, cx: &mut Emit<'p>, j: usize) -> Result<Entered, Error> {
        let s = cx.s;
        let dim = &s.dims[s.dims.len() - 1 - j];
        let (min, max) = cx.bounds[&dim.name].clone();
        let var = self.full_name(s, &dim.name);
        let mut extent = Interval { min: min.clone(), max: max.clone() }.extent();
        // Asked before the loop is entered: inside, there is at least one iteration.
        let (most, least) = (self.facts.upper(&extent), self.facts.lower(&extent));
        self.facts.enter_for(&var, &min, &extent);
        let level = LoopLevel { stage: s.id.clone(), var: dim.name.clone() };
        let kind = dim.kind;
        if most.is_some_and(|u| u <= 1) {
            self.facts.enter_let(&var, &min);
            self.around.push(Around::Once(level));
            let once = Some(least.is_some_and(|l| l >= 1));
            return Ok(Entered { var, min, max, extent, kind, once });
        }
        if matches!(kind, ForKind::Vectorized | ForKind::Unrolled) {
            let Some(most) = most.filter(|&m| m <= MAX_COPIES) else {
                let text = Directive::Kind { var: dim.name.clone(), kind }.to_string();
                let rule = "the extent has no small constant bound; split the loop first";
                return Err(illegal(&s.id, text, rule));
            };
            if least != Some(most) {
                cx.slots[j + 1].insert(0, Item::Tail(Expr::var(var.clone()), max.clone()));
                self.facts.enter_for(&var, &min, &Expr::from(most as i32));
            }
            extent = Expr::from(most as i32);
        }
        self.around.push(Around::Loop(level, var.clone(), kind));
        Ok(Entered { var, min, max, extent, kind, once: None })
    }

    /// The body of loop `j`, whose variable is `var`, under the stage's policy for it.
    pub(super) fn with_policy(&self, s: &Stage, j: usize, var: &Name, body: Stmt) -> Result<Stmt, Error> {
        let local = &s.dims[s.dims.len() - 1 - j].name;
        match s.partition.iter().find(|(v, _)| v == local) {
            Some((_, policy)) => self.partitioned(s, (local, *policy), var, &body),
            None => Ok(body),
        }
    }

    /// The innermost statement.
    pub(super) fn leaf(&mut self, cx: &Emit, mode: &Mode) -> Result<Stmt, Error> {
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
        if let Some(parts) = cx.s.atomic.then(|| operands(func, &cx.s.args, &cx.s.values)).flatten() {
            let (ops, values): (_, Vec<Expr>) = parts.iter().map(|(op, e)| (*op, subst.apply(e))).unzip();
            return Ok(provide(&values, Target::Atomic(ops)));
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
}

/// A loop of a stage.
pub(super) struct Entered {
    /// Its variable, in full.
    pub(super) var: Name,
    /// First value.
    pub(super) min: Expr,
    /// Last value of the range; `extent` may reach beyond.
    pub(super) max: Expr,
    /// Number of iterations.
    pub(super) extent: Expr,
    /// How it runs.
    pub(super) kind: ForKind,
    /// If there is at most one iteration: whether there is one for sure.
    pub(super) once: Option<bool>,
}

/// Vector and unrolled loops are at most that long.
pub(super) const MAX_COPIES: i64 = 1024;
