//! Statements: what nests are made of and what lowering rewrites.
//!
//! Takes the vocabulary (expressions, names of Funcs and stages); gives statements and the lowered function, ways to walk and
//! rebuild them, their text, and the check of their invariants. Knows nothing of how they come about.

pub mod args;
pub(crate) mod print;
pub mod rewrite;
pub mod segments;
pub mod stmt;
pub mod verify;
