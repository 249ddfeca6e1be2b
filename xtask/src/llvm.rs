//! LLVM 22 for `sumsq-codegen`: found, or installed from the distribution's packages.

use crate::apt;
use crate::process::{Failure, task};
use std::path::Path;

/// Packages that the build links against, on Debian and Ubuntu: LLVM with Polly, the libraries LLVM itself needs, and a C++ linker.
const PACKAGES: [&str; 6] =
    ["llvm-22-dev", "libpolly-22-dev", "libzstd-dev", "zlib1g-dev", "libffi-dev", "g++"];

/// llvm-sys looks here first.
const PREFIX: &str = "LLVM_SYS_221_PREFIX";

/// An error unless LLVM 22 is there.
pub fn check() -> Result<(), Failure> {
    if found_by_prefix()?.is_some() || missing().is_empty() {
        return Ok(());
    }
    Err(Failure(
        "LLVM 22 is not installed, or not whole: `cargo xtask setup` installs it, or says how".into(),
    ))
}

/// Makes sure that LLVM 22 is there: installs it where it is not.
pub fn setup() -> Result<(), Failure> {
    if let Some(found) = found_by_prefix()? {
        println!("LLVM {found}, from {PREFIX}");
        return Ok(());
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !apt::is_here() {
        return Err(Failure(format!(
            "LLVM 22 is not installed: install your distribution's LLVM 22 development package (headers, static \
             libraries, Polly), a C++ compiler, zstd, zlib and libffi with headers, or set {PREFIX} to where LLVM 22 lies"
        )));
    }
    apt::install("LLVM 22", &missing, || {
        if !missing.contains(&"llvm-22-dev") || apt::has_candidate("llvm-22-dev") {
            return Ok(());
        }
        Err(Failure(
            "this machine's package sources have no llvm-22-dev. Debian 12 has it in bookworm-security: add \
             `deb http://deb.debian.org/debian-security bookworm-security main` to /etc/apt/sources.list and run \
             `cargo xtask setup` again (or take LLVM 22 from https://apt.llvm.org)"
                .to_string(),
        ))
    })
}

/// The version of the LLVM that the environment points to; an error if that is not an LLVM 22.
fn found_by_prefix() -> Result<Option<String>, Failure> {
    let Ok(prefix) = std::env::var(PREFIX) else { return Ok(None) };
    let config = Path::new(&prefix).join("bin").join("llvm-config");
    match llvm_version(&config.to_string_lossy()) {
        Some(version) => Ok(Some(version)),
        None => Err(Failure(format!("{PREFIX} is {prefix}, but {} is not an LLVM 22", config.display()))),
    }
}

/// The version that an `llvm-config` prints, if it is a 22.
fn llvm_version(config: &str) -> Option<String> {
    task(&[config, "--version"]).output().filter(|v| is_llvm_22(v))
}

fn is_llvm_22(version: &str) -> bool {
    version.split('.').next() == Some("22")
}

/// Returns what has to be installed. Where dpkg knows the packages, those it lacks; elsewhere all, unless `llvm-config` is a 22.
fn missing() -> Vec<&'static str> {
    let config = ["llvm-config-22", "llvm-config"].iter().any(|c| llvm_version(c).is_some());
    if !config {
        return PACKAGES.to_vec();
    }
    if !apt::has_dpkg() || !apt::is_installed("llvm-22-dev") {
        return Vec::new(); // an LLVM 22 built by hand, with its libraries
    }
    apt::missing(&PACKAGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(is_llvm_22("22.1.8"));
        assert!(!is_llvm_22("21.1.8"));
        assert!(!is_llvm_22("2.2"));
        assert!(!is_llvm_22(""));
    }
}
