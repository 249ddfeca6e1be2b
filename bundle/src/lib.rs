//! Work to be done on a machine with a GPU that may have neither Rust nor a network, and little time: one program checks and measures.
//!
//! | module | what |
//! |---|---|
//! | [`checks`] | the list of checks, which CI runs on the stand-in for the driver, and their parent |
//! | [`bench`](mod@bench) | the list of measurements, most telling first, and their parent |
//! | `ways` | the ways that a device has to run a loop |
//! | [`children`] | both run each entry in a process of its own, which ends late or badly without harm to the others |
//!
//! `cargo xtask bundle` packs the program with the cases, the stand-in and the peers' sources.

pub mod bench;
pub mod checks;
pub mod children;
mod ways;
