//! Linear forms over integer atoms, and the one decision procedure.
//!
//! [`poly`] is the normal form of index arithmetic, [`Facts`] what is known at a place in the program, and
//! [`Facts::upper`] the procedure: `a <= b` is `upper(a - b) <= 0`. Allocation extents, fold factors, the monotonicity of
//! a slide and legality use it and nothing else.

mod facts;
pub mod poly;
mod upper;

pub use facts::Facts;
