//! The image pipelines, and gradients, as Halide compiles them: a program with their algorithms, the objects that it makes, one library of them.

use crate::peers::sources;
use crate::process::{Failure, artifacts, root, task};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const SOURCES: &str = "benches/peers/halide";
/// Files of both programs.
const COMPILER: &str = "benches/peers/halide/compiler";

/// Builds `peers/libgradients.so` and `peers/libpipelines.so` with the Halide that lies in `peers/halide`. What is newer than its sources
/// stays; the autoschedulers take an hour for all.
pub fn build() -> Result<(), Failure> {
    ["gradients", "pipelines"].into_iter().try_for_each(build_library)
}

fn build_library(name: &str) -> Result<(), Failure> {
    let (peers, halide) = (artifacts("peers")?, package()?);
    let (include, plugins) = (text(&halide.join("include")), text(&halide.join("lib64")));
    let (program, objects) = (text(&peers.join(format!("compile-{name}"))), text(&peers.join(name)));
    let own = format!("{SOURCES}/{name}");
    if written(Path::new(&program)) < newest(&root().join(&own))?.max(newest(&root().join(COMPILER))?) {
        let cc =
            [sources(&own)?, vec![format!("{COMPILER}/main.cc"), format!("{COMPILER}/recipe.cc")]].concat();
        let (search, rpath) = (format!("-L{plugins}"), format!("-Wl,-rpath,{plugins}"));
        let shared = format!("-I{COMPILER}");
        let mut line = vec!["c++", "-std=c++17", "-O1", &shared, "-isystem", &include];
        line.extend(cc.iter().map(String::as_str));
        line.extend([&search[..], "-lHalide", &rpath, "-ldl", "-lpthread", "-o", &program]);
        task(&line).run()?;
        println!("built {program}");
    }
    task(&[&program, &objects, &plugins]).run()?;
    link(&include, &objects, &text(&peers.join(format!("lib{name}.so"))))
}

/// All objects, and the code around them that lists them in a table.
fn link(include: &str, objects: &str, library: &str) -> Result<(), Failure> {
    let table = format!("{SOURCES}/library.cc");
    let folder = format!("-I{objects}");
    let compiled: Vec<String> = files(Path::new(objects))?.iter().map(|path| text(path)).collect();
    let mut line = vec!["c++", "-std=c++17", "-O2", "-fPIC", "-shared", &folder, "-isystem", include, &table];
    line.extend(compiled.iter().filter(|path| path.ends_with(".o")).map(String::as_str));
    line.extend(["-ldl", "-lpthread", "-o", library]);
    task(&line).run()?;
    println!("built {library}");
    Ok(())
}

/// Halide's folder in its Python environment.
fn package() -> Result<PathBuf, Failure> {
    let lib = artifacts("peers")?.join("halide/lib");
    let versions = files(&lib)?.into_iter().map(|python| python.join("site-packages/halide"));
    let missing = || Failure(format!("{} has no package halide", lib.display()));
    versions.into_iter().find(|folder| folder.is_dir()).ok_or_else(missing)
}

/// Paths in a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |e: std::io::Error| Failure(format!("{}: {e}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut paths =
        entries.map(|e| Ok(e.map_err(unreadable)?.path())).collect::<Result<Vec<_>, Failure>>()?;
    paths.sort();
    Ok(paths)
}

/// Time of the youngest file of a folder.
fn newest(folder: &Path) -> Result<SystemTime, Failure> {
    Ok(files(folder)?.iter().map(|path| written(path)).max().unwrap_or(SystemTime::UNIX_EPOCH))
}

/// Time at which a file was written; long ago if there is none.
fn written(path: &Path) -> SystemTime {
    path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
