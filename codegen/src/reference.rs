//! The slow reference evaluator.
