//! Objects that one start has compiled are loaded by the next ones: the same bits, whatever happens to the folder.

use crate::bench::{Bench, floats};
use std::path::{Path, PathBuf};
use std::process::Command;

const SMOOTH: &str = r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W,H}, 0)
local A = Array("A", opt_float, {W,H}, 1)
Energy(sin(X(0,0)) - A(0,0), X(0,0) - X(1,0), X(0,0) - X(0,1))
"#;

fn smooth() -> Bench {
    let bench = Bench::new(SMOOTH);
    let a: Vec<f32> = (0..77).map(|i| (i * i % 13) as f32 / 13.0).collect();
    bench.inputs(&[floats("X", &[7, 11], &[0.25; 77]), floats("A", &[7, 11], &a)]);
    bench
}

/// Solves with a cache in `folder`; the bytes of the unknowns.
fn solved(bench: &Bench, folder: &str) -> Vec<u8> {
    let ended = command(bench, folder).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    std::fs::read(bench.path("o.npz")).unwrap()
}

fn command(bench: &Bench, folder: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sumsq"));
    command.args(["solve", "energy.t", "--inputs", "inputs.npz", "--output", "o.npz"]);
    command.current_dir(bench.path("")).env("SUMSQ_CACHE", folder);
    command
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = folder.read_dir().unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn later_starts_compile_nothing_and_compute_the_same() {
    let bench = smooth();
    let compiled = solved(&bench, "off");
    assert!(!bench.path("cache").exists());
    assert_eq!(solved(&bench, "cache"), compiled);
    let kept = files(&bench.path("cache"));
    assert!(kept.len() > 5, "{kept:?}");
    let written = |path: &PathBuf| std::fs::metadata(path).unwrap().len();
    let sizes: Vec<u64> = kept.iter().map(written).collect();
    assert_eq!(solved(&bench, "cache"), compiled);
    assert_eq!(files(&bench.path("cache")), kept);
    assert_eq!(kept.iter().map(written).collect::<Vec<u64>>(), sizes);
}

#[test]
fn a_damaged_cache_costs_a_compilation() {
    let bench = smooth();
    let compiled = solved(&bench, "cache");
    let kept = files(&bench.path("cache"));
    for (i, path) in kept.iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        match i % 3 {
            0 => bytes[middle] ^= 1,
            1 => bytes.truncate(middle),
            _ => bytes.clear(),
        }
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(solved(&bench, "cache"), compiled);
    assert_eq!(files(&bench.path("cache")), kept);
    // A file in its place.
    assert_eq!(solved(&bench, "energy.t"), compiled);
}

#[test]
fn processes_share_a_cache() {
    let bench = smooth();
    let compiled = solved(&bench, "off");
    let others: Vec<Bench> = (0..4).map(|_| smooth()).collect();
    let folder = bench.path("cache");
    let folder = folder.to_str().unwrap();
    let running: Vec<_> = others.iter().map(|b| command(b, folder).spawn().unwrap()).collect();
    for mut process in running {
        assert!(process.wait().unwrap().success());
    }
    assert!(others.iter().all(|b| std::fs::read(b.path("o.npz")).unwrap() == compiled));
    assert!(files(&bench.path("cache")).iter().all(|f| f.extension().is_none()));
}
