//! Development tasks: `cargo xtask TASK`. Depends on nothing, LLVM least of all, so that it runs on a bare machine.

mod apt;
mod bundle;
mod fuzz;
mod guided;
mod how_to;
mod layers;
mod llvm;
mod nightly;
mod notices;
mod nvidia;
mod peers;
mod pipelines;
mod process;
mod prose;
mod python;
mod suite;
mod supply;

use process::{Failure, cargo, root};
use std::process::ExitCode;
use std::time::Instant;
use suite::Tally;

const USAGE: &str = "\
usage: cargo xtask TASK

  setup [--peers] find LLVM 22, or install it (Debian, Ubuntu), and ptxas for the tests of GPU code; --peers: install and build
                  what benchmarks compare with (Ceres, Halide); --python: Python's venv. Nothing else installs anything on
                  the machine
  demo            a release build, and two demos into out/
  test [--full]   all tests, counted; --full adds the ignored ones
  fuzz [pipelines|gradients|energies|bytes|guided|structs] [N] [SEED]
                  N random cases from SEED on (the clock's): pipelines under schedules, expressions, and programs; adjoints
                  against dual numbers; energies against an interpreter; files that are nearly right, blindly or led by what
                  they reach; calls of the C interfaces. A failing case is printed, the first three kinds shrunk
  bench [NAME]    the benchmarks (all, or those whose name contains NAME) into benches/results/
  bundle          target/sumsq-bundle.tar.gz for a machine with a GPU, that may have neither Rust nor a network: checks, measurements,
                  cases, peers' sources (benches/README.md)
  compare OLD [--code] [--bits] [--times] [--steps N] [--pairs N]
                  another release build of the tool against this tree's: LLVM text of all energies, bits of the
                  demos' problems after N (6) steps, seconds of N (9) alternated pairs; all three, or those named
  how-to          docs/patches: each applies, touches few files, and passes the tests that it names
  python          the Python package: built in an environment of its own below target/, and tested there; with PyTorch, too, where
                  setup --peers has installed it
  layers          which folder may import from which: circles, imports that run upwards, lines of code
  notices         writes THIRD_PARTY.txt: crates that the tool and the C library contain, with their licences
  deny            licences, advisories and sources of dependencies, by cargo-deny (deny.toml)
  lint            layers, first words of doc comments, notices, patches of docs, formatting, clippy and docs, warnings as errors
  ci              lint, test, how-to: minutes of each step, counts of tests
  nightly [STEP]  full, fuzz, miri, threads, valgrind, aarch64, bundle, python, deny, msrv: ignored tests, long runs of fuzz, miri on
                  buffers and on what the C interfaces lend, a thread sanitizer on the pool, valgrind on a solve and on the C programs, image
                  pipelines on an emulator of AArch64, a bundle on the stand-in for the driver, the Python package, dependencies, the oldest
                  compiler";

/// Demos that `cargo xtask demo` runs.
const DEMOS: [&str; 2] = ["image_warping", "arap_mesh_deformation"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["setup"] => setup(),
        ["setup", "--python"] => setup().and_then(|()| python::setup()),
        ["setup", "--peers"] => setup().and_then(|()| peers::setup()),
        ["demo"] => demo(),
        ["test"] => test(false),
        ["test", "--full"] => test(true),
        ["fuzz", ref options @ ..] => match fuzz::Options::read(options) {
            Some(options) => llvm::check().and_then(|()| fuzz::fuzz(options)),
            None => return usage(),
        },
        ["bench"] => bench(None),
        ["bench", name] if !name.starts_with('-') => bench(Some(name)),
        ["bundle"] => llvm::check().and_then(|()| bundle::bundle().map(drop)),
        ["compare", old, ref options @ ..] => compare(old, options),
        ["how-to"] => llvm::check().and_then(|()| how_to::how_to()),
        ["python"] => llvm::check().and_then(|()| python::python()),
        ["layers"] => layers::layers(),
        ["notices"] => notices::write(),
        ["deny"] => supply::deny(),
        ["lint"] => llvm::check().and_then(|()| lint()),
        ["ci"] => llvm::check().and_then(|()| ci()),
        ["nightly"] => llvm::check().and_then(|()| nightly::nightly(None)),
        ["nightly", step] => llvm::check().and_then(|()| nightly::nightly(Some(step))),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn setup() -> Result<(), Failure> {
    llvm::setup()?;
    nvidia::setup()
}

fn demo() -> Result<(), Failure> {
    llvm::check()?;
    let out = root().join("out");
    let out = out.to_string_lossy();
    for name in DEMOS {
        cargo(&["run", "--release", "--package", "sumsq-cli", "--", "demo", name, "--out", &out]).run()?;
    }
    println!("the demos' pictures are in {out}");
    Ok(())
}

fn test(full: bool) -> Result<(), Failure> {
    llvm::check()?;
    suite::all(&mut Tally::default(), full)
}

fn bench(name: Option<&str>) -> Result<(), Failure> {
    llvm::check()?;
    let mut args = vec!["run", "--release", "--package", "sumsq-benches", "--"];
    args.extend(name);
    cargo(&args).run()
}

fn compare(old: &str, options: &[&str]) -> Result<(), Failure> {
    llvm::check()?;
    let old = std::fs::canonicalize(old).map_err(|e| Failure(format!("{old}: {e}")))?;
    cargo(&["build", "--release", "--package", "sumsq-cli"]).run()?;
    let new = root().join("target/release/sumsq");
    let (old, new) = (old.to_string_lossy(), new.to_string_lossy());
    let mut args = vec!["run", "--release", "--package", "sumsq-benches", "--", "compare", &old, &new];
    args.extend(options);
    cargo(&args).run()
}

fn ci() -> Result<(), Failure> {
    let mut steps = Steps::default();
    steps.run("lint", lint)?;
    // Apart, so that what is slow is known: building the tests, or running them.
    steps.run("build of the tests", suite::build)?;
    steps.run("test", || suite::all(&mut Tally::default(), false))?;
    steps.run("how-to", how_to::how_to)
}

/// Prints the minutes of each step, also of one that fails.
#[derive(Default)]
struct Steps {
    minutes: Vec<(&'static str, f64)>,
}

impl Steps {
    fn run(&mut self, name: &'static str, step: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let start = Instant::now();
        let done = step();
        self.minutes.push((name, start.elapsed().as_secs_f64() / 60.0));
        let steps: Vec<String> = self.minutes.iter().map(|(name, m)| format!("{name} {m:.1}")).collect();
        println!("minutes: {}", steps.join(", "));
        done
    }
}

fn lint() -> Result<(), Failure> {
    layers::layers()?;
    prose::prose()?;
    notices::check()?;
    how_to::apply()?;
    cargo(&["fmt", "--all", "--check"]).run()?;
    cargo(&["fmt", "--manifest-path", guided::MANIFEST, "--check"]).run()?;
    // In release, for which tests are built: macros and build scripts are compiled once.
    cargo(&["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()?;
    cargo(&["doc", "--release", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").run()
}
