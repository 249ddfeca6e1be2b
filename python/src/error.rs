//! Reasons to refuse, and the Python exceptions that say so.

use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::{PyErr, create_exception};
use sumsq::codegen::Error as EngineError;
use sumsq_examples::pipelines::PipelineError;

create_exception!(sumsq, Error, PyException, "A failure of the solver or of the engine.");

/// Reasons to refuse an argument. Names are those of the layer's arguments.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("there is no layer {came}; there are {known}")]
    Layer { came: String, known: String },
    #[error("{layer}: expected {expected} arrays ({names}), came {came}")]
    Count { layer: &'static str, expected: usize, names: String, came: usize },
    #[error("{name}: expected a NumPy array or a tensor with __dlpack__, came {came}")]
    NoTensor { name: String, came: String },
    #[error("{name}: expected float32 or float64, came {came}")]
    Elements { name: String, came: String },
    #[error("{name}: expected {expected}, as {like} has it, came {came}")]
    Mixed { name: String, expected: &'static str, like: String, came: &'static str },
    #[error("{0}: expected strides of whole elements, at aligned addresses")]
    Unaligned(String),
    #[error("{name}: expected a tensor of the CPU, came one of {came}")]
    Device { name: String, came: String },
    #[error("{0}: its __dlpack__ gave no capsule with a tensor of version 1")]
    Capsule(String),
    #[error("{name}: expected {dims} axes ({axes}), came {came}", dims = axes.split(", ").count())]
    Rank { name: String, axes: String, came: String },
    #[error("{name}: expected at least one element and at most 2147483647 along an axis, came {came}")]
    Extent { name: String, came: String },
    #[error("{layer}: shapes do not fit each other: {came}; expected {expected}")]
    Shapes { layer: &'static str, came: String, expected: String },
    #[error("{name}: expected the shape of {like}, {expected}, came {came}")]
    Shape { name: String, like: String, expected: String, came: String },
    #[error("{0}: it is read-only, and results are written to it")]
    ReadOnly(String),
    #[error("{0}: its elements share memory, and results are written to it")]
    Shared(String),
    #[error("{name}: its memory is also that of {other}")]
    Overlap { name: String, other: String },
    #[error("threads: expected 1 to 1024, came {0}")]
    Threads(i64),
    #[error("{name}: expected {expected}, came {came}")]
    Option { name: String, expected: String, came: String },
    #[error("{name}: it is no option of solve; these are: {known}")]
    UnknownOption { name: String, known: String },
}

impl From<Refused> for PyErr {
    fn from(refused: Refused) -> PyErr {
        let text = refused.to_string();
        match refused {
            Refused::NoTensor { .. }
            | Refused::Elements { .. }
            | Refused::Mixed { .. }
            | Refused::Count { .. }
            | Refused::UnknownOption { .. } => PyTypeError::new_err(text),
            _ => PyValueError::new_err(text),
        }
    }
}

/// A failure of the engine, which the checks before it leave to memory and to defects.
pub fn engine(error: &EngineError) -> PyErr {
    let text = error.to_string();
    if text.contains("out of memory") { PyMemoryError::new_err(text) } else { Error::new_err(text) }
}

/// A failure to build a routine.
pub fn pipeline(error: &PipelineError) -> PyErr {
    match error {
        PipelineError::Engine(error) => engine(error),
        other => Error::new_err(other.to_string()),
    }
}

/// The answer of `run`, or the words of its panic: a defect of ours is an exception too.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, PyErr>) -> Result<T, PyErr> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(Error::new_err(format!("a defect: {}", words.unwrap_or_default())))
    })
}
