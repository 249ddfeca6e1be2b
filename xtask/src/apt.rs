//! Packages of Debian and Ubuntu: found, or installed as root.

use crate::process::{Failure, task};

/// Tells whether this machine has apt.
pub fn is_here() -> bool {
    has_program("apt-get")
}

/// Tells whether dpkg can be asked.
pub fn has_dpkg() -> bool {
    has_program("dpkg-query")
}

pub fn is_installed(package: &str) -> bool {
    task(&["dpkg-query", "-W", "-f", "${Status}", package]).output().as_deref()
        == Some("install ok installed")
}

/// Those of the packages that dpkg lacks.
pub fn missing(packages: &[&'static str]) -> Vec<&'static str> {
    packages.iter().copied().filter(|package| !is_installed(package)).collect()
}

/// `apt-get update` and `install`, as root or through a sudo that asks for no password. `what` the packages are for goes into the
/// message where neither will do; `check` may object once the package lists are fresh.
pub fn install(
    what: &str,
    packages: &[&str],
    check: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(root) = as_root() else { return Err(Failure(by_hand(what, packages))) };
    println!("installing {}", packages.join(" "));
    task(&line(&root, &["apt-get", "update"])).run()?;
    check()?;
    task(&line(&root, &install_command(packages))).env("DEBIAN_FRONTEND", "noninteractive").run()
}

/// Tells whether apt could install the package.
pub fn has_candidate(package: &str) -> bool {
    task(&["apt-cache", "policy", package])
        .env("LC_ALL", "C")
        .output()
        .is_some_and(|p| policy_has_candidate(&p))
}

fn policy_has_candidate(policy: &str) -> bool {
    policy.lines().filter_map(|l| l.trim().strip_prefix("Candidate:")).any(|c| c.trim() != "(none)")
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

fn install_command<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let mut command =
        vec!["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    command.extend(packages);
    command
}

/// Returns what to put before a command that needs root: nothing, sudo, or `None` if neither will do.
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

fn by_hand(what: &str, packages: &[&str]) -> String {
    format!(
        "{what} is not installed, and installing it needs root. Run\n\n    sudo apt-get update && sudo {}\n\nand then this again",
        install_command(packages).join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates() {
        assert!(policy_has_candidate("llvm-22-dev:\n  Installed: (none)\n  Candidate: 1:22.1.8-1~deb12u1\n"));
        assert!(!policy_has_candidate("llvm-22-dev:\n  Installed: (none)\n  Candidate: (none)\n"));
        assert!(!policy_has_candidate(""), "an unknown package prints nothing");
    }

    #[test]
    fn the_printed_command_is_the_one_that_runs() {
        let message = by_hand("LLVM 22", &["llvm-22-dev", "g++"]);
        assert!(message.starts_with("LLVM 22 is not installed"));
        assert!(message.contains(
            "sudo apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 llvm-22-dev g++\n"
        ));
    }
}
