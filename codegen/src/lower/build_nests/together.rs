//! The loops of several stages as one nest (compute_with).
//!
//! The nests are built each by itself and then joined from outside in. A joint loop covers the iterations of both; where
//! these are not known to be the same, each body runs under the condition that the iteration is one of its own. What lies
//! between two joint loops (lets, storage, producers, conditions) moves along, for the loops are pure control: no stage
//! reads what the other computes.

use super::{Nests, bind, branch};
use crate::error::Error;
use crate::expr::{Expr, ExprKind, Name};
use crate::lower::algebra::build::{self, add, offset};
use crate::lower::plans::{Stage, illegal};
use crate::lower::rewrite::{any, block, visit_stmts};
use crate::schedule::{Directive, ForKind, StageId};
use crate::stmt::Stmt;

/// Why two nests cannot be joined.
type Rule = String;

/// A loop that was found in a nest.
struct Found {
    min: Expr,
    extent: Expr,
    kind: ForKind,
    /// The body, in which the loop's variable is bound.
    body: Box<dyn FnOnce(&Expr) -> Stmt>,
}

impl<'p> Nests<'p> {
    /// The nest of stages that run together.
    pub(super) fn joint_nest(&mut self, ids: &[StageId]) -> Result<Stmt, Error> {
        let plan = self.plan;
        let mut parts = vec![];
        for id in ids {
            let f = &plan.funcs[&id.func];
            let s = &f.stages[id.stage];
            if !self.keeps(f, s) {
                parts.push((s, self.stage(f, s)?));
            }
        }
        if parts.is_empty() {
            return Ok(Stmt::Block(vec![]));
        }
        let (first, nest) = parts.remove(0);
        // The deepest first: then a later one meets joint loops only.
        parts.sort_by_key(|(s, _)| std::cmp::Reverse(joint_loops(s, first).len()));
        let mut names: Vec<Name> = first.dims.iter().rev().map(|d| self.full_name(first, &d.name)).collect();
        let mut joint = nest;
        let mut whole = Some(first);
        for (s, nest) in parts {
            let locals = joint_loops(s, first);
            let loops: Vec<(Name, Name)> =
                (names.iter().cloned()).zip(locals.iter().map(|v| self.full_name(s, v))).collect();
            let innermost = &mut |a: Stmt, b: Stmt| {
                let a = match whole {
                    Some(f) => produce(f, a),
                    None => a,
                };
                block(vec![a, produce(s, b)])
            };
            joint = self.join(joint, nest, &loops, innermost).map_err(|rule| {
                let text = s.with.clone().map_or(String::new(), |l| Directive::ComputeWith(l).to_string());
                illegal(&s.id, text, rule)
            })?;
            // A later stage that joins further out finds all of this as one body.
            whole = None;
            names.iter_mut().take(loops.len()).for_each(|n| *n = joint_name(n));
        }
        Ok(match whole {
            Some(f) => produce(f, joint),
            None => joint,
        })
    }

    /// Joins the given loops of two nests; `innermost` puts their bodies together.
    fn join(
        &self,
        a: Stmt,
        b: Stmt,
        loops: &[(Name, Name)],
        innermost: &mut dyn FnMut(Stmt, Stmt) -> Stmt,
    ) -> Result<Stmt, Rule> {
        let Some(((a_name, b_name), deeper)) = loops.split_first() else { return Ok(innermost(a, b)) };
        within(a, a_name, vec![], &mut |a| {
            let mut a = Some(a);
            within(b.clone(), b_name, vec![], &mut |b| {
                let Some(a) = a.take() else { unreachable!("join: a nest holds a loop once") };
                let same = self.same(&a.min, &b.min) && self.same(&a.extent, &b.extent);
                let var = joint_name(a_name);
                let here = Expr::var(var.clone());
                let end = |l: &Found| offset(&add(&l.min, &l.extent), -1);
                let (min, last) = match same {
                    true => (a.min.clone(), end(&a)),
                    false => (build::min(&a.min, &b.min), build::max(&end(&a), &end(&b))),
                };
                let kind = if a.kind == ForKind::Serial { b.kind } else { a.kind };
                let own = |l: Found| {
                    let mut conds = vec![];
                    if !self.same(&l.min, &min) {
                        conds.push(l.min.le(&here).likely());
                    }
                    if !self.same(&end(&l), &last) {
                        conds.push(here.le(end(&l)).likely());
                    }
                    let body = (l.body)(&here);
                    conds.into_iter().fold(body, |b, c| branch(c, b, None))
                };
                let body = self.join(own(a), own(b), deeper, innermost)?;
                let extent = offset(&build::sub(&last, &min), 1);
                Ok(Stmt::For { var, min, extent, kind, body: Box::new(body) })
            })
        })
    }

