//! Budgets while routines are derived.

use crate::dag::Dag;
use crate::error::EnergyError;
use crate::model::Energy;

/// Fails if a budget is spent, in the name of the routine under way and, if it is known, of the residual.
pub(super) fn within(
    energy: &Energy,
    dag: &Dag,
    routine: impl FnOnce() -> String,
    residual: Option<usize>,
) -> Result<(), EnergyError> {
    match dag.overrun() {
        None => Ok(()),
        Some(budget) => Err(EnergyError::while_deriving(energy, budget, routine(), residual)),
    }
}
