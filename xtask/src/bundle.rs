//! An archive for a machine with a GPU that may have neither Rust nor a network: `sumsq-bundle`, the stand-in for the driver, cases, energies,
//! and the peers' sources. Its programs need the C library and its mathematics alone.

use crate::process::{Failure, cargo, root, task};
use std::fs;
use std::path::{Path, PathBuf};

/// The system that programs are built for. Naming it keeps what follows away from programs that run during the build.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Name of the archive and of the folder in it.
const NAME: &str = "sumsq-bundle";

/// Bytes that the archive may have.
const MOST: u64 = 40 << 20;

/// Libraries that the build asks for by name, and the archives that it is given: beside these lie no shared ones.
const STATIC: [(&str, &str); 5] = [
    ("libffi.a", "libffi.a"),
    ("libz.a", "libz.a"),
    ("libzstd.a", "libzstd.a"),
    ("libstdc++.a", "libstdc++.a"),
    ("libgcc_s.a", "libgcc_eh.a"),
];

/// Shared libraries that programs of the bundle may need: every Linux has them.
const NEEDED: [&str; 3] = ["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"];

/// Programs and libraries of the bundle, which lie in `bin` there.
const PROGRAMS: [&str; 2] = ["sumsq-bundle", "libsumsq_libcuda.so"];

/// Files and folders of the workspace that have the same place in the bundle.
const SOURCES: [&str; 10] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "THIRD_PARTY.txt",
    "data/README.md",
    "data/cases",
    "data/licenses",
    "examples/energies",
    "benches/peers/cuda",
    "benches/peers/cupy",
    "benches/peers/jax",
];

/// Builds, checks and packs it; returns the archive.
pub fn bundle() -> Result<PathBuf, Failure> {
    let target = root().join("target/bundle");
    let libraries = libraries(&target.join("static"))?;
    build(&target, &libraries)?;
    let built = target.join(TARGET).join("release");
    for program in PROGRAMS {
        needs_little(&built.join(program))?;
    }
    let folder = target.join(NAME);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| unable(&folder, e))?;
    }
    for (from, to) in files()? {
        copy(&root().join(from), &folder.join(to))?;
    }
    for program in PROGRAMS {
        copy(&built.join(program), &folder.join("bin").join(program))?;
    }
    fs::write(folder.join("BUILD"), version()).map_err(|e| unable(&folder, e))?;
    pack(&target)
}

/// Unpacks the archive elsewhere, and runs what it holds on the stand-in.
pub fn rehearse() -> Result<(), Failure> {
    let archive = bundle()?;
    let elsewhere = root().join("target/bundle/rehearsal");
    if elsewhere.exists() {
        fs::remove_dir_all(&elsewhere).map_err(|e| unable(&elsewhere, e))?;
    }
    fs::create_dir_all(&elsewhere).map_err(|e| unable(&elsewhere, e))?;
    task(&["tar", "-xzf", &archive.to_string_lossy(), "-C", &elsewhere.to_string_lossy()]).run()?;
    let run = elsewhere.join(NAME).join("run");
    let run = run.to_string_lossy();
    task(&[&run, "check", "--quick", "--stand-in"]).within(&elsewhere).run()?;
    task(&[&run, "bench", "--rehearse", "--stand-in", "--minutes", "60"]).within(&elsewhere).run()
}

/// A folder with the static libraries alone.
fn libraries(folder: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).map_err(|e| unable(folder, e))?;
    for (name, archive) in STATIC {
        let found = task(&["c++", &format!("-print-file-name={archive}")]).output().unwrap_or_default();
        // What is not found comes back as it was asked for.
        if !Path::new(&found).is_absolute() {
            return Err(Failure(format!("the compiler has no {archive}: `cargo xtask setup` installs it")));
        }
        let link = folder.join(name);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link).map_err(|e| unable(&link, e))?;
        }
        std::os::unix::fs::symlink(&found, &link).map_err(|e| unable(&link, e))?;
    }
    Ok(folder.to_path_buf())
}

