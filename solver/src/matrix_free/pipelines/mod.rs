//! The pipelines, one a file: Funcs that call an energy's routines, and what the outer loop needs of them.

pub mod boxed;
pub mod computed;
pub mod cost;
pub mod damping;
pub mod gather;
pub mod global;
pub mod gradient;
pub mod invariant;
pub mod linearise;
pub mod scatter;
pub mod trial;
