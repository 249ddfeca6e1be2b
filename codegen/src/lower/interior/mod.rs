//! The interior of a kernel: tiles without borders.
//!
//! Before: a kernel, with marked conditions, whose thread nests stand directly in a block or in a serial loop of it. After: what stands there
//! is `if most of its conditions hold for all threads { without them } else { as it was }`. The test is made once for all threads of a
//! block, which take the same way, so that barriers are met by all.
//!
//! What is tested follows from the conditions, and from minima and maxima that say where tiles are cut off: each is asked at the thread and
//! the iteration where it holds last (`worst`). Conditions on data stay, and those that hold nowhere for all threads (what is a tile's own).

mod conditions;
mod shorter;
#[cfg(test)]
mod tests;
mod worst;

use super::alike::alike;
use super::partition::{assume_true, conjuncts, is_not_worth_two, strip, strongest};
use super::simplify::{simplify_expr_with, simplify_with};
use super::warps::has_threads;
use crate::analysis::algebra::Facts;
use crate::analysis::algebra::poly::is_index;
use crate::expr::walk::{any, loads, variables};
use crate::expr::{Expr, ExprKind, Name};
use crate::ir::rewrite::{block, for_each_child, map_children, own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::schedule::{ForKind, Memory};
use conditions::Conditions;
use rustc_hash::FxHashSet;
use shorter::{in_place, written_out};

/// See the module's description; `facts` hold around `s`.
pub(super) fn interior(s: &Stmt, facts: &Facts) -> Stmt {
    match s {
        Stmt::For { kind: ForKind::GpuBlock, .. } => strip(&Pass::default().walk(&alike(s), facts)),
        s => {
            let mut inner = facts.clone();
            match s {
                Stmt::Let { name, value, .. } => inner.enter_let(name, value),
                Stmt::For { var, min, extent, .. } => inner.enter_for(var, min, extent),
                _ => {}
            }
            map_children(s, &mut Expr::clone, &mut |s| interior(s, &inner))
        }
    }
}

#[derive(Default)]
struct Pass {
    /// Integers bound in the kernel around the present place, in order.
    lets: Vec<(Name, Expr)>,
    /// Variables of its loops around the present place.
    loops: FxHashSet<Name>,
}

impl Pass {
    /// Goes down to what stands directly in a block or a serial loop.
    fn walk(&mut self, s: &Stmt, facts: &Facts) -> Stmt {
        match s {
            Stmt::For { var, min, extent, body, .. } if has_threads(body) && !is_threads(s) => {
                let mut inner = facts.clone();
                inner.enter_for(var, min, extent);
                self.loops.insert(var.clone());
                let body = Box::new(self.walk(body, &inner));
                let Stmt::For { min, extent, kind, .. } = s else { unreachable!("matched above") };
                Stmt::For { var: var.clone(), min: min.clone(), extent: extent.clone(), kind: *kind, body }
            }
            Stmt::Let { name, value, body } => {
                let mut inner = facts.clone();
                inner.enter_let(name, value);
                let before = self.lets.len();
                if is_index(value.ty()) && value.ty().lanes == 1 && !loads(value) {
                    self.lets.push((name.clone(), value.clone()));
                }
                let body = Box::new(self.walk(body, &inner));
                self.lets.truncate(before);
                Stmt::Let { name: name.clone(), value: value.clone(), body }
            }
            Stmt::Block(list) => self.sequence(list, facts),
            s if is_region(s) => self.two_bodies(s, facts),
            s => map_children(s, &mut Expr::clone, &mut |s| self.walk(s, facts)),
        }
    }

    /// Statements that stand in the same loops have their interior in common.
    fn sequence(&mut self, list: &[Stmt], facts: &Facts) -> Stmt {
        let (mut out, mut rest) = (vec![], list);
        while let Some(first) = rest.first() {
            let n = rest.iter().take_while(|s| is_region(s)).count();
            if n == 0 {
                out.push(self.walk(first, facts));
                rest = &rest[1..];
                continue;
            }
            // No more than what has conditions.
            let marked: Vec<usize> = (0..n).filter(|&i| is_marked(&rest[i])).collect();
            let (from, to) = (marked.first().map_or(n, |i| *i), marked.last().map_or(n, |i| i + 1));
            out.extend_from_slice(&rest[..from]);
            if from < to {
                out.push(self.two_bodies(&block(rest[from..to].to_vec()), facts));
            }
            out.extend_from_slice(&rest[to..n]);
            rest = &rest[n..];
        }
        block(out)
    }

    fn two_bodies(&mut self, s: &Stmt, facts: &Facts) -> Stmt {
        let Some((test, taken)) = self.test(s, facts) else { return s.clone() };
        let mut inside = facts.clone();
        inside.assume(&test);
        // Bound once more, so that what they are in the interior is put in their places.
        let bound = self.lets.iter().rev().fold(assume_true(s, &taken), |body, (name, value)| Stmt::Let {
            name: name.clone(),
            value: value.clone(),
            body: Box::new(body),
        });
        let simple = |s: &Stmt| simplify_with(s, &inside);
        let inner = simple(&in_place(&simple(&strip(&bound))));
        let inner = simple(&written_out(&inner, &inside));
        match is_not_worth_two(&inner, s) {
            true => s.clone(),
            false => Stmt::If { cond: test, then: Box::new(inner), otherwise: Some(Box::new(s.clone())) },
        }
    }

    /// The test, as far as `facts` do not decide it, and the conditions that it makes true.
    fn test(&self, s: &Stmt, facts: &Facts) -> Option<(Expr, Vec<Expr>)> {
        let found = Conditions::of(s, &self.lets, &self.loops);
        // None where one never holds, or by sizes alone.
        let possible = |tests: Option<Vec<Expr>>| {
            let tests: Vec<Expr> = tests?.iter().map(|t| simplify_expr_with(t, facts)).collect();
            let moves = |t: &Expr| t.as_int() == Some(1) || !variables(t).is_disjoint(&self.loops);
            tests.iter().all(moves).then_some(tests)
        };
        let all: Vec<(Expr, Option<Vec<Expr>>)> =
            found.marked.into_iter().map(|(c, tests)| (c, possible(tests))).collect();
        // A node may occur under several bindings of its names.
        let out: FxHashSet<usize> = all.iter().filter(|(_, t)| t.is_none()).map(|(c, _)| c.id()).collect();
        let (mut tests, mut taken) = (vec![], vec![]);
        for (c, more) in all.into_iter().filter(|(c, _)| !out.contains(&c.id())) {
            taken.push(c);
            more.iter().flatten().for_each(|t| conjuncts(t, &mut tests));
        }
        if taken.is_empty() {
            return None;
        }
        for more in found.cuts.into_iter().filter_map(|t| possible(Some(t))) {
            more.iter().for_each(|t| conjuncts(t, &mut tests));
        }
        let test = strongest(tests, facts).into_iter().reduce(|a, b| a.and(b))?;
        Some((test, taken))
    }
}

fn is_threads(s: &Stmt) -> bool {
    matches!(s, Stmt::For { kind: ForKind::GpuThread, .. })
}

fn is_marked(s: &Stmt) -> bool {
    let mut found = false;
    visit_stmts(s, &mut |s| {
        own_exprs(s, &mut |e| found = found || any(e, |n| matches!(n.kind(), ExprKind::Likely(_))));
    });
    found
}

/// True for what stands in no other loop than what is around it, and shares no storage: thread nests, and what one thread does for all.
fn is_region(s: &Stmt) -> bool {
    match s {
        s if is_threads(s) => true,
        Stmt::For { body, .. } => !has_threads(body),
        Stmt::Allocate { memory: Memory::Shared, .. } => false,
        s => {
            let mut all = true;
            for_each_child(s, &mut |s| all = all && is_region(s));
            all
        }
    }
}
