//! Splits an associative reduction in two.
