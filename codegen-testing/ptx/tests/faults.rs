//! Planted defects: each check must see its own, in every order of threads, and nothing in the same kernel without it.

mod common;

use common::{Arg, Machine, kernel, outcome};
use sumsq_ptx::{Area, Fault, LoadError, Memory, Missing, Module, Order, Other, Refusal};

/// Shared memory of 64 words.
const SHARED: &str = ".shared .align 4 .b8 s[256];";

/// `%rd10` is the thread's own word of shared memory, `%rd11` that of its neighbour.
const OWN_AND_NEIGHBOUR: &str = "mov.b64 %rd12, s;
mul.wide.u32 %rd13, %r1, 4;
add.s64 %rd10, %rd12, %rd13;
xor.b32 %r10, %r1, 1;
mul.wide.u32 %rd14, %r10, 4;
add.s64 %rd11, %rd12, %rd14;
add.s64 %rd20, %rd2, %rd3;
add.s64 %rd21, %rd1, %rd3;";

fn run(threads: u32, blocks: u32, body: &str) -> Result<Vec<u32>, Fault> {
    outcome(threads, blocks, SHARED, &format!("{OWN_AND_NEIGHBOUR}\n{body}"))
}

/// The fault of a body that has one.
fn fault(threads: u32, blocks: u32, body: &str) -> Fault {
    run(threads, blocks, body).expect_err("a fault was planted")
}

#[test]
fn exchange_through_shared_memory_needs_a_barrier() {
    let with =
        "st.shared.b32 [%rd10], %r1; bar.sync 0; ld.shared.b32 %r11, [%rd11]; st.global.b32 [%rd20], %r11;";
    let out = run(64, 2, with).unwrap();
    assert!((0..128).all(|i| out[i] == (i as u32 % 64) ^ 1));
    let without = with.replace("bar.sync 0;", "");
    // A thread that comes first reads what was never written, one that comes second races.
    let text = kernel(64, SHARED, &format!("{OWN_AND_NEIGHBOUR}\n{without}"));
    for order in common::ORDERS {
        let mut m = Machine::new(&text);
        let (a, b) = (m.upload_u32(&[0; 256]), m.unwritten(4096));
        let e = m.launch("k", 2, 64, &[Arg::Pointer(a), Arg::Pointer(b)], order).unwrap_err();
        assert!(matches!(e.fault, Fault::Unwritten { area: Area::Shared, .. } | Fault::Race { .. }), "{e}");
    }
    // Written before, it is a race in any order.
    let earlier = format!("st.shared.b32 [%rd10], 0; bar.sync 0; {without}");
    assert!(matches!(
        fault(64, 2, &earlier),
        Fault::Race { area: Area::Shared, other: Other::Thread(_), .. }
    ));
}

#[test]
fn memory_used_again_needs_a_second_barrier() {
    let body = "st.shared.b32 [%rd10], %r1; bar.sync 0; ld.shared.b32 %r11, [%rd11]; bar.sync 0;
st.shared.b32 [%rd10], %r11; bar.sync 0; ld.shared.b32 %r12, [%rd11]; st.global.b32 [%rd20], %r12;";
    assert!((0..64).all(|i| run(64, 1, body).unwrap()[i] == i as u32));
    let without = body.replacen("%rd11]; bar.sync 0;", "%rd11];", 1);
    assert!(matches!(fault(64, 1, &without), Fault::Race { area: Area::Shared, .. }));
}

#[test]
fn a_barrier_is_reached_by_all() {
    let divergent = "setp.lt.u32 %p1, %r1, 40; @%p1 bra L; bar.sync 0; L: st.global.b32 [%rd20], %r1;";
    assert!(matches!(fault(64, 1, divergent), Fault::Barrier { reason: Missing::Ended, .. }));
    let early = "setp.eq.u32 %p1, %r1, 63; @%p1 ret; bar.sync 0; st.global.b32 [%rd20], %r1;";
    assert!(matches!(fault(64, 1, early), Fault::Barrier { missing: 63, reason: Missing::Ended }));
    // Lanes of one warp at two barriers; warps at two barriers are fine.
    let two = |lanes: u32| {
        format!(
            "setp.lt.u32 %p1, %r1, {lanes}; @%p1 bra L; bar.sync 0; bra.uni E; L: bar.sync 0; E: st.global.b32 [%rd20], %r1;"
        )
    };
    assert!(matches!(fault(64, 1, &two(16)), Fault::Barrier { reason: Missing::Elsewhere(_), .. }));
    run(64, 1, &two(32)).unwrap();
}

