//! The symbolic DAG: hash-consed nodes in an arena.

mod node;
pub use node::*;

/// An arena of hash-consed nodes: equal expressions have equal ids.
#[derive(Clone, Debug, Default)]
pub struct Dag {}
