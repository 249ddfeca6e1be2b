//! The nests of a pipeline: what it says of how each of its Funcs is computed.
//!
//! Pipelines say this much and no more. Loops, lanes and sizes are those of a machine: [`cpu`] and [`gpu`] make directives of nests.

pub mod cpu;
pub mod gpu;
pub mod reduce;

use crate::matrix_free::vectors::VectorId;
use sumsq_codegen::{Expr, Name, Schedule, Target};
use sumsq_energy::model::Domain;

/// A schedule in the making, for the machine that a target is.
pub enum Scheduler {
    /// A CPU.
    Cpu(cpu::Scheduler),
    /// A GPU.
    Gpu(gpu::Scheduler),
}

impl Scheduler {
    /// Nothing is scheduled yet.
    pub fn new(target: &Target) -> Scheduler {
        match target.gpu {
            None => Scheduler::Cpu(cpu::Scheduler::new(target)),
            Some(_) => Scheduler::Gpu(gpu::Scheduler::new()),
        }
    }

    /// Adds the directives of a nest; that of its reader must be there.
    pub fn add(&mut self, nest: &Nest) {
        match self {
            Scheduler::Cpu(scheduler) => scheduler.add(nest),
            Scheduler::Gpu(scheduler) => scheduler.add(nest),
        }
    }

    /// Adds the directives of an output that is a scalar and that no nest computes.
    pub fn scalar(&mut self, func: &Name) {
        if let Scheduler::Gpu(scheduler) = self {
            scheduler.scalar(func);
        }
    }

    /// The directives so far.
    pub fn schedule(&self) -> &Schedule {
        match self {
            Scheduler::Cpu(scheduler) => &scheduler.schedule,
            Scheduler::Gpu(scheduler) => &scheduler.schedule,
        }
    }

    /// All directives.
    pub fn into_schedule(self) -> Schedule {
        match self {
            Scheduler::Cpu(scheduler) => scheduler.schedule,
            Scheduler::Gpu(scheduler) => scheduler.schedule,
        }
    }
}

/// The nest of a Func: how it is computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Nest {
    /// The Func.
    pub func: Name,
    /// Its variables, fastest first.
    pub vars: Vec<Name>,
    /// Number of its updates.
    pub updates: usize,
    /// Place and order of its computation.
    pub kind: Kind,
    /// An expression in the coordinates of its points: vectors for which it is false are skipped.
    pub live: Option<Expr>,
    /// The input that it overwrites.
    pub in_place_of: Option<VectorId>,
}

/// The kinds of nests.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A nest of its own over the points of an output, cut into strips along the last dim.
    Map(Strip),
    /// A nest of its own over the rows of a vertex, (lane, block).
    Rows,
    /// A nest of its own: sums and maxima over the points of these variables, the same for any number of threads.
    Reduction(Vec<Name>, Strip),
    /// Inside of the nest of its reader, vector by vector, and stored there.
    StoredIn(Name),
    /// Inside of the nest of its reader, vector by vector, in registers.
    RegistersIn(Name),
    /// Inside of the reduction that reads it, row by row, in a ring of rows.
    RingIn(Name, Ring),
    /// Substituted into what reads it.
    Inline,
}

/// The share of a domain that one thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strip {
    /// Rows of a domain, by its sizes.
    Of(Domain),
    /// Blocks of the rows of a vertex.
    Blocks,
    /// Entries of the rows of a vertex.
    Entries,
}

/// A ring of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// Rows that are read on either side; `None` leaves the number of rows to the engine.
    pub reach: Option<u32>,
    /// Also stored to memory, past the caches where vectors are larger than these.
    pub stored: bool,
}
