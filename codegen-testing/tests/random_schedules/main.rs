//! Random pipelines under random schedules, against the reference evaluator.
//!
//! Integers and floats must agree to the bit, on any number of threads; sums whose order a schedule changes, and relaxed code,
//! within the bound of their number of terms and magnitudes. A schedule may be refused with a typed error, never with
//! anything else; what a run refuses is checked as well. Each case runs twice: its lowered statements on checked memory, and as machine code, of which LLVM optimises one in
//! [`OPTIMISED`]. One in [`NESTS`] also runs as loop nests on checked memory, one in [`AHEAD`] as a C program that links what is compiled ahead of
//! time. A case that fails is
//! made smaller and printed as the text of its program. `SUMSQ_FUZZ_CASES` sets how many cases run, `SUMSQ_FUZZ_SEED` the
//! first seed (to repeat one case: its seed, and 1 case, which is then also printed), `SUMSQ_FUZZ_STATS=1` prints in how many cases
//! each directive and feature got its turn. `cargo xtask fuzz` runs many.

mod ahead;
mod refusals;
mod run;
mod shrink;
mod stats;

use run::{Outcome, run};
use sumsq_codegen::{Directive, ScalarType, Tail};
use sumsq_codegen_testing::random::program::{Case, Executors};
use sumsq_codegen_testing::random::refused::drop_refused;
use sumsq_codegen_testing::random::simpler::is_read;
use sumsq_codegen_testing::random::{differentiable, program, schedules};
use sumsq_codegen_testing::reference::Value;
use sumsq_codegen_testing::rng::{Rng, setting};

/// Cases of an ordinary test run.
const CASES: u64 = 100;
/// One case in as many is compiled ahead of time, too.
const AHEAD: u64 = 20;
/// One in as many also runs as nests.
const NESTS: u64 = 4;
/// The machine code of one in as many is optimised.
const OPTIMISED: u64 = 3;
/// Gradients of an ordinary test run.
const GRADIENTS: u64 = 4;

/// A case's outcome, and what was refused on the way to it.
struct Settled {
    outcome: Outcome,
    refused: u64,
    /// Of the refusals, those by runs.
    by_run: u64,
    /// Of the refusals by runs, those whose reason was seen.
    seen: u64,
}

/// Runs a case. What is refused is dropped, so that the rest of the schedule gets its turn; where that is too large, the domains are halved.
fn settled(case: &mut Case) -> Settled {
    let (mut refused, mut by_run, mut seen) = (0, 0, 0);
    let mut expected = None;
    loop {
        let outcome = run(case, &mut expected);
        let again = match &outcome {
            Outcome::Refused(error) | Outcome::RefusedByRun(error, _) => {
                refused += 1;
                if let Outcome::RefusedByRun(_, known) = &outcome {
                    by_run += 1;
                    seen += *known as u64;
                }
                println!("  refused: {error}");
                drop_refused(case, error)
            }
            Outcome::TooLarge => {
                expected = None;
                halve(case)
            }
            Outcome::Same | Outcome::Wrong(_) => false,
        };
        if !again {
            return Settled { outcome, refused, by_run, seen };
        }
    }
}

/// Halves the outputs in all dimensions, but one in an input's place, which has its size, and one that another Func reads, as far as it goes. False
/// where none gets smaller. Sizes that the schedule promises go, since they do not hold any more.
fn halve(case: &mut Case) -> bool {
    let fixed = |o: &str| case.in_place.contains_key(o) || is_read(&case.pipeline, o);
    let fixed: Vec<bool> = case.pipeline.outputs.iter().map(|o| fixed(&o.func)).collect();
    let own = case.domains.iter_mut().zip(fixed).filter(|(_, fixed)| !fixed).flat_map(|(domain, _)| domain);
    let mut halved = false;
    for (_, extent) in own.filter(|(_, extent)| *extent > 1) {
        *extent /= 2;
        halved = true;
    }
    let promises = |d: &Directive| matches!(d, Directive::Bound { .. });
    case.schedule.stages.values_mut().for_each(|all| all.retain(|d| !promises(d)));
    halved
}

