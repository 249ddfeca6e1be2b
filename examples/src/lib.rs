//! See the crate description in Cargo.toml.

pub mod energies;
