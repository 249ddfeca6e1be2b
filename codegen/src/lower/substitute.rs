//! Substitution of variables, and the nodes of expressions, for the passes before flattening.

use super::rewrite::{Memo, substitute_with, visit};
use crate::expr::{Expr, ExprKind, Name};
use rustc_hash::{FxHashMap, FxHashSet};

/// A substitution of variables that shares its memo over many expressions, so that sharing between them is kept.
pub struct Substitution<'a> {
    map: &'a FxHashMap<Name, Expr>,
    memo: Memo,
}

impl<'a> Substitution<'a> {
    /// Variables to their replacements.
    pub fn new(map: &'a FxHashMap<Name, Expr>) -> Self {
        Substitution { map, memo: Memo::default() }
    }
    /// The expression with the variables replaced, simultaneously.
    pub fn apply(&mut self, e: &Expr) -> Expr {
        substitute_with(e, self.map, &mut self.memo)
    }
}

/// All distinct nodes below and including `roots`, in no particular order.
pub fn nodes<'a>(roots: impl IntoIterator<Item = &'a Expr>) -> Vec<&'a Expr> {
    let mut seen = FxHashSet::default();
    let mut out = vec![];
    let mut stack: Vec<&Expr> = roots.into_iter().collect();
    while let Some(e) = stack.pop() {
        if seen.insert(e.id()) {
            out.push(e);
            e.for_each_child(|c| stack.push(c));
        }
    }
    out
}

/// Names of the variables in an expression.
pub fn variables(e: &Expr) -> FxHashSet<Name> {
    let mut out = FxHashSet::default();
    visit(e, &mut |n| {
        if let ExprKind::Var(v) = n.kind() {
            out.insert(v.clone());
        }
        true
    });
    out
}
