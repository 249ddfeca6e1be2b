//! CUDA devices: what is there, their memory, generated kernels on them. Alone in knowing the driver.
//!
//! ```text
//! devices() -> Device::open -> DeviceMemory, Module -> Function -> launch, or Graph -> run: one stream, all in order
//! ```
//! The driver is a library that is looked for when the first device is asked for; where it is missing, too old, or without a
//! device, the error says so. Objects hold on to their [`Device`], so that the last of them closes it. Nothing here panics, and
//! nothing resets a device, which other libraries of the process may share.
//!
//! [`DeviceArray`] is memory that somebody else owns, who has streams of his own: events put his work and ours in order.
//!
//! Failures of kernels come late, by whatever waits for them. Once a call has failed its device answers every other one by that
//! failure, since what it holds is not to be trusted; only too little memory, and code that is refused, are no failures of a device.

mod device;
mod driver;
mod event;
mod foreign;
mod graph;
mod memory;
mod module;

pub use crate::error::{CudaError, Fault, PointerError, Unavailable, Version};
pub use device::{Counts, Device, DeviceInfo, Entered, FreeMemory, devices};
pub use event::{Event, Mailbox};
pub use foreign::{DeviceArray, Stream};
pub use graph::{Body, Condition, Graph, ReadyGraph};
pub use memory::DeviceMemory;
pub use module::{Function, Module, Shape};
