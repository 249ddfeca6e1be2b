//! Back ends: from a [`crate::ir::stmt::LoweredFunction`] to machine code.
//!
//! | file | what |
//! |---|---|
//! | `target.rs` | the machine that code is generated for |
//! | `abi.rs` | what generated code and its host agree on: context, callbacks, symbols |
//! | `llvm/` | the LLVM back end |
//!
//! The back end knows nothing of Funcs or schedules; it emits what it is given, with the semantics of
//! [`crate::expr`] and [`crate::ir::stmt`].

pub mod abi;
pub mod llvm;
pub mod target;

pub use target::HostTarget;

#[cfg(test)]
mod tests;
