//! Random pipelines under random schedules: a seed is a case.

pub mod approximate;
pub mod differentiable;
pub mod program;
mod reads;
pub mod refused;
pub mod schedules;
pub mod simpler;

pub use reads::reads;

use program::Case;
use sumsq_codegen::{Directive, ForKind};

impl Case {
    /// Has its schedule kernels of a GPU?
    pub fn has_kernels(&self) -> bool {
        let kernel = |d: &Directive| {
            matches!(d, Directive::GpuSingle | Directive::Kind { kind: ForKind::GpuBlock, .. })
        };
        self.schedule.stages.values().flatten().any(kernel)
    }
}
