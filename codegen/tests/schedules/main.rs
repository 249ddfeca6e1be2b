//! What each directive means: results, footprints, work, storage, refusals. One file a theme.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "coordinates read better as arrays")]

// Checked memory, shared with the other tests of lowering.
mod atomics;
mod bounds;
#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;
mod errors;
mod folding;
mod joint_loops;
mod lanes;
mod loops;
#[allow(dead_code)]
#[path = "../common/native.rs"]
mod native;
mod periods;
mod prefetch;
mod reductions;
mod regions;
mod rings;
mod shared;
mod sinks;
mod support;
mod tails;
mod together;
mod versions;
