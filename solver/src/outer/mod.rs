//! The outer loop: takes steps that a path (matrix-free or assembled) offers, gives accepted iterates and the reason it ended.

pub mod auto;
pub mod course;
pub mod forcing;
pub(crate) mod host;
pub mod lm;
pub(crate) mod pcg;
pub(crate) mod vectors;
