//! Reasons why a member of an archive is not read.

use thiserror::Error;

/// Reason why a member is not an array that can be had.
#[derive(Debug, Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum MemberError {
    #[error("there is no such array")]
    Missing,

    #[error("the archive is damaged: {0}")]
    Damaged(String),

    #[error("it is encrypted, or compressed in another way than by deflate (method {0})")]
    Method(u16),

    #[error("not a .npy: {0}")]
    NotNpy(&'static str),

    #[error("its header is not as expected: {expected} at byte {at} of {text}")]
    Header { expected: &'static str, at: usize, text: String },

    #[error("absurd shape {shape:?}")]
    Absurd { shape: Vec<usize> },

    #[error("dtype object (a pickle) is refused")]
    Pickle,

    #[error("dtype {descr} is not supported: give float32, float64, integers or bool")]
    Dtype { descr: String },

    #[error("shape {shape:?} of {dtype} needs {expected} bytes, the file holds {held}")]
    Size { shape: Vec<usize>, dtype: &'static str, expected: usize, held: u64 },

    #[error("not enough memory for {elements} elements of {dtype}")]
    Memory { elements: usize, dtype: &'static str },

    #[error("the value {0} is too large")]
    TooLarge(u64),
}

impl From<rawzip::Error> for MemberError {
    fn from(error: rawzip::Error) -> MemberError {
        MemberError::Damaged(error.to_string())
    }
}

impl From<std::io::Error> for MemberError {
    fn from(error: std::io::Error) -> MemberError {
        MemberError::Damaged(error.to_string())
    }
}
