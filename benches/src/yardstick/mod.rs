//! Hand-written programs to measure against: the machine's memory bandwidth, and a PCG as fast as we can make it.
//!
//! They use nothing of the engine, so that they cannot share its mistakes.

pub mod isa;
pub mod memory;
pub mod pcg;
pub mod stream;
pub mod team;
pub mod wide;
