//! Mutations of files that are right, led by the code that they reach: libFuzzer's loop around the readers. `cargo xtask fuzz guided` builds
//! and runs it; given a file, it reads that one.
//!
//! | variable | |
//! |---|---|
//! | `SUMSQ_GUIDED` | the kind of bytes |
//! | `SUMSQ_GUIDED_CORPUS` | a folder that is filled with what is right, to begin with |
//! | `SUMSQ_GUIDED_BLIND` | if set, nothing is led: every input is a mutation of what is right, as in `random_bytes` |

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::path::Path;
use std::sync::OnceLock;
use sumsq_bytes_testing::answer::{answer, small};
use sumsq_bytes_testing::corpus::{Corpus, changed};
use sumsq_bytes_testing::{Kind, archive, mutate};
use sumsq_codegen_testing::rng::Rng;

struct Run {
    kind: Kind,
    corpus: Corpus,
    blind: bool,
}

static RUN: OnceLock<Run> = OnceLock::new();

fn run() -> &'static Run {
    RUN.get_or_init(|| {
        let name = std::env::var("SUMSQ_GUIDED").unwrap_or_default();
        let kind = Kind::named(&name).unwrap_or_else(|| panic!("SUMSQ_GUIDED={name} is no kind of bytes"));
        let blind = std::env::var_os("SUMSQ_GUIDED_BLIND").is_some();
        Run { kind, corpus: Corpus::of_examples(), blind }
    })
}

/// Writes what is right into the folder that libFuzzer then begins with.
fn begin() {
    let Some(folder) = std::env::var_os("SUMSQ_GUIDED_CORPUS") else { return };
    for (at, bytes) in run().corpus.right(run().kind).iter().enumerate() {
        let path = Path::new(&folder).join(format!("right-{at}"));
        std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

fuzz_target!(init: begin(), |bytes: &[u8]| {
    answer(run().kind, bytes, small());
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let (run, rng) = (run(), &mut Rng::new(seed.into()));
    let mutated = match run.kind {
        // Most inputs that reach something new are wrong, and what comes of them alone goes no deeper.
        kind if run.blind || rng.percent(50) => run.corpus.mutation(rng, kind),
        // libFuzzer's own: it knows which constants the code compares with.
        _ if rng.percent(25) => return fuzzer_mutate(data, size, most),
        Kind::Archive => members(rng, &data[..size], most),
        kind => {
            let other = run.corpus.other(rng, kind);
            changed(rng, &data[..size], &other)
        }
    };
    let size = mutated.len().min(most);
    data[..size].copy_from_slice(&mutated[..size]);
    size
});

/// An archive with one member changed, and checksums that are right again.
fn members(rng: &mut Rng, bytes: &[u8], most: usize) -> Vec<u8> {
    let mut members = archive::unzip(bytes);
    let whole = archive::contents(&members);
    if members.is_empty() {
        return mutate::bytes(rng, bytes, &whole);
    }
    let at = rng.below(members.len());
    match rng.below(8) {
        0 => drop(members.remove(at)),
        1 => members.push(members[at].clone()),
        2..=4 => archive::change(rng, &mut members[at], &whole),
        _ => {
            let content = &mut members[at].1;
            let size = content.len();
            content.resize(most.max(size), 0);
            let size = fuzzer_mutate(content, size, most.max(size));
            content.truncate(size);
        }
    }
    archive::zip(&members)
}
