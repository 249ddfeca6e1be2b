//! Sizes of storage.
