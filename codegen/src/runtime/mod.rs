//! Buffers, scalars, the worker pool, devices, and what profiled code counts.
//!
//! Takes element types and layouts of the vocabulary; gives memory that compiled code may be pointed to, and threads and devices to run
//! it on. Knows nothing of what the code does.

mod buffer;
mod copy;
pub mod cuda;
mod element;
mod error;
mod float_environment;
pub(crate) mod memory;
mod pool;
pub mod profile;
mod side;
mod spec;
mod view;

pub use buffer::Buffer;
pub use element::{Element, Scalar, Wide};
pub use error::BufferError;
pub use float_environment::FloatEnvironment;
pub use pool::{BodyFn, Pool};
pub use side::{Access, Block, Home, REACH};
pub(crate) use side::{sync_hosts, together};
pub use spec::BufferSpec;
pub use view::{Dimension, View};

#[cfg(test)]
mod tests;
