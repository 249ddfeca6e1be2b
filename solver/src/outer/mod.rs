//! The outer loop: takes steps that a path (matrix-free or assembled) offers, gives accepted iterates and the reason it ended.

pub mod forcing;
pub mod lm;
