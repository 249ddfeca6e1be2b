//! Buffers and the worker pool.

mod buffer;
mod copy;
mod element;
mod memory;
mod pool;
mod view;

pub use buffer::{Buffer, BufferSpec};
pub use element::{Element, Scalar, Wide};
pub use pool::Pool;
pub use view::{Dimension, View};

#[cfg(test)]
mod tests;
