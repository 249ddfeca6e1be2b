//! The machine that schedules and code are made for.
//!
//! One type serves every kind of machine. Schedules ask it for numbers, back ends for the processor; which back end
//! generates the code follows from the triple. A GPU answers the same questions: its lanes are those of a warp, its processor is
//! the SM, and what only a GPU has (shared memory, the largest block) is the optional part [`Gpu`] of a [`Target`], which schedules
//! of CPUs never read.

use crate::types::ScalarType;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A machine, as far as schedules and code generation care. Two equal targets give the same schedules and the same code.
///
/// [`Target::host`] is the machine that this process runs on, [`Target::cuda`] a GPU, which need not be there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// f32 lanes of the vectors that schedules are made of, a power of two. They need not be those of the processor: longer
    /// vectors are cut by the back end, shorter ones leave lanes idle.
    pub lanes: i32,
    /// Processor that the back end generates instructions for.
    pub processor: Processor,
    /// Sizes of the caches.
    pub caches: Caches,
    /// Limits of a GPU; none of a CPU.
    pub gpu: Option<Gpu>,
}

/// Limits of a GPU, as code for its compute capability can count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Gpu {
    /// Compute capability that code is made for, without the point: 75 is 7.5. Newer devices run it too.
    pub sm: u32,
    /// Threads that run in step and exchange values by shuffles.
    pub warp: i32,
    /// Shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// Threads of a block at most.
    pub max_threads: i32,
    /// Number of the device that runs the code; it changes no code.
    pub ordinal: usize,
}

/// A processor in LLVM's words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Processor {
    /// LLVM triple.
    pub triple: String,
    /// LLVM's name (`znver4`).
    pub name: String,
    /// LLVM's feature string (`+avx512f,-sse4a,...`).
    pub features: String,
}

/// Instructions that code may use: those of this machine, a level of the x86-64 psABI, or AArch64 with NEON. All but the first fix lanes and caches,
/// too: every machine that has them runs the same code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum Level {
    /// This machine's.
    #[default]
    Native,
    X86V2,
    X86V3,
    X86V4,
    Aarch64,
}

impl Level {
    /// Every level with its name: for those of x86-64 that of LLVM's processor, else that of the architecture.
    pub const ALL: &[(Level, &str)] = &[
        (Level::Native, "native"),
        (Level::X86V2, "x86-64-v2"),
        (Level::X86V3, "x86-64-v3"),
        (Level::X86V4, "x86-64-v4"),
        (Level::Aarch64, "aarch64"),
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caches {
    /// Second level, of one core; of a GPU the first level, of one multiprocessor.
    pub l2: usize,
    /// Last level.
    pub last: usize,
}

/// Architectures of CPUs that code is made for, as LLVM's triples begin.
pub(crate) const X86: &str = "x86_64";
pub(crate) const AARCH64: &str = "aarch64";

/// LLVM's triple for GPUs of NVIDIA.
pub const NVPTX: &str = "nvptx64-nvidia-cuda";

/// Compute capabilities that code is made for, the least first, with the oldest PTX that has them (63 is 6.3), KiB of a
/// multiprocessor's first cache and MiB of the last one.
const CAPABILITIES: [(u32, u32, usize, usize); 6] = [
    (75, 63, 96, 4),
    (80, 70, 192, 40),
    (86, 71, 128, 6),
    (89, 78, 128, 48),
    (90, 80, 256, 50),
    (100, 86, 256, 126),
];

impl Gpu {
    /// The least compute capability that code is made for.
    pub const LEAST: u32 = CAPABILITIES[0].0;
}

impl Target {
    /// A GPU of compute capability `sm` (75 is 7.5), there or not: the newest that code is made for and `sm` runs. Whoever has a
    /// device below [`Gpu::LEAST`] cannot run the code.
    pub fn cuda(sm: u32) -> Target {
        let known = CAPABILITIES.iter().rev().find(|known| known.0 <= sm);
        let &(sm, ptx, first, last) = known.unwrap_or(&CAPABILITIES[0]);
        let (name, features) = (format!("sm_{sm}"), format!("+ptx{ptx}"));
        let gpu = Gpu { sm, warp: 32, shared_bytes: 48 << 10, max_threads: 1024, ordinal: 0 };
        Target {
            lanes: gpu.warp,
            processor: Processor { triple: NVPTX.into(), name, features },
            caches: Caches { l2: first << 10, last: last << 20 },
            gpu: Some(gpu),
        }
    }

    /// Is its processor of this architecture, as LLVM's triples begin?
    pub(crate) fn is(&self, architecture: &str) -> bool {
        self.processor.triple.split('-').next() == Some(architecture)
    }

    /// The same GPU, as the device of this number.
    pub fn on(self, ordinal: usize) -> Target {
        Target { gpu: self.gpu.map(|gpu| Gpu { ordinal, ..gpu }), ..self }
    }

    /// The same machine, for schedules of `lanes` f32 lanes.
    pub fn with_lanes(self, lanes: i32) -> Target {
        Target { lanes, ..self }
    }

    /// Bits of a full vector.
    pub fn vector_bits(&self) -> usize {
        8 * ScalarType::F32.bytes() * self.lanes.max(1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_takes_the_newest_code_that_it_runs() {
        let code = |sm| {
            let target = Target::cuda(sm);
            let Processor { triple, name, features } = target.processor;
            assert_eq!((triple.as_str(), target.lanes), (NVPTX, 32));
            assert_eq!(format!("sm_{}", target.gpu.unwrap().sm), name);
            format!("{name} {features}")
        };
        assert_eq!(
            [75, 80, 90, 100].map(code),
            ["sm_75 +ptx63", "sm_80 +ptx70", "sm_90 +ptx80", "sm_100 +ptx86"]
        );
        assert_eq!([87, 121].map(code), ["sm_86 +ptx71", "sm_100 +ptx86"]);
    }
}
