//! Particulars of x86: LLVM's target, the vectors worth using, the fence behind non-temporal stores.

use crate::target::Level;
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

/// The features of each level beyond those of the one before, in LLVM's words.
const LEVELS: [&[&str]; 3] = [
    &["cx16", "sahf", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"],
    &["avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"],
    &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"],
];

/// All features of a level; none of [`Level::Native`].
pub(super) fn features(level: Level) -> Vec<&'static str> {
    LEVELS[..level as usize].concat()
}

/// The features of a level that are not among `features`, a list in LLVM's form.
pub(super) fn missing(level: Level, features: &str) -> Vec<&'static str> {
    let mut wanted = self::features(level);
    wanted.retain(|f| !has(features, f));
    wanted
}

/// Tells whether a list such as `+avx,-sse4a` has a feature.
fn has(features: &str, feature: &str) -> bool {
    features.split(',').any(|x| x.strip_prefix('+') == Some(feature))
}

/// f32 lanes of the vectors that are worth using: 16 where 512-bit units run at full clock (Zen 4 and later, Ice Lake and
/// later), 8 on other machines with AVX, else 4.
pub(super) fn preferred_lanes(cpu: &str, features: &str) -> i32 {
    let has = |f: &str| has(features, f);
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
    fn what_a_machine_lacks_of_a_level() {
        let nehalem = "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2,-avx,-avx2";
        assert_eq!(missing(Level::X86V2, nehalem), [""; 0]);
        assert_eq!(
            missing(Level::X86V3, &format!("{nehalem},+avx,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave")),
            ["avx2"]
        );
        assert!(missing(Level::X86V4, nehalem).contains(&"avx512vl"));
        assert_eq!(missing(Level::Native, ""), [""; 0]);
    }

    #[test]
    fn width_follows_the_cpu_family() {
        let avx512 = "+avx,+avx512f,+avx512vl,+avx512bw,+avx512dq";
        assert_eq!(preferred_lanes("znver4", avx512), 16);
        assert_eq!(preferred_lanes("skylake-avx512", avx512), 8);
        assert_eq!(preferred_lanes("haswell", "+sse4.2,+avx,+avx2,-avx512f"), 8);
        assert_eq!(preferred_lanes("nehalem", "+sse4.2,-avx"), 4);
    }
}
