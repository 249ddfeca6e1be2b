//! Particulars of AArch64: LLVM's target. Vectors have four f32 lanes, those of NEON, which every such processor has. Non-temporal stores need no fence of
//! their own there: the release that ends a parallel loop orders them as it does others.

use inkwell::llvm_sys::target::{
    LLVMInitializeAArch64AsmPrinter, LLVMInitializeAArch64Target, LLVMInitializeAArch64TargetInfo,
    LLVMInitializeAArch64TargetMC,
};
use std::sync::Once;

/// f32 lanes of a vector.
pub(super) const LANES: i32 = 4;

/// Features that every such processor has, in LLVM's words.
pub(super) const FEATURES: &str = "+neon";

/// Makes LLVM's AArch64 target known to it.
pub(super) fn initialise() {
    static ONCE: Once = Once::new();
    // SAFETY: initialisation takes nothing and runs once.
    ONCE.call_once(|| unsafe {
        LLVMInitializeAArch64TargetInfo();
        LLVMInitializeAArch64Target();
        LLVMInitializeAArch64TargetMC();
        LLVMInitializeAArch64AsmPrinter();
    });
}
