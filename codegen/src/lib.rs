//! The engine: algorithm (Func, Var, RDom) apart from schedule, lowered to vectorised, multi-threaded code.
//!
//! ```text
//! func (algorithm) + schedule -> lower (passes over stmt) -> backend (LLVM) -> runtime (pool, buffers, programs)
//! ```
//! `reference` evaluates the definitions directly and slowly: it is the oracle of every schedule. `checked` runs
//! statements on memory that notices races and stray accesses.

pub mod analysis;
pub mod backend;
pub mod checked;
pub mod compile;
pub mod error;
pub mod expr;
pub mod func;
pub mod ir;
pub mod language;
pub mod lower;
pub mod nests;
pub mod plan;
pub mod profile;
pub mod program;
pub mod reference;
pub mod runtime;
pub mod schedule;
mod stack;
pub mod target;
pub mod types;

pub use error::Error;
pub use expr::{BinaryOp, Expr, ExprKind, Name, UnaryOp};
pub use func::{Constraint, Func, Input, Layout, Output, Pipeline, RDom, RVar, Source, Update, Var};
pub use language::boundary;
pub use schedule::{Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail};
pub use target::Target;
pub use types::{ScalarType, Type};
