//! What to minimise: declarations, symbolic DAG, derivatives, routines. Knows nothing of solvers.

pub mod dag;
pub mod model;
