//! M = I on the scalars that take part.

use crate::matrix_free::preconditioner::Preconditioner;
use crate::matrix_free::preconditioner::diagonal::Block;
use crate::problem::options;
use sumsq_codegen::{Expr, Func};

/// M = I.
pub struct None;

impl Preconditioner for None {
    fn name(&self) -> &'static str {
        options::Preconditioner::None.name()
    }

    fn inverse(&self, of: &Block, _: &mut Vec<Func>) -> Vec<Expr> {
        (0..of.active.len()).map(|i| of.where_active(i, of.number(1.0))).collect()
    }
}
