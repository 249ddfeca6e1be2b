//! Non-linear least squares over images, volumes, meshes and graphs.

#![warn(missing_docs)]

pub mod assembled;
pub mod check;
mod counting_sort;
mod error;
mod growth;
// Parts that `sumsq show`, tests and benches look into: no part of the interface.
#[doc(hidden)]
pub mod matrix_free;
mod outer;
pub mod pipeline_energy;
mod problem;
pub mod ptxas;
mod session;
mod solver;

pub use crate::error::{Blame, SolveError, Stale};
pub use crate::matrix_free::choices::Choices;
pub use crate::matrix_free::plan::on_device::Exported;
pub use crate::outer::lm::{Callback, Control, Energies};
pub use crate::problem::bounds::{Bounds, BoundsError};
pub use crate::problem::cancel::Cancel;
pub use crate::problem::data::{ArrayData, ArrayView, DataError, GraphData, NamedArray, ProblemData, Slice};
pub use crate::problem::memory::{Memory, MemoryLimit};
pub use crate::problem::options::{
    Backend, CompileLimits, CompileOptions, EXACT_RADIUS, LossOrder, MAX_THREADS, Method, OptionError,
    Options, Precision, Preconditioner, SecondDescent, SolveOptions,
};
pub use crate::problem::overrides::{ChoiceError, Overrides, Value};
pub use crate::problem::report::{Grids, Held, Iteration, Lent, LinearStop, Report, Seconds, Termination};
pub use crate::session::{Session, Unstarted};
pub use crate::solver::{
    Evaluation, LinearProbe, Machine, Problem, Solver, Work, choices, lowered, ptx, ptx_of, schedules, sizes,
};
pub use sumsq_codegen as codegen;
pub use sumsq_codegen::Level;
pub use sumsq_codegen::runtime::cuda::{DeviceArray, Stream};
pub use sumsq_energy as energy;
