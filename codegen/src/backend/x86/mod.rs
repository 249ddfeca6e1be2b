//! Particulars of x86: LLVM's target, the vectors worth using, the fence behind non-temporal stores.

use inkwell::llvm_sys::target::{
    LLVMInitializeX86AsmPrinter, LLVMInitializeX86Target, LLVMInitializeX86TargetInfo,
    LLVMInitializeX86TargetMC,
};
use std::sync::Once;

/// The intrinsic that orders non-temporal stores before later ones.
pub(super) const STORE_FENCE: &str = "llvm.x86.sse.sfence";

/// Makes LLVM's x86 target known to it.
pub(super) fn initialise() {
    static ONCE: Once = Once::new();
    // SAFETY: initialisation takes nothing and runs once.
    ONCE.call_once(|| unsafe {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
    });
}

/// f32 lanes of the vectors that are worth using: 16 where 512-bit units run at full clock (Zen 4 and later, Ice Lake and
/// later), 8 on other machines with AVX, else 4.
pub(super) fn preferred_lanes(cpu: &str, features: &str) -> i32 {
    let has = |f: &str| features.split(',').any(|x| x.strip_prefix('+') == Some(f));
    // CPUs with AVX-512 that lower their clock for it, or split it without gain.
    const NARROW: [&str; 4] = ["skylake-avx512", "cascadelake", "cooperlake", "cannonlake"];
    if has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq") && !NARROW.contains(&cpu) {
        16
    } else if has("avx") {
        8
    } else {
        4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_follows_the_cpu_family() {
        let avx512 = "+avx,+avx512f,+avx512vl,+avx512bw,+avx512dq";
        assert_eq!(preferred_lanes("znver4", avx512), 16);
        assert_eq!(preferred_lanes("skylake-avx512", avx512), 8);
        assert_eq!(preferred_lanes("haswell", "+sse4.2,+avx,+avx2,-avx512f"), 8);
        assert_eq!(preferred_lanes("nehalem", "+sse4.2,-avx"), 4);
    }
}
