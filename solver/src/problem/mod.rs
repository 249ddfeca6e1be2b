pub mod bounds;
pub mod data;
pub mod error;
pub mod options;
pub mod report;
pub mod session;
pub mod solver;
