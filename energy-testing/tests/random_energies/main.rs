//! Random energies, as text through the whole front end, against an interpreter that shares nothing with it.
//!
//! Every energy goes through the assembled path: each residual, J, E, J^T r, diag(J^T J), J^T J v, the bounds. One in [`COMPILED`] also becomes
//! machine code, in a random precision, with random choices of storage, and is solved. A case that fails is made smaller and
//! printed as the text of its energy. `SUMSQ_FUZZ_CASES` sets how many cases run, `SUMSQ_FUZZ_COMPILED` which of them are compiled, `SUMSQ_FUZZ_SEED` the first seed (to repeat one case: its seed, and 1 case, which is then also printed). `cargo xtask
//! fuzz energies` runs many.

mod alive;
mod compiled;
mod generate;
mod run;
mod shrink;

use alive::is_alive_everywhere;
use compiled::compiled;
use run::{Outcome, assembled, caught};
use sumsq_energy_testing::case::Case;

/// Cases of an ordinary test run.
const CASES: u64 = 300;

/// One case in as many is compiled.
const COMPILED: u64 = 20;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// Seeds of cases that once came out otherwise: points on the cut of `atan2`, and what they decide; slopes whose terms cancel; the last two,
/// tests of bounds in one channel of what vanishes.
const ONCE_WRONG: [u64; 12] =
    [11818, 12220, 12524, 12826, 13918, 13961, 14419, 14490, 14927, 501_452, 617_163, 657_494];

/// The same since losses are formulas, too: slopes of `tanh` near 1, which cancel; a scale that folds, so that it reads nothing.
const ONCE_WRONG_SINCE: [u64; 3] = [757_063, 758_605, 761_393];

/// The same of what is compiled: weights that float32 has no numbers for.
const ONCE_WRONG_COMPILED: [u64; 2] = [910_338, 910_458];

/// Outcomes of all cases.
#[derive(Default)]
struct Tally {
    same: u64,
    compiled: u64,
    /// Residuals, and those that were finite.
    rows: usize,
    judged: usize,
    refused: u64,
    wrong: Vec<String>,
}

impl Tally {
    /// Returns true if the case is right.
    fn take(&mut self, seed: u64, case: &Case, run: impl Fn(&Case) -> Outcome) -> bool {
        let started = std::time::Instant::now();
        let outcome = caught(|| run(case));
        let seconds = started.elapsed().as_secs_f64();
        if seconds > 30.0 {
            println!("seed {seed}: SLOW: {seconds:.0} s\n{}", case.text());
        }
        match outcome {
            Outcome::Same { rows, judged } => {
                self.rows += rows;
                self.judged += judged;
                true
            }
            Outcome::Refused(why) => {
                self.refused += 1;
                println!("seed {seed}: refused: {why}");
                false
            }
            Outcome::Wrong(why) => {
                println!("seed {seed}: WRONG: {why}\n{}", case.text());
                let fails = |c: &Case| {
                    is_alive_everywhere(c)
                        && matches!(caught(|| run(c)), Outcome::Wrong(now) if subject(&now) == subject(&why))
                };
                let small = shrink::shrink(case, fails);
                let Outcome::Wrong(now) = caught(|| run(&small)) else { unreachable!("it failed just now") };
                let text =
                    format!("seed {seed}: {now}\n{}{:?} {:?}", small.text(), small.extents, small.fields);
                println!("{text}");
                self.wrong.push(text);
                false
            }
        }
    }
}

/// The subject of a failure: its words up to the first number or name.
fn subject(why: &str) -> &str {
    why.split(|c: char| c.is_ascii_digit() || "[:`,".contains(c)).next().unwrap_or_default()
}

#[test]
fn energies_mean_what_the_language_says() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let compile_every = setting("SUMSQ_FUZZ_COMPILED", COMPILED);
    let mut tally = Tally::default();
    for seed in first..first + cases {
        let case = generate::case(seed);
        if cases == 1 {
            println!("{}", case.text());
        }
        if !tally.take(seed, &case, assembled) {
            continue;
        }
        tally.same += 1;
        if seed % compile_every == 0 || cases == 1 {
            tally.compiled += u64::from(tally.take(seed, &case, |c| compiled(c, seed)));
        }
        if (seed - first + 1) % 1000 == 0 {
            println!("{} cases, {} wrong", seed - first + 1, tally.wrong.len());
        }
    }
    let Tally { same, compiled, rows, judged, refused, wrong } = tally;
    println!(
        "{same} the same, {compiled} of them compiled; {judged} of {rows} residuals finite; {refused} refused, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused * 100 <= cases, "{refused} of {cases} cases are refused");
}

#[test]
fn what_was_wrong_stays_right() {
    let plain = ONCE_WRONG.map(|seed| (seed, generate::plain(seed)));
    let since = ONCE_WRONG_SINCE.map(|seed| (seed, generate::case(seed)));
    for (seed, case) in plain.iter().chain(&since) {
        assert!(Tally::default().take(*seed, case, assembled), "seed {seed}");
    }
    for seed in ONCE_WRONG_COMPILED {
        let run = |c: &Case| compiled(c, seed);
        assert!(Tally::default().take(seed, &generate::case(seed), run), "seed {seed}");
    }
}