#[test]
fn schedules_do_not_change_results() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let (mut same, mut refused, mut large, mut wrong) = (0, 0, 0, vec![]);
    let (mut by_run, mut seen) = (0, 0);
    let mut stats = stats::Stats::default();
    for seed in first..first + cases {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut case = program::program(&mut rng);
        schedules::schedule(&mut rng, &mut case);
        let every = |n| seed % n == 0 || cases == 1;
        case.by = Executors { ahead: every(AHEAD), nests: every(NESTS), optimised: every(OPTIMISED) };
        if cases == 1 {
            println!("{}", shrink::text(&case));
        }
        let settled = settled(&mut case);
        refused += settled.refused;
        by_run += settled.by_run;
        seen += settled.seen;
        match settled.outcome {
            Outcome::Same => {
                same += 1;
                stats.count(&case);
            }
            Outcome::Refused(error) | Outcome::RefusedByRun(error, _) => {
                wrong.push(format!("seed {seed}: no schedule at all is refused: {error}"))
            }
            // Such as everything computed again for every element of something else.
            Outcome::TooLarge => large += 1,
            Outcome::Wrong(message) => {
                println!("  WRONG: {message}\n{}", shrink::text(&case));
                case.by.nests = true;
                let (small, message) = shrink::shrink(&case);
                let text = format!("seed {seed}: {message}\n{}", shrink::text(&small));
                println!("  SMALLER: {text}");
                wrong.push(text);
            }
        }
    }
    if setting("SUMSQ_FUZZ_STATS", 0) > 0 {
        stats.print();
    }
    println!("{same} the same, {refused} refusals, {large} too large, {} wrong", wrong.len());
    println!("{by_run} refusals by runs, the reasons of {seen} seen");
    assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let missing = stats.missing();
    assert!(cases < 1000 || missing.is_empty(), "no case of {cases} used {missing:?}");
    assert!(large * 50 <= cases.max(50), "{large} of {cases} cases are too large");
    assert!(by_run < 20 || seen > 0, "of {by_run} refusals by runs, the reason of none was seen");
    assert!(
        cases < 20 || refused < 3 * cases,
        "nearly everything is refused: {refused} refusals in {cases} cases"
    );
}

/// Adjoints are pipelines like any other: what holds of those holds of them.
#[test]
fn schedules_do_not_change_gradients() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_GRADIENTS", GRADIENTS));
    let (mut same, mut wrong) = (0, vec![]);
    for seed in first..first + cases {
        println!("gradient of seed {seed}");
        let every = seed.is_multiple_of(2).then_some(2);
        let (mut pipeline, mut bindings, domains) =
            differentiable::drawn(seed).adjoint_keeping(every).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        // An integer parameter, of which schedules make conditions.
        pipeline.param("scale", ScalarType::I32);
        bindings.params.insert("scale".into(), Value::Int(2));
        let mut case = program::Case { pipeline, bindings, domains, ..program::Case::default() };
        schedules::schedule(&mut Rng::new(seed), &mut case);
        // Seeds are read up to their ends: what computes more than is needed would read beyond.
        for d in case.schedule.stages.values_mut().flatten() {
            if let Directive::Split { tail, .. } = d
                && *tail == Tail::RoundUp
            {
                *tail = Tail::GuardWithIf;
            }
        }
        for all in case.schedule.stages.values_mut() {
            all.retain(|d| !matches!(d, Directive::Bound { .. } | Directive::AlignBounds { .. }));
        }
        match settled(&mut case).outcome {
            Outcome::Same => same += 1,
            Outcome::TooLarge => {}
            Outcome::Refused(error) | Outcome::RefusedByRun(error, _) => {
                wrong.push(format!("seed {seed}: no schedule at all is refused: {error}"))
            }
            Outcome::Wrong(message) => wrong.push(format!("seed {seed}: {message}\n{}", case.schedule)),
        }
    }
    println!("{same} of {cases} gradients the same");
    assert!(wrong.is_empty(), "{} of {cases} gradients are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(2 * same >= cases, "most are too large: {same} of {cases} ran");
}
