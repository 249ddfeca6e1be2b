//! Functions that are compiled in parts: outermost loop nests of a large one become functions of their own.

use crate::ir::rewrite::visit_stmts;
use crate::ir::stmt::Stmt;
use crate::lower::kernels::has_kernel;

/// Statements of a function that is compiled as one. What register allocation and sinking cost grows faster than a function does.
const MOST_STATEMENTS: usize = 400;
/// Statements of a nest that stays where it is.
const FEW_STATEMENTS: usize = 2;

/// Is a function of this body too large to be compiled as one?
pub(super) fn is_large(body: &Stmt) -> bool {
    statements(body) > MOST_STATEMENTS
}

/// Is this outermost loop of a large function one of its own?
pub(super) fn is_part(nest: &Stmt) -> bool {
    statements(nest) > FEW_STATEMENTS && !has_kernel(nest)
}

fn statements(s: &Stmt) -> usize {
    let mut n = 0;
    visit_stmts(s, &mut |_| n += 1);
    n
}
