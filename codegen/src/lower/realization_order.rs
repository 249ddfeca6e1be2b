//! Producers before consumers.