#[test]
fn blocks_may_not_meet_in_global_memory() {
    // All threads write one word, each its own number.
    assert!(matches!(
        fault(32, 1, "st.global.b32 [%rd2], %r1;"),
        Fault::Race { other: Other::Thread(_), .. }
    ));
    assert!(matches!(
        fault(1, 2, "st.global.b32 [%rd2], %r2;"),
        Fault::Race { area: Area::Global, other: Other::Block { .. } | Other::Blocks, .. }
    ));
    // The same value is none.
    assert_eq!(run(32, 4, "st.global.b32 [%rd2], 7;").unwrap()[0], 7);
    // One block reads what another writes; no barrier orders them.
    let across = "setp.eq.u32 %p1, %r2, 0; @%p1 st.global.b32 [%rd1], 5; bar.sync 0; ld.global.b32 %r11, [%rd1]; st.global.b32 [%rd20], %r11;";
    assert!(matches!(fault(1, 2, across), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
    assert_eq!(run(1, 1, across).unwrap()[0], 5);
}

#[test]
fn readers_are_not_forgotten() {
    // Thread 0 reads a word, then all others do, then thread 0 writes it: another reader was there.
    let lanes = "ld.global.b32 %r11, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 st.global.b32 [%rd1], 5; st.global.b32 [%rd20], %r11;";
    assert!(matches!(fault(32, 1, lanes), Fault::Race { .. }));
    // Two warps: the last that read may be the one that writes.
    assert!(matches!(fault(64, 1, lanes), Fault::Race { .. }));
    // Two blocks, a barrier between the block's own read and write.
    let blocks = "ld.global.b32 %r11, [%rd1]; bar.sync 0; setp.eq.u32 %p1, %r3, 1; @%p1 st.global.b32 [%rd1], 5; st.global.b32 [%rd20], %r11;";
    assert!(matches!(fault(1, 2, blocks), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
    assert!(run(64, 1, &blocks.replace("%r3, 1", "%r3, 63")).is_ok());
}

#[test]
fn sums_of_many_need_atomics() {
    let plain = "ld.global.b32 %r11, [%rd1+400]; add.s32 %r11, %r11, 1; st.global.b32 [%rd1+400], %r11; st.global.b32 [%rd20], 0;";
    assert!(matches!(fault(64, 1, plain), Fault::Race { .. }));
    assert!(matches!(fault(1, 8, plain), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
    for atomic in ["red.global.add.u32 [%rd1+400], 1;", "atom.global.add.u32 %r11, [%rd1+400], 1;"] {
        run(64, 8, atomic).unwrap();
    }
    // One thread that does without is enough.
    let mixed = "setp.eq.u32 %p1, %r3, 5; @%p1 bra L; red.global.add.u32 [%rd1+400], 1; ret; L: ld.global.b32 %r11, [%rd1+400]; st.global.b32 [%rd1+400], %r11;";
    assert!(matches!(fault(64, 1, mixed), Fault::Race { .. }));
    assert!(matches!(fault(1, 8, mixed), Fault::Race { .. }));
    // Atomic to the block alone does not help against other blocks.
    let narrow = "red.relaxed.cta.global.add.u32 [%rd1+400], 1;";
    run(64, 1, narrow).unwrap();
    assert!(matches!(fault(1, 2, narrow), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
    // A plain access that a barrier orders before an atomic one of the block still meets the other block's.
    let hidden = "st.global.b32 [%rd1+400], 0; bar.sync 0; red.global.add.u32 [%rd1+400], 1;";
    run(1, 1, hidden).unwrap();
    assert!(matches!(fault(1, 2, hidden), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
}

#[test]
fn a_plain_read_is_not_hidden_by_an_atomic_one() {
    // The first block reads plainly, the second atomically, the third writes atomically.
    let body = "setp.eq.u32 %p1, %r2, 0;
setp.eq.u32 %p2, %r2, 1;
setp.eq.u32 %p3, %r2, 2;
@%p1 ld.global.b32 %r11, [%rd1];
@%p2 ld.relaxed.gpu.global.b32 %r11, [%rd1];
@%p3 st.relaxed.gpu.global.b32 [%rd1], 7;";
    assert!(matches!(fault(1, 3, body), Fault::Race { other: Other::Block { .. } | Other::Blocks, .. }));
    run(1, 3, &body.replace("ld.global", "ld.acquire.gpu.global")).unwrap();
}

#[test]
fn loops_of_comparison_and_swap_are_atomic() {
    // As LLVM writes an atomic maximum of singles: a plain load, then swaps until one succeeds.
    let with = "cvt.rn.f32.u32 %f1, %r3;
ld.global.b32 %r11, [%rd1+400];
L: max.f32 %r12, %r11, %f1;
atom.relaxed.gpu.global.cas.b32 %r13, [%rd1+400], %r11, %r12;
setp.ne.b32 %p1, %r13, %r11;
mov.b32 %r11, %r13;
@%p1 bra L;";
    run(64, 4, with).unwrap();
    // The same load for another purpose is none.
    let other = with.replace("ld.global.b32 %r11", "ld.global.b32 %r15, [%rd1+400]; ld.global.b32 %r11");
    assert!(matches!(fault(64, 4, &other), Fault::Race { .. }));
}

#[test]
fn halves_of_words_are_swapped_with_what_lies_beside_them() {
    // As LLVM writes an atomic sum of 16 bits.
    let with = "st.global.b16 [%rd2], 1;
ld.global.b32 %r11, [%rd2];
L: add.s32 %r12, %r11, 1;
atom.relaxed.gpu.global.cas.b32 %r13, [%rd2], %r11, %r12;
setp.ne.b32 %p1, %r13, %r11;
mov.b32 %r11, %r13;
@%p1 bra L;";
    run(1, 1, &format!("{with} st.global.b16 [%rd2+2], 0;")).unwrap();
    // What lies beside is as unwritten as before, and so is a word of which nothing is written.
    let beside = format!("{with} ld.global.b16 %rs1, [%rd2+2];");
    assert!(matches!(fault(1, 1, &beside), Fault::Unwritten { .. }));
    assert!(matches!(fault(1, 1, &with.replace("st.global.b16 [%rd2], 1;", "")), Fault::Unwritten { .. }));
}

#[test]
fn a_threads_own_memory_holds_poison() {
    // As LLVM loads both of two values, and selects one.
    let read = ".local .align 8 .b8 d[16]; mov.b64 %rd15, d; st.local.b32 [%rd15], 7; ld.local.b32 %r11, [%rd15]; ld.local.b32 %r12, [%rd15+4];";
    let out = run(
        2,
        1,
        &format!(
            "{read} setp.eq.u32 %p1, %r1, 0; selp.b32 %r11, %r11, %r12, %p1; st.global.b32 [%rd20], %r11;"
        ),
    );
    assert_eq!(out.unwrap()[..2], [7, u32::MAX]);
}

#[test]
fn neighbouring_bytes_are_no_race() {
    let bytes = "cvt.u64.u32 %rd15, %r3; add.s64 %rd16, %rd2, %rd15; cvt.u16.u32 %rs1, %r1; st.global.b8 [%rd16], %rs1;";
    run(64, 2, bytes).unwrap();
    // A word over them is one.
    let word = format!("{bytes} setp.eq.u32 %p1, %r1, 5; @%p1 st.global.b32 [%rd2], 9;");
    assert!(matches!(fault(64, 1, &word), Fault::Race { .. }));
}

#[test]
fn a_warp_orders_its_lanes_by_its_own_barrier() {
    let with = "st.shared.b32 [%rd10], %r1; bar.warp.sync -1; ld.shared.b32 %r11, [%rd11]; st.global.b32 [%rd20], %r11;";
    assert!((0..64).all(|i| run(64, 1, with).unwrap()[i] == i as u32 ^ 1));
    let before = format!("st.shared.b32 [%rd10], 0; bar.sync 0; {}", with.replace("bar.warp.sync -1;", ""));
    assert!(matches!(fault(64, 1, &before), Fault::Race { area: Area::Shared, .. }));
    // It does not order two warps.
    let across = format!("st.shared.b32 [%rd10], 0; bar.sync 0; {}", with.replace("[%rd11]", "[%rd12]"));
    assert!(matches!(fault(64, 1, &across), Fault::Race { area: Area::Shared, .. }));
    assert!(run(32, 1, &across).is_ok());
}

#[test]
fn lanes_that_are_named_arrive() {
    let shuffle = "shfl.sync.bfly.b32 %r11, %r1, 1, 31, -1; st.global.b32 [%rd20], %r11;";
    run(64, 1, shuffle).unwrap();
    let ended = format!("setp.eq.u32 %p1, %r1, 9; @%p1 ret; {shuffle}");
    assert!(matches!(fault(32, 1, &ended), Fault::Lanes { missing: 9, reason: Missing::Ended, .. }));
    let at_barrier = format!("setp.eq.u32 %p1, %r1, 9; @%p1 bra L; {shuffle} L: bar.sync 0;");
    assert!(matches!(
        fault(32, 1, &at_barrier),
        Fault::Lanes { missing: 9, reason: Missing::Elsewhere(_), .. }
    ));
    let two_places = format!("setp.lt.u32 %p1, %r1, 9; @%p1 bra L; {shuffle} ret; L: {shuffle}");
    assert!(matches!(fault(32, 1, &two_places), Fault::Lanes { .. }));
    assert!(matches!(fault(32, 1, "bar.warp.sync 6;"), Fault::NotNamed { mask: 6, lane: _ }));
    assert!(matches!(
        fault(8, 1, "bar.warp.sync -1;"),
        Fault::Lanes { missing: 8, reason: Missing::Nobody, .. }
    ));
    // Lane 0 reads lane 1, which is not named.
    let source = "setp.ne.u32 %p1, %r1, 0; @%p1 ret; shfl.sync.down.b32 %r11, %r1, 1, 31, 1;";
    assert!(matches!(fault(32, 1, source), Fault::ShuffleSource { mask: 1, source_lane: 1 }));
    // Half of a warp among itself.
    run(32, 1, "setp.ge.u32 %p1, %r1, 16; @%p1 ret; shfl.sync.bfly.b32 %r11, %r1, 8, 31, 65535;").unwrap();
}

#[test]
fn strays_are_seen() {
    // One element behind the array, and one that a wrong index finds far away.
    let past = "st.global.b32 [%rd2+16384], 0;";
    assert!(matches!(fault(1, 1, past), Fault::Outside { area: Area::Global, .. }));
    assert!(matches!(fault(1, 1, "ld.global.b32 %r11, [%rd1+-4];"), Fault::Outside { .. }));
    assert!(matches!(
        fault(1, 1, "mov.b64 %rd15, 0; ld.b32 %r11, [%rd15];"),
        Fault::Outside { address: 0, .. }
    ));
    // The last bytes of an access alone.
    assert!(matches!(
        fault(1, 1, "ld.global.v4.b32 {%r11, %r12, %r13, %r14}, [%rd1+16376];"),
        Fault::Misaligned { .. }
    ));
    assert!(matches!(fault(1, 1, "st.shared.b32 [s+256], 0;"), Fault::Outside { area: Area::Shared, .. }));
    assert!(matches!(
        fault(1, 1, "mov.b64 %rd15, 0; st.shared.b32 [%rd15], 0;"),
        Fault::Outside { area: Area::Shared, .. }
    ));
    let local = ".local .align 8 .b8 d[16]; mov.b64 %rd15, d; st.local.b32 [%rd15+16], 0;";
    assert!(matches!(fault(1, 1, local), Fault::Outside { area: Area::Local, .. }));
    assert!(matches!(
        fault(1, 1, "st.global.b32 [%rd2+2], 0;"),
        Fault::Misaligned { area: Area::Global, bytes: 4, .. }
    ));
    assert!(matches!(
        fault(1, 1, "cvta.shared.u64 %rd15, %rd12; cvta.to.global.u64 %rd16, %rd15;"),
        Fault::OtherSpace { area: Area::Global, .. }
    ));
}

#[test]
fn memory_is_written_before_it_is_read() {
    assert!(matches!(
        fault(1, 1, "ld.global.b32 %r11, [%rd2];"),
        Fault::Unwritten { area: Area::Global, bytes: 4, .. }
    ));
    assert!(matches!(fault(1, 1, "red.global.add.u32 [%rd2], 1;"), Fault::Unwritten { .. }));
    assert!(matches!(fault(1, 1, "ld.shared.b32 %r11, [s];"), Fault::Unwritten { area: Area::Shared, .. }));
    // Shared memory is new to each block.
    let kept = "setp.eq.u32 %p1, %r2, 0; @%p1 st.shared.b32 [s], 1; bar.sync 0; ld.shared.b32 %r11, [s]; st.global.b32 [%rd20], %r11;";
    assert!(matches!(fault(1, 2, kept), Fault::Unwritten { area: Area::Shared, .. }));
    // Half of a word.
    assert!(matches!(
        fault(1, 1, "st.global.b16 [%rd2], 1; ld.global.b32 %r11, [%rd2];"),
        Fault::Unwritten { .. }
    ));
}

#[test]
fn constant_memory_does_not_change() {
    let own = "ld.global.nc.b32 %r11, [%rd21]; st.global.b32 [%rd20], %r11;";
    run(64, 2, own).unwrap();
    let after = "ld.global.nc.b32 %r11, [%rd21]; st.global.b32 [%rd21], 0;";
    assert!(matches!(fault(64, 1, after), Fault::NotConstant { .. }));
    let before = "st.global.b32 [%rd21], 0; bar.sync 0; ld.global.nc.b32 %r11, [%rd21];";
    assert!(matches!(fault(64, 1, before), Fault::NotConstant { .. }));
    let table = ".const .align 4 .b8 c[8] = {1, 2, 3, 4, 5, 6, 7, 8};";
    let stored = outcome(1, 1, table, "mov.b64 %rd15, c; st.global.b32 [%rd15], 0;").unwrap_err();
    assert!(matches!(stored, Fault::Constant { .. }));
}

#[test]
fn other_faults_have_names() {
    assert_eq!(fault(1, 1, "mov.b32 %r11, 0; div.u32 %r12, %r1, %r11;"), Fault::DivisionByZero);
    assert_eq!(fault(1, 1, "trap;"), Fault::Trap);
    assert!(matches!(fault(1, 2, "L: bra.uni L;"), Fault::Endless(_)));
    let branch = "L0: .branchtargets L1, L2; mov.b32 %r11, 2; brx.idx %r11, L0; L1: ret; L2: ret;";
    assert_eq!(fault(1, 1, branch), Fault::BranchTarget { index: 2, targets: 2 });
}

#[test]
fn launches_have_limits() {
    let text = kernel(64, SHARED, "");
    let fault = |grid, block| {
        let mut m = Machine::new(&text);
        let args = [Arg::Long(0), Arg::Long(0)];
        m.launch_shaped("k", grid, block, &args, Order::Ascending).map(drop).map_err(|e| e.fault)
    };
    assert!(matches!(fault([1, 1, 1], [32, 1, 1]), Err(Fault::BlockSize { .. })));
    assert!(matches!(fault([1, 1, 1], [32, 2, 1]), Err(Fault::BlockSize { .. })));
    assert!(matches!(fault([1, 1, 1], [1024, 2, 1]), Err(Fault::Threads(_))));
    assert!(matches!(fault([0, 1, 1], [64, 1, 1]), Err(Fault::Grid(_))));
    assert!(matches!(fault([1, 65_536, 1], [64, 1, 1]), Err(Fault::Grid(_))));
    assert!(fault([3, 2, 1], [64, 1, 1]).is_ok());
}

fn refusal(shared: &str, body: &str) -> Refusal {
    let mut memory = Memory::new(0x1000, 1 << 20);
    match Module::load(&kernel(32, shared, body), &mut memory) {
        Err(LoadError { refusal, .. }) => {
            assert_eq!(memory.allocations(), 0, "a refused module holds memory");
            refusal
        }
        Ok(_) => panic!("`{body}` is taken"),
    }
}

#[test]
fn text_is_understood_or_refused() {
    for unrounded in ["add.f32", "sub.f32", "mul.f32", "add.f64", "mul.f64", "add.f16"] {
        assert_eq!(refusal("", &format!("{unrounded} %f1, %f2, %f3;")), Refusal::Unrounded(unrounded.into()));
    }
    for approximate in
        ["ex2.approx.f32", "div.full.f32", "add.rn.ftz.f32", "rsqrt.approx.ftz.f64", "tanh.approx.f32"]
    {
        assert_eq!(
            refusal("", &format!("{approximate} %f1, %f2, %f3;")),
            Refusal::Approximate(approximate.into())
        );
    }
    for unknown in
        ["frob.b32", "add.rz.f32", "mul24.lo.s32", "ld.global.b128", "atom.global.nand.b32", "mov.b128"]
    {
        assert_eq!(
            refusal(
                "",
                &format!("{unknown} %r10, [%rd1];")
                    .replace("[%rd1]", if unknown.starts_with("ld") { "[%rd1]" } else { "%r11" })
            ),
            Refusal::Unknown(unknown.into())
        );
    }
    assert!(matches!(refusal("", "add.s32 %r10, %r11;"), Refusal::Operands { .. }));
    assert_eq!(refusal("", "add.s32 %r10, %r11, %r99;"), Refusal::Undeclared("%r99".into()));
    assert_eq!(refusal("", "bra NOWHERE;"), Refusal::Undeclared("NOWHERE".into()));
    assert!(matches!(refusal("", "bar.sync 1;"), Refusal::Operands { .. } | Refusal::Unknown(_)));
    assert!(matches!(refusal("", ".maxnreg 5;"), Refusal::Text(_)));
    assert!(matches!(refusal(".file 1 \"x\";", ""), Refusal::Text(_)));
    assert!(matches!(refusal(".shared .align 4 .b32 s = 5;", ""), Refusal::Text(_)));
    assert!(matches!(refusal(".global .b8 g[2] = {1, 2, 3};", ""), Refusal::Text(_)));
    let large = ".shared .align 4 .b8 big[49156];";
    assert_eq!(
        refusal(large, "st.shared.b32 [big], 0;"),
        Refusal::Shared { kernel: "k".into(), bytes: 49_156, most: 49_152 }
    );
}

#[test]
fn a_fault_is_told_with_its_place() {
    let text = kernel(
        64,
        SHARED,
        "mov.u32 %r30, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 35;\n@%p1 ld.global.b32 %r11, [%rd2];",
    );
    let line = text.lines().position(|l| l.contains("@%p1 ld.global")).unwrap() + 1;
    let mut m = Machine::new(&text);
    let b = m.unwritten(64);
    let e = m.launch("k", 2, 64, &[Arg::Long(0), Arg::Pointer(b)], Order::Descending).unwrap_err();
    assert_eq!(
        e.to_string(),
        format!(
            "kernel `k`, line {line}, block (1, 0, 0), thread (35, 0, 0): a read of 4 bytes of global memory at {b:#x}, which was never written"
        )
    );
}
