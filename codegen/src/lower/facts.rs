//! What is known of the names bound so far, and upper bounds proved from it.
//!
//! Every name is bound once per lowered function, so a table of definitions needs no scopes. A let-bound name
//! stands for its definition; a loop variable for an interval.

use super::linear::{Linear, div, sub};
use super::substitute::Rewriter;
use crate::expr::{BinaryOp, Expr, ExprKind, Name};
use rustc_hash::FxHashMap;
use std::cell::Cell;

/// Definition of a name.
#[derive(Clone, Debug)]
pub enum Definition {
    /// The name equals the expression.
    Let(Expr),
    /// The name lies in `[min, max]`.
    Loop(Expr, Expr),
}

/// Definitions in the order in which they were made.
#[derive(Default)]
pub struct Definitions {
    table: FxHashMap<Name, (usize, Definition)>,
}

/// Steps after which a proof is given up.
const BUDGET: usize = 4000;

impl Definitions {
    /// Records `name = value`.
    pub fn bind(&mut self, name: &Name, value: &Expr) {
        let n = self.table.len();
        self.table.insert(name.clone(), (n, Definition::Let(value.clone())));
    }
    /// Records `name` in `[min, max]`.
    pub fn bind_loop(&mut self, name: &Name, min: &Expr, max: &Expr) {
        let n = self.table.len();
        self.table.insert(name.clone(), (n, Definition::Loop(min.clone(), max.clone())));
    }
    /// The definition of a name.
    pub fn get(&self, name: &Name) -> Option<&Definition> {
        self.table.get(name).map(|d| &d.1)
    }

    /// Replaces let-bound names made after `since` (all if none) by their definitions. `alias` is consulted first.
    pub fn expand(&self, e: &Expr, since: Option<&Name>, alias: &FxHashMap<Name, Expr>) -> Expr {
        let from = since.and_then(|n| self.table.get(n)).map_or(0, |d| d.0);
        let mut e = e.clone();
        loop {
            let next = Rewriter::default().rewrite(&e, &mut |n| {
                let ExprKind::Var(v) = n.kind() else { return n };
                if let Some(e) = alias.get(v) {
                    return e.clone();
                }
                match self.table.get(v) {
                    Some((k, Definition::Let(d))) if *k >= from => d.clone(),
                    _ => n,
                }
            });
            if next.id() == e.id() {
                return e;
            }
            e = next;
        }
    }

    /// A constant that `e` never exceeds, if one is found.
    pub fn upper(&self, e: &Expr) -> Option<i64> {
        self.upper_of(Linear::of(e), &Cell::new(BUDGET))
    }

    /// A constant that `e` never falls below, if one is found.
    pub fn lower(&self, e: &Expr) -> Option<i64> {
        self.upper(&sub(&Expr::int(e.ty(), 0), e)).map(|v| -v)
    }

    /// True only if `a <= b` always.
    pub fn proves_le(&self, a: &Expr, b: &Expr) -> bool {
        self.upper(&sub(a, b)).is_some_and(|v| v <= 0)
    }

    /// The constant that `e` always equals, if it is found.
    pub fn constant(&self, e: &Expr) -> Option<i64> {
        let hi = self.upper(e)?;
        (self.lower(e)? == hi).then_some(hi)
    }

    /// Replaces one atom after the other by a bound until a constant remains: first choices (exact where the form
    /// is a "may" position), then definitions, then divisions, then loop variables, newest first, so that what
    /// cancels has cancelled before correlation is lost.
    fn upper_of(&self, l: Linear, budget: &Cell<usize>) -> Option<i64> {
        if l.terms.is_empty() {
            return Some(l.constant);
        }
        if budget.get() == 0 {
            return None;
        }
        budget.set(budget.get() - 1);
        if let Some((i, a, b, may)) = choice(&l) {
            let with = |arm: &Expr| self.upper_of(replace(&l, i, arm), budget);
            return match may {
                true => match (with(&a), with(&b)) {
                    (Some(x), Some(y)) => Some(x.min(y)),
                    (x, y) => x.or(y),
                },
                false => Some(with(&a)?.max(with(&b)?)),
            };
        }
        let newest = |want_let: bool| {
            let seq = |t: &(Expr, i64)| match t.0.kind() {
                ExprKind::Var(v) => match self.table.get(v) {
                    Some((n, Definition::Let(_))) if want_let => Some(*n),
                    Some((n, Definition::Loop(..))) if !want_let => Some(*n),
                    _ => None,
                },
                _ => None,
            };
            (0..l.terms.len()).filter_map(|i| seq(&l.terms[i]).map(|n| (n, i))).max().map(|x| x.1)
        };
        let definition = |i: usize| match l.terms[i].0.kind() {
            ExprKind::Var(v) => self.get(v),
            _ => None,
        };
        if let Some(Definition::Let(d)) = newest(true).and_then(definition) {
            let i = newest(true)?;
            return self.upper_of(replace(&l, i, d), budget);
        }
        if let Some(i) = l.terms.iter().position(|t| quotient(&t.0).is_some()) {
            return self.upper_of(self.bound_quotient(&l, i, budget)?, budget);
        }
        if let Some(i) = newest(false) {
            let Some(Definition::Loop(min, max)) = definition(i) else { return None };
            let bound = if l.terms[i].1 > 0 { max } else { min };
            return self.upper_of(replace(&l, i, bound), budget);
        }
        // Extents of buffers are at least 1 (asserted on entry).
        let i = l.terms.iter().position(|(a, c)| *c < 0 && is_extent(a))?;
        self.upper_of(replace(&l, i, &Expr::int(l.terms[i].0.ty(), 1)), budget)
    }

