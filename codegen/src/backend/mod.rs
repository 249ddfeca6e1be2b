//! Back ends: take a [`crate::ir::stmt::LoweredFunction`] and a target, give machine code and its text.
//!
//! | file | what |
//! |---|---|
//! | `abi.rs` | what generated code and its host agree on: context, callbacks, symbols |
//! | `host.rs` | the machine that this process runs on |
//! | `llvm/` | the LLVM back end, of what all targets share |
//! | `x86/`, `aarch64.rs`, `nvptx/` | what is particular to an architecture |
//!
//! The back end knows nothing of Funcs or schedules; it emits what it is given, with the semantics of
//! [`crate::expr`] and [`crate::ir::stmt`].

mod aarch64;
pub(crate) mod abi;
mod host;
pub mod llvm;
mod nvptx;
mod x86;

pub use nvptx::gate::gated;
pub use nvptx::grid::{ENDED, GRID_LOOP, Phase, ended, grid_loop};

use crate::target::{AARCH64, Target};

/// Makes the architecture of a target known to LLVM.
fn initialise(target: &Target) {
    match target.gpu {
        Some(_) => nvptx::initialise(),
        None if target.is(AARCH64) => aarch64::initialise(),
        None => x86::initialise(),
    }
}

#[cfg(test)]
mod tests;
