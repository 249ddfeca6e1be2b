//! Substitutes inlined Funcs.
