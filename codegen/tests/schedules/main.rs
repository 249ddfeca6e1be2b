//! What each directive means: results, footprints, work, storage, refusals. One file a theme.

// Checked memory, shared with the other tests of lowering.
#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;
mod support;
mod tails;
