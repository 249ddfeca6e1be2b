//! Routines against a dense Jacobian from finite differences on tiny domains.
//!
//! The oracle knows nothing of the routines: it instantiates residual templates by brute force (own boundary test, own
//! free test), differentiates instances by fourth-order central differences and multiplies dense matrices.

mod oracle;
mod passes;
mod problems;
mod routines;
