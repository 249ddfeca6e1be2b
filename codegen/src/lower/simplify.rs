//! Simplification of expressions and statements.
