//! An interpreter of PTX, the assembly of NVIDIA's GPUs, as LLVM's NVPTX back end writes it: an oracle for generated kernels on
//! machines without a GPU.

mod arithmetic;
mod code;
mod decode;
mod error;
mod machine;
mod memory;
mod module;
mod text;

pub use error::{Access, Area, Fault, LaunchError, LoadError, Missing, Other, Place, Refusal};
pub use machine::{Dims, Geometry, Launch, Order, Outcome};
pub use memory::{Memory, Stray};
pub use module::{Kernel, Module, SHARED_MOST};
