//! NVIDIA's assembler and disassembler of GPU code, for tests: taken out of Python packages into `nvidia/` beside cargo's artifacts.

use crate::apt;
use crate::process::{Failure, artifacts, task};
use std::fs;
use std::path::Path;

/// A tool, the package that it comes in as pip asks for it, and its place there.
struct Tool {
    name: &'static str,
    package: &'static str,
    path: &'static str,
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "ptxas",
        package: "nvidia-cuda-nvcc-cu12==12.9.86 \
                  --hash=sha256:5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0",
        path: "nvidia/cuda_nvcc/bin/ptxas",
    },
    Tool {
        name: "nvdisasm",
        package: "nvidia-cuda-nvdisasm==13.5.37 \
                  --hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
        path: "nvidia/cu13/bin/nvdisasm",
    },
];

/// Makes sure that the tools are there. The list of packages stands beside them once they are.
pub fn setup() -> Result<(), Failure> {
    let folder = artifacts("nvidia")?;
    let (list, wanted) = (folder.join("packages.txt"), TOOLS.map(|tool| tool.package).join("\n"));
    let there = TOOLS.iter().all(|tool| folder.join(tool.name).is_file());
    if there && fs::read_to_string(&list).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let unpacked = folder.join("unpacked");
    let done = fetch(&wanted, &unpacked).and_then(|()| {
        let moved = TOOLS.iter().try_for_each(|tool| {
            fs::rename(unpacked.join("packages").join(tool.path), folder.join(tool.name))
        });
        moved.and_then(|()| fs::write(&list, &wanted)).map_err(|e| unable(&folder, e))
    });
    // Most of what comes with the tools is not needed.
    fs::remove_dir_all(&unpacked).map_err(|e| unable(&unpacked, e))?;
    done?;
    println!("{} lie in {}", TOOLS.map(|tool| tool.name).join(" and "), folder.display());
    Ok(())
}

/// Unpacks packages below `packages/` in a folder, by a Python of its own: only what has the hashes.
fn fetch(packages: &str, folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|e| unable(folder, e))?;
    if task(&["python3", "-c", "import venv, ensurepip"]).output().is_none() {
        apt::install("Python", &["python3-venv"], || Ok(()))?;
    }
    let [list, environment, to] =
        ["packages.txt", "python", "packages"].map(|name| folder.join(name).to_string_lossy().into_owned());
    fs::write(&list, packages).map_err(|e| unable(folder, e))?;
    task(&["python3", "-m", "venv", &environment]).run()?;
    let python = format!("{environment}/bin/python");
    let install = [&python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"];
    task(&[&install[..], &["--require-hashes", "--target", &to, "--requirement", &list]].concat()).run()
}

fn unable(path: &Path, error: std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}
