//! The engine: algorithm (Func, Var, RDom) apart from schedule, lowered to vectorised, multi-threaded code.
//!
//! ```text
//! Pipeline + Schedule -> plan -> nests (statements) -> lower (passes) -> backend (LLVM) -> compile -> Compiled, Program
//! ```
//! Folders are layers: each imports only from those above it here.
//!
//! | layer | what |
//! |---|---|
//! | `types`, `functions`, `expr`, `target` | element types; the table of scalar functions; expressions, walks over them, their text; the machine that code is made for |
//! | `error` | everything that can be refused |
//! | `func`, `schedule`, `language` | algorithm, schedule, and what is made of both: the vocabulary of users |
//! | `runtime` | buffers, scalars, threads, devices, profiles: what code is run on |
//! | `ir` | statements, the lowered function, their text and invariants |
//! | `analysis` | index algebra, intervals, exact evaluation, associative updates |
//! | `plan` | pipeline and schedule to the loops of each stage |
//! | `nests` | a plan to statements: regions, storage, loops |
//! | `lower` | statements to statements: the list of passes |
//! | `gradient` | derivatives of pipelines, as Funcs |
//! | `backend` | a lowered function to machine code |
//! | `compile` | binding of buffers; object files with a C header |
//! | `program` | control flow as data over compiled pipelines |
//!
//! The oracles that tests compare with are in a crate of their own, `codegen-testing`.

#![warn(missing_docs, unreachable_pub)]

pub mod analysis;
pub mod backend;
pub mod cache;
pub mod compile;
mod environment;
pub mod error;
pub mod expr;
pub mod func;
pub mod functions;
pub mod gradient;
pub mod ir;
mod jobs;
pub mod language;
pub mod limits;
pub mod lower;
pub mod nests;
pub mod plan;
pub mod program;
pub mod runtime;
pub mod schedule;
pub mod stack;
pub mod target;
pub mod types;

pub use compile::Compiled;
pub use error::Error;
pub use expr::{BinaryOp, Content, Expr, ExprKind, Flat, Name, Operand, Param, Part, UnaryOp};
pub use func::{
    Constraint, Coordinates, Func, Input, Layout, Output, Pipeline, RDom, RVar, Source, Update, Var,
};
pub use language::{boundary, in_floats};
pub use limits::Limits;
pub use runtime::{Buffer, BufferSpec, Pool};
pub use schedule::{Directive, ForKind, LoopLevel, Memory, Partition, Schedule, StageId, Tail};
pub use target::{Level, Target};
pub use types::{ScalarType, Type};
