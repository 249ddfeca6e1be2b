//! Energies that cannot have a preconditioner with levels, and what they can have instead: both paths refuse the same.

use crate::problem::options::{OptionError, Preconditioner};
use crate::problem::{aggregates, grids};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::Energy;

/// Tells whether some space of an energy has a hierarchy of grids.
///
/// # Errors
/// The reason why none has, and what to use instead.
pub fn check_grids(energy: &Energy) -> Result<(), OptionError> {
    if !grids::served(energy).is_empty() {
        return Ok(());
    }
    let other = if aggregates::served(energy).is_empty() {
        Preconditioner::BlockJacobi
    } else {
        Preconditioner::Aggregation
    };
    let instead = other.name();
    Err(match grids::coupled(energy).first() {
        None => OptionError::NoGrid { instead },
        Some(&space) => {
            let dims = energy.spaces[space.index()].len();
            let (most, came) = (grids::most_components(dims), component_count(energy, space));
            OptionError::WideGrid { dims, most, came, instead }
        }
    })
}

/// Tells whether some space of an energy has aggregates.
///
/// # Errors
/// The reason why none has, and what to use instead.
pub fn check_aggregates(energy: &Energy) -> Result<(), OptionError> {
    if !aggregates::served(energy).is_empty() {
        return Ok(());
    }
    let other = if grids::served(energy).is_empty() {
        Preconditioner::BlockJacobi
    } else {
        Preconditioner::Multigrid
    };
    let (kind, instead) = (Preconditioner::Aggregation.name(), other.name());
    let fewest = aggregates::spread(energy).into_iter().map(|s| component_count(energy, s)).min();
    Err(fewest.map_or(OptionError::NoAggregates { instead }, |came| OptionError::WideElements {
        kind,
        most: aggregates::MOST_COMPONENTS,
        came,
        instead,
    }))
}
