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

/// Instructions on whole vectors of integers that LLVM does not find by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instruction {
    /// `(a * b + 2^14) >> 15` of i16, wrapped.
    Fractions,
    /// Products of i16, each two neighbours added as i32.
    Pairs,
    /// Products of u8 and i8, each four neighbours added to an i32.
    Fours,
    /// Distances of u8, each eight neighbours added as i64.
    Distances,
}

/// All of them, with the features of which one is needed, the lanes of an operand, and LLVM's intrinsic; the widest first.
const INSTRUCTIONS: [(Instruction, &[&str], u16, &str); 12] = {
    use Instruction::*;
    [
        (Fractions, &["avx512bw"], 32, "llvm.x86.avx512.pmul.hr.sw.512"),
        (Fractions, &["avx2"], 16, "llvm.x86.avx2.pmul.hr.sw"),
        (Fractions, &["ssse3"], 8, "llvm.x86.ssse3.pmul.hr.sw.128"),
        (Pairs, &["avx512bw"], 32, "llvm.x86.avx512.pmaddw.d.512"),
        (Pairs, &["avx2"], 16, "llvm.x86.avx2.pmadd.wd"),
        (Pairs, &["ssse3"], 8, "llvm.x86.sse2.pmadd.wd"),
        (Fours, &["avx512vnni"], 64, "llvm.x86.avx512.vpdpbusd.512"),
        (Fours, &["avx512vnni", "avxvnni"], 32, "llvm.x86.avx512.vpdpbusd.256"),
        (Fours, &["avx512vnni", "avxvnni"], 16, "llvm.x86.avx512.vpdpbusd.128"),
        (Distances, &["avx512bw"], 64, "llvm.x86.avx512.psad.bw.512"),
        (Distances, &["avx2"], 32, "llvm.x86.avx2.psad.bw"),
        (Distances, &["ssse3"], 16, "llvm.x86.sse2.psad.bw"),
    ]
};

/// The processor's instructions for whole vectors: lanes of an operand and LLVM's intrinsic.
#[derive(Default)]
pub(super) struct Instructions(Vec<(Instruction, u16, &'static str)>);

impl Instructions {
    pub(super) fn of(cpu: &str, features: &str) -> Instructions {
        let level = Level::named(cpu).map_or(0, |level| level as usize);
        let implied = LEVELS.iter().take(level).flat_map(|l| l.iter()).collect::<Vec<_>>();
        let has = |f: &&str| has(features, f) || implied.contains(&f);
        let known = INSTRUCTIONS.iter().filter(|i| i.1.iter().any(has));
        Instructions(known.map(|i| (i.0, i.2, i.3)).collect())
    }

    /// The widest that takes operands of `lanes` in whole pieces.
    pub(super) fn find(&self, instruction: Instruction, lanes: u16) -> Option<(u16, &'static str)> {
        let fits = |i: &&(Instruction, u16, _)| i.0 == instruction && lanes.is_multiple_of(i.1);
        self.0.iter().find(fits).map(|i| (i.1, i.2))
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
    fn instructions_of_a_level_and_of_those_below() {
        use Instruction::*;
        let lanes = |cpu, features, i, lanes| Instructions::of(cpu, features).find(i, lanes).map(|f| f.0);
        assert_eq!(lanes("x86-64-v4", "", Fractions, 64), Some(32));
        assert_eq!(lanes("x86-64-v4", "", Pairs, 16), Some(16));
        assert_eq!(lanes("x86-64-v4", "", Fours, 64), None);
        assert_eq!(lanes("x86-64-v4", "+avx512vnni", Fours, 64), Some(64));
        assert_eq!(lanes("x86-64-v3", "+avxvnni", Fours, 64), Some(32));
        assert_eq!(lanes("haswell", "+ssse3,+avx2,-avx512bw", Fractions, 32), Some(16));
        assert_eq!(lanes("x86-64-v4", "", Pairs, 12), None);
        assert_eq!(lanes("sm_90", "+ptx80", Distances, 64), None);
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
