//! Long checks: `cargo xtask nightly`. A step whose tool is absent fails and says what it needs; nothing is installed here.

use crate::process::{Failure, cargo, root, task};
use crate::{bundle, fuzz, python, suite, supply};

/// A step by name.
type Step = (&'static str, fn() -> Result<(), Failure>);

const STEPS: [Step; 10] = [
    ("full", suite::ignored),
    ("fuzz", fuzz::long),
    ("miri", miri),
    ("threads", thread_sanitizer),
    ("valgrind", valgrind),
    ("aarch64", aarch64),
    ("bundle", bundle::rehearse),
    ("python", python::python),
    ("deny", supply::deny),
    ("msrv", supply::msrv),
];

/// Runs every step, or the one of that name, each also after one has failed.
pub fn nightly(only: Option<&str>) -> Result<(), Failure> {
    let wanted: Vec<&Step> = STEPS.iter().filter(|(name, _)| only.is_none_or(|o| o == *name)).collect();
    if wanted.is_empty() {
        let names = STEPS.map(|(name, _)| name).join(", ");
        return Err(Failure(format!("no such step: the steps are {names}")));
    }
    let mut failed = vec![];
    for (name, step) in wanted {
        println!("nightly: {name}");
        if let Err(failure) = step() {
            eprintln!("nightly: {name}: {failure}");
            failed.push(format!("{name}: {failure}"));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure(failed.join("\n"))) }
}

/// The tests of buffers and views, and those of the C interfaces that need neither LLVM nor Lua, which are beyond miri: handles, messages,
/// structs that carry their size, tables of pointers, tensors and their deleters. Whole C programs are a step of valgrind's.
fn miri() -> Result<(), Failure> {
    component("miri")?;
    for (package, tests) in [("sumsq-codegen", "runtime::"), ("sumsq-capi", "")] {
        let line = ["rustup", "run", "nightly", "cargo", "miri", "test", "--locked", "-p", package, "--lib"];
        // Isolation keeps the environment's variables and the clock away, which the pool reads, and files.
        task(&[&line[..], &[tests]].concat()).env("MIRIFLAGS", "-Zmiri-disable-isolation").run()?;
    }
    Ok(())
}

/// The C of every image pipeline as programs for AArch64, which write the same bits as code of this machine.
fn aarch64() -> Result<(), Failure> {
    let emulator = "qemu-aarch64";
    for tool in [emulator, "aarch64-linux-gnu-gcc"] {
        if task(&[tool, "--version"]).output().is_none() {
            let packages = "apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
            return Err(Failure(format!("{tool} is not installed: `{packages}`")));
        }
    }
    let tests = ["test", "--locked", "--release", "--workspace", "--test", "pipelines"];
    cargo(&tests).env("SUMSQ_AARCH64", emulator).run()
}

/// The tests of the worker pool with the standard library instrumented too, into a target folder of their own.
fn thread_sanitizer() -> Result<(), Failure> {
    component("rust-src")?;
    let target = "x86_64-unknown-linux-gnu";
    let line = ["rustup", "run", "nightly", "cargo", "test", "--locked", "-Zbuild-std", "--target", target];
    task(&[&line[..], &["-p", "sumsq-codegen", "--lib", "runtime::pool"]].concat())
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", &root().join("target/threads").to_string_lossy())
        .run()
}

/// A solve from the command line, and all C programs that are tests, without errors of memory; the programs free what they make.
fn valgrind() -> Result<(), Failure> {
    if task(&["valgrind", "--version"]).output().is_none() {
        return Err(Failure("valgrind is not installed: `apt-get install valgrind`".into()));
    }
    // Undefined values are not asked for: LLVM's optimiser branches on what it has loaded too early, and then ignores it.
    let check = ["valgrind", "--error-exitcode=99", "--quiet", "--undef-value-errors=no"];
    cargo(&["build", "--release", "-p", "sumsq-cli"]).run()?;
    let tool = root().join("target/release/sumsq").to_string_lossy().into_owned();
    let inputs = ["examples/energies/laplacian.t", "--inputs", "data/cases/laplacian_small.npz"];
    // Here compiling takes fifty times as long.
    let options = ["--threads", "2", "--max-compile-seconds", "3600"];
    task(&[&check[..], &[&tool, "solve"], &inputs, &options].concat()).run()?;
    let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    // Tests run in the folder of their package.
    let known = ["--suppressions=tests/valgrind.supp"];
    // One at a time, since each is many times as slow. Valgrind knows no control bits of floats, which the test left out is of.
    let tests = ["test", "--release", "-p", "sumsq-capi", "--test", "c_programs", "--"];
    cargo(&[&tests[..], &["--test-threads=1", "--skip", "environment_has_no_say"]].concat())
        .env("SUMSQ_VALGRIND", &[&check[..], &leaks, &known].concat().join(" "))
        .run()
}

/// An error unless the nightly toolchain is there, with a component.
fn component(name: &str) -> Result<(), Failure> {
    let list = task(&["rustup", "+nightly", "component", "list"]).output();
    let list = list.ok_or_else(|| {
        Failure(format!("needs a nightly toolchain: `rustup toolchain install nightly --component {name}`"))
    })?;
    let there = list.lines().any(|l| l.starts_with(name) && l.ends_with("(installed)"));
    let add = format!("needs {name} of the nightly toolchain: `rustup +nightly component add {name}`");
    if there { Ok(()) } else { Err(Failure(add)) }
}
