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
pub(super) fn has(features: &str, feature: &str) -> bool {
    features.split(',').any(|x| x.strip_prefix('+') == Some(feature))
}

/// Bytes of the smallest elements whose vectors are loaded and stored under a mask, if any are.
pub(super) fn masks(features: &str) -> Option<u32> {
    match has(features, "avx512bw") {
        true => Some(1),
        false => has(features, "avx").then_some(4),
    }
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

/// The instruction that multiplies fractions of 16 bits and rounds, by the least level that has it: lanes, LLVM's intrinsic.
const FRACTIONS: [(&str, &str, u16, &str); 3] = [
    ("avx512bw", "x86-64-v4", 32, "llvm.x86.avx512.pmul.hr.sw.512"),
    ("avx2", "x86-64-v3", 16, "llvm.x86.avx2.pmul.hr.sw"),
    ("ssse3", "x86-64-v2", 8, "llvm.x86.ssse3.pmul.hr.sw.128"),
];

/// The intrinsics with which a processor gives `(a * b + 2^14) >> 15` of vectors of i16, wrapped, with their lanes; the widest first.
pub(super) fn fractions(cpu: &str, features: &str) -> Vec<(u16, &'static str)> {
    let known = FRACTIONS.iter().position(|f| has(features, f.0) || cpu == f.1);
    known.map_or(vec![], |i| FRACTIONS[i..].iter().map(|f| (f.2, f.3)).collect())
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
    fn fractions_of_a_level_and_of_those_below() {
        let lanes = |cpu, features| fractions(cpu, features).iter().map(|f| f.0).collect::<Vec<_>>();
        assert_eq!(lanes("x86-64-v4", ""), [32, 16, 8]);
        assert_eq!(lanes("haswell", "+ssse3,+avx2,-avx512bw"), [16, 8]);
        assert_eq!(lanes("sm_90", "+ptx80"), [0; 0]);
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
