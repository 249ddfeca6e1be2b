//! Functions that are compiled in parts: loop nests of a large one become functions of their own.

use crate::expr::walk::nodes;
use crate::ir::rewrite::{own_exprs, visit_stmts};
use crate::ir::stmt::Stmt;
use crate::lower::kernels::has_kernel;

/// Statements of a function that is compiled as one. What register allocation and sinking cost grows faster than a function does.
const MOST_STATEMENTS: usize = 400;
/// Statements of a nest that stays where it is.
const FEW_STATEMENTS: usize = 2;
/// Nodes of expressions of a nest inside of a body, from which on a call costs little beside it.
const LEAST_NODES: usize = 256;

/// Is a function of this body too large to be compiled as one?
pub(super) fn is_large(body: &Stmt) -> bool {
    statements(body) > MOST_STATEMENTS
}

/// Is this loop of a large function one of its own? In the entry point each outermost one, in a body, which runs again and again, those
/// that are not large themselves.
pub(super) fn is_part(nest: &Stmt, in_body: bool) -> bool {
    let n = statements(nest);
    let fits = !in_body || n <= MOST_STATEMENTS && nodes_in(nest) >= LEAST_NODES;
    n > FEW_STATEMENTS && fits && !has_kernel(nest)
}

fn statements(s: &Stmt) -> usize {
    let mut n = 0;
    visit_stmts(s, &mut |_| n += 1);
    n
}

fn nodes_in(s: &Stmt) -> usize {
    let mut all = vec![];
    visit_stmts(s, &mut |s| own_exprs(s, &mut |e| all.push(e)));
    nodes(all).len()
}
