//! Errors of a solve, as types whose text says what to do.

use crate::assembled::{ExplicitError, NonFinite};
use crate::problem::data::DataError;
use crate::problem::memory::Bytes;
use crate::problem::options::OptionError;
use crate::problem::overrides::ChoiceError;
use sumsq_codegen::error::CudaError;
use sumsq_codegen::runtime::BufferError;
use sumsq_energy::EnergyError;
use sumsq_energy::model::Energy;
use thiserror::Error;

/// A solve that could not be started or finished. The caller's data are as they were.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum SolveError {
    /// An energy that takes more than its budgets, or whose code takes more than what may be compiled.
    #[error(transparent)]
    Energy(#[from] EnergyError),
    /// The engine refused a pipeline, or generated code stopped.
    #[error(transparent)]
    Engine(sumsq_codegen::Error),
    /// The requested back end is not there, or fails.
    #[error(transparent)]
    Backend(#[from] CudaError),
    /// The machine that code was asked for is not this one.
    #[error(transparent)]
    Target(#[from] sumsq_codegen::target::MissingLevel),
    /// E at the start is inf or NaN.
    #[error("the energy is not finite at the start ({energy}): {place}")]
    InitialNotFinite {
        /// E.
        energy: f64,
        /// The cause.
        place: Blame,
    },
    /// E at the start is finite, a derivative is not: there is no step to take.
    #[error("a derivative is not finite at the start: {0}")]
    DerivativeNotFinite(Box<NonFinite>),
    /// Numbers of another energy.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A buffer that could not be had, or numbers that do not fit into it.
    #[error("{of}: {source}")]
    Buffer {
        /// The declared field, or the vector of the solver.
        of: String,
        /// The sizes that do not fit.
        source: BufferError,
    },
    /// A graph whose hyperedges, in the lists that generated code reads, are too many for its indices.
    #[error(
        "the lists of `{of}` have {count} {what}, padding included, and at most 2147483647 can be: use fewer hyperedges"
    )]
    Lists {
        /// The graph and its vertex, as in `G.v0`.
        of: String,
        /// Entries or rows.
        what: &'static str,
        /// Their number.
        count: u64,
    },
    /// Buffers that do not fit into the memory that there is, or that they may take. None was touched.
    #[error(
        "the problem needs {} of inputs and {} of buffers, {} are available: solve a smaller one, store less (float32 precision, choices in \
         place), or raise the limit (max_memory)",
        Bytes(*inputs),
        Bytes(*buffers),
        Bytes(*limit)
    )]
    Memory {
        /// Bytes of the numbers that the problem is given.
        inputs: u64,
        /// Bytes of the buffers.
        buffers: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Fewer threads than were asked for.
    #[error("{asked} threads were asked for, the system started {started}: ask for fewer")]
    Threads {
        /// By the options.
        asked: usize,
        /// The caller's included.
        started: usize,
    },
    /// Data of other sizes than those that the problem was planned for.
    #[error(
        "the problem was planned for the dims {planned:?}, these data have {came:?}: rebind it or make another plan"
    )]
    Dims {
        /// The problem's.
        planned: Vec<usize>,
        /// Those of the data.
        came: Vec<usize>,
    },
    /// Data that differ from what the problem holds: it was not given what has changed.
    #[error(
        "{0} of these data is not what the problem holds: give it to the problem first, by `set_arrays`, or by `rebind` where graphs \
         have changed"
    )]
    Stale(Stale),
    /// Lower bounds above upper ones.
    #[error(transparent)]
    Bounds(#[from] crate::problem::bounds::BoundsError),
    /// An option that this energy cannot honour.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl SolveError {
    /// The error of numbers that a buffer does not take or hand out.
    pub(crate) fn of_buffer(of: &str, source: BufferError) -> SolveError {
        match source {
            BufferError::Device(error) => SolveError::Backend(error),
            source => SolveError::Buffer { of: of.to_string(), source },
        }
    }

    /// Says of code over a limit which residual of `energy` is the largest; any other error stays as it is.
    #[must_use]
    pub fn at_largest(self, energy: &Energy) -> SolveError {
        match self {
            SolveError::Energy(e) => SolveError::Energy(e.at_largest(energy)),
            other => other,
        }
    }
}

impl From<ChoiceError> for SolveError {
    fn from(error: ChoiceError) -> SolveError {
        SolveError::Option(error.into())
    }
}

impl From<sumsq_codegen::Error> for SolveError {
    fn from(e: sumsq_codegen::Error) -> SolveError {
        match e {
            e @ sumsq_codegen::Error::Limit { .. } => EnergyError::too_much_code(e.to_string()).into(),
            sumsq_codegen::Error::Device { error, .. } => SolveError::Backend(error),
            e => SolveError::Engine(e),
        }
    }
}

/// The first of some data that differs from what a problem holds.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Stale {
    /// The index arrays of some graph.
    #[error("graph")]
    Graphs,
    /// The array of this name.
    #[error("array `{0}`")]
    Array(String),
    /// The param of this name.
    #[error("param `{0}`")]
    Param(String),
}

/// Source of an energy that is not finite.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum Blame {
    /// The first residual that is not finite: the element and the values read there.
    #[error("{0}")]
    Residual(Box<NonFinite>),
    /// In float64 every residual is finite.
    #[error(
        "in float64 every residual is finite, so float32 is too narrow for them: take the mixed precision"
    )]
    Float32,
    /// Every residual is finite.
    #[error("every residual is finite, but the sum of their squares is not")]
    Sum,
    /// It was not found.
    #[error("which residual it is cannot be said ({0})")]
    Unknown(ExplicitError),
}
