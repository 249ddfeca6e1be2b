//! Polynomials for sin, cos, exp and log.
