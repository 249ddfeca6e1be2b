//! Both interfaces through their extern functions, against the Rust path.

mod opt;
mod opt_errors;
mod own;
mod support;
