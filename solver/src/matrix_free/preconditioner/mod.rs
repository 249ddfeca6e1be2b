//! Preconditioners: what M^-1 is, from the blocks of J^T J, and how it is had where it is applied.

pub mod diagonal;