fn build(target: &Path, libraries: &Path) -> Result<(), Failure> {
    let folder = target.to_string_lossy();
    let line = ["build", "--release", "--target", TARGET, "--target-dir", &folder];
    cargo(&[&line[..], &["--package", "sumsq-bundle", "--package", "sumsq-libcuda"]].concat())
        .env("RUSTFLAGS", &format!("-L native={}", libraries.display()))
        .run()
}

/// An error if a program needs more than [`NEEDED`].
fn needs_little(program: &Path) -> Result<(), Failure> {
    let listed = task(&["readelf", "--dynamic", "--wide", &program.to_string_lossy()]).output();
    let listed = listed.ok_or_else(|| Failure(format!("readelf does not read {}", program.display())))?;
    let more: Vec<&str> = needed(&listed).into_iter().filter(|name| !NEEDED.contains(name)).collect();
    if more.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("{} needs {}", program.display(), more.join(", "))))
}

/// Names of shared libraries in what readelf prints.
fn needed(listed: &str) -> Vec<&str> {
    listed.lines().filter(|l| l.contains("(NEEDED)")).filter_map(|l| l.split(['[', ']']).nth(1)).collect()
}

/// Files of the workspace, and their places in the bundle.
fn files() -> Result<Vec<(String, String)>, Failure> {
    let listed =
        task(&[&["git", "ls-files", "--cached", "--others", "--exclude-standard"][..], &SOURCES].concat());
    let listed = listed.output().ok_or_else(|| Failure("git does not list the files of the tree".into()))?;
    let mut all: Vec<_> = listed.lines().map(|path| (path.to_string(), path.to_string())).collect();
    all.push(("bundle/run".into(), "run".into()));
    Ok(all)
}

/// The commit that is built, and the day.
fn version() -> String {
    let or = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
    let commit = or(task(&["git", "describe", "--always", "--dirty", "--abbrev=12"]).output());
    format!("commit {commit}, {}\n", or(task(&["date", "-u", "+%F"]).output()))
}

fn pack(target: &Path) -> Result<PathBuf, Failure> {
    let archive = root().join("target").join(format!("{NAME}.tar.gz"));
    let (to, from) = (archive.to_string_lossy(), target.to_string_lossy());
    // Every system unpacks gzip.
    task(&["tar", "--owner=0", "--group=0", "-czf", &to, "-C", &from, NAME]).run()?;
    let bytes = fs::metadata(&archive).map_err(|e| unable(&archive, e))?.len();
    if bytes > MOST {
        return Err(Failure(format!("{to} has {bytes} bytes, at most {MOST}")));
    }
    println!("{to}: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    Ok(archive)
}

/// Copies a file with its permissions.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(|e| unable(folder, e))?;
    fs::copy(from, to).map(|_| ()).map_err(|e| unable(from, e))
}

fn unable(path: &Path, error: std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_needed_libraries() {
        let listed = " 0x01 (NEEDED)  Shared library: [libm.so.6]\n 0x0e (SONAME)  Library soname: [libcuda.so]\n \
                      0x01 (NEEDED)  Shared library: [libstdc++.so.6]\n";
        assert_eq!(needed(listed), ["libm.so.6", "libstdc++.so.6"]);
    }

    /// Files that the programs read at run time: cases and energies by their names, sources of peers.
    #[test]
    fn the_bundle_has_what_its_programs_read() {
        let files = files().unwrap();
        let has = |path: &str| files.iter().any(|(_, to)| to == path);
        for path in [
            "run",
            "data/cases/expected.json",
            "data/cases/image_warping.npz",
            "data/cases/optical_flow_flower.npz",
            "benches/peers/cuda/pcg.cu",
            "benches/peers/cuda/sweep.h",
            "benches/peers/cuda/energy.h",
            "benches/peers/cupy/products.py",
            "benches/peers/jax/pcg.py",
        ] {
            assert!(has(path), "{path}");
        }
        let there = |folder: &str| fs::read_dir(root().join(folder)).unwrap().count();
        let bundled = |folder: &str| files.iter().filter(|(_, to)| to.starts_with(folder)).count();
        for folder in ["data/cases", "data/licenses", "examples/energies"] {
            assert_eq!(bundled(folder), there(folder), "{folder}");
        }
        assert!(files.iter().all(|(from, _)| root().join(from).is_file()));
    }
}
