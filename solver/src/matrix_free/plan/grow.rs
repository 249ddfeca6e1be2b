//! Plans that take the place of others in the course of a solve, with a preconditioner more. What both hold alike goes over, memory and all; the rest is made
//! anew.

use crate::error::SolveError;
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::plan::compile::Modules;
use crate::matrix_free::plan::{Plan, not_copied};
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::{Over, VectorId, What};
use crate::problem::data::ProblemData;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Plan {
    /// A plan that goes on from another one of the same problem, at its x and with its scales of D. The other one is of no use then; where this fails, it is as it was.
    ///
    /// # Errors
    /// Too little memory, which is told before anything goes over, or a failure of the engine.
    pub(crate) fn grown(
        k: Arc<Outline>,
        modules: &Modules,
        data: &ProblemData<'_>,
        limit: Option<u64>,
        from: &mut Plan,
    ) -> Result<Plan, SolveError> {
        let sizes = Sizes::new(&k, data)?;
        let mut plan = Plan::laid_out(k.clone(), modules, &sizes, data, from.pool.clone(), limit)?;
        let taken = plan.trade(from)?;
        plan.populate(|id| !taken.contains(id));
        match plan.complete(&sizes, data, from, &taken) {
            Ok(()) => Ok(plan),
            Err(error) => {
                plan.trade(from)?;
                Err(error)
            }
        }
    }

    /// Exchanges all vectors that look alike in both plans, and says which.
    fn trade(&mut self, with: &mut Plan) -> Result<BTreeSet<VectorId>, SolveError> {
        let mut traded = BTreeSet::new();
        for (id, held) in &self.vectors {
            if let Some(theirs) = with.vectors.get(id)
                && self.table.trade(held.buffer, &mut with.table, theirs.buffer)?
            {
                traded.insert(*id);
            }
        }
        Ok(traded)
    }

    /// Makes what did not come from the other plan.
    fn complete(
        &mut self,
        sizes: &Sizes<'_>,
        data: &ProblemData<'_>,
        from: &mut Plan,
        taken: &BTreeSet<VectorId>,
    ) -> Result<(), SolveError> {
        let missing: Vec<VectorId> = self.vectors.keys().filter(|id| !taken.contains(id)).copied().collect();
        let lacks = |whats: &[What]| missing.iter().any(|id| whats.contains(&id.what));
        if missing.iter().any(|id| matches!(id.over, Over::Vertex(..))) {
            self.fill_graphs(sizes, data)?;
        }
        self.copy_arrays(data, |id| missing.contains(id))?;
        if lacks(&[What::X, What::Trial]) {
            let x = from.exchange_x(None)?;
            self.exchange_x(Some(x))?;
        }
        for id in missing.iter().filter(|id| id.what == What::Scales) {
            let (Some(from), Some(to)) = (from.buffer(*id), self.buffer(*id)) else { continue };
            to.copy_from(&from.to_vec::<f64>()).map_err(not_copied(*id))?;
        }
        match lacks(&[What::Free, What::FreeCount, What::Live, What::Near]) {
            true => self.evaluate_masks()?,
            false => self.start(Phase::Near)?,
        }
        if lacks(&[What::Lower, What::Upper]) {
            self.run(Phase::Bounds)?;
        }
        Ok(())
    }
}
