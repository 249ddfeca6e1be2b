//! The applications against plain loops, written here independently of them: on small inputs of odd sizes, under every schedule, by one
//! thread and by three.

mod blur;
mod common;
mod harris;
mod hist;
mod sgemm;
mod stencil_chain;
mod unsharp;
