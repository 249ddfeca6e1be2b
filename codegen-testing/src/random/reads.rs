//! Calls in expressions.

use sumsq_codegen::func::calls;
use sumsq_codegen::{Expr, ExprKind};

/// Tells whether an expression calls `func`.
pub fn reads(e: &Expr, func: &str) -> bool {
    calls(e).iter().any(|c| matches!(c.kind(), ExprKind::Call { name, .. } if **name == *func))
}
