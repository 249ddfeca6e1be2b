//! Linear forms over integer atoms, and the one decision procedure.

pub mod poly;
