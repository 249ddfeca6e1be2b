//! Random programs through the engine: `cargo xtask fuzz`.

use crate::process::{Failure, cargo};
use std::time::{SystemTime, UNIX_EPOCH};

/// Pipelines, and expressions of each sort, of a run.
const CASES: u64 = 3000;

/// The same of a run of `cargo xtask nightly`.
const LONG: u64 = 100_000;

/// Options of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    cases: u64,
    /// None: another one every time.
    seed: Option<u64>,
}

impl Options {
    /// A run of hours, from the clock's seed on.
    pub fn long() -> Options {
        Options { cases: LONG, seed: None }
    }

    /// From `--cases N` and `--seed S`; none if it is anything else.
    pub fn read(args: &[&str]) -> Option<Options> {
        let mut options = Options { cases: CASES, seed: None };
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let value = args.next()?.parse().ok()?;
            match *name {
                "--cases" => options.cases = value,
                "--seed" => options.seed = Some(value),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// The tests that take a seed and a number of cases.
const TARGETS: [&str; 2] = ["random_schedules", "random_simplify"];

/// Runs all targets, each to its end, also after one has failed.
pub fn fuzz(options: Options) -> Result<(), Failure> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let (cases, seed) = (options.cases.to_string(), options.seed.unwrap_or_else(clock).to_string());
    println!("seed {seed}, {cases} cases; the same again: cargo xtask fuzz --seed {seed} --cases {cases}");
    let mut args = vec!["test", "--package", "sumsq-codegen-testing", "--no-fail-fast"];
    args.extend(TARGETS.iter().flat_map(|t| ["--test", t]));
    cargo(&args).env("SUMSQ_FUZZ_SEED", &seed).env("SUMSQ_FUZZ_CASES", &cases).run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let read = |args: &[&str]| Options::read(args);
        assert_eq!(read(&[]), Some(Options { cases: CASES, seed: None }));
        assert_eq!(read(&["--seed", "7", "--cases", "20"]), Some(Options { cases: 20, seed: Some(7) }));
        for wrong in [&["--seed"][..], &["--seed", "x"], &["7"], &["--case", "3"]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
