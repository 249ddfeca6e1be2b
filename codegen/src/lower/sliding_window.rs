//! Computes each value of a sliding region once.
