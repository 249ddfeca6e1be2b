//! Additions built from the core language: arithmetic on fixed-point numbers, functions that trade digits for time, choices by
//! number, numbers that look random, inline reductions, boundary conditions, the same algorithm in other floats.
//!
//! Everything here makes ordinary expressions and Funcs. No pass knows of it.

pub mod boundary;
mod fast;
mod fixed_point;
mod floats;
mod inline_reductions;
mod mux;
mod random;
mod shifts;

pub use floats::in_floats;
