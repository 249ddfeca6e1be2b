//! Simplification of expressions and statements.

use crate::expr::Expr;
use crate::lower::algebra::poly::{Polys, is_index, rebuild};

/// Index arithmetic in normal form.
pub fn simplify_index(e: &Expr) -> Expr {
    if is_index(e.ty()) { rebuild(&Polys::default().of(e), e.ty()) } else { e.clone() }
}

/// Data arithmetic: exact rewrites only.
pub fn simplify_expr(e: &Expr) -> Expr {
    e.clone()
}
