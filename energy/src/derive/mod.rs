//! Derivatives and the routines built from them.
