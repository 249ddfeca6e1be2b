//! The library's face: data, options and bounds in; a solver compiled once, problems of given sizes, sessions and reports out.

pub mod bounds;
pub mod data;
pub mod error;
pub mod options;
pub mod report;
pub mod session;
pub mod solver;
