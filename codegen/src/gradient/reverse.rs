//! Adjoints through the expressions of one definition, from its values to what it reads.
//!
//! An adjoint is carried with the condition under which it counts: below an arm of a selection, the selection's. Where it arrives, it
//! is selected by that condition, never multiplied with it: a NaN or infinity of an arm that is not taken reaches nobody.

use crate::expr::walk::postorder;
use crate::expr::{Expr, ExprKind, Name};
use crate::gradient::slopes::{along, arms};
use rustc_hash::{FxHashMap, FxHashSet};

/// A float that a definition reads and that has an adjoint: an element of a Func or input, or a parameter (without coordinates).
pub(super) struct Read {
    /// Func, input or parameter.
    pub name: Name,
    /// Coordinates.
    pub args: Vec<Expr>,
    /// The tuple element.
    pub value: usize,
    /// Condition under which it counts; none if it always does.
    pub cond: Option<Expr>,
    /// The amount that this read adds to its adjoint.
    pub adjoint: Expr,
}

/// Factors on the way back through a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Along {
    /// Its partial derivatives.
    Partials,
    /// Their squares.
    Squares,
}

/// An adjoint and the condition under which it counts.
type Guarded = (Option<Expr>, Expr);

/// The reads of what is `active`, by name, in `values`, each with its adjoint. In the order of the text.
pub(super) fn reads(values: &[(Expr, Expr)], active: &FxHashSet<Name>) -> Vec<Read> {
    let roots: Vec<&Expr> = values.iter().map(|(v, _)| v).collect();
    let order = postorder(&roots);
    let mut live: FxHashSet<usize> = FxHashSet::default();
    for e in &order {
        let mut reaches = leaf(e).is_some_and(|name| active.contains(name));
        if !matches!(e.kind(), ExprKind::Call { .. }) {
            e.for_each_child(|c| reaches |= live.contains(&c.id()));
        }
        if reaches && e.ty().scalar.is_float() {
            live.insert(e.id());
        }
    }
    let mut arrived: FxHashMap<usize, Vec<Guarded>> = FxHashMap::default();
    for (value, adjoint) in values {
        arrived.entry(value.id()).or_default().push(guarded(adjoint));
    }
    let mut found = vec![];
    for e in order.into_iter().rev().filter(|e| live.contains(&e.id())) {
        let Some((cond, adjoint)) = arrived.remove(&e.id()).and_then(together) else { continue };
        if let Some(name) = leaf(e) {
            let (args, value) = match e.kind() {
                ExprKind::Call { args, value, .. } => (args.clone(), *value),
                _ => (vec![], 0),
            };
            found.push(Read { name: name.clone(), args, value, cond, adjoint });
            continue;
        }
        let chosen = arms(e);
        let mut k = 0;
        e.for_each_child(|child| {
            if live.contains(&child.id()) {
                let down = match &chosen {
                    Some((c, places)) if k == places[0] => Some((both(&cond, c.clone()), adjoint.clone())),
                    Some((c, _)) => Some((both(&cond, c.not_()), adjoint.clone())),
                    None => along(e, k, &adjoint, child.ty().scalar).map(|a| (cond.clone(), a)),
                };
                arrived.entry(child.id()).or_default().extend(down);
            }
            k += 1;
        });
    }
    found.reverse();
    found
}

/// As [`reads`] of one value, with the square of each partial derivative. Reads of the same element are one.
pub(super) fn squares(value: &Expr, adjoint: &Expr, active: &FxHashSet<Name>) -> Vec<Read> {
    let mut merged: Vec<Read> = vec![];
    for read in reads(&[(value.clone(), Expr::constant(value.ty(), 1.0))], active) {
        let partial = selected(&read.cond, read.adjoint);
        match merged.iter_mut().find(|m| m.name == read.name && m.args == read.args && m.value == read.value)
        {
            Some(m) => m.adjoint = &m.adjoint + partial,
            None => merged.push(Read { cond: None, adjoint: partial, ..read }),
        }
    }
    for read in &mut merged {
        let (cond, adjoint) = guarded(adjoint);
        let adjoint = adjoint.cast(read.adjoint.ty().scalar);
        read.adjoint = selected(&cond, adjoint * &read.adjoint * &read.adjoint);
    }
    merged
}

fn leaf(e: &Expr) -> Option<&Name> {
    match e.kind() {
        ExprKind::Call { name, .. } => Some(name),
        ExprKind::Param(p) => p.name(),
        _ => None,
    }
}

/// An adjoint that is 0 where a condition does not hold, apart from that.
pub(super) fn guarded(e: &Expr) -> Guarded {
    match e.kind() {
        ExprKind::Select(c, value, zero) if zero.as_float() == Some(0.0) => (Some(c.clone()), value.clone()),
        _ => (None, e.clone()),
    }
}

fn both(a: &Option<Expr>, b: Expr) -> Option<Expr> {
    Some(match a {
        Some(a) if *a == b => b,
        Some(a) => a.and(b),
        None => b,
    })
}

/// The sum of adjoints that arrived at one node.
fn together(parts: Vec<Guarded>) -> Option<Guarded> {
    let mut by_cond: Vec<Guarded> = vec![];
    for (cond, value) in parts {
        match by_cond.iter_mut().find(|(c, _)| *c == cond) {
            Some((_, sum)) => *sum = &*sum + value,
            None => by_cond.push((cond, value)),
        }
    }
    if by_cond.len() < 2 {
        return by_cond.pop();
    }
    if let [(Some(a), when), (Some(b), otherwise)] = &by_cond[..]
        && (*b == a.not_() || *a == b.not_())
    {
        return Some((None, Expr::select(a, when, otherwise)));
    }
    let conds: Option<Vec<Expr>> = by_cond.iter().map(|(c, _)| c.clone()).collect();
    let any = conds.and_then(|all| all.into_iter().reduce(|a, b| a.or(b)));
    let sum = by_cond.into_iter().map(|(c, v)| selected(&c, v)).reduce(|a, b| a + b)?;
    Some((any, sum))
}

/// The value where the condition holds, else 0.
pub(super) fn selected(cond: &Option<Expr>, value: Expr) -> Expr {
    match cond {
        Some(c) => {
            let zero = Expr::constant(value.ty(), 0.0);
            Expr::select(c, value, zero)
        }
        None => value,
    }
}
