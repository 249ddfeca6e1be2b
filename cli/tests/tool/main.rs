//! The `sumsq` program, run as its users run it.

mod bad_input;
mod bench;
mod check;
mod code_options;
mod command_line;
mod demos;
mod determinism;
mod devices;
mod gradients;
mod hierarchies;
mod kept;
mod linear_solver;
mod outputs;
mod pipelines;
mod tutorial;
