//! Non-linear least squares over images, volumes, meshes and graphs.

pub mod assembled;
pub mod check;
pub mod matrix_free;
pub mod outer;
pub mod problem;

pub use crate::problem::data::{ArrayData, ArrayView, DataError, GraphData, NamedArray, ProblemData, Slice};
pub use crate::problem::error::{Blame, SolveError};
pub use crate::problem::options::{
    Backend, CompileOptions, LossOrder, Method, OptionError, Options, Precision, Preconditioner, SolveOptions,
};
pub use crate::problem::report::{Iteration, LinearStop, Report, Seconds, Termination};
pub use crate::problem::session::{Session, Unstarted};
pub use crate::problem::solver::{Evaluation, LinearProbe, Problem, Solver};
pub use sumsq_codegen as codegen;
pub use sumsq_energy as energy;
