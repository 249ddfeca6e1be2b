//! Both interfaces through their extern functions, against the Rust path.

mod cases;
mod opt;
mod opt_errors;
mod own;
mod random;
mod support;
