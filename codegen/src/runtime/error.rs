//! Mistakes in the shapes of buffers and of what is copied to and from them.

use super::spec::BufferSpec;
use crate::error::CudaError;
use crate::types::ScalarType;
use thiserror::Error;

/// Reason why there is no such buffer or view, or why nothing was copied.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum BufferError {
    #[error("not enough memory for {} elements {extents:?}", ty.name())]
    Memory { ty: ScalarType, extents: Vec<i32> },

    #[error("extents {extents:?} are too large")]
    TooLarge { extents: Vec<i32> },

    #[error("extents {extents:?} are too large for a GPU: a plane has at most {most} elements there")]
    TooLargeForDevice { extents: Vec<i32>, most: i64 },

    #[error("negative extent {extent}")]
    Negative { extent: i32 },

    #[error("coordinates from {min} on, {extent} of them, do not fit in i32")]
    Coordinates { min: i32, extent: i32 },

    #[error("{widths} halo widths for {dims} dimensions")]
    Halo { widths: usize, dims: usize },

    #[error("{minima} minima for {dims} dimensions")]
    Minima { minima: usize, dims: usize },

    #[error("a buffer needs at least one channel")]
    NoChannel,

    #[error("{channels} channels do not fit in a record of {slots}")]
    Record { channels: usize, slots: u8 },

    #[error("coordinates of dimension {dim} share elements with others")]
    Overlap { dim: usize },

    #[error("strides are too large")]
    Strides,

    #[error("{needed} elements are needed, the slice has {came}")]
    Slice { needed: i64, came: usize },

    #[error("its memory was borrowed for reading")]
    ReadOnly,

    #[error(transparent)]
    Device(#[from] CudaError),

    #[error("{came} values for {extents:?} elements of {channels} channels")]
    Values { came: usize, extents: Vec<i32>, channels: usize },

    /// The channels come first in `came`.
    #[error("{came:?}, the channels first, for {extents:?} elements of {channels} channels")]
    Channels { came: Vec<i32>, extents: Vec<i32>, channels: usize },

    #[error("buffers that are exchanged or copied must look alike: {0:?} and {1:?}")]
    Unlike(Box<BufferSpec>, Box<BufferSpec>),
}
