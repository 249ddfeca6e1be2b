//! Circular storage.
