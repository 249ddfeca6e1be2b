//! A stand-in for NVIDIA's driver library that interprets the PTX it is handed (`sumsq-ptx`): unchanged programs run on
//! machines without a GPU, and what hardware leaves unchecked is checked.
//!
//! # Use
//! - Tests load it into their own process before they touch a driver: `let control = sumsq_libcuda::preload()?`. It is loaded
//!   by its path; as it bears the name `libcuda.so`, which programs and cudarc try first, later requests by that name are
//!   answered with it even where a real driver is installed. [`Control`] changes settings and reads counts.
//! - Programs are started with [`folder`] in `LD_LIBRARY_PATH`.
//!
//! Cargo builds the library with the tests of every crate that has this one among its (dev-)dependencies.
//!
//! # Settings
//! Variables of the environment, read once by the first `cuInit` or `cuDriverGetVersion`, all with the prefix
//! `SUMSQ_LIBCUDA_`:
//!
//! | name | meaning | default |
//! |---|---|---|
//! | `DEVICES` | number of devices | 1 |
//! | `CAPABILITY` | compute capability | 9.0 |
//! | `MEMORY` | bytes of each device | 2147483648 |
//! | `DRIVER_VERSION` | newest CUDA that it supports, and with it PTX; while nodes from 12040 on | 12080 |
//! | `MULTIPROCESSORS` | number of them | 132 |
//! | `COMPUTE_MODE` | 2 closes the devices to everybody | 0 |
//! | `ORDER` | threads and blocks: 0 ascending, 1 descending, others shuffled by that seed | 0 |
//! | `CHECKS` | `on` or `off`: bounds and alignment alone | on |
//! | `ENDLESS` | instructions of a block, or turns of a loop, after which it has timed out | 2147483648 |
//! | `FAIL_CALL` | `n`, `n:code`, `name` or `name:code`: the n-th call, or each of that name, returns the code (999) | none |
//! | `EDIT` | `text => other`, a defect to rehearse: every module has the other text in place of the first | none |
//! | `MISSED_COPY` | `to_device:n`, `to_host:n` or `within_device:n`, likewise: the n-th such copy from now on is said to be made, and is not | none |
//! | `STALE_ARGUMENTS` | `on` or `off`, likewise: a kernel that a graph has already is added with the arguments that it has there, unless it is of one thread | off |
//! | `REPORT` | file for the counts of [`Counters`], written when the process ends | none |
//!
//! A value that is not understood makes `cuInit` fail with a sentence on standard error.
//!
//! # Behaviour
//! - *Late*: work of a stream is done when somebody waits for it, in the stream's order. The default stream and blocking ones
//!   wait for each other; streams made with `CU_STREAM_NON_BLOCKING` do not, hence a copy on the default stream sees what was
//!   there before. Pinned memory is read and written when the copy is made; pageable memory is read when it is asked for, and
//!   written late. A query answers "not ready" once, then does the work.
//! - *Graphs*: of the nodes that may run the youngest does. A while node runs its body until a kernel sets its condition to
//!   zero (`cudaGraphSetConditional`). Captures of one stream give a chain.
//! - *Managed*: memory that is told apart by its attribute alone; the host reaches it by copies, like any other.
//! - *Strict*: handles and device pointers are looked up; null, foreign, freed and stale ones give the codes of the real
//!   driver, kernels that touch them break their context with `CUDA_ERROR_ILLEGAL_ADDRESS`. Any fault that the interpreter
//!   finds is printed to standard error as one sentence and breaks the context (`CUDA_ERROR_LAUNCH_FAILED` and others); from
//!   then on its calls return that code, until the last holder releases the context. Calls that give something back do so
//!   even then, and also where they are made to fail.
//! - A module is refused (`CUDA_ERROR_INVALID_PTX`, the sentence in the error log) for everything that `sumsq-ptx` refuses.
//!
//! # Differences from the driver
//! - Functions that are not listed in `api` are missing; asking for them ends in the caller's message about a missing symbol.
//!   Launch attributes but "cooperative", edges with ports, memory pools, managed and mapped memory, textures, dynamic shared
//!   memory and cubins are refused or missing. Copy nodes have one row.
//! - Kernels on two streams, or of two nodes that nothing orders, run one after the other: that they race shows by the order in
//!   which they run, not as a fault. (Of one launch, blocks that run together among them, races are faults.)
//! - Times of events grow with work done, not with time. Occupancy follows from threads and shared memory, registers counted
//!   as 32.
//! - Graphs with conditions may be instantiated and launched any number of times; updates of such graphs are refused.
//! - A primary context that broke is as new when it is retained again after its last release.
//! - Host functions may not call the driver: they would wait for themselves.

// Names are those of `cuda.h`.
#![allow(non_snake_case)]

mod api;
mod control;
mod counters;
mod driver;
mod graph;
mod objects;
mod raw;
mod report;
mod settings;
mod status;
mod streams;

pub use control::{Control, NotFound, folder, preload};
pub use counters::{Counters, KernelCounters};
