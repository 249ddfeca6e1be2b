//! What is known of the names bound so far.
//!
//! Every name is bound once per lowered function. [`Facts`] proves; the table beside it keeps the definitions, for
//! passes that look at how a region moves with a loop.

use super::algebra::Facts;
use super::rewrite::{Memo, rewrite};
use crate::expr::{Expr, ExprKind, Name};
use rustc_hash::FxHashMap;

/// Definition of a name.
#[derive(Clone, Debug)]
pub enum Definition {
    /// The name equals the expression.
    Let(Expr),
    /// The name lies in `[min, max]`.
    Loop(Expr, Expr),
}

/// Definitions in the order in which they were made, and the facts that hold at the present place.
#[derive(Default)]
pub struct Definitions {
    table: FxHashMap<Name, (usize, Definition)>,
    facts: Facts,
}

impl Definitions {
    /// Records `name = value`.
    pub fn bind(&mut self, name: &Name, value: &Expr) {
        let n = self.table.len();
        self.table.insert(name.clone(), (n, Definition::Let(value.clone())));
        self.facts.enter_let(name, value);
    }
    /// Records `name` in `[min, max]`, inside a loop over it.
    pub fn bind_loop(&mut self, name: &Name, min: &Expr, max: &Expr) {
        let n = self.table.len();
        self.table.insert(name.clone(), (n, Definition::Loop(min.clone(), max.clone())));
        self.facts.enter_for(name, min, &super::linear::offset(&super::linear::sub(max, min), 1));
    }
    /// Records that `param` is at least 1.
    pub fn at_least_one(&mut self, param: &Expr) {
        if let ExprKind::Param(n) = param.kind() {
            self.facts.interval(n.clone(), Some(Expr::int(param.ty(), 1)), None);
        }
    }
    /// The definition of a name.
    pub fn get(&self, name: &Name) -> Option<&Definition> {
        self.table.get(name).map(|d| &d.1)
    }

    /// Enters a scope: what is learned until [`Definitions::leave`] holds inside only.
    pub fn enter(&self) -> Facts {
        self.facts.clone()
    }
    /// Leaves the scope that `before` entered.
    pub fn leave(&mut self, before: Facts) {
        self.facts = before;
    }
    /// `cond` holds until the scope is left.
    pub fn assume(&mut self, cond: &Expr) {
        self.facts.assume(cond);
    }

    /// Replaces let-bound names made after `since` (all if none) by their definitions. `alias` is consulted first.
    pub fn expand(&self, e: &Expr, since: Option<&Name>, alias: &FxHashMap<Name, Expr>) -> Expr {
        let from = since.and_then(|n| self.table.get(n)).map_or(0, |d| d.0);
        let mut e = e.clone();
        loop {
            let next = rewrite(&e, &mut Memo::default(), &mut |_, n| {
                let ExprKind::Var(v) = n.kind() else { return n };
                match (alias.get(v), self.table.get(v)) {
                    (Some(e), _) => e.clone(),
                    (_, Some((k, Definition::Let(d)))) if *k >= from => d.clone(),
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
        self.facts.upper(e)
    }
    /// A constant that `e` never falls below, if one is found.
    pub fn lower(&self, e: &Expr) -> Option<i64> {
        self.facts.lower(e)
    }
    /// True only if `a <= b` always.
    pub fn proves_le(&self, a: &Expr, b: &Expr) -> bool {
        self.facts.proves_le(a, b)
    }
}
