//! Energies as small syntax trees of their own, and the slow and obvious way to evaluate them.
//!
//! Nothing here knows the front ends, the DAG or the solver: the crate depends on none of them. What a construct means is written out
//! from `docs/language.md` alone, so that a rule that is wrong there and in both paths of the solver is seen. Nothing that ships
//! depends on this crate.
//!
//! | module | what |
//! |---|---|
//! | [`case`] | an energy with its data, as a tree |
//! | [`text`] | its energy file |
//! | [`dual`] | numbers that carry their derivatives |
//! | [`reads`] | what an expression reads as written, and the box of that |
//! | [`evaluate`] | the value of an expression at one place |
//! | [`loss`] | losses of a squared norm, with derivatives |
//! | [`system`] | all residuals with their derivatives, losses applied; E, J^T r, diag(J^T J), J^T J v |

pub mod case;
pub mod dual;
pub mod evaluate;
pub mod loss;
pub mod reads;
pub mod system;
pub mod text;
