//! Turns vector loops into vector expressions.
