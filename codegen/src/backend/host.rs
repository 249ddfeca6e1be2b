//! The machine that this process runs on, as LLVM and the kernel see it.

use crate::backend::llvm::message::take_message;
use crate::backend::{aarch64, x86};
use crate::target::{AARCH64, Caches, Level, MissingLevel, Processor, Target, X86};
use inkwell::llvm_sys::target_machine::{
    LLVMGetDefaultTargetTriple, LLVMGetHostCPUFeatures, LLVMGetHostCPUName,
};

impl Target {
    /// The machine that this process runs on.
    pub fn host() -> Target {
        // SAFETY: these functions take nothing and return a string that is ours to dispose of.
        let (triple, name, features) = unsafe {
            (
                take_message(LLVMGetDefaultTargetTriple()),
                take_message(LLVMGetHostCPUName()),
                take_message(LLVMGetHostCPUFeatures()),
            )
        };
        let arm = triple.starts_with(AARCH64);
        let lanes = if arm { aarch64::LANES } else { x86::preferred_lanes(&name, &features) };
        let caches = cache_sizes().unwrap_or(USUAL_CACHES);
        Target { lanes, processor: Processor { triple, name, features }, caches, gpu: None }
    }
}

impl Level {
    /// The machine that code of this level is made for and run on: it is this one.
    ///
    /// # Errors
    /// This machine lacks some of its instructions.
    pub fn target(self) -> Result<Target, MissingLevel> {
        let (host, target) = (Target::host(), self.anywhere());
        let architecture = target.processor.triple.split('-').next().unwrap_or_default();
        let missing = match host.is(architecture) {
            true if self == Level::Aarch64 => String::new(),
            true => x86::missing(self, &host.processor.features).join(", "),
            false => "the architecture, so that code is made for it but not run".into(),
        };
        if missing.is_empty() { Ok(target) } else { Err(MissingLevel { level: self.name(), missing }) }
    }

    /// The machine that code of this level is made for; it need not be there.
    pub fn anywhere(self) -> Target {
        let host = Target::host();
        let (lanes, architecture, name, features) = match self {
            Level::Native => return host,
            Level::Aarch64 => (aarch64::LANES, AARCH64, "generic", aarch64::FEATURES.into()),
            _ => {
                let features = format!("+{}", x86::features(self).join(",+"));
                (x86::preferred_lanes(self.name(), &features), X86, self.name(), features)
            }
        };
        let triple = match host.is(architecture) {
            true => host.processor.triple,
            false => format!("{architecture}-unknown-linux-gnu"),
        };
        let processor = Processor { triple, name: name.into(), features };
        Target { lanes, processor, caches: USUAL_CACHES, gpu: None }
    }
}

/// The caches of a machine of which nothing else is known.
const USUAL_CACHES: Caches = Caches { l2: 1 << 20, last: 16 << 20 };

/// Second and last level data cache as the kernel reports them; `None` where it does not.
fn cache_sizes() -> Option<Caches> {
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
    Some(Caches { l2: l2?, last: last? })
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
    fn a_level_is_the_same_machine_everywhere() {
        let v2 = Level::X86V2.target().unwrap();
        assert_eq!((v2.lanes, v2.caches, v2.processor.name.as_str()), (4, USUAL_CACHES, "x86-64-v2"));
        assert!(v2.processor.features.contains("+sse4.2") && !v2.processor.features.contains("avx"));
        for &(level, name) in Level::ALL {
            assert_eq!((Level::named(name), level.name()), (Some(level), name));
        }
        assert_eq!(Level::Native.target(), Ok(Target::host()));
    }

    #[test]
    fn sizes_of_caches() {
        assert_eq!(parse_size("1024K"), Some(1 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("7"), Some(7));
        assert_eq!(parse_size("7x"), None);
    }
}
