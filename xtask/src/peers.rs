//! The programs that benchmarks compare with: installed from the distribution, and built into `peers/` beside cargo's artifacts.

use crate::apt;
use crate::pipelines;
use crate::process::{Failure, artifacts, root, task};

/// Ceres with SuiteSparse, a BLAS worth comparing with, a C++ compiler, what makes Python environments, and PyTorch for processors.
const PACKAGES: [&str; 5] = ["libceres-dev", "libopenblas0-pthread", "g++", "python3-venv", "python3-torch"];

/// Halide's Python package.
const HALIDE: &str = "halide==21.0.0";

const SOURCES: &str = "benches/peers/ceres";

/// Installs and builds every peer.
pub fn setup() -> Result<(), Failure> {
    install()?;
    let program = artifacts("peers")?.join("ceres");
    let program = program.to_string_lossy();
    task(&command(&sources(SOURCES)?, &program)).run()?;
    println!("built {program}");
    halide()?;
    jax()?;
    torch()?;
    pipelines::build()
}

/// Halide in a Python environment of its own, `peers/halide`.
fn halide() -> Result<(), Failure> {
    python("halide", &[HALIDE])
}

/// JAX in one of its own, `peers/jax`, in the version of the golden vectors.
fn jax() -> Result<(), Failure> {
    python("jax", &["-r", &root().join("data/gradients/requirements.txt").to_string_lossy()])
}

/// The distribution's PyTorch, in an environment, `peers/torch`, of the distribution's Python.
fn torch() -> Result<(), Failure> {
    let environment = artifacts("peers")?.join("torch").to_string_lossy().into_owned();
    task(&["/usr/bin/python3", "-m", "venv", "--system-site-packages", &environment]).run()
}

/// Installs packages into a Python environment below `peers/`.
fn python(name: &str, packages: &[&str]) -> Result<(), Failure> {
    let environment = artifacts("peers")?.join(name);
    let python = environment.join("bin/python");
    let (environment, python) = (environment.to_string_lossy(), python.to_string_lossy());
    if !std::path::Path::new(&*python).is_file() {
        task(&["python3", "-m", "venv", &environment]).run()?;
    }
    task(&[&[&*python, "-m", "pip", "install", "--quiet"], packages].concat()).run()?;
    println!("installed {name} in {environment}");
    Ok(())
}

fn install() -> Result<(), Failure> {
    if !apt::is_here() || !apt::has_dpkg() {
        return Err(Failure(
            "the peers are built on Debian or Ubuntu: the comparison is with the distribution's libceres-dev"
                .to_string(),
        ));
    }
    let missing = apt::missing(&PACKAGES);
    if missing.is_empty() { Ok(()) } else { apt::install("the peers", &missing, || Ok(())) }
}

/// The C++ files of a folder, sorted.
pub fn sources(folder: &str) -> Result<Vec<String>, Failure> {
    let unreadable = |e: std::io::Error| Failure(format!("{folder}: {e}"));
    let mut files = vec![];
    for entry in std::fs::read_dir(root().join(folder)).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".cc") {
            files.push(format!("{folder}/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

/// OpenBLAS comes first: the distribution's Ceres asks for ATLAS too, and the first BLAS that is loaded serves CHOLMOD. No
/// `-march=native`: Eigen's alignment would not be that of the installed library.
fn command<'a>(sources: &'a [String], program: &'a str) -> Vec<&'a str> {
    let mut command = vec!["c++", "-std=c++17", "-O3", "-DNDEBUG", "-isystem", "/usr/include/eigen3"];
    command.extend(sources.iter().map(String::as_str));
    command.extend([
        "-Wl,--no-as-needed",
        "-l:libopenblas.so.0",
        "-lceres",
        "-lglog",
        "-lpthread",
        "-o",
        program,
    ]);
    command
}
