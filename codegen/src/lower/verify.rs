//! Invariants of statements.
