//! The machine that code is generated for.

use inkwell::llvm_sys::core::LLVMDisposeMessage;
use inkwell::llvm_sys::target_machine::{
    LLVMGetDefaultTargetTriple, LLVMGetHostCPUFeatures, LLVMGetHostCPUName,
};
use std::ffi::CStr;

use crate::types::ScalarType;

/// A CPU, as far as schedules and code generation care. Two equal targets give the same code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostTarget {
    /// LLVM triple.
    pub triple: String,
    /// LLVM's name of the CPU (`znver4`).
    pub cpu: String,
    /// LLVM's feature string (`+avx512f,-sse4a,...`).
    pub features: String,
    /// Width of the vectors that are worth using, in bytes: 64 where 512-bit units run at full clock
    /// (Zen 4 and later, Ice Lake and later), 32 on other machines with AVX, else 16.
    pub vector_bytes: usize,
    /// Second-level cache of one core, in bytes.
    pub l2_bytes: usize,
    /// Last-level cache, in bytes.
    pub llc_bytes: usize,
}

impl HostTarget {
    /// The machine that this process runs on.
    pub fn host() -> HostTarget {
        // SAFETY: these functions take nothing and return a string that is ours to dispose of.
        let (triple, cpu, features) = unsafe {
            (
                take_message(LLVMGetDefaultTargetTriple()),
                take_message(LLVMGetHostCPUName()),
                take_message(LLVMGetHostCPUFeatures()),
            )
        };
        let vector_bytes = preferred_vector_bytes(&cpu, &features);
        let (l2_bytes, llc_bytes) = cache_sizes().unwrap_or((1 << 20, 16 << 20));
        HostTarget { triple, cpu, features, vector_bytes, l2_bytes, llc_bytes }
    }

    /// Lanes of a full vector of `ty`.
    pub fn lanes(&self, ty: ScalarType) -> i32 {
        (self.vector_bytes / ty.bytes()) as i32
    }
}

/// Copies and disposes of a string made by LLVM.
///
/// # Safety
/// `s` is null or a NUL-terminated string allocated by LLVM, not used afterwards.
pub(crate) unsafe fn take_message(s: *mut libc::c_char) -> String {
    if s.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe {
        let text = CStr::from_ptr(s).to_string_lossy().into_owned();
        LLVMDisposeMessage(s);
        text
    }
}

fn preferred_vector_bytes(cpu: &str, features: &str) -> usize {
    let has = |f: &str| features.split(',').any(|x| x.strip_prefix('+') == Some(f));
    // CPUs with AVX-512 that lower their clock for it, or split it without gain.
    const NARROW: [&str; 4] = ["skylake-avx512", "cascadelake", "cooperlake", "cannonlake"];
    if has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq") && !NARROW.contains(&cpu) {
        64
    } else if has("avx") {
        32
    } else {
        16
    }
}

/// Second and last level data cache as the kernel reports them; `None` where it does not.
fn cache_sizes() -> Option<(usize, usize)> {
    let read = |i: usize, f: &str| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{i}/{f}")).ok()
    };
    let (mut l2, mut last, mut last_level) = (None, None, 0);
    for i in 0.. {
        let Some(level) = read(i, "level") else { break };
        let level: u32 = level.trim().parse().ok()?;
        let size = parse_size(read(i, "size")?.trim())?;
        if level == 2 {
            l2 = Some(size);
        }
        if level >= last_level {
            (last, last_level) = (Some(size), level);
        }
    }
    Some((l2?, last?))
}

/// `1024K` or `32M` in bytes.
fn parse_size(s: &str) -> Option<usize> {
    let split = s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let unit = match &s[split..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    Some(s[..split].parse::<usize>().ok()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_follows_the_cpu_family() {
        let avx512 = "+avx,+avx512f,+avx512vl,+avx512bw,+avx512dq";
        assert_eq!(preferred_vector_bytes("znver4", avx512), 64);
        assert_eq!(preferred_vector_bytes("skylake-avx512", avx512), 32);
        assert_eq!(preferred_vector_bytes("haswell", "+sse4.2,+avx,+avx2,-avx512f"), 32);
        assert_eq!(preferred_vector_bytes("nehalem", "+sse4.2,-avx"), 16);
    }

    #[test]
    fn sizes_of_caches() {
        assert_eq!(parse_size("1024K"), Some(1 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("7"), Some(7));
        assert_eq!(parse_size("7x"), None);
    }
}
