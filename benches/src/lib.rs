//! Benchmarks: ratios measured side by side in one run, against hand-written yardsticks and against peers.

pub mod compare;
pub mod figure;
pub mod gallery;
pub mod harness;
pub mod memory;
pub mod peer;
pub mod report;
pub mod suite;
pub mod yardstick;
