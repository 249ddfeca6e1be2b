//! The engine's CUDA runtime on the stand-in driver: devices, memory, kernels written by hand, graphs, and every failure.

mod copies;
mod faults;
mod graphs;
mod kept;
mod kernels;
mod loops;
mod machine;
mod memory;
