//! Interior and general body.
