//! Simplification of expressions and statements.
//!
//! Two kinds of integer arithmetic are told apart. *Index arithmetic* (coordinates, loop bounds, indices of loads and stores,
//! comparisons between such) does not wrap, by contract; it is brought to the normal form of [`crate::analysis::algebra`], and
//! comparisons, min and max are decided by [`Facts`]. *Data* wraps, and floats are strict IEEE: only rewrites that
//! are exact for every value are applied. A comparison or condition that reads memory counts as data below its
//! comparison sign, unless it stands in an index itself.
//!
//! [`simplify`] on statements also removes loops that never run, binds the variable of loops that run once, and drops
//! dead lets and empty statements. Simplifying twice changes nothing more.

mod exact;
mod expr;
mod stmt;

use crate::analysis::algebra::Facts;
use crate::expr::Expr;
use crate::ir::stmt::Stmt;
use expr::{Mode, Simplifier};

/// Simplifies a data expression: exact for all values, indices and conditions inside by index rules.
pub fn simplify_expr(e: &Expr) -> Expr {
    simplify_expr_with(e, &Facts::new())
}

/// As [`simplify_expr`], where `facts` hold.
pub fn simplify_expr_with(e: &Expr, facts: &Facts) -> Expr {
    Simplifier::new(facts.clone()).expr(e, Mode::Data)
}

/// Simplifies index arithmetic (no wrap) or a condition on it.
pub fn simplify_index(e: &Expr) -> Expr {
    simplify_index_with(e, &Facts::new())
}

/// As [`simplify_index`], where `facts` hold.
pub fn simplify_index_with(e: &Expr, facts: &Facts) -> Expr {
    Simplifier::new(facts.clone()).expr(e, Mode::Index)
}

/// [`simplify_index`] for many expressions that share nodes: each of these is simplified once.
pub(crate) struct Indices(Simplifier);

impl Indices {
    pub(crate) fn new() -> Indices {
        Indices(Simplifier::new(Facts::new()))
    }

    /// As [`simplify_index`].
    pub(crate) fn simplify(&mut self, e: &Expr) -> Expr {
        self.0.expr(e, Mode::Index)
    }
}

/// Simplifies a statement.
pub fn simplify(s: &Stmt) -> Stmt {
    simplify_with(s, &Facts::new())
}

/// As [`simplify`], where `facts` hold (for example bounds of parameters).
pub fn simplify_with(s: &Stmt, facts: &Facts) -> Stmt {
    stmt::simplify_stmt(s, facts)
}

#[cfg(test)]
mod tests;
