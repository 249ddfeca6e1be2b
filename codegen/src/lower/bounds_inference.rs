//! Gives every produced region its bounds.
