//! Ins and outs of a solve: data, bounds, options, choices of storage, the report.

pub mod aggregates;
pub mod blocks;
pub mod bounds;
pub mod cancel;
pub mod data;
pub mod grids;
pub mod levels;
pub mod memory;
pub mod options;
pub mod overrides;
pub mod report;
