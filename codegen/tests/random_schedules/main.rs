//! Random pipelines under random schedules, against the reference evaluator.
//!
//! Integers and floats must agree to the bit, on any number of threads; sums whose order a schedule changes (rfactor)
//! within the bound of their number of terms and magnitudes. A schedule may be refused with a typed error, never with
//! anything else. Each case runs twice: its lowered statements on checked memory, and as machine code. A case that fails is
//! made smaller and printed as the text of its program. `SUMSQ_FUZZ_CASES` sets how many cases run, `SUMSQ_FUZZ_SEED` the
//! first seed (to repeat one case: its seed, and 1 case, which is then also printed). `cargo xtask fuzz` runs many.

// Checked memory, shared with the tests of lowering.
#[allow(dead_code)]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../common/native.rs"]
mod native;
mod program;
mod rng;
mod run;
mod schedules;
mod shrink;
#[path = "../common/smaller.rs"]
mod smaller;

use rng::Rng;
use run::{Outcome, run};

/// Cases of an ordinary test run.
const CASES: u64 = 100;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn schedules_do_not_change_results() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let (mut same, mut refused, mut wrong) = (0, 0, vec![]);
    for seed in first..first + cases {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut case = program::program(&mut rng);
        schedules::schedule(&mut rng, &mut case);
        if cases == 1 {
            println!("{}", shrink::text(&case));
        }
        let mut outcome = run(&case);
        // What is refused is dropped, so that the rest of the schedule gets its turn.
        while let Outcome::Refused(error) = &outcome {
            refused += 1;
            println!("  refused: {error}");
            if !drop_refused(&mut case, error) {
                break;
            }
            outcome = run(&case);
        }
        match outcome {
            Outcome::Same => same += 1,
            Outcome::Refused(error) => {
                wrong.push(format!("seed {seed}: no schedule at all is refused: {error}"))
            }
            Outcome::TooLarge => wrong.push(format!("seed {seed}: a region of millions of elements")),
            Outcome::Wrong(message) => {
                println!("  WRONG: {message}\n{}", shrink::text(&case));
                let (small, message) = shrink::shrink(&case);
                wrong.push(format!("seed {seed}: {message}\n{}", shrink::text(&small)));
            }
        }
    }
    println!("{same} the same, {refused} refusals, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        cases < 20 || refused < 3 * cases,
        "nearly everything is refused: {refused} refusals in {cases} cases"
    );
}

/// Drops the directives of the stage that an error names, or all; false if there are none left.
fn drop_refused(case: &mut program::Case, error: &sumsq_codegen::Error) -> bool {
    let stages = &mut case.schedule.stages;
    let sumsq_codegen::Error::Schedule { func, .. } = error else { return false };
    let before = stages.values().map(Vec::len).sum::<usize>();
    // Errors of late passes name a loop, such as `f.s0.xi`.
    stages.retain(|s, _| s.to_string() != *func && !func.starts_with(&format!("{}.s{}.", s.func, s.stage)));
    if stages.values().map(Vec::len).sum::<usize>() == before {
        stages.clear();
    }
    before > 0
}
