//! Image pipelines: each application is an algorithm, and schedules of it as text.
//!
//! ```text
//! Application::find -> setup (parameters, depth of the pictures) -> build -> a Pipeline of the engine
//!                      schedule (by name, or a file's text)     -> Prepared::new -> run on arrays or pictures
//! ```
//! An application is a file here that defines one `APPLICATION`, and a folder of `examples/schedules` with its schedules.

mod application;
mod blur;
mod pictures;
mod run;
mod setup;

pub use application::{Application, Planes, Slot};
pub use pictures::{Picture, PictureError};
pub use run::{PipelineError, Planar, Prepared, Values};
pub use setup::{Kind, Parameter, Setup, SetupError};

/// Every application, in the order of the list that the command prints.
pub const ALL: [&Application; 1] = [&blur::APPLICATION];
