//! Particulars of NVIDIA's GPUs: LLVM's target, the names of its intrinsics and attributes.

pub(super) mod gate;
pub(super) mod grid;
mod wide;

pub(super) use wide::widened;

use inkwell::llvm_sys::target::{
    LLVMInitializeNVPTXAsmPrinter, LLVMInitializeNVPTXTarget, LLVMInitializeNVPTXTargetInfo,
    LLVMInitializeNVPTXTargetMC,
};
use std::sync::Once;

/// LLVM's number of the calling convention of kernels.
pub(super) const KERNEL: u32 = 71;

/// The attribute that fixes the size of a block: `x,y,z`.
pub(super) const BLOCK_SIZE: &str = "nvvm.reqntid";

/// The attribute that says how many blocks a multiprocessor should hold at least.
pub(super) const LEAST_BLOCKS: &str = "nvvm.minctasm";

/// Buffers from which on a kernel that loops as often as data says is content with one block: for the sake of one more, `ptxas` 12.9 spills some of
/// so many addresses.
pub(super) const MANY_BUFFERS: usize = 45;

/// Buffers from which on a kernel is content with [`FEWER_THREADS`]: with more of them it has 32 registers, of which `ptxas` 12.9 spills some.
pub(super) const VERY_MANY_BUFFERS: usize = 60;

/// Threads of a multiprocessor that have 128 registers each: a quarter of what most devices hold. (Of 64 registers, too, some were spilled.)
pub(super) const FEWER_THREADS: u32 = 512;

/// Nodes from which on a kernel whose threads wait for each other is told that a multiprocessor should hold two blocks: `ptxas` 12.9 takes so many
/// registers for them that it holds one, which leaves it idle at every barrier. Shorter kernels would take more of them.
pub(super) const MANY_NODES: usize = 5000;

/// The address space of the memory that a block shares.
pub(super) const SHARED: u32 = 3;

/// Waits for all threads of the block, which all come by.
pub(super) const BARRIER: &str = "llvm.nvvm.barrier.cta.sync.aligned.all";

/// Waits for the lanes of a mask.
pub(super) const WARP_BARRIER: &str = "llvm.nvvm.bar.warp.sync";

/// The value of another lane, whose number differs in the bits of a mask; of 32 bits.
pub(super) const SHUFFLE_XOR: &str = "llvm.nvvm.shfl.sync.bfly.i32";

/// The thread's number in its block, of a block with one dimension.
pub(super) const THREAD: &str = "llvm.nvvm.read.ptx.sreg.tid.x";

/// The block's place in the grid, innermost dimension first.
pub(super) const BLOCK: [&str; 3] =
    ["llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.ctaid.y", "llvm.nvvm.read.ptx.sreg.ctaid.z"];

/// The driver's function by which kernels set a condition of a graph's loop.
pub(super) const SET_CONDITION: &str = "cudaGraphSetConditional";

/// Makes LLVM's target known to it.
pub(super) fn initialise() {
    static ONCE: Once = Once::new();
    // SAFETY: initialisation takes nothing and runs once.
    ONCE.call_once(|| unsafe {
        LLVMInitializeNVPTXTargetInfo();
        LLVMInitializeNVPTXTarget();
        LLVMInitializeNVPTXTargetMC();
        LLVMInitializeNVPTXAsmPrinter();
    });
}
