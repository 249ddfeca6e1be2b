//! The Python package: built into an environment of its own, `python/` beside cargo's artifacts, and tested there with NumPy alone; with PyTorch by the
//! environment of the peers, if that is there.

use crate::apt;
use crate::process::{Failure, artifacts, cargo, root, task};
use std::fs;
use std::path::Path;

const MANIFEST: &str = "python/Cargo.toml";

/// Installs what environments are made with, where that is missing.
pub fn setup() -> Result<(), Failure> {
    if has_venv() { Ok(()) } else { apt::install("Python", &["python3-venv"], || Ok(())) }
}

fn has_venv() -> bool {
    task(&["python3", "-c", "import venv, ensurepip"]).output().is_some()
}

/// Builds the package in the profile of development and runs its tests.
pub fn python() -> Result<(), Failure> {
    let folder = artifacts("python")?;
    let target = folder.parent().unwrap_or(&folder).to_string_lossy().into_owned();
    environment(&folder)?;
    cargo(&["fmt", "--manifest-path", MANIFEST, "--check"]).run()?;
    let program = |name: &str| folder.join("bin").join(name).to_string_lossy().into_owned();
    task(&[&program("maturin"), "develop", "--locked", "--manifest-path", MANIFEST])
        .env("VIRTUAL_ENV", &folder.to_string_lossy())
        .env("CARGO_TARGET_DIR", &target)
        .run()?;
    // What is tested is compiled.
    task(&[&program("python"), "-m", "unittest", "discover", "--start-directory", "python/tests"])
        .env("SUMSQ_CACHE", "off")
        .run()?;
    torch()
}

/// The tests of `sumsq.torch`, by the Python that `cargo xtask setup --peers` has given PyTorch. What was built goes with any version, and lies in
/// `python/sumsq`.
fn torch() -> Result<(), Failure> {
    let theirs = artifacts("peers")?.join("torch/bin/python");
    if !theirs.is_file() {
        println!("sumsq.torch is not tested: `cargo xtask setup --peers` installs PyTorch");
        return Ok(());
    }
    let line =
        ["-m", "unittest", "discover", "--start-directory", "python/tests", "--pattern", "test_torch.py"];
    task(&[&[&*theirs.to_string_lossy()], &line[..]].concat())
        .env("PYTHONPATH", "python")
        .env("SUMSQ_CACHE", "off")
        .run()
}

/// Makes sure that what `requirements.txt` asks for is there. A copy of that list stands in the folder once it is.
fn environment(folder: &Path) -> Result<(), Failure> {
    let requirements = root().join("python/requirements.txt");
    let unable = |e: std::io::Error| Failure(format!("{}: {e}", folder.display()));
    let (wanted, copy) =
        (fs::read_to_string(&requirements).map_err(unable)?, folder.join("requirements.txt"));
    if fs::read_to_string(&copy).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    if !has_venv() {
        return Err(Failure("Python's venv is missing: `cargo xtask setup --python` installs it".into()));
    }
    task(&["python3", "-m", "venv", "--clear", &folder.to_string_lossy()]).run()?;
    let python = folder.join("bin/python").to_string_lossy().into_owned();
    let install = [&*python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"];
    let requirements = requirements.to_string_lossy();
    task(&[&install[..], &["--require-hashes", "--requirement", &requirements]].concat()).run()?;
    fs::write(&copy, &wanted).map_err(unable)
}
