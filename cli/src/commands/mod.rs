//! One file a command; each returns the exit code.

pub mod check;
pub mod demo;
pub mod devices;
pub mod pipeline;
pub mod show;
pub mod solve;
