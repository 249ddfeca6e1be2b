//! Refusals of a text and faults of a launch.

use std::fmt;
use thiserror::Error;

/// A module that is not taken.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {refusal}")]
pub struct LoadError {
    /// Line of the text, counted from one.
    pub line: u32,
    #[source]
    pub refusal: Refusal,
}

/// Reasons to refuse a module.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refusal {
    #[error("{0}")]
    Text(String),
    #[error("`{0}` is not an instruction that this interpreter knows")]
    Unknown(String),
    #[error(
        "`{0}` names no rounding: an assembler may fuse it with its neighbours, and bits depend on who assembles"
    )]
    Unrounded(String),
    #[error("`{0}` is approximate or flushes denormals: its bits depend on the device")]
    Approximate(String),
    #[error("`{op}` does not take these operands: {reason}")]
    Operands { op: String, reason: &'static str },
    #[error("`{0}` is not declared")]
    Undeclared(String),
    #[error("`{0}` is declared twice")]
    Twice(String),
    #[error("kernel `{kernel}` has {bytes} bytes of static shared memory, more than {most}")]
    Shared { kernel: String, bytes: usize, most: usize },
    #[error("no memory for the variables of the module")]
    Memory,
}

impl Refusal {
    /// The refusal with its line.
    pub fn at(self, line: u32) -> LoadError {
        LoadError { line, refusal: self }
    }
}

/// A launch that broke a rule.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("kernel `{kernel}`{}: {fault}", self.place())]
pub struct LaunchError {
    pub kernel: String,
    /// Line of the PTX text, 0 where the launch itself is at fault.
    pub line: u32,
    pub block: Place,
    pub thread: Place,
    #[source]
    pub fault: Fault,
}

impl LaunchError {
    fn place(&self) -> String {
        let LaunchError { line, block, thread, .. } = self;
        if *line == 0 { String::new() } else { format!(", line {line}, block {block}, thread {thread}") }
    }
}

/// Coordinates of a block or thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(pub [u32; 3]);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x}, {y}, {z})")
    }
}

/// Memory as faults name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Global,
    Shared,
    Local,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Area::Global => "global",
            Area::Shared => "shared",
            Area::Local => "local",
        })
    }
}

/// The rule that was broken.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Fault {
    #[error("an access of {bytes} bytes of {area} memory at {address:#x}, which nothing has allocated")]
    Outside { area: Area, address: u64, bytes: usize },
    #[error("an access of {bytes} bytes of {area} memory at {address:#x}, which is not aligned to its size")]
    Misaligned { area: Area, address: u64, bytes: usize },
    #[error("a read of {bytes} bytes of {area} memory at {address:#x}, which was never written")]
    Unwritten { area: Area, address: u64, bytes: usize },
    #[error("{access} of {area} memory at {address:#x}, in a race with {earlier} by {other}, line {line}")]
    Race {
        access: Access,
        area: Area,
        address: u64,
        earlier: Access,
        other: Other,
        /// The earlier access's, of several the last one's.
        line: u32,
    },
    #[error("a write of constant memory at {address:#x}")]
    Constant { address: u64 },
    #[error(
        "{access} of {address:#x}, which this launch {other}: memory read by ld.global.nc must not change"
    )]
    NotConstant { access: Access, address: u64, other: &'static str },
    #[error("the generic address {address:#x} is not in {area} memory")]
    OtherSpace { area: Area, address: u64 },
    #[error("a barrier that thread {missing} does not reach: {reason}")]
    Barrier { missing: u32, reason: Missing },
    #[error(
        "an instruction for the lanes {mask:#010x} of its warp that lane {missing} does not reach: {reason}"
    )]
    Lanes { mask: u32, missing: u32, reason: Missing },
    #[error(
        "an instruction for the lanes {mask:#010x} of its warp, executed by lane {lane}, which is not one of them"
    )]
    NotNamed { mask: u32, lane: u32 },
    #[error("a shuffle that reads lane {source_lane}, which is not among the lanes {mask:#010x}")]
    ShuffleSource { mask: u32, source_lane: u32 },
    #[error("a division of an integer by zero")]
    DivisionByZero,
    #[error("target {index} of {targets} of an indexed branch")]
    BranchTarget { index: u64, targets: usize },
    #[error("a trap")]
    Trap,
    #[error("calls are nested more than {0} deep")]
    Depth(usize),
    #[error("it ran for {0} instructions and did not end")]
    Endless(u64),
    #[error("blocks of {came} threads; the kernel insists on {wanted}")]
    BlockSize { came: Place, wanted: Place },
    #[error("blocks of {0} threads; at most 1024 are possible, in at most (1024, 1024, 64)")]
    Threads(Place),
    #[error("a grid of {0} blocks")]
    Grid(Place),
    #[error("{bytes} bytes of shared memory; at most {most} are possible")]
    Shared { bytes: usize, most: usize },
    #[error("{came} bytes of parameters; the kernel has {wanted}")]
    Parameters { came: usize, wanted: usize },
}

/// Kinds of access in a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "a read",
            Access::Write => "a write",
            Access::Atomic => "an atomic operation",
        })
    }
}

/// The other side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A thread of the same block, by its number.
    Thread(u32),
    /// Several threads of the same block.
    Threads,
    /// A thread of another block, by its number there.
    Block { block: Place, thread: u32 },
    /// Threads of several blocks.
    Blocks,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Thread(t) => write!(f, "thread {t} of the same block"),
            Other::Threads => f.write_str("other threads of the same block"),
            Other::Block { block, thread } => write!(f, "thread {thread} of block {block}"),
            Other::Blocks => f.write_str("several blocks"),
        }
    }
}

/// Reasons why a thread does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Ended,
    /// It waits at another instruction, on this line.
    Elsewhere(u32),
    /// The block has fewer threads.
    Nobody,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Ended => f.write_str("it has ended"),
            Missing::Elsewhere(line) => write!(f, "it waits on line {line}"),
            Missing::Nobody => f.write_str("the block has no such thread"),
        }
    }
}
