//! Arguments of a compiled function.

use crate::expr::{Flat, Param};
use crate::types::ScalarType;
use std::fmt;

/// One argument of a compiled function. Binding goes by what it is of; its text is for people.
///
/// The body reads a buffer in `Load`s, and a scalar in `Param`s, that are equal to these.
#[derive(Clone, PartialEq, Debug)]
pub enum Arg {
    /// The address of the first coordinate of a buffer's domain.
    Buffer {
        /// Of an input, or of the output of a Func.
        flat: Flat,
        /// Element type.
        ty: ScalarType,
        /// True for outputs.
        written: bool,
    },
    /// A scalar.
    Scalar {
        /// A declared parameter, or a part of what a buffer looks like.
        param: Param,
        /// Its type.
        ty: ScalarType,
    },
}

impl Arg {
    /// The flat buffer, if it is one.
    pub fn flat(&self) -> Option<&Flat> {
        match self {
            Arg::Buffer { flat, .. } => Some(flat),
            Arg::Scalar { .. } => None,
        }
    }
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Buffer { flat, ty, written: false } => write!(f, "input {flat}: {}", ty.name()),
            Arg::Buffer { flat, ty, written: true } => write!(f, "output {flat}: {}", ty.name()),
            Arg::Scalar { param, ty } => write!(f, "scalar {param}: {}", ty.name()),
        }
    }
}
