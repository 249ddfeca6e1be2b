//! Bytes that are led by the code that they reach: `cargo xtask fuzz guided`. Builds `bytes-testing/guided`, a workspace of its own, with
//! counters at every edge of the code, and runs libFuzzer's loop.

use crate::process::{Failure, cargo, root, task};
use std::fs;
use std::path::{Path, PathBuf};

/// Manifest of the workspace that the program is built from.
pub const MANIFEST: &str = "bytes-testing/guided/Cargo.toml";

/// Kinds of bytes, and of a hundred cases how many each has: those that are read in less time have more.
const KINDS: [(&str, u64); 7] = [
    ("energy", 15),
    ("derived", 5),
    ("archive", 20),
    ("ply", 20),
    ("obj", 20),
    ("schedule", 10),
    ("choices", 10),
];

/// Counters at edges, and comparisons: from these libFuzzer learns constants.
const COUNTERS: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The longest input; seconds and megabytes that one may take.
const LIMITS: [&str; 4] = ["-max_len=8192", "-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=1024"];

/// Runs every kind, each also after one has failed.
pub fn run(cases: u64, seed: u64) -> Result<(), Failure> {
    let program = build()?;
    // libFuzzer takes 0 for the clock's, and has 32 bits of it.
    let seed = (seed as u32).max(1);
    let each = |(kind, share): &(&str, u64)| one(&program, kind, (cases * share / 100).max(1), seed).err();
    let failed: Vec<String> = KINDS.iter().filter_map(each).map(|f| f.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure(failed.join("\n"))) }
}

/// The program, in a target folder of its own.
fn build() -> Result<PathBuf, Failure> {
    let version = task(&["rustc", "-vV"]).output();
    let version =
        version.ok_or_else(|| Failure("rustc does not say for which machine it compiles".into()))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let target = root().join("target/guided");
    // With a target named, flags are for what runs there, and not for what runs while building.
    cargo(&["build", "--release", "--manifest-path", MANIFEST, "--target", host])
        .env("RUSTFLAGS", &COUNTERS.join(" "))
        .env("CARGO_TARGET_DIR", &target.to_string_lossy())
        .run()?;
    Ok(target.join(host).join("release/sumsq-guided"))
}

/// One kind, from what is right on; what fails is kept in `target/guided/found`.
fn one(program: &Path, kind: &str, cases: u64, seed: u32) -> Result<(), Failure> {
    let folder = |name: &str| root().join("target/guided").join(name).join(kind);
    let (corpus, found) = (folder("corpus"), folder("found"));
    // What an earlier run has come to would make another run of the same seed.
    let _ = fs::remove_dir_all(&corpus);
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder).map_err(|e| Failure(format!("{}: {e}", folder.display())))?;
    }
    let (program, corpus) = (program.to_string_lossy(), corpus.to_string_lossy());
    let (runs, seed) = (format!("-runs={cases}"), format!("-seed={seed}"));
    let artifacts = format!("-artifact_prefix={}/", found.display());
    let mut of_run = Summary::default();
    let line = [&*program, &corpus, &runs, &seed, &artifacts, "-print_final_stats=1", "-print_funcs=0"];
    let done = task(&[&line[..], &LIMITS].concat())
        .env("SUMSQ_GUIDED", kind)
        .env("SUMSQ_GUIDED_CORPUS", &corpus)
        .errors(|line| of_run.read(line));
    println!("{kind}: {of_run}");
    done.map_err(|failure| {
        let again =
            of_run.found.map(|path| format!("\nthe same again: SUMSQ_GUIDED={kind} {program} {path}"));
        Failure(format!("{kind}: {failure}{}", again.unwrap_or_default()))
    })
}

/// Beginnings of lines of libFuzzer's that say nothing here: of every run, and words that it suggests.
const NOISE: [&str; 6] = ["INFO: ", "WARNING: ", "stat::", "Done ", "#", "\""];

/// Lines of libFuzzer's that say something of a whole run.
#[derive(Default)]
struct Summary {
    /// Edges reached by what is right, and in the end.
    edges: [String; 2],
    /// Inputs that were read.
    executed: String,
    /// Seconds that the slowest took.
    slowest: String,
    /// The file that one that fails was written to.
    found: Option<String>,
}

impl Summary {
    /// Takes a line, and hands on to the terminal all that comes of a failure.
    fn read(&mut self, line: &str) {
        let edges = line.split_whitespace().skip_while(|w| *w != "cov:").nth(1);
        if let (true, Some(edges)) = (line.starts_with('#'), edges) {
            if line.contains("INITED") {
                self.edges[0] = edges.to_owned();
            }
            self.edges[1] = edges.to_owned();
        } else if let Some(n) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executed = n.trim().to_owned();
        } else if let Some(n) = line.strip_prefix("stat::slowest_unit_time_sec:") {
            self.slowest = n.trim().to_owned();
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.found = Some(path.to_owned());
        } else if !NOISE.iter().any(|w| line.starts_with(w)) {
            eprintln!("{line}");
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { edges: [right, all], executed, slowest, .. } = self;
        write!(
            f,
            "{executed} inputs, the slowest {slowest} s; {right} edges by what is right, {all} in the end"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_summed_up() {
        let mut of_run = Summary::default();
        for line in [
            "INFO: Seed: 1",
            "#3\tINITED cov: 512 ft: 600 corp: 2/1Kb exec/s: 0 rss: 40Mb",
            "#90\tNEW    cov: 530 ft: 640 corp: 3/2Kb lim: 900 exec/s: 0 rss: 40Mb L: 900/900 MS: 1 Custom-",
            "#100\tDONE   cov: 531 ft: 641 corp: 3/2Kb lim: 900 exec/s: 0 rss: 40Mb",
            "###### Recommended dictionary. ######",
            "\"\\001\\000\" # Uses: 5",
            "stat::number_of_executed_units: 100",
            "stat::slowest_unit_time_sec:    2",
            "artifact_prefix='found/'; Test unit written to found/crash-1",
        ] {
            of_run.read(line);
        }
        let said = "100 inputs, the slowest 2 s; 512 edges by what is right, 531 in the end";
        assert_eq!((of_run.to_string().as_str(), of_run.found.as_deref()), (said, Some("found/crash-1")));
    }

    #[test]
    fn shares_are_of_a_hundred() {
        assert_eq!(KINDS.iter().map(|(_, share)| share).sum::<u64>(), 100);
    }
}
