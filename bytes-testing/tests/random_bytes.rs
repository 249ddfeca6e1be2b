//! Bytes that are nearly right: energy files, archives, meshes, schedules, choices. Each is answered by a value or a typed error, in time and
//! in bounded memory; never by a panic.
//!
//! `SUMSQ_FUZZ_CASES` sets how many inputs are tried, `SUMSQ_FUZZ_SEED` the first seed (to repeat one: its seed, and 1 case, which is then also
//! printed). `cargo xtask fuzz bytes` runs many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use sumsq::energy::Budgets;
use sumsq_bytes_testing::answer::answer;
use sumsq_bytes_testing::corpus::{Corpus, Input};
use sumsq_codegen_testing::rng::{Rng, setting};

/// Inputs of an ordinary test run.
const CASES: u64 = 2000;

/// No input takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// Bytes that this process may hold at most, over what it began with.
const MEMORY: u64 = 1 << 30;

#[test]
fn bytes_are_answered() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let corpus = Corpus::of_examples();
    let (mut accepted, mut refused, mut wrong) = (0, 0, Vec::new());
    let before = peak_memory();
    let (inputs, answers) = worker();
    for seed in first..first + cases {
        let input = corpus.input(&mut Rng::new(seed));
        if cases == 1 {
            println!("{input}");
        }
        inputs.send(input.clone()).expect("the worker runs");
        match answers.recv_timeout(LIMIT) {
            Ok(Ok(true)) => accepted += 1,
            Ok(Ok(false)) => refused += 1,
            Ok(Err(panic)) => {
                println!("seed {seed}: PANIC: {panic}\n{input}");
                wrong.push(format!("seed {seed}: panic: {panic}"));
            }
            // The worker cannot be stopped: nothing after this would mean anything.
            Err(RecvTimeoutError::Timeout) => panic!("seed {seed}: no answer within {LIMIT:?}\n{input}"),
            Err(e) => panic!("seed {seed}: {e}\n{input}"),
        }
        if peak_memory() > before + MEMORY {
            panic!("seed {seed}: more than {MEMORY} bytes of memory\n{input}");
        }
    }
    println!("{accepted} accepted, {refused} refused, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {cases} inputs are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases < 100 || (accepted > 0 && refused > 0), "{accepted} accepted, {refused} refused");
}

/// True if an input was accepted; else the text of a panic.
type Answer = Result<bool, String>;

/// A thread that answers inputs.
fn worker() -> (Sender<Input>, Receiver<Answer>) {
    let (to, inputs) = channel::<Input>();
    let (answers, from) = channel();
    std::thread::spawn(move || {
        for input in inputs {
            let read = || answer(input.kind, &input.bytes, Budgets::default());
            let answer = catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()
            });
            if answers.send(answer).is_err() {
                return;
            }
        }
    });
    (to, from)
}

/// Largest memory of this process so far, 0 where the system does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
