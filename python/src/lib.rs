//! The extension module of the Python package `sumsq`: what `sumsq.layers` and `sumsq.solve` call.
//!
//! ```text
//! tensor   memory of Python's tensors, borrowed          pools    threads, shared by all calls
//! layer    arguments checked, routines compiled and run  solve    the solver, with the options of the tool
//! error    what is refused, as exceptions            module   the entry point
//! ```

mod error;
mod layer;
mod module;
mod pools;
mod solve;
mod tensor;
