//! Oracles of the engine, and the tests that use them. Nothing that ships depends on this crate.
//!
//! | module | what |
//! |---|---|
//! | [`mod@reference`] | evaluates the definitions of a pipeline, over numbers or dual numbers; knows no schedule |
//! | [`checked`] | runs statements of every level on memory that notices races and stray accesses, and counts |
//! | [`interpreter`] | runs flat statements on plain vectors: for the passes after flattening |
//! | [`check`], [`native`] | a pipeline under a schedule, on checked memory and as machine code, against the reference |
//! | [`assembly`] | instructions of loops in machine code, as text |
//! | [`random`] | random pipelines under random schedules |
//! | [`maths`] | bounds on the errors of functions, and values that are known to 50 digits |
//! | [`rng`], [`smaller`] | random choices that repeat; smaller variants of an expression that fails |

pub mod assembly;
pub mod check;
pub mod checked;
pub mod interpreter;
pub mod maths;
pub mod native;
pub mod random;
pub mod reference;
pub mod rng;
pub mod smaller;
