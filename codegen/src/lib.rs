//! The engine: algorithm (Func, Var, RDom) apart from schedule, lowered to vectorised, multi-threaded code.
//!
//! ```text
//! func (algorithm) + schedule -> lower (passes over stmt) -> backend (LLVM) -> runtime (pool, buffers, programs)
//! ```
//! `reference` evaluates the definitions directly and slowly: it is the oracle of every schedule.

pub mod backend;
pub mod compile;
pub mod error;
pub mod expr;
pub mod func;
pub mod lower;
pub mod print;
pub mod program;
pub mod reference;
pub mod runtime;
pub mod schedule;
pub mod schedule_text;
pub mod stmt;
pub mod types;

pub use error::Error;
pub use expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
pub use func::{Func, Input, Layout, Output, Pipeline, RDom, RVar, Update, Var};
pub use schedule::{Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail};
pub use types::{ScalarType, Type};
