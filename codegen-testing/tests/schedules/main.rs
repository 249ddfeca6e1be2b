//! Meaning of each directive: results, footprints, work, storage, refusals. One file a theme.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "coordinates read better as arrays")]

mod atomics;
mod bounds;
mod errors;
mod folding;
mod gathers;
mod gpu;
mod histograms;
mod hoisting;
mod inside_lanes;
mod joint_loops;
mod lanes;
mod loops;
mod names;
mod parts;
mod periods;
mod prefetch;
mod reductions;
mod regions;
mod rings;
mod rows;
mod shared;
mod sinks;
mod slides;
mod support;
mod tails;
mod together;
mod versions;
mod windows;
