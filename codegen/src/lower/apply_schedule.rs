//! Loop structure of each stage from its directives.
