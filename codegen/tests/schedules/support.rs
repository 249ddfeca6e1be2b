//! Helpers of these tests.

use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Error, Pipeline, Schedule};

/// The text with which a schedule is refused.
pub fn refused(p: &Pipeline, s: &Schedule) -> String {
    let options = LowerOptions { dump: None, verify: true };
    match lower(p, s, &options) {
        Ok(_) => panic!("legal:\n{s}"),
        Err(e @ Error::Schedule { .. }) => e.to_string(),
        Err(e) => panic!("{e}\n{s}"),
    }
}
