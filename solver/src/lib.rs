//! Non-linear least squares over images, volumes, meshes and graphs.

pub mod bounds;
pub mod check;
pub mod data;
pub mod error;
pub mod explicit;
pub mod generated;
pub mod lm;
pub mod options;
pub mod report;
pub mod session;
pub mod solver;

pub use data::{ArrayData, GraphData, NamedArray, ProblemData};
pub use error::SolveError;
pub use options::{Backend, LossOrder, Method, Options, Precision, Preconditioner};
pub use report::{Iteration, LinearStop, Report, Seconds, Termination};
pub use session::Session;
pub use solver::{Evaluation, LinearProbe, Problem, Solver};
pub use sumsq_codegen as codegen;
pub use sumsq_energy as energy;
