//! The preconditioners that ship, and which of them an option means.

pub mod aggregation;
mod block_jacobi;
mod jacobi;
mod multigrid;
mod none;

use crate::matrix_free::preconditioner::Preconditioner;
use crate::problem::options::{self, OptionError};
use std::sync::Arc;
use sumsq_energy::model::Energy;

/// The preconditioner that an option asks for.
fn of(choice: options::Preconditioner, energy: &Energy) -> Arc<dyn Preconditioner> {
    match choice {
        options::Preconditioner::Auto => automatic(energy),
        options::Preconditioner::None => Arc::new(none::None),
        options::Preconditioner::Jacobi => Arc::new(jacobi::Jacobi),
        options::Preconditioner::BlockJacobi => Arc::new(block_jacobi::BlockJacobi),
        options::Preconditioner::Multigrid => Arc::new(multigrid::Multigrid),
        options::Preconditioner::Aggregation => Arc::new(aggregation::Aggregation),
    }
}

/// The preconditioner of an energy that none was named for.
fn automatic(energy: &Energy) -> Arc<dyn Preconditioner> {
    if energy.use_preconditioner == Some(false) {
        Arc::new(none::None)
    } else if block_jacobi::largest_element(energy) >= 2 {
        Arc::new(block_jacobi::BlockJacobi)
    } else {
        Arc::new(jacobi::Jacobi)
    }
}

/// The kinds with levels that `auto` may go on with, the first to be tried first: those that an energy can have.
pub fn with_levels(energy: &Energy) -> Vec<options::Preconditioner> {
    let all = [options::Preconditioner::Multigrid, options::Preconditioner::Aggregation];
    let none = energy.use_preconditioner == Some(false);
    all.into_iter().filter(|&of| !none && chosen(of, energy).is_ok()).collect()
}

/// The preconditioner that an option asks for, if an energy can have it.
///
/// # Errors
/// The reason why it cannot.
pub fn chosen(
    choice: options::Preconditioner,
    energy: &Energy,
) -> Result<Arc<dyn Preconditioner>, OptionError> {
    let chosen = of(choice, energy);
    chosen.suits(energy).map(|()| chosen)
}
