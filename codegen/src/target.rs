//! The machine that schedules and code are made for.
//!
//! One type serves every kind of machine. Schedules ask it for numbers, back ends for the processor; which back end
//! generates the code follows from the triple. A GPU answers the same questions: its lanes are those of a warp, its processor is
//! the SM, and what only a GPU has (shared memory, the largest block) joins [`Target`] as one optional part, which schedules of
//! CPUs never read.

use crate::types::ScalarType;
use thiserror::Error;

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

/// Instructions that code may use: those of this machine, or a level of the x86-64 psABI. A level fixes lanes and caches, too: every machine
/// that has it runs the same code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum Level {
    /// This machine's.
    #[default]
    Native,
    X86V2,
    X86V3,
    X86V4,
}

impl Level {
    /// Every level with its name, which for those of x86-64 is LLVM's.
    pub const ALL: &[(Level, &str)] = &[
        (Level::Native, "native"),
        (Level::X86V2, "x86-64-v2"),
        (Level::X86V3, "x86-64-v3"),
        (Level::X86V4, "x86-64-v4"),
    ];

    /// The level of this name.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.iter().find(|(_, n)| *n == name).map(|(level, _)| *level)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Level::ALL[self as usize].1
    }
}

/// A level that this machine does not have.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("this machine is no {level}: it lacks {missing}")]
pub struct MissingLevel {
    /// Its name.
    pub level: &'static str,
    /// Features of it that this machine lacks, separated by commas.
    pub missing: String,
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
