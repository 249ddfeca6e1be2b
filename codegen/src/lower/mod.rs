//! Lowering: a straight list of passes, one file each.

pub mod algebra;
pub mod allocation_bounds;
pub mod apply_schedule;
pub mod bounds_inference;
pub mod build_nests;
pub mod expand_math;
pub mod facts;
pub mod flatten;
pub mod inline;
pub mod intervals;
pub mod linear;
pub mod partition;
pub mod realization_order;
pub mod rewrite;
pub mod rfactor;
pub mod simplify;
pub mod sinks;
pub mod sliding_window;
pub mod storage_folding;
pub mod substitute;
pub mod unroll;
pub mod validate;
pub mod vectorize;
pub mod verify;
