//! Loop nests, with producers injected at their levels.
