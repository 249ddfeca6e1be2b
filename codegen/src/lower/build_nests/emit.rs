//! Emits the loops of a stage with what is in their slots.

use super::slots::{Emit, Item, Mode};
use super::{Around, Nests, bind, branch};
use crate::error::Error;
use crate::expr::{Expr, ExprKind};
use crate::lower::algebra::Interval;
use crate::lower::associative::operands;
use crate::lower::plans::{Level, illegal};
use crate::lower::rewrite::{Substitution, block};
use crate::schedule::{Directive, ForKind, LoopLevel};
use crate::stmt::{Stmt, Target};

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
                let ends = cx.bounds[r].clone();
                self.rvar_names.insert((cx.s.id.clone(), r.clone()), ends.clone());
                let mut lets = vec![];
                for (name, value) in [(&ends.0, min), (&ends.1, max)] {
                    if let ExprKind::Var(n) = name.kind() {
                        self.facts.enter_let(n, value);
                        lets.push((n.clone(), value.clone()));
                    }
                }
                let body = self.item(cx, j, i + 1, mode)?;
                Ok(lets.into_iter().rev().fold(body, |b, (n, v)| bind(n, v, b)))
            }
            Item::Known(fact) => {
                self.facts.assume(fact);
                self.item(cx, j, i + 1, mode)
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
        let ends = [(&own.min, x), (x, &own.max)];
        let open =
            ends.into_iter().filter(|(a, b)| !self.facts.proves_le(a, b)).map(|(a, b)| a.le(b).likely());
        let Some(cond) = open.reduce(|a, b| a.and(b)) else {
            return self.item(cx, j, i + 1, Mode::Store(lanes));
        };
        let dims = &cx.s.dims;
        let in_vector = dims[dims.len() - j..].iter().any(|d| d.kind == ForKind::Vectorized);
        // Loops that run together with others exist once.
        if in_vector || j == dims.len() || self.plan.is_joint(&cx.s.id) {
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
        let body = self.level(&level, &mut |nests| rest(nests))?;
        Ok(block(fetches.into_iter().chain([body]).collect()))
    }

    /// Loop `j`, counted from outside.
    pub(super) fn one_loop(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let scope = self.facts.clone();
        let s = self.loop_body(cx, j, mode);
        self.facts = scope;
        s
    }

    pub(super) fn loop_body(&mut self, cx: &Emit<'p>, j: usize, mode: &Mode) -> Result<Stmt, Error> {
        let s = cx.s;
        let dim = &s.dims[s.dims.len() - 1 - j];
        let (min, max) = cx.bounds[&dim.name].clone();
        let var = self.full_name(s, &dim.name);
        let extent = Interval { min: min.clone(), max: max.clone() }.extent();
        // Asked before the loop is entered: inside, there is at least one iteration.
        let (most, least) = (self.facts.upper(&extent), self.facts.lower(&extent));
        self.facts.enter_for(&var, &min, &extent);
        let level = LoopLevel { stage: s.id.clone(), var: dim.name.clone() };
        let mut inner = cx.clone();
        if most.is_some_and(|u| u <= 1) {
            self.facts.enter_let(&var, &min);
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
                let text = Directive::Kind { var: dim.name.clone(), kind: dim.kind }.to_string();
                let rule = "the extent has no small constant bound; split the loop first";
                return Err(illegal(&s.id, text, rule));
            };
            if least != Some(most) {
                inner.slots[j + 1].insert(0, Item::Tail(Expr::var(var.clone()), max.clone()));
                self.facts.enter_for(&var, &min, &Expr::from(most as i32));
            }
            extent = Expr::from(most as i32);
        }
        self.around.push(Around::Loop(level, var.clone(), dim.kind));
        let body = self.slot(&inner, j + 1, mode.clone());
        self.around.pop();
        let body = match s.partition.iter().find(|(v, _)| *v == dim.name) {
            Some((_, policy)) => self.partitioned(s, (&dim.name, *policy), &var, &body?)?,
            None => body?,
        };
        Ok(Stmt::For { var, min, extent, kind: dim.kind, body: Box::new(body) })
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

const MAX_COPIES: i64 = 1024;
