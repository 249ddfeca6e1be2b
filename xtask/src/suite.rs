//! Test runs, counted. A test runs, or is ignored in its source with a reason: any other skip fails the run.

use crate::process::{Failure, artifacts, cargo};
use std::sync::Mutex;

/// Ignored tests stay fewer than this.
const MOST_IGNORED: usize = 10;

/// Set by hand to rewrite golden files: tests of those then compare nothing.
const UPDATE: &str = "SUMSQ_UPDATE";

/// Counts of one or more runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    passed: usize,
    /// Ignored tests by name, each with its reason.
    ignored: Vec<String>,
    /// Skips that no source gives a reason for, as they were printed.
    unexplained: Vec<String>,
}

/// Test programs in two parts that run beside each other, since in many of them one test takes longer than all others. A program is in the one
/// or the other by its first letter. Doc tests, which cargo runs by themselves, follow the second (cargo-nextest would leave them out).
const LANES: [&[&[&str]]; 2] =
    [&[&["--lib", "--bins", "--test", "[!m-z]*"]], &[&["--test", "[m-z]*"], &["--doc"]]];

/// Tests are built in release, as what users run.
const TEST: [&str; 3] = ["test", "--release", "--workspace"];

/// Builds all tests, and examples, so that lanes find everything built.
pub fn build() -> Result<(), Failure> {
    cargo(&[&TEST[..], &["--no-run"]].concat()).run()
}

/// All tests. `full`: ignored ones too.
pub fn all(tally: &mut Tally, full: bool) -> Result<(), Failure> {
    build()?;
    let ignored: &[&str] = if full { &["--", "--include-ignored"] } else { &[] };
    tally.run(&LANES.map(|lane| {
        lane.iter().map(|part| [&TEST[..], &["--no-fail-fast"], *part, ignored].concat()).collect()
    }))
}

/// The ignored tests alone.
pub fn ignored() -> Result<(), Failure> {
    cargo(&[&TEST[..], &["--", "--ignored"]].concat()).run()
}

impl Tally {
    /// Runs lanes beside each other, the cargo commands of each one after the other, and all to their ends.
    fn run(&mut self, lanes: &[Vec<Vec<&str>>]) -> Result<(), Failure> {
        if std::env::var_os(UPDATE).is_some() {
            return Err(Failure(format!("with {UPDATE} set, tests rewrite what they should compare with")));
        }
        let (tally, kept) = (Mutex::new(self), nothing_kept()?);
        let follow = |lane: &Vec<Vec<&str>>| lane.iter().try_for_each(|args| follow(args, &kept, &tally));
        let failed: Vec<String> = std::thread::scope(|s| {
            let lanes: Vec<_> = lanes.iter().map(|lane| s.spawn(move || follow(lane))).collect();
            let ends = lanes.into_iter().filter_map(|lane| lane.join().ok()?.err());
            ends.map(|failure| failure.to_string()).collect()
        });
        if !failed.is_empty() {
            return Err(Failure(failed.join("\n")));
        }
        tally.into_inner().map_or_else(|e| e.into_inner().check(), |tally| tally.check())
    }

    /// Reads a line of libtest's output: `test NAME ... ignored, REASON`, or `test result: ok. 3 passed; ...`.
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            if count(counts, "filtered out") > 0 {
                self.unexplained.push(line.to_owned());
            }
            return;
        }
        let Some((name, reason)) = line.strip_prefix("test ").and_then(|l| l.split_once(" ... ignored"))
        else {
            return;
        };
        let test = reason.strip_prefix(", ").map(|reason| format!("{name}: {reason}"));
        match test {
            Some(test) if self.ignored.contains(&test) => (),
            Some(test) => self.ignored.push(test),
            None => self.unexplained.push(line.to_owned()),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        println!("{self}");
        if !self.unexplained.is_empty() {
            let lines = self.unexplained.join("\n");
            return Err(Failure(format!("tests were skipped without a reason:\n{lines}")));
        }
        if self.ignored.len() >= MOST_IGNORED {
            let many = self.ignored.len();
            return Err(Failure(format!("{many} tests are ignored, expected fewer than {MOST_IGNORED}")));
        }
        Ok(())
    }
}

/// An empty folder for what the programs of a run keep: tests compile many pipelines again and again, and a run compiles each of them once.
fn nothing_kept() -> Result<String, Failure> {
    let folder = artifacts("kept-by-tests")?;
    std::fs::remove_dir_all(&folder).map_err(|e| Failure(format!("{}: {e}", folder.display())))?;
    Ok(folder.to_string_lossy().into_owned())
}

/// Runs a cargo command, whose programs keep code in a folder; what a test program prints comes in one piece, when it ends.
fn follow(args: &[&str], kept: &str, tally: &Mutex<&mut Tally>) -> Result<(), Failure> {
    let mut piece = String::new();
    let done = cargo(args).env("SUMSQ_VERIFY", "1").env("SUMSQ_CACHE", kept).lines(|line| {
        piece = std::mem::take(&mut piece) + line + "\n";
        if line.starts_with("test result: ") {
            let mut tally = tally.lock().unwrap_or_else(|e| e.into_inner());
            piece.lines().for_each(|line| tally.read(line));
            println!("{}", std::mem::take(&mut piece));
        }
    });
    print!("{piece}");
    done
}

/// The number in front of a word in `ok. 3 passed; 0 failed; ...`.
fn count(counts: &str, word: &str) -> usize {
    let number = |part: &str| part.strip_suffix(word)?.trim().parse::<usize>().ok();
    counts.split([';', '.']).filter_map(|part| number(part.trim())).sum()
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tests passed, {} ignored", self.passed, self.ignored.len())?;
        self.ignored.iter().try_for_each(|test| write!(f, "\n  {test}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn counts_and_reasons() {
        let result =
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        let t = tally(&["test a::b ... ok", "test c ... ignored, full size", result, result]);
        assert_eq!((t.passed, &t.ignored[..]), (14, &["c: full size".to_owned()][..]));
        assert!(t.check().is_ok());
    }

    #[test]
    fn skips_without_a_reason_fail() {
        assert!(tally(&["test c ... ignored"]).check().is_err());
        assert!(
            tally(&["test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 4 filtered out"])
                .check()
                .is_err()
        );
        let many: Vec<String> = (0..MOST_IGNORED).map(|i| format!("test t{i} ... ignored, large")).collect();
        assert!(tally(&many.iter().map(String::as_str).collect::<Vec<_>>()).check().is_err());
    }
}
