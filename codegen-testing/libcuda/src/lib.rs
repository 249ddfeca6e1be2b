//! A stand-in for NVIDIA's driver library that interprets the PTX it is handed.

// Names are those of `cuda.h`.
#![allow(non_snake_case)]

mod api;
mod control;
mod counters;
mod driver;
mod graph;
mod objects;
mod raw;
mod report;
mod settings;
mod status;
mod streams;

pub use control::{Control, NotFound, folder, preload};
pub use counters::Counters;
