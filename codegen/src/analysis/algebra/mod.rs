//! The one algebra of indices: what every pass that reasons about integers uses.
//!
//! - `poly`: the normal form, polynomials over integer atoms. Equal terms cancel; `x - c (x / c)` is `x mod c`.
//! - `forms`, `rebuild`: from expressions to that form and back.
//! - `build`: sums, products, quotients and extrema of expressions in that form.
//! - [`Interval`], `Span`: symbolic ends, for the regions that a program computes.
//! - [`Facts`]: what is known at a place in the program, and *the* decision procedure, [`Facts::upper`]: `a <= b` is
//!   `upper(a - b) <= 0`. Allocation extents, fold factors, the monotonicity of a slide, trimming and legality use it and nothing else.
//!
//! Invariants: i32 and i64 arithmetic that gets here does not wrap; a name has one definition in a scope; what a form or an answer says
//! holds for every value of its atoms that the facts allow, however small the budget of the search.

pub(crate) mod build;
mod decide;
mod definitions;
mod facts;
pub(crate) mod forms;
pub(crate) mod interval;
mod mono;
mod points;
pub(crate) mod poly;
pub(crate) mod rebuild;
mod upper;

pub use crate::analysis::algebra::facts::Facts;
pub use crate::analysis::algebra::interval::Interval;
pub use crate::analysis::algebra::poly::is_index;
