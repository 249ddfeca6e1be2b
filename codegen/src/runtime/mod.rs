//! Buffers and the worker pool.
