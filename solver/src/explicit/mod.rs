//! The explicit path: a sparse Jacobian, assembled.
