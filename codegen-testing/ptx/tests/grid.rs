//! Blocks that run together: barriers of the grid order what they do, whatever a barrier lacks is a race in every order of blocks and threads.

mod common;

use common::{Arg, Machine, kernel};
use sumsq_ptx::{Fault, LaunchError, Other};

const BLOCKS: u32 = 3;

/// Thread 0 of each block arrives, and waits until all have, `turn` times so far.
fn wait(turn: u32, blocks: u32) -> String {
    format!(
        "bar.sync 0;
setp.ne.u32 %p7, %r1, 0;
@%p7 bra W{turn};
fence.acq_rel.gpu;
red.relaxed.gpu.global.add.u32 [%rd1+16000], 1;
L{turn}: ld.acquire.gpu.global.b32 %r20, [%rd1+16000];
setp.lt.u32 %p6, %r20, {};
@%p6 bra L{turn};
fence.acq_rel.gpu;
W{turn}: bar.sync 0;",
        turn * blocks
    )
}

/// Each thread writes its number; reads that of the next block's thread; writes the sum of both where its own was.
fn exchange(threads: u32, first: &str, second: &str) -> String {
    let words = threads * BLOCKS;
    kernel(
        threads,
        "",
        &format!(
            "add.s64 %rd20, %rd2, %rd3;
add.s32 %r10, %r3, {threads};
rem.u32 %r10, %r10, {words};
mul.wide.u32 %rd14, %r10, 4;
add.s64 %rd21, %rd2, %rd14;
st.global.b32 [%rd20], %r3;
{first}
ld.global.b32 %r11, [%rd21];
{second}
add.s32 %r12, %r11, %r3;
st.global.b32 [%rd20], %r12;"
        ),
    )
}

/// Numbers that a kernel leaves, or its fault, in every order.
fn outcomes(threads: u32, text: &str) -> Vec<Result<Vec<u32>, LaunchError>> {
    let run = |order| {
        let mut m = Machine::new(text);
        let (a, b) = (m.upload_u32(&[0; 4096]), m.upload_u32(&[7000; 4096]));
        m.launch_together("k", BLOCKS, threads, &[Arg::Pointer(a), Arg::Pointer(b)], order)?;
        Ok(m.download_u32(b, (threads * BLOCKS) as usize))
    };
    common::ORDERS.into_iter().map(run).collect()
}

fn passes(threads: u32, text: &str) {
    let n = threads * BLOCKS;
    for found in outcomes(threads, text) {
        let found = found.unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!((0..n).all(|i| found[i as usize] == i + (i + threads) % n), "{found:?}");
    }
}

/// A race between blocks in every order.
#[track_caller]
fn races(threads: u32, text: &str) {
    for found in outcomes(threads, text) {
        match found {
            Err(LaunchError { fault: Fault::Race { .. }, .. }) => {}
            other => panic!("{other:?}\n{text}"),
        }
    }
}

#[test]
fn barriers_of_the_grid_order_blocks() {
    for threads in [1, 32, 64] {
        passes(threads, &exchange(threads, &wait(1, BLOCKS), &wait(2, BLOCKS)));
    }
}

#[test]
fn a_barrier_that_is_missing_is_a_race() {
    for threads in [1, 64] {
        let [first, second] = [1, 2].map(|turn| wait(turn, BLOCKS));
        races(threads, &exchange(threads, "", &wait(1, BLOCKS)));
        races(threads, &exchange(threads, &first, ""));
        races(threads, &exchange(threads, &first, "bar.sync 0;"));
        races(threads, &exchange(threads, "", ""));
        // One block is not waited for.
        races(threads, &exchange(threads, &wait(1, BLOCKS).replace("%r20, 3;", "%r20, 2;"), &second));
    }
}

