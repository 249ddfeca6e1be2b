//! An interpreter of PTX, the assembly of NVIDIA's GPUs, as LLVM's NVPTX back end writes it: an oracle for generated kernels
//! on machines without a GPU.
//!
//! ```text
//! text -> parse -> Text (a tree) -> decode -> Module (registers, addresses, pure functions) -> Launch::run -> Memory
//! ```
//!
//! # The text
//! All of it is understood or refused with its line ([`LoadError`]); nothing is skipped but comments, `.pragma "nounroll"`
//! and `.minnctapersm`. Understood are modules for `sm_75` and later with 64-bit addresses: kernels and functions called by
//! name, variables of all state spaces with numbers as initialisers, and the instructions that [`Module::load`] meets in what
//! LLVM 22 writes. Refused by purpose:
//!
//! - arithmetic of floats that names no rounding (`mul.f32`): an assembler may fuse it, so that its bits depend on the
//!   driver;
//! - `.approx`, `.full` and `.ftz`: their bits depend on the device;
//! - barriers other than number 0 of the whole block, more than 48 KiB of static shared memory, shared memory whose size the
//!   launch decides, calls through registers, addresses of parameters.
//!
//! # Arithmetic
//! Integers wrap. Halves, singles and doubles compute in their own precision, rounded once, with denormals; `fma` is fused.
//! NaNs of halves and singles are the canonical ones (`0x7fff`, `0x7fffffff`).
//!
//! # Checks
//! Each is a [`Fault`] with kernel, line, block and thread ([`LaunchError`]):
//!
//! - an access outside of every allocation, of the kernel's shared variables or of the thread's local memory, or not aligned
//!   to its size. Allocations lie 4 KiB apart or more, shared variables 64 bytes; addresses are never used twice, so that
//!   stale ones are known;
//! - a read of bytes that were never written, in global and shared memory. New memory is poisoned; shared memory is new to each
//!   block. An atomic access of a word that is written in part is none: sums of 8 and 16 bits swap the word around them;
//! - a race: two threads touch a byte, at least one writes, not both are atomic, and no barrier of the block and no
//!   `bar.warp.sync` of their whole warp lies between. Two plain writes of one value are none. Between blocks of a launch
//!   nothing is ordered, unless they run together ([`Launch::cooperative`]): then a barrier of the whole grid is, made of
//!   fences, atomic operations and `.acquire` or `.release` of `.gpu`; where a part of it is missing, what it should order
//!   races. The places of both accesses are told. `.cta` atomics are plain to other blocks. A plain load that feeds a loop of comparison and swap on
//!   the same place is taken as atomic: LLVM writes so what PTX has no atomic instruction for. Marks are kept for granules as
//!   small as the smallest access so far of the allocation, hence neighbouring bytes do not race. No race is missed; where
//!   plain and atomic accesses of one granule mix within a launch, ordered ones may be taken for a race;
//! - a write of what the launch reads by `ld.global.nc`, in either order, by any thread; a write of constant memory;
//! - a barrier that a thread of the block does not reach, or at which lanes of one warp wait at two places; an instruction
//!   for named lanes (`shfl.sync`, `vote.sync`, `bar.warp.sync`) that not all of them reach, that a lane executes without
//!   being named, or that reads a lane without it being named;
//! - a division of an integer by zero, an indexed branch beyond its list, `trap`, a launch that does not end, and sizes that
//!   no device takes or that contradict `.reqntid`.
//!
//! Blocks and threads run in an [`Order`], one after the other: a thread runs until it waits or ends. Checks look at marks,
//! not at the order, so a program passes in every order or in none; tests run through several all the same.
//!
//! # Differences from a device
//! - A race is a fault even if hardware would give the same answer, as is a barrier that threads which have ended do not
//!   reach.
//! - Memory is one, and a thread sees at once what another did. That an access *should* have been atomic is found as a race,
//!   and so is a fence that a barrier of the grid lacks.
//! - Blocks that pass each other data under a flag race, in a cooperative launch too: there a block must have waited for all
//!   others. Of an atomic operation between a block's arrival and its next barrier it is not seen that it came after.
//! - `red` and `atom` on singles in global memory keep denormals, which hardware flushes to zero. Atomic sums come in the
//!   order of the threads, on hardware in any.
//! - NaNs of doubles are those of the host. An operation that hardware leaves open is a fault (integer division by zero) or
//!   the least that is allowed (`activemask` names the lane itself).
//! - Registers and local memory (new to each call) that were never written hold poison, which is not checked: LLVM reads such for
//!   values that do not matter.
//! - There is no time, no cache, no limit of registers, and no limit of the stack but 64 nested calls.

mod arithmetic;
mod code;
mod decode;
mod error;
pub mod instructions;
mod machine;
mod memory;
mod module;
mod text;

pub use error::{Access, Area, Fault, LaunchError, LoadError, Missing, Other, Place, Refusal};
pub use machine::{Dims, Geometry, Launch, Order, Outcome, Traffic, Workspace};
pub use memory::{Memory, Stray};
pub use module::{Kernel, Module, SHARED_MOST};
