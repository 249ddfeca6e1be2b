//! Buffers and the worker pool.

mod buffer;
mod copy;
mod element;
mod memory;
mod pool;

pub use buffer::{Buffer, BufferSpec};
pub use element::{Element, Half, Scalar, Wide};
pub use pool::Pool;

#[cfg(test)]
mod tests;
