//! Code and plans with a second preconditioner, made when `auto` first goes on with it. The code is kept with the solver's, and in the user's
//! cache; a plan takes the place of the one before, from which it has whatever both hold.

use crate::error::SolveError;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::steps::{Grow, Grown};
use crate::problem::data::ProblemData;
use crate::problem::memory::MemoryLimit;
use crate::problem::options::Preconditioner;
use crate::solver::Code;
use std::sync::Arc;
use std::time::Instant;

/// Everything that a plan is made of in the course of a solve.
pub(crate) struct Growth<'a> {
    /// The solver's code.
    pub base: &'a Arc<Code>,
    /// The code of the plan in use.
    pub code: &'a mut Arc<Code>,
    /// The data that the problem was given.
    pub data: &'a ProblemData<'a>,
}

impl Grow for Growth<'_> {
    fn grow(&mut self, second: Preconditioner, plan: &mut Plan) -> Result<Option<Grown>, SolveError> {
        let started = Instant::now();
        let is_new = !self.base.has(second);
        let Some(code) = self.base.with(second) else { return Ok(None) };
        let compile_seconds = if is_new { started.elapsed().as_secs_f64() } else { 0.0 };
        let limit = MemoryLimit::bytes(code.options.max_memory, self.data.bytes());
        let grown = match code.plan_from(self.data, limit, plan) {
            Ok(grown) => grown,
            Err(SolveError::Memory { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        *plan = grown;
        *self.code = code.clone();
        Ok(Some(Grown { kinds: code.settings.preconditioners.clone(), compile_seconds }))
    }
}