#[test]
fn every_part_of_a_barrier_is_needed() {
    let [first, second] = [1, 2].map(|turn| wait(turn, BLOCKS));
    let with = |text: &str| exchange(64, text, &second);
    // Other threads do not wait for the one that arrives, or not for the one that waits.
    races(64, &with(first.strip_prefix("bar.sync 0;").unwrap()));
    races(64, &with(first.strip_suffix("bar.sync 0;").unwrap()));
    for threads in [1, 64] {
        let with = |text: &str| exchange(threads, text, &second);
        // Nothing is released; nothing is acquired.
        races(threads, &with(&first.replacen("fence.acq_rel.gpu;", "", 1)));
        let relaxed = first.replace("ld.acquire.gpu", "ld.relaxed.gpu");
        let (before, _) = relaxed.rsplit_once("fence.acq_rel.gpu;").unwrap();
        races(threads, &with(&format!("{before}W1: bar.sync 0;")));
        // A fence behind the read does as well, and a fence of the block does not.
        passes(threads, &with(&relaxed));
        races(threads, &with(&relaxed.replace("fence.acq_rel.gpu", "fence.acq_rel.cta")));
        // Orders that the instructions themselves have.
        let whole = first.replace("fence.acq_rel.gpu;", "").replace("red.relaxed", "red.release");
        passes(threads, &with(&whole));
    }
}

#[test]
fn what_one_block_has_waited_for_it_passes_on() {
    // All arrive at the first block, which lets all go on.
    let tree = "bar.sync 0;
setp.ne.u32 %p7, %r1, 0;
@%p7 bra W;
fence.acq_rel.gpu;
red.relaxed.gpu.global.add.u32 [%rd1+16000], 1;
setp.ne.u32 %p5, %r2, 0;
@%p5 bra F;
L: ld.acquire.gpu.global.b32 %r20, [%rd1+16000];
setp.lt.u32 %p6, %r20, 3;
@%p6 bra L;
st.release.gpu.global.b32 [%rd1+16004], 1;
F: ld.acquire.gpu.global.b32 %r20, [%rd1+16004];
setp.eq.u32 %p6, %r20, 0;
@%p6 bra F;
W: bar.sync 0;";
    for threads in [1, 64] {
        let [first, second] = [tree.to_string(), wait(1, BLOCKS).replace("16000", "16008")];
        passes(threads, &exchange(threads, &first, &second));
        races(threads, &exchange(threads, &first.replace("st.release", "st.relaxed"), &second));
        // All may have come all the same; where they have not, it shows.
        let few = outcomes(threads, &exchange(threads, &first.replace("%r20, 3;", "%r20, 1;"), &second));
        assert!(few.iter().any(|found| matches!(found, Err(LaunchError { fault: Fault::Race { .. }, .. }))));
    }
}

#[test]
fn constant_memory_does_not_change_behind_a_barrier_either() {
    let text = exchange(64, &wait(1, BLOCKS), &wait(2, BLOCKS));
    let text = text.replace("ld.global.b32 %r11", "ld.global.nc.b32 %r11");
    for found in outcomes(64, &text) {
        assert!(matches!(found, Err(LaunchError { fault: Fault::NotConstant { .. }, .. })), "{found:?}");
    }
}

#[test]
fn a_race_names_both_places() {
    let text = exchange(64, "", &wait(1, BLOCKS));
    let line = |part: &str| text.lines().position(|l| l.contains(part)).unwrap() as u32 + 1;
    let lines = [line("st.global.b32 [%rd20], %r3"), line("ld.global.b32 %r11")];
    for found in outcomes(64, &text) {
        let error = found.unwrap_err();
        let Fault::Race { other: Other::Block { block, thread }, line, .. } = error.fault else {
            panic!("{error}")
        };
        assert!(lines.contains(&line) && lines.contains(&error.line) && line != error.line, "{error}");
        // A thread reads what that with its number in the next block has written.
        assert_eq!(thread, error.thread.0[0]);
        let next = |block: u32| (block + 1) % BLOCKS;
        let (own, other) = (error.block.0[0], block.0[0]);
        assert!(if line == lines[0] { other == next(own) } else { own == next(other) }, "{error}");
        let end = format!(" by thread {thread} of block ({other}, 0, 0), line {line}");
        assert!(error.to_string().ends_with(&end), "{error}");
    }
}
