//! M = diag(A).

use crate::matrix_free::preconditioner::Preconditioner;
use crate::matrix_free::preconditioner::diagonal::Block;
use crate::problem::options;
use sumsq_codegen::{Expr, Func};

/// M = diag(A).
pub struct Jacobi;

impl Preconditioner for Jacobi {
    fn name(&self) -> &'static str {
        options::Preconditioner::Jacobi.name()
    }

    fn inverse(&self, of: &Block, _: &mut Vec<Func>) -> Vec<Expr> {
        (0..of.active.len()).map(|i| of.where_active(i, of.number(1.0) / of.damped(i))).collect()
    }
}
