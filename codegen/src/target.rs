//! The machine that schedules and code are made for.
//!
//! One type serves every kind of machine. Schedules ask it for numbers, back ends for the processor; which back end
//! generates the code follows from the triple. A GPU answers the same questions: its lanes are those of a warp, its processor is
//! the SM, and what only a GPU has (shared memory, the largest block) joins [`Target`] as one optional part, which schedules of
//! CPUs never read.

use crate::types::ScalarType;

/// A machine, as far as schedules and code generation care. Two equal targets give the same schedules and the same code.
///
/// [`Target::host`] is the machine that this process runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// f32 lanes of the vectors that schedules are made of, a power of two. They need not be those of the processor: longer
    /// vectors are cut by the back end, shorter ones leave lanes idle.
    pub lanes: i32,
    /// Processor that the back end generates instructions for.
    pub processor: Processor,
    /// Sizes of the caches.
    pub caches: Caches,
}

/// A processor in LLVM's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Processor {
    /// LLVM triple.
    pub triple: String,
    /// LLVM's name (`znver4`).
    pub name: String,
    /// LLVM's feature string (`+avx512f,-sse4a,...`).
    pub features: String,
}

/// Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caches {
    /// Second level, of one core.
    pub l2: usize,
    /// Last level.
    pub last: usize,
}

impl Target {
    /// The same machine, for schedules of `lanes` f32 lanes.
    pub fn with_lanes(self, lanes: i32) -> Target {
        Target { lanes, ..self }
    }

    /// Bits of a full vector.
    pub fn vector_bits(&self) -> usize {
        8 * ScalarType::F32.bytes() * self.lanes.max(1) as usize
    }
}
