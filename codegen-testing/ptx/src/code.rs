//! Instructions as the machine executes them: names resolved, literals in registers of their own.

use crate::arithmetic::Pure;
use crate::memory::Strength;
use crate::text::Space;

/// Index of a register in the frame of its function.
pub type Register = u32;

/// No register.
pub const NONE: Register = u32::MAX;

/// An instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    pub op: Op,
    /// Twice the predicate's register, plus one where it is negated; [`NONE`] without a guard.
    pub guard: u32,
    /// Line of the text.
    pub line: u32,
}

/// Place in memory of an access.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub base: Register,
    pub offset: i32,
    /// Index of the access among those of the module.
    pub access: u32,
    pub space: Space,
    /// Bytes of an element.
    pub bytes: u8,
    /// Elements.
    pub count: u8,
    /// True for a read of what was released, behind which comes what comes behind it.
    pub acquires: bool,
    /// True for a write that has what comes before it come before what acquires it.
    pub releases: bool,
}

impl Target {
    /// Bytes of all elements.
    pub fn size(&self) -> usize {
        usize::from(self.bytes) * usize::from(self.count)
    }
}

/// Registers of consecutive elements: one, or an index into [`Code::lists`].
pub type Registers = u32;

#[derive(Clone, Debug)]
pub enum Op {
    Pure {
        f: Pure,
        to: Register,
        a: Register,
        b: Register,
        c: Register,
    },
    /// Sources are four entries of [`Code::lists`].
    Quad {
        f: fn([u64; 4]) -> u64,
        to: Register,
        list: u32,
    },
    /// A division of integers, whose divisor has some bits.
    Divide {
        f: Pure,
        to: Register,
        a: Register,
        b: Register,
        bits: u8,
    },
    Special {
        to: Register,
        which: Special,
    },
    /// `sign` holds the bits of the registers to which elements are extended by their sign, or 0.
    Load {
        to: Registers,
        target: Target,
        sign: u8,
        strength: Strength,
        constant: bool,
    },
    Store {
        from: Registers,
        target: Target,
        strength: Strength,
    },
    LoadParam {
        to: Registers,
        at: u32,
        bytes: u8,
        count: u8,
        sign: u8,
    },
    StoreParam {
        from: Registers,
        at: u32,
        bytes: u8,
        count: u8,
    },
    /// Stores `f(old, b, c)` and returns what was there.
    Atomic {
        f: Pure,
        to: Register,
        b: Register,
        c: Register,
        target: Target,
        strength: Strength,
    },
    /// An address of a space as a generic one, or back.
    Convert {
        to: Register,
        from: Register,
        space: Space,
        to_generic: bool,
    },
    IsSpace {
        to: Register,
        from: Register,
        space: Space,
    },
    Branch {
        to: u32,
    },
    /// Targets are entries of [`Code::lists`].
    BranchIndexed {
        index: Register,
        list: u32,
        count: u32,
    },
    /// Copies are triples of [`Code::lists`]: byte of the caller's parameters, byte of the callee's, bytes.
    Call {
        function: u32,
        copies: u32,
        count: u32,
        result: u32,
    },
    /// `cudaGraphSetConditional` with a handle and a value in parameters.
    SetConditional {
        handle: u32,
        value: u32,
    },
    Return,
    Exit,
    Barrier,
    /// Orders accesses of the thread for all threads of the device.
    Fence,
    WarpBarrier {
        mask: Register,
    },
    Shuffle {
        mode: Shuffle,
        to: Register,
        valid: Register,
        a: Register,
        b: Register,
        c: Register,
        mask: Register,
    },
    Vote {
        mode: Vote,
        to: Register,
        a: Register,
        negate: bool,
        mask: Register,
    },
    ActiveMask {
        to: Register,
    },
    Nothing,
    Trap,
}

/// Registers that the machine fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    LanesEqual,
    LanesBelow,
    LanesUpTo,
    LanesAbove,
    LanesFrom,
    /// Address of a byte of the frame's local memory.
    Local(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// A function's code.
#[derive(Debug, Default)]
pub struct Code {
    pub insts: Vec<Inst>,
    /// Registers at the start of a call: poison, and the literals.
    pub registers: Vec<u64>,
    pub lists: Vec<u32>,
    /// Bytes of parameters: its own, its result's, those of its calls.
    pub params: usize,
    /// Own parameters: where they stand and their bytes.
    pub own_params: Vec<(u32, u32)>,
    pub result: Option<(u32, u32)>,
    /// Bytes of local memory, and their alignment.
    pub local: (usize, usize),
    /// Functions that it calls.
    pub calls: Vec<u32>,
    /// Variables of shared memory that it names.
    pub shared: Vec<u32>,
}
