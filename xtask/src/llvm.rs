//! LLVM 22 for `sumsq-codegen`: found, or installed from the distribution's packages.

use crate::process::{Failure, task};
use std::path::Path;

/// What the build links against, on Debian and Ubuntu: LLVM with Polly, the libraries LLVM itself needs, and a C++ linker.
const PACKAGES: [&str; 6] =
    ["llvm-22-dev", "libpolly-22-dev", "libzstd-dev", "zlib1g-dev", "libffi-dev", "g++"];

/// llvm-sys looks here first.
const PREFIX: &str = "LLVM_SYS_221_PREFIX";

/// Makes sure that LLVM 22 is there.
pub fn setup() -> Result<(), Failure> {
    if let Some(found) = found_by_prefix()? {
        println!("LLVM {found}, from {PREFIX}");
        return Ok(());
    }
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    if !has_program("apt-get") {
        return Err(Failure(format!(
            "LLVM 22 is not installed: install your distribution's LLVM 22 development package (headers, static \
             libraries, Polly), a C++ compiler, zstd, zlib and libffi with headers, or set {PREFIX} to where LLVM 22 lies"
        )));
    }
    install(&missing)
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

/// What has to be installed. Where dpkg knows the packages, those it lacks; elsewhere all, unless `llvm-config` is a 22.
fn missing() -> Vec<&'static str> {
    let config = ["llvm-config-22", "llvm-config"].iter().any(|c| llvm_version(c).is_some());
    if !config {
        return PACKAGES.to_vec();
    }
    if !has_program("dpkg-query") || !is_installed("llvm-22-dev") {
        return Vec::new(); // an LLVM 22 built by hand, with its libraries
    }
    PACKAGES.into_iter().filter(|package| !is_installed(package)).collect()
}

fn is_installed(package: &str) -> bool {
    task(&["dpkg-query", "-W", "-f", "${Status}", package]).output().as_deref()
        == Some("install ok installed")
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// `apt-get update` and `install`, as root or through a sudo that asks for no password.
fn install(missing: &[&str]) -> Result<(), Failure> {
    let Some(root) = as_root() else { return Err(Failure(by_hand(missing))) };
    println!("installing {}", missing.join(" "));
    task(&line(&root, &["apt-get", "update"])).run()?;
    if missing.contains(&"llvm-22-dev") && !has_candidate("llvm-22-dev") {
        return Err(Failure(
            "this machine's package sources have no llvm-22-dev. Debian 12 has it in bookworm-security: add \
             `deb http://deb.debian.org/debian-security bookworm-security main` to /etc/apt/sources.list and run \
             `cargo xtask setup` again (or take LLVM 22 from https://apt.llvm.org)"
                .to_string(),
        ));
    }
    task(&line(&root, &install_command(missing))).env("DEBIAN_FRONTEND", "noninteractive").run()
}

fn install_command<'a>(missing: &[&'a str]) -> Vec<&'a str> {
    let mut command =
        vec!["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    command.extend(missing);
    command
}

/// What to put before a command that needs root: nothing, sudo, or `None` if neither will do.
fn as_root() -> Option<Vec<&'static str>> {
    if task(&["id", "-u"]).output().as_deref() == Some("0") {
        return Some(Vec::new());
    }
    let sudo = ["sudo", "-n", "--preserve-env=DEBIAN_FRONTEND"];
    task(&["sudo", "-n", "true"]).output().map(|_| sudo.to_vec())
}

fn line<'a>(prefix: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [prefix, command].concat()
}

fn by_hand(missing: &[&str]) -> String {
    format!(
        "LLVM 22 is not installed, and installing it needs root. Run\n\n    sudo apt-get update && sudo {}\n\nand then this again",
        install_command(missing).join(" ")
    )
}

/// Whether apt could install the package.
fn has_candidate(package: &str) -> bool {
    task(&["apt-cache", "policy", package])
        .env("LC_ALL", "C")
        .output()
        .is_some_and(|p| policy_has_candidate(&p))
}

fn policy_has_candidate(policy: &str) -> bool {
    policy.lines().filter_map(|l| l.trim().strip_prefix("Candidate:")).any(|c| c.trim() != "(none)")
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

    #[test]
    fn candidates() {
        assert!(policy_has_candidate("llvm-22-dev:\n  Installed: (none)\n  Candidate: 1:22.1.8-1~deb12u1\n"));
        assert!(!policy_has_candidate("llvm-22-dev:\n  Installed: (none)\n  Candidate: (none)\n"));
        assert!(!policy_has_candidate(""), "an unknown package prints nothing");
    }

    #[test]
    fn the_printed_command_is_the_one_that_runs() {
        assert!(by_hand(&["llvm-22-dev", "g++"]).contains(
            "sudo apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 llvm-22-dev g++\n"
        ));
    }
}
