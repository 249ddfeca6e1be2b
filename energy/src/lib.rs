//! What to minimise: declarations, symbolic DAG, derivatives, routines. Knows nothing of solvers.

mod build;
pub mod dag;
pub mod derive;
pub mod dsl;
pub mod emit;
mod error;
pub mod front;
mod inline;
pub mod model;

pub use error::{EnergyError, Fault, Note};
pub use model::Energy;
