//! Consequences of an energy and its sizes: fields over index spaces, lists of incidences, masks, layouts, sizes of strips.
//!
//! Takes the energy and the data's shapes; gives declarations and buffers for the pipelines. Computes nothing of a solve.

pub mod counts;
pub mod incidence;
pub mod layout;
pub mod mask;
pub mod sizes;
