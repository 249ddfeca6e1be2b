//! Image pipelines: each application is an algorithm, and schedules of it as text.
//!
//! ```text
//! Application::find -> setup (parameters, depth of the pictures) -> build -> a Pipeline of the engine
//!                      schedule (by name, or a file's text)     -> Prepared::new -> run on arrays or pictures
//! ```
//! An application is a file here that defines one `APPLICATION`, and a folder of `examples/schedules` with its schedules.

mod application;
mod blur;
mod harris;
mod hist;
mod pictures;
mod run;
mod setup;
mod sgemm;
mod stencil_chain;
mod unsharp;

use sumsq::codegen::Expr;

pub use application::{Application, Planes, Sizes, Slot};
pub use pictures::{Picture, PictureError};
pub use run::{PipelineError, Planar, Prepared, Values};
pub use setup::{Kind, Parameter, Setup, SetupError};

/// Every application, in the order of the list that the command prints.
pub const ALL: [&Application; 6] = [
    &blur::APPLICATION,
    &unsharp::APPLICATION,
    &harris::APPLICATION,
    &stencil_chain::APPLICATION,
    &hist::APPLICATION,
    &sgemm::APPLICATION,
];

/// Luminance of a colour, given by channel: f32.
fn luminance(channel: impl Fn(i32) -> Expr) -> Expr {
    channel(0) * 0.299f32 + channel(1) * 0.587f32 + channel(2) * 0.114f32
}
