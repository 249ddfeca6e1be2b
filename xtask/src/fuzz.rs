//! Random programs, energies and bytes: `cargo xtask fuzz`.

use crate::guided;
use crate::process::{Failure, cargo};
use std::time::{SystemTime, UNIX_EPOCH};

/// Kinds of random cases, and the tests that make them: they take a number of cases and the first seed.
struct Kind {
    name: &'static str,
    package: &'static str,
    /// None: a program makes them that is no test.
    tests: &'static [&'static str],
    /// The beginning of the names of these tests, among others of their programs.
    named: &'static str,
    /// Cases of a run, if none are said; and of one of `cargo xtask nightly`.
    cases: [u64; 2],
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "pipelines",
        package: "sumsq-codegen-testing",
        tests: &["random_schedules", "random_simplify", "random_programs", "random_nests"],
        named: "",
        cases: [3000, 100_000],
    },
    Kind {
        name: "gradients",
        package: "sumsq-codegen-testing",
        tests: &["gradients"],
        named: "random_pipelines",
        cases: [3000, 30_000],
    },
    Kind {
        name: "energies",
        package: "sumsq-energy-testing",
        tests: &["random_energies"],
        named: "",
        cases: [10_000, 100_000],
    },
    Kind {
        name: "bytes",
        package: "sumsq-bytes-testing",
        tests: &["random_bytes"],
        named: "",
        cases: [100_000, 1_000_000],
    },
    Kind { name: "guided", package: "sumsq-guided", tests: &[], named: "", cases: [100_000, 2_000_000] },
    Kind {
        name: "structs",
        package: "sumsq-capi",
        tests: &["interfaces"],
        named: "random::",
        cases: [10_000, 100_000],
    },
];

/// Options of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    kind: &'static str,
    cases: u64,
    /// None: another one every time.
    seed: Option<u64>,
}

impl Options {
    /// From `[KIND] [N] [SEED]`; none if it is anything else.
    pub fn read(args: &[&str]) -> Option<Options> {
        let (kind, numbers) = match args {
            [name, rest @ ..] if name.parse::<u64>().is_err() => {
                (KINDS.iter().find(|k| k.name == *name)?, rest)
            }
            all => (&KINDS[0], all),
        };
        let numbers: Vec<u64> = numbers.iter().map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let (cases, seed) = match numbers[..] {
            [] => (kind.cases[0], None),
            [cases] => (cases, None),
            [cases, seed] => (cases, Some(seed)),
            _ => return None,
        };
        Some(Options { kind: kind.name, cases, seed })
    }
}

/// Runs of hours of every kind, from the clock's seed on, each also after one has failed.
pub fn long() -> Result<(), Failure> {
    let run = |kind: &Kind| fuzz(Options { kind: kind.name, cases: kind.cases[1], seed: None });
    let failed: Vec<String> = KINDS.iter().filter_map(|k| run(k).err()).map(|f| f.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure(failed.join("\n"))) }
}

/// Runs all tests of a kind, each to its end, also after one has failed. Optimised: a thousandth of the cases run in every test run, with checks
/// for overflow.
pub fn fuzz(options: Options) -> Result<(), Failure> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_secs());
    let Options { kind, cases, seed } = options;
    let seed = seed.unwrap_or_else(clock);
    println!("the same again: cargo xtask fuzz {kind} {cases} {seed}");
    if kind == "guided" {
        return guided::run(cases, seed);
    }
    let (cases, seed) = (cases.to_string(), seed.to_string());
    for of in KINDS.iter().filter(|k| k.name == kind) {
        let mut args = vec!["test", "--release", "--package", of.package, "--no-fail-fast"];
        args.extend(of.tests.iter().flat_map(|t| ["--test", t]));
        args.extend(["--", "--nocapture", of.named]);
        cargo(&args)
            .env("SUMSQ_VERIFY", "1")
            .env("SUMSQ_FUZZ_SEED", &seed)
            .env("SUMSQ_FUZZ_CASES", &cases)
            .run()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let read = |args: &[&str]| Options::read(args);
        let pipelines = |cases, seed| Some(Options { kind: "pipelines", cases, seed });
        assert_eq!(read(&[]), pipelines(3000, None));
        assert_eq!(read(&["20", "7"]), pipelines(20, Some(7)));
        let energies = Options { kind: "energies", cases: 20, seed: None };
        assert_eq!(read(&["energies", "20"]), Some(energies));
        for wrong in [&["x"][..], &["energies", "x"], &["1", "2", "3"], &["bytes", "-1"]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
