//! Stages of a joint nest, each with what is known of it alone.
//!
//! A pure definition with storage that is skipped where a condition fails stores zeros there: a member of its own, behind the
//! other one, with the opposite condition. It is in the same loops under the same names and computes no producers.

use crate::error::Error;
use crate::expr::walk::any;
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{bind, block, under};
use crate::ir::stmt::Stmt;
use crate::nests::checks::points_check;
use crate::nests::emit::{enter_bounds, in_own_tile};
use crate::nests::regions::Regions;
use crate::nests::scope::Scope;
use crate::nests::slots::{Emit, Item, Mode};
use crate::plan::plans::{Level, Plan, Stage, illegal};
use crate::schedule::Directive;

const BEHIND_A_CONDITION: &str = "a bound that reads memory lies behind a condition between the loops";

/// One of the stages of a joint nest.
#[derive(Clone)]
pub(super) struct Member<'p> {
    /// Its slots.
    pub cx: Emit<'p>,
    /// Action of its innermost statement.
    pub mode: Mode,
    /// Conditions that its body runs under, the outermost first.
    pub conds: Vec<Expr>,
    /// The scope of its nest, as if that stood by itself.
    pub scope: Scope<'p>,
}

/// Start of a level of a joint nest.
#[derive(Default)]
pub(super) struct Opened {
    /// They hold in every scope, the outermost first.
    pub lets: Vec<(Name, Expr)>,
    /// Each under the conditions of its stage.
    checks: Vec<Stmt>,
}

impl Opened {
    /// `body` behind the checks, inside of the lets.
    pub(super) fn around(self, body: Stmt) -> Stmt {
        let body = block(self.checks.into_iter().chain([body]).collect());
        self.lets.into_iter().rev().fold(body, |body, (n, v)| bind(n, v, body))
    }
}

impl<'p> Member<'p> {
    /// A stage in front of its first loop.
    pub(super) fn new(cx: Emit<'p>, scope: Scope<'p>) -> Member<'p> {
        Member { cx, mode: Mode::Store(vec![]), conds: vec![], scope }
    }

    /// Does it store the zeros of what another member skips?
    pub(super) fn is_zero(&self) -> bool {
        matches!(self.mode, Mode::Zero)
    }

    /// Slot `j`: what it opens for all in the scope `outside`, unless another member does, and more conditions. Returns the members
    /// that store the zeros of what it skips.
    pub(super) fn enter_slot(
        &mut self,
        regions: &mut Regions,
        j: usize,
        outside: Option<(&mut Scope<'p>, &mut Opened)>,
    ) -> Result<Vec<Member<'p>>, Error> {
        let (mut own, mut zeros) = (Opened::default(), vec![]);
        for (i, item) in self.cx.slots[j].clone().into_iter().enumerate() {
            if let Item::Skip(cond) = &item
                && self.cx.destination.intermediate
                && self.cx.s.id.stage == 0
                && !self.is_zero()
            {
                zeros.push(self.zeros(j, i, cond));
            }
            self.enter(regions, item, &mut own)?;
        }
        if let Some((scope, opened)) = outside {
            own.lets.iter().for_each(|(n, v)| scope.facts.enter_let(n, v));
            opened.lets.extend(own.lets);
            opened.checks.extend(own.checks);
        }
        for z in &mut zeros {
            z.enter_slot(regions, j, None)?;
        }
        Ok(zeros)
    }

    fn enter(&mut self, regions: &mut Regions, item: Item, own: &mut Opened) -> Result<(), Error> {
        let (cx, scope) = (&self.cx, &mut self.scope);
        match item {
            Item::Let(name, value) => {
                scope.facts.enter_let(&name, &value);
                own.lets.push((name, value));
            }
            Item::Bounds(_, min, max) if !self.conds.is_empty() && (reads(&min) || reads(&max)) => {
                return Err(not_joint(scope.plan, cx.s, BEHIND_A_CONDITION));
            }
            Item::Bounds(r, min, max) => {
                own.lets.extend(enter_bounds(scope, regions, cx, &r, [&min, &max]));
            }
            Item::Known(fact) => scope.facts.assume(&fact),
            Item::Points(extents, fused) => {
                let check = points_check(&scope.facts, &cx.s.id, &extents, &fused);
                own.checks.extend(check.map(|c| under(&self.conds, c)));
            }
            Item::Tail(value, max) if scope.facts.proves_le(&value, &max) => {}
            Item::Tail(value, max) => {
                scope.enter_tail(&value, &max);
                self.conds.push(value.le(max).likely());
            }
            Item::Skip(_) if matches!(self.mode, Mode::Zero) => {}
            Item::Predicate(cond) | Item::Skip(cond) => {
                scope.enter_gate(&cond);
                self.conds.push(cond);
            }
            Item::Own(x, tile) => {
                if let (Mode::Store(conds), Some(cond)) =
                    (&mut self.mode, in_own_tile(&scope.facts, &x, &tile))
                {
                    conds.push(cond);
                }
            }
        }
        Ok(())
    }

    /// Returns what follows item `i` of slot `j` where `cond` fails.
    fn zeros(&self, j: usize, i: usize, cond: &Expr) -> Member<'p> {
        let mut z = Member { mode: Mode::Zero, ..self.clone() };
        z.cx.slots[j].drain(..=i);
        z.scope.facts.assume_not(cond);
        z.conds.push(cond.not_());
        z
    }
}

/// The lets of a level hold whether or not some stage runs: none reads memory, where it might not be.
pub(super) fn check_lets(plan: &Plan, regions: &Regions, s: &Stage, level: &Level) -> Result<(), Error> {
    match regions.opened.get(level).into_iter().flatten().any(|(_, v)| reads(v)) {
        true => Err(not_joint(plan, s, BEHIND_A_CONDITION)),
        false => Ok(()),
    }
}

/// Stage `s` breaks `rule` by running together with others.
pub(super) fn not_joint(plan: &Plan, s: &Stage, rule: impl Into<String>) -> Error {
    let mut steps = plan.together.iter().flat_map(|t| &t.steps);
    let others = steps.find(|step| step.contains(&s.id)).into_iter().flatten();
    let joined = std::iter::once(&s.id).chain(others);
    let mut named = joined.filter_map(|id| Some((id, plan.funcs[&id.func].stages[id.stage].with.clone()?)));
    let (id, text) = match named.next() {
        Some((id, level)) => (id, Directive::ComputeWith(level).to_string()),
        None => (&s.id, String::new()),
    };
    illegal(id, text, rule)
}

fn reads(e: &Expr) -> bool {
    any(e, |n| matches!(n.kind(), ExprKind::Call { .. }))
}
