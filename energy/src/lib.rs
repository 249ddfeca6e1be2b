//! What to minimise: declarations, symbolic DAG, derivatives, routines. Knows nothing of solvers.

pub mod dag;
pub mod derive;
pub mod dsl;
pub mod emit;
pub mod front;
pub mod model;
