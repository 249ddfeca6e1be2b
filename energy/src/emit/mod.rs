//! Routines as codegen Funcs.
