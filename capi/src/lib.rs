//! sumsq from C: the published Opt interface under its own names (`include/Opt.h`) and sumsq's own (`include/sumsq.h`).
//!
//! ```text
//! opt, modern   the two interfaces: extern functions, their structs, what pointers mean
//! instance      a problem of either: which numbers changed, and what that means for the solve in progress
//! element       numbers in C memory
//! failure       status codes, the last error, the guard that every extern function runs under
//! ```
//!
//! No panic crosses the boundary, no pointer is read before it was checked for null, and what C hands over is copied before
//! a function returns, but for memory of a GPU, which is checked and then kept as long as the header says.

mod element;
mod failure;
mod instance;
pub mod modern;
pub mod opt;
