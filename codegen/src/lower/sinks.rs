//! Outputs inside a nest, and in-place outputs.
