//! Energies to be minimised: declarations, symbolic DAG, derivatives, routines. Knows nothing of solvers.

#![warn(missing_docs)]

mod budgets;
mod builder;
pub mod dag;
pub mod derive;
pub mod emit;
mod error;
mod graph;
mod ids;
mod inline;
pub mod losses;
pub mod lua;
pub mod model;
pub mod rust;

pub use budgets::{Budget, Budgets};
pub use error::{EnergyError, Fault, Note};
pub use model::Energy;

/// The hash of this crate's sources: what another build has derived is not taken for this one's.
pub const SOURCES: &str = env!("SUMSQ_SOURCES");