    /// Replaces term `i`, `c * (e / d)` or `c * (e mod d)`, by something not smaller.
    fn bound_quotient(&self, l: &Linear, i: usize, budget: &Cell<usize>) -> Option<Linear> {
        let (atom, c) = &l.terms[i];
        let (op, e, d) = quotient(atom)?;
        let e = self.expand(&e, None, &FxHashMap::default());
        if op == BinaryOp::Mod {
            let bound = if *c > 0 { d - 1 } else { 0 };
            return Some(replace(l, i, &Expr::int(atom.ty(), bound)));
        }
        let tidy = div(&e, &Expr::int(e.ty(), d));
        if quotient(&tidy).is_none_or(|q| q.1 != e) {
            return Some(replace(l, i, &tidy)).filter(|n| n != l);
        }
        if c % d == 0 {
            let mut n = replace(l, i, &Expr::int(atom.ty(), 0));
            n.add_scaled(&e, c / d);
            // e - (d - 1) <= d * (e / d) <= e
            n.constant += if *c < 0 { (-c / d) * (d - 1) } else { 0 };
            return Some(n);
        }
        if let Some(n) = pair(l, i, &e, d) {
            return Some(n);
        }
        let bound = match *c > 0 {
            true => self.upper_of(Linear::of(&e), budget)?.div_euclid(d),
            false => -self.upper_of(Linear::of(&sub(&Expr::int(e.ty(), 0), &e)), budget)?,
        };
        let bound = if *c > 0 { bound } else { bound.div_euclid(d) };
        Some(replace(l, i, &Expr::int(atom.ty(), bound)))
    }
}

/// `(e + k) / d - e / d <= ceil(k / d)`, for term `i` and another with the opposite sign.
fn pair(l: &Linear, i: usize, e: &Expr, d: i64) -> Option<Linear> {
    let c = l.terms[i].1;
    for (j, (atom, cj)) in l.terms.iter().enumerate() {
        let Some((BinaryOp::Div, ej, dj)) = quotient(atom) else { continue };
        if j == i || dj != d || c.signum() == cj.signum() || c.abs() != cj.abs() {
            continue;
        }
        let Some(k) = Linear::of(&sub(e, &ej)).as_constant() else { continue };
        let k = if c > 0 { k } else { -k };
        let mut n = l.clone();
        let (hi, lo) = (i.max(j), i.min(j));
        n.terms.remove(hi);
        n.terms.remove(lo);
        n.constant += c.abs() * -((-k).div_euclid(d));
        return Some(n);
    }
    None
}

/// The form with term `i` replaced by `coefficient * by`.
fn replace(l: &Linear, i: usize, by: &Expr) -> Linear {
    let mut n = l.clone();
    let (_, c) = n.terms.remove(i);
    n.add_scaled(by, c);
    n
}

/// A min, max or select among the terms: its index, its arms, and whether either arm alone bounds the sum.
fn choice(l: &Linear) -> Option<(usize, Expr, Expr, bool)> {
    l.terms.iter().enumerate().find_map(|(i, (a, c))| match a.kind() {
        ExprKind::Binary(BinaryOp::Min, x, y) => Some((i, x.clone(), y.clone(), *c > 0)),
        ExprKind::Binary(BinaryOp::Max, x, y) => Some((i, x.clone(), y.clone(), *c < 0)),
        ExprKind::Select(_, x, y) => Some((i, x.clone(), y.clone(), false)),
        _ => None,
    })
}

/// `e / d` or `e mod d` by a positive constant.
fn quotient(e: &Expr) -> Option<(BinaryOp, Expr, i64)> {
    match e.kind() {
        ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Mod), a, b) => {
            b.as_int().filter(|&d| d > 0).map(|d| (*op, a.clone(), d))
        }
        _ => None,
    }
}

/// Is it the run-time extent of a buffer?
fn is_extent(e: &Expr) -> bool {
    let ExprKind::Param(p) = e.kind() else { return false };
    let mut it = p.rsplit('.');
    it.next().is_some_and(|d| d.parse::<usize>().is_ok()) && it.next() == Some("extent")
}
