//! One file a command; each returns the exit code.

pub mod check;
pub mod demo;
pub mod show;
pub mod solve;