    fn same(&self, a: &Expr, b: &Expr) -> bool {
        a == b || self.facts.proves_le(a, b) && self.facts.proves_le(b, a)
    }
}

/// The loops that `s` shares with `first`, outermost first.
fn joint_loops(s: &Stage, first: &Stage) -> Vec<Name> {
    let Some(level) = &s.with else { return vec![] };
    let n = first.dims.iter().position(|d| d.name == level.var).map_or(0, |i| first.dims.len() - i);
    s.dims.iter().rev().take(n).map(|d| d.name.clone()).collect()
}

fn joint_name(loop_: &Name) -> Name {
    format!("{loop_}.joint").into()
}

fn produce(s: &Stage, body: Stmt) -> Stmt {
    Stmt::Produce { stage: s.id.clone(), body: Box::new(body) }
}

/// Replaces the loop `name` of a nest by what `with` makes of it. Conditions around it go into its body.
fn within(
    s: Stmt,
    name: &Name,
    mut conds: Vec<Expr>,
    with: &mut dyn FnMut(Found) -> Result<Stmt, Rule>,
) -> Result<Stmt, Rule> {
    let reads = |e: &Expr| any(e, |n| matches!(n.kind(), ExprKind::Call { .. }));
    if !conds.is_empty()
        && let Stmt::Let { value: e, .. } | Stmt::For { extent: e, .. } = &s
        && reads(e)
    {
        return Err("a bound that reads memory lies behind a condition between the loops".into());
    }
    let found = |min: Expr, extent: Expr, kind: ForKind, conds: Vec<Expr>, var: Name, body: Stmt| Found {
        min,
        extent,
        kind,
        body: Box::new(move |here| {
            let body = conds.into_iter().rev().fold(body, |b, c| branch(c, b, None));
            bind(var, here.clone(), body)
        }),
    };
    match s {
        Stmt::For { var, min, extent, kind, body } if var == *name => {
            with(found(min, extent, kind, conds, var, *body))
        }
        Stmt::Let { name: n, value, body } if n == *name => {
            with(found(value, Expr::from(1), ForKind::Serial, conds, n, *body))
        }
        Stmt::Let { name: n, value, body } => Ok(bind(n, value, within(*body, name, conds, with)?)),
        Stmt::Realize { func, region, body } => {
            Ok(Stmt::Realize { func, region, body: Box::new(within(*body, name, conds, with)?) })
        }
        Stmt::If { cond, then, otherwise: None } => {
            conds.push(cond);
            within(*then, name, conds, with)
        }
        Stmt::Block(mut list) => {
            let at = list.iter().position(|s| holds(s, name));
            let i = at.ok_or("there is no such loop in the nest")?;
            // What stands beside the loop depends on the conditions, too.
            let around = |s: Stmt| conds.iter().rev().fold(s, |b, c| branch(c.clone(), b, None));
            let after: Vec<Stmt> = list.drain(i + 1..).map(around).collect();
            let loop_ = list.pop().ok_or("there is no such loop in the nest")?;
            let before: Vec<Stmt> = list.into_iter().map(around).collect();
            let inner = within(loop_, name, conds, with)?;
            Ok(block(before.into_iter().chain([inner]).chain(after).collect()))
        }
        _ => Err("the loops lie in the two cases of a condition".into()),
    }
}

/// Does the statement hold this loop?
fn holds(s: &Stmt, name: &Name) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| match s {
        Stmt::For { var: n, .. } | Stmt::Let { name: n, .. } => found |= n == name,
        _ => {}
    });
    found
}
