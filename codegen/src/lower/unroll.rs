//! Copies unrolled loops.
