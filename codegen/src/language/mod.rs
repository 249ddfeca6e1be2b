//! Additions built from the core language: arithmetic on fixed-point numbers, inline reductions, boundary conditions.
//!
//! Everything here makes ordinary expressions and Funcs. No pass knows of it.

pub mod boundary;
mod fixed_point;
mod inline_reductions;
