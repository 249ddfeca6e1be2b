//! Fails with one clear line where LLVM 22 is missing; `llvm-sys`, which also fails then, is less clear about it.

use std::path::PathBuf;
use std::process::Command;

/// The variable that `llvm-sys` 221 (LLVM 22) takes the place of LLVM from.
const PREFIX: &str = "LLVM_SYS_221_PREFIX";

fn main() {
    println!("cargo::rerun-if-env-changed={PREFIX}");
    println!("cargo::rerun-if-env-changed=PATH");
    println!("cargo::rerun-if-changed=build.rs");
    let candidates: Vec<PathBuf> = match std::env::var_os(PREFIX) {
        Some(p) => vec![PathBuf::from(p).join("bin/llvm-config")],
        None => ["llvm-config-22", "llvm-config22", "llvm-config"].map(PathBuf::from).to_vec(),
    };
    if !candidates.iter().any(is_llvm_22) {
        println!(
            "cargo::error=LLVM 22 was not found: run `cargo xtask setup` (or install llvm-22-dev libpolly-22-dev \
             libzstd-dev zlib1g-dev libffi-dev)"
        );
    }
}

fn is_llvm_22(program: &PathBuf) -> bool {
    let Ok(output) = Command::new(program).arg("--version").output() else { return false };
    String::from_utf8_lossy(&output.stdout).trim().starts_with("22.")
}
