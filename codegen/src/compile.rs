//! From a pipeline and a schedule to a compiled function.
