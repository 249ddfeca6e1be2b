//! Knowledge of expressions without running them: the algebra of indices, intervals, exact values, associative updates.
//!
//! Takes expressions and the definitions that they call; gives normal forms, bounds, proofs and constants. Knows neither plans nor
//! statements in the making, so that every layer above asks the same questions here.

pub mod algebra;
pub(crate) mod associative;
pub mod evaluate;
pub(crate) mod float_ends;
pub(crate) mod float_range;
pub(crate) mod intervals;
