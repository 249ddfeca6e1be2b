//! Bytes that are nearly right: energy files, archives, meshes, schedules, choices. Each is answered by a value or a typed error, in time and
//! in bounded memory; never by a panic.
//!
//! `SUMSQ_FUZZ_CASES` sets how many inputs are tried, `SUMSQ_FUZZ_SEED` the first seed (to repeat one: its seed, and 1 case, which is then also
//! printed). `cargo xtask fuzz bytes` runs many.

mod archive;
mod corpus;
mod mutate;

use corpus::{Corpus, Input};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use sumsq::codegen::Schedule;
use sumsq::energy::Energy;
use sumsq::{CompileOptions, Overrides, ProblemData};
use sumsq_codegen_testing::rng::Rng;
use sumsq_examples::io::Mesh;
use sumsq_examples::io::npz::Archive;

/// Inputs of an ordinary test run.
const CASES: u64 = 2000;

/// No input takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// Bytes that this process may hold at most, over what it began with.
const MEMORY: u64 = 1 << 30;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn bytes_are_answered() {
    let (first, cases) = (setting("SUMSQ_FUZZ_SEED", 1), setting("SUMSQ_FUZZ_CASES", CASES));
    let corpus = Corpus::new();
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
            let answer = catch_unwind(AssertUnwindSafe(|| answer(&input))).map_err(|panic| {
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

/// Tells whether an input is accepted. What is said of it is written out, too.
fn answer(input: &Input) -> bool {
    match input {
        Input::Energy(bytes, derive) => energy(&String::from_utf8_lossy(bytes), *derive),
        Input::Archive(bytes) => archive(bytes),
        Input::Ply(bytes) => said(Mesh::from_ply(bytes)).is_some(),
        Input::Obj(bytes) => said(Mesh::from_obj(bytes)).is_some(),
        Input::Schedule(bytes) => said(Schedule::parse(&String::from_utf8_lossy(bytes))).is_some(),
        Input::Choices(bytes) => said(String::from_utf8_lossy(bytes).parse::<Overrides>()).is_some(),
    }
}

fn said<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result.map_err(|e| e.to_string()).ok()
}

/// An energy that is accepted is also differentiated, now and then.
fn energy(text: &str, derive: bool) -> bool {
    let Some(energy) = said(Energy::from_text("input.t", text)) else { return false };
    if derive {
        said(CompileOptions::default().derive(energy));
    }
    true
}

/// An archive whose arrays are read, then bound.
fn archive(bytes: &[u8]) -> bool {
    let Some(archive) = said(Archive::of_bytes("input.npz".as_ref(), bytes.to_vec())) else { return false };
    for name in archive.names() {
        said(archive.shape(&name));
    }
    let Some(arrays) = said(archive.read_all()) else { return false };
    let energy = Energy::from_text("fixed.t", archive::ENERGY).expect("an energy that is right");
    said(ProblemData::bind(&energy, &arrays)).is_some()
}
