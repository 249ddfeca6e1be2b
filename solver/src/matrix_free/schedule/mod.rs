//! Schedules of the nests of a pipeline.
//!
//! Pipelines say what a [`Nest`] holds and no more. Loops, lanes and sizes are those of a machine: [`cpu`] and [`gpu`] make directives of nests.

pub mod cpu;
pub mod gpu;
mod nest;
pub mod reduce;

pub use nest::{Kind, Nest, Pairs, Ring, Strip, Tiles};

use sumsq_codegen::{Name, Schedule, Target};

/// Elements along dim 0 that a byte of a mask of vectors stands for: the least that a nest skips, a SIMD vector or a warp.
pub fn grain(target: &Target) -> i32 {
    target.lanes
}

/// Height of the share of a domain that one thread, or one block of a GPU, takes at a time, from sizes alone.
pub fn strip_height(extents: &[usize], target: &Target) -> usize {
    match target.gpu {
        None => cpu::strip_height(extents, target),
        Some(_) => gpu::strip_height(extents),
    }
}

/// The same of a coarser level that stores so many numbers of A for every element. `rolls`: it is made of level 0 row by row.
pub fn level_strip_height(extents: &[usize], numbers: usize, rolls: bool, target: &Target) -> usize {
    match target.gpu {
        None => cpu::level_strip_height(extents, numbers, rolls, target),
        Some(_) => gpu::strip_height(extents),
    }
}

/// A schedule in the making, for the machine that a target is.
pub enum Scheduler {
    /// A CPU.
    Cpu(cpu::Scheduler),
    /// A GPU.
    Gpu(gpu::Scheduler),
}

impl Scheduler {
    /// Nothing is scheduled yet. `long_sums`: reductions are over sums of many products with constants. `often`: the pipeline runs again and again.
    pub fn new(target: &Target, long_sums: bool, often: bool) -> Scheduler {
        match target.gpu {
            None => Scheduler::Cpu(cpu::Scheduler::new(target, long_sums)),
            Some(_) => Scheduler::Gpu(gpu::Scheduler::new(often)),
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
