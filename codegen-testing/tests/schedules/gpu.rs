//! gpu_blocks, gpu_threads, gpu_lanes, gpu_single, shared memory: values under legal schedules, and refusals.

use crate::support::{in_order, plane, refused, schedule};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{
    Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Source, Tail, Type, Var,
};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::{agree, agree_on_gpu};
use sumsq_codegen_testing::reference::Value;

#[path = "../../../codegen/examples/lesson_07_gpus.rs"]
mod lesson;

/// The lesson, which checks its own results, where there is a device.
#[test]
fn the_lesson_on_gpus() {
    sumsq_libcuda::preload().unwrap_or_else(|e| panic!("{e}"));
    lesson::main().unwrap_or_else(|e| panic!("{e}"));
}

/// out(x, y) = wide(x - 1, y) + wide(x, y) + wide(x + 1, y) + wide(x, y - 1) + wide(x, y + 1), wide(x, y) = 2 in(clamped) + 1.
fn cross() -> Pipeline {
    let (mut p, input, vars) = plane("cross");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let inside = |v: &Expr, d: usize| v.max(0).min(input.extent(d) - 1);
    let wide = input.at(&[inside(&x, 0), inside(&y, 1)], 0) * 2 + 1;
    let wide = p.func(Func::new("wide", &vars, vec![wide]));
    let at = |dx: i32, dy: i32| wide.at(&[&x + dx as i64, &y + dy as i64], 0);
    let sum = at(-1, 0) + at(0, 0) + at(1, 0) + at(0, -1) + at(0, 1);
    let out = p.func(Func::new("out", &vars, vec![sum]));
    p.output(&out);
    p
}

/// Runs `text` on checked memory and as code of the CPU, which runs blocks in parallel and threads in turn.
fn runs(p: &Pipeline, text: &str, sizes: &[(usize, usize)]) -> String {
    let mut nests = String::new();
    for &(w, h) in sizes {
        let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[w, h], 3))], vec![]);
        let extents: Vec<usize> = if p.name == "cross" { vec![w, h] } else { vec![] };
        nests = check(p, &schedule(text), &b, &[extents.clone()], 0.0).nests;
        agree(p, &schedule(text), &b, &[extents.clone()]);
        agree_on_gpu(p, &schedule(text), &b, &[extents]);
    }
    nests
}

const SIZES: [(usize, usize); 4] = [(64, 16), (33, 9), (1, 1), (70, 3)];

const TILE: &str = "out: split(x, xo, xi, 32, predicate) split(y, yo, yi, 8, predicate) reorder(xi, yi, xo, yo) \
                    gpu_blocks(xo) gpu_blocks(yo) gpu_threads(xi) gpu_threads(yi)\n";

#[test]
fn a_tile_per_block() {
    let nests = runs(&cross(), TILE, &SIZES);
    in_order(
        &nests,
        &["gpu_blocks for out.s0.yo", "gpu_blocks for out.s0.xo", "gpu_threads for out.s0.yi in [0, 8)"],
    );
    let mut s = Schedule::new();
    s.func("out").gpu_tile("x", "y", "xo", "yo", "xi", "yi", 32, 8, Tail::Predicate);
    let twice = Schedule::parse(&s.to_string()).expect("text");
    assert_eq!(twice, s);
    assert_eq!(nests, check_nests(&cross(), &s));
}

fn check_nests(p: &Pipeline, s: &Schedule) -> String {
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[9, 9], 3))], vec![]);
    check(p, s, &b, &[vec![9, 9]], 0.0).nests
}

/// The producer's tile with its halo is computed by threads of its own, between the block's loops and those of the consumer.
#[test]
fn producers_in_shared_memory() {
    let text = format!("{TILE}wide: compute_at(out, xo) gpu_threads(x) gpu_threads(y)");
    let nests = runs(&cross(), &text, &SIZES);
    in_order(&nests, &["realize wide", "gpu_threads for wide.s0.y in", "gpu_threads for out.s0.yi"]);
    let fused =
        format!("{TILE}wide: compute_at(out, xo) fuse(x, y, t) split(t, to, ti, 128, guard) gpu_threads(ti)");
    runs(&cross(), &fused, &SIZES);
}

/// A thread's own values lie on its stack.
#[test]
fn producers_in_threads() {
    let text = format!("{TILE}wide: compute_at(out, xi)");
    runs(&cross(), &text, &SIZES);
}

/// total() = sum of 3 in(rx, ry).
fn total() -> Pipeline {
    let (mut p, input, _) = plane("total");
    let r = RDom::new([("rx", Expr::from(0), input.extent(0)), ("ry", Expr::from(0), input.extent(1))]);
    let f = Func::new("total", &[], vec![Expr::from(0)]);
    let value = f.at(&[], 0) + input.at(&[r.var(0), r.var(1)], 0) * 3;
    let total = p.func(f.update(vec![], vec![value], r));
    p.output(&total);
    p
}

/// Threads sum, a block's threads are summed in shared memory by the lanes of a warp, blocks by one thread.
const SUM: &str = "
total: gpu_single
total.update(0): split(ry, block, row, 8, guard) rfactor(block as b, into blocks) gpu_single
blocks: gpu_blocks(b)
blocks.update(0): split(row, ro, ri, 2, guard) split(rx, xo, lane, 32, guard) rfactor(ri as t, lane as l, into threads) \
    reorder(lane, ri, b) gpu_blocks(b) gpu_lanes(lane)
threads: compute_at(blocks.update(0), b) store_in(shared) gpu_threads(l) gpu_threads(t)
threads.update(0): reorder(xo, ro, l, t) gpu_threads(l) gpu_threads(t)";

#[test]
fn sums_of_threads_lanes_and_blocks() {
    let nests = runs(&total(), SUM, &SIZES);
    in_order(&nests, &["gpu_blocks for blocks.s1.b", "gpu_threads for threads.s1.t", "gpu_lanes for"]);
}

/// p(x, y) = in(clamped) + 1, an output, and total() = sum of 3 p(x, y) - p(x - 1, y) - p(x, y + 1).
fn differences() -> Pipeline {
    let (mut p, input, vars) = plane("differences");
    let inside = |v: &Expr, d: usize| v.max(0).min(input.extent(d) - 1);
    let value = input.at(&[inside(&vars[0].expr(), 0), inside(&vars[1].expr(), 1)], 0) + 1;
    let f = p.func(Func::new("p", &vars, vec![value]));
    let r = RDom::new([("rx", Expr::from(0), input.extent(0)), ("ry", Expr::from(0), input.extent(1))]);
    let at = |dx: i64, dy: i64| f.at(&[r.var(0) + dx, r.var(1) + dy], 0);
    let total = p.func(Func::sum("total", &[], r.clone(), vec![at(0, 0) * 3 - at(-1, 0) - at(0, 1)]));
    p.output(&f);
    p.output(&total);
    p
}

/// Each block stores its own tile of an output that it computes with a halo: the consumer is what threads sum inside of the block.
#[test]
fn sinks_in_shared_memory() {
    let text = "
total: gpu_single
total.update(0): split(rx, bx, tx, 8, predicate) split(ry, by, row, 16, predicate) split(row, k, ty, 4, predicate) \
    rfactor(bx as gx, by as gy, into blocks) gpu_single
blocks: gpu_blocks(gx) gpu_blocks(gy)
blocks.update(0): rfactor(tx as ux, ty as uy, into threads) reorder(tx, ty, gx, gy) gpu_blocks(gx) gpu_blocks(gy)
threads: compute_at(blocks.update(0), gx) store_in(shared) gpu_threads(ux) gpu_threads(uy)
threads.update(0): reorder(k, ux, uy) gpu_threads(ux) gpu_threads(uy)
p: compute_at(blocks.update(0), gx) store_in(shared) sink split(x, xk, px, 8, predicate) split(y, yk, py, 4, predicate) \
    reorder(xk, yk, px, py) gpu_threads(px) gpu_threads(py)";
    let p = differences();
    for (w, h) in SIZES {
        let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[w, h], 3))], vec![]);
        let domains = [vec![w, h], vec![]];
        let nests = check(&p, &schedule(text), &b, &domains, 0.0).nests;
        in_order(&nests, &["gpu_blocks for blocks.s1.gx", "realize p", "gpu_threads for threads.s1.uy"]);
        agree_on_gpu(&p, &schedule(text), &b, &domains);
    }
    let outside = text.replace("p: compute_at(blocks.update(0), gx)", "p: compute_at(blocks.update(0), ty)");
    let message = "blocks.update(0) iterates over (tx, ty)";
    let said = refused(&p, &schedule(&outside));
    assert!(said.contains("it is read outside that loop") || said.contains(message), "{said}");
}

/// The numbers of kernels that a pipeline has on a device.
fn kernels(p: &Pipeline, text: &str) -> usize {
    let ptx = sumsq_codegen::compile::ptx(p, &schedule(text), &sumsq_codegen::Target::cuda(90));
    ptx.expect("PTX").matches(".visible .entry").count()
}

/// A sum begins at 0 in the kernel that adds to it, and kernels of one block that follow each other are one.
#[test]
fn kernels_that_go_on_where_the_last_one_stopped_are_one() {
    assert_eq!(kernels(&total(), SUM), 2);
    // Of another grid.
    let other = SUM.replace("blocks: gpu_blocks(b)", "blocks: split(b, bo, bi, 2, guard) gpu_blocks(bo)");
    assert_eq!(kernels(&total(), &other), 3);
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[33, 40], 3))], vec![]);
    check(&total(), &schedule(&other), &b, &[vec![]], 0.0);
    agree_on_gpu(&total(), &schedule(&other), &b, &[vec![]]);
}

/// The blocks of two sums are added up by one kernel: that of the first moves behind the sum of the second.
#[test]
fn kernels_move_past_others_to_be_one() {
    let mut p = total();
    let (_, input, _) = plane("twice");
    let r = RDom::new([("rx", Expr::from(0), input.extent(0)), ("ry", Expr::from(0), input.extent(1))]);
    let second =
        p.func(Func::sum("second", &[], r.clone(), vec![input.at(&[r.var(1).min(0), r.var(0).min(0)], 0)]));
    p.output(&second);
    let names = [
        ("total", "second"),
        ("into blocks", "into parts"),
        ("\nblocks", "\nparts"),
        ("(blocks", "(parts"),
        ("threads:", "lanes:"),
        ("into threads", "into lanes"),
        ("\nthreads.", "\nlanes."),
    ];
    let other = names.iter().fold(SUM.to_string(), |text, (from, to)| text.replace(from, to));
    let text = format!("{SUM}\n{other}");
    assert_eq!(kernels(&p, &text), 3);
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[33, 40], 3))], vec![]);
    check(&p, &schedule(&text), &b, &[vec![], vec![]], 0.0);
    agree_on_gpu(&p, &schedule(&text), &b, &[vec![], vec![]]);
}

/// total() = sum of in(rx, ry) in float64, by two rows a block; one block more adds up the blocks, 128 at a time.
fn sums_of_floats(squares: bool) -> (Pipeline, &'static str) {
    let mut p = Pipeline::new("floats");
    let input = p.input(Input::new("in", &[ScalarType::F32], 2));
    let r = RDom::new([("rx", Expr::from(0), input.extent(0)), ("ry", Expr::from(0), input.extent(1))]);
    let term = input.at(&[r.var(0), r.var(1)], 0).cast(ScalarType::F64);
    let terms = if squares { vec![term.clone(), &term * &term] } else { vec![term] };
    let total = p.func(Func::sum("total", &[], r, terms));
    p.output(&total);
    let text = "
        total: gpu_single
        total.update(0): relaxed split(ry, block, row, 2, predicate) rfactor(block as b, into blocks) \
            split(block, turn, go, 128, predicate) split(go, go, gx, 32, predicate) rfactor(gx as l, into lines) \
            gpu_single gpu_lanes(gx)
        lines: relaxed bound(l, 0, 32) split(l, lb, lt, 32, predicate) gpu_blocks(lb) gpu_threads(lt)
        lines.update(0): relaxed unroll(go) split(l, lb, lt, 32, predicate) reorder(go, turn, lt, lb) gpu_blocks(lb) gpu_threads(lt)
        blocks: relaxed gpu_blocks(b)
        blocks.update(0): relaxed split(rx, xo, lane, 32, predicate) rfactor(lane as l, into threads) reorder(lane, b) \
            gpu_blocks(b) gpu_lanes(lane)
        threads: relaxed compute_at(blocks.update(0), b) store_in(shared) gpu_threads(l)
        threads.update(0): relaxed reorder(xo, row, l) gpu_threads(l)";
    (p, text)
}

/// The block that adds up blocks asks for all of a turn's sums before it waits for one, and keeps its own in memory that its threads share; a block has its
/// sum in memory once.
#[test]
fn sums_of_blocks_are_asked_for_at_once() {
    for (squares, sums) in [(false, 1), (true, 2)] {
        let (p, text) = sums_of_floats(squares);
        let cuda = sumsq_codegen::Target::cuda(90);
        let ptx = sumsq_codegen::compile::ptx(&p, &schedule(text), &cuda).expect("PTX");
        let kernels: Vec<&str> = ptx.split(".visible .entry").skip(1).collect();
        assert_eq!(kernels.len(), 2, "{ptx}");
        for kernel in &kernels {
            let count = |what: &str| kernel.matches(what).count();
            assert_eq!((count("st.global"), count("ld.global.b64")), (sums, 0), "{kernel}");
        }
        // No branch between those of a turn, whether it is full or not.
        let parts = kernels[1].split("\n$L").map(|part| part.matches("ld.global.nc").count());
        assert_eq!(parts.filter(|n| *n > 0).collect::<Vec<_>>(), [4 * sums, 4 * sums], "{}", kernels[1]);
        for (w, h) in [(40, 2), (70, 33), (1, 512), (33, 600)] {
            let values = pattern(&[ScalarType::F32], &[w, h], 3);
            let b = bindings(vec![("in", values)], vec![]);
            check(&p, &schedule(text), &b, &[vec![]], 1e-12);
            agree_on_gpu(&p, &schedule(text), &b, &[vec![]]);
        }
    }
}

/// Copies of an unrolled sum whose guards also say which threads there are: those that are not touch nothing.
#[test]
fn sums_under_guards_of_threads() {
    let (mut p, input, vars) = plane("rows");
    let (x, k) = (vars[0].expr(), RDom::new([("k", Expr::from(0), Expr::param("n", ScalarType::I32))]));
    let twice = p.func(Func::new("twice", &vars, vec![input.at(&[x.clone(), vars[1].expr()], 0) * 2]));
    let sum = Func::sum("out", &vars[..1], k.clone(), vec![twice.at(&[x, k.var(0)], 0)]);
    let out = p.func(sum);
    p.output(&out);
    p.param("n", ScalarType::I32);
    let text = "
        twice: compute_root split(x, xo, xi, 32, predicate) reorder(xi, xo, y) gpu_blocks(xo) gpu_blocks(y) gpu_threads(xi)
        out: split(x, xo, xi, 32, predicate) gpu_blocks(xo) gpu_threads(xi)
        out.update(0): split(x, xo, xi, 32, predicate) split(k, ko, ki, 4, predicate) reorder(ki, ko, xi, xo) unroll(ki) \
            gpu_blocks(xo) gpu_threads(xi)";
    for (w, n) in [(33, 9), (64, 4), (1, 1), (40, 0)] {
        let values = pattern(&[ScalarType::I32], &[w, 9], 3);
        let b = bindings(vec![("in", values)], vec![("n", Value::Int(n))]);
        check(&p, &schedule(text), &b, &[vec![w]], 0.0);
        agree_on_gpu(&p, &schedule(text), &b, &[vec![w]]);
    }
}

/// Blocks that read what others write, or whose threads each have elements of their own, stay in kernels of their own.
#[test]
fn kernels_that_need_other_blocks_stay_apart() {
    let (mut p, input, vars) = plane("rows");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let a = p.func(Func::new("a", &vars[1..], vec![input.at(&[Expr::from(0), y.clone()], 0) + 1]));
    let near = a.at(&[(&y - 1).max(0)], 0) + a.at(std::slice::from_ref(&y), 0);
    let f = p.func(Func::new("out", &vars, vec![near + input.at(&[x, y], 0)]));
    p.output(&f);
    let text = "a: compute_root gpu_blocks(y)
        out: split(x, xo, xi, 32, predicate) reorder(xi, xo, y) gpu_blocks(y) gpu_threads(xi)";
    assert_eq!(kernels(&p, text), 2);
    let threads = format!(
        "{TILE}wide: compute_root split(x, xo, xi, 32, predicate) split(y, yo, yi, 8, predicate) reorder(xi, yi, xo, yo) \
        gpu_blocks(xo) gpu_blocks(yo) gpu_threads(xi) gpu_threads(yi)"
    );
    assert_eq!(kernels(&cross(), &threads), 2);
}

/// bins(b) += 1, in shared memory for each block and then in the output.
#[test]
fn histograms() {
    let (mut p, input, _) = plane("histogram");
    let b = sumsq_codegen::Var::new("b");
    let r = RDom::new([("rx", Expr::from(0), input.extent(0)), ("ry", Expr::from(0), input.extent(1))]);
    let bin = input.at(&[r.var(0), r.var(1)], 0).max(0).min(15);
    let f = Func::new("bins", &[b], vec![Expr::from(0)]);
    let value = f.at(std::slice::from_ref(&bin), 0) + 1;
    let bins = p.func(f.update(vec![bin], vec![value], r));
    p.output(&bins);
    let direct = "bins: bound(b, 0, 16) split(b, bo, bi, 16, guard) gpu_blocks(bo) gpu_threads(bi)
        bins.update(0): atomic split(rx, xo, xi, 32, guard) reorder(xi, xo, ry) gpu_blocks(ry) gpu_threads(xi)";
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[70, 13], 3))], vec![]);
    check(&p, &schedule(direct), &b, &[vec![16]], 0.0);
    agree(&p, &schedule(direct), &b, &[vec![16]]);
    agree_on_gpu(&p, &schedule(direct), &b, &[vec![16]]);
}

#[test]
fn loops_out_of_place_are_refused() {
    let p = cross();
    let cases = [
        ("out: gpu_threads(x)", "the extent has no small constant bound; split the loop first"),
        ("out: split(x, xo, xi, 32, guard) gpu_threads(xi)", "no gpu_blocks loop is around it"),
        ("out: split(x, xo, xi, 32, guard) gpu_lanes(xi)", "no gpu_blocks loop is around it"),
        (
            "out: split(x, xo, xi, 2048, guard) gpu_blocks(xo) gpu_threads(xi)",
            "the extent has no small constant bound",
        ),
        (
            "out: split(x, xo, xi, 64, guard) split(y, yo, yi, 32, guard) reorder(xi, yi, xo, yo) gpu_blocks(xo) \
             gpu_threads(xi) gpu_threads(yi)",
            "2048 threads; a block has at most 1024",
        ),
        (
            "out: split(x, xo, xi, 32, guard) split(y, yo, yi, 64, guard) reorder(xi, yi, xo, yo) gpu_blocks(xo) \
             gpu_lanes(xi) gpu_threads(yi)",
            "2048 threads; a block has at most 1024",
        ),
        ("out: split(x, xo, xi, 16, guard) gpu_blocks(xo) gpu_lanes(xi)", "a warp has 32 lanes, not 16"),
        ("out: split(x, xo, xi, 32, guard) gpu_blocks(y) gpu_threads(xi)", ""),
        (
            "out: split(x, xo, xi, 32, guard) parallel(y) gpu_blocks(xo) gpu_threads(xi)",
            "a parallel loop of the host is around it",
        ),
        (
            "out: split(x, xo, xi, 32, guard) gpu_blocks(y) parallel(xo)",
            "it is inside of a kernel: use gpu_threads",
        ),
        (
            "out: split(x, xo, xi, 32, guard) split(xi, xm, xn, 4, guard) gpu_blocks(y) gpu_threads(xm) gpu_blocks(xn)",
            "something stands between it and the block loop around it",
        ),
        (
            "out: split(x, xo, xi, 32, guard) split(xi, xm, xn, 4, guard) gpu_blocks(y) gpu_blocks(xn)",
            "something stands between it and the block loop around it",
        ),
        (
            "out: split(x, xo, xi, 32, guard) split(y, yo, yi, 4, guard) reorder(xi, xo, yi, yo) gpu_blocks(yo) gpu_threads(yi) gpu_threads(xi)",
            "something stands between it and the thread loop around it",
        ),
    ];
    for (text, rule) in cases {
        if rule.is_empty() {
            runs(&p, text, &SIZES);
            continue;
        }
        let came = refused(&p, &schedule(text));
        assert!(came.contains(rule), "{text}\n{came}");
    }
}

#[test]
fn memory_out_of_place_is_refused() {
    let p = cross();
    let cases = [
        ("wide: compute_root store_in(shared)", "only the threads of a GPU's block share memory"),
        ("wide: compute_at(out, xo) store_in(heap)", "a GPU's kernel allocates nothing"),
        ("wide: compute_at(out, xo) store_in(stack)", "each thread of the block would have its own"),
        ("wide: compute_at(out, xi) store_in(shared)", "every thread would need memory of its own"),
        ("wide: compute_at(out, yo)", "the extent of x has no constant bound"),
        (
            "wide: store_at(out, yo) compute_at(out, xo)",
            "iterations of the parallel loop xo would share the storage",
        ),
        (
            "wide: compute_at(out, yi) gpu_threads(x)",
            "something stands between it and the thread loop around it",
        ),
    ];
    for (text, rule) in cases {
        let came = refused(&p, &schedule(&format!("{TILE}{text}")));
        assert!(came.contains(rule), "{text}\n{came}");
    }
}

/// Bytes that a block shares are counted before any assembler sees them.
#[test]
fn too_much_shared_memory_is_refused() {
    let text = "out: split(x, xo, xi, 128, predicate) split(y, yo, yi, 128, predicate) reorder(yi, xi, xo, yo) \
                gpu_blocks(xo) gpu_blocks(yo) gpu_threads(xi)\n\
                wide: compute_at(out, xo) store_in(shared) split(x, xk, tx, 32, predicate) reorder(xk, y, tx) gpu_threads(tx)";
    let ptx = sumsq_codegen::compile::ptx(&cross(), &schedule(text), &sumsq_codegen::Target::cuda(80));
    let said = ptx.expect_err("130 x 130 integers").to_string();
    let expected =
        "wide: store_in(shared): its kernel needs 67600 bytes of shared memory, and a block has 49152";
    assert!(said.contains(expected), "{said}");
}

/// A sum without dims in a block of one warp: lane 0 stores what all lanes have read before.
#[test]
fn a_warp_sums_in_shared_memory() {
    let mut p = Pipeline::new("total");
    let input = p.input(Input::new("in", &[ScalarType::I32], 1));
    let r = RDom::new([("r", Expr::from(0), input.extent(0))]);
    let total = p.func(Func::sum("total", &[], r.clone(), vec![input.at(&[r.var(0)], 0)]));
    let [x] = sumsq_codegen::Var::all(["x"]);
    let out = p.define("out", [x], total.at(&[], 0) + x.expr());
    p.output(&out);
    let text = "out: split(x, xo, xi, 32, guard) gpu_blocks(xo) gpu_lanes(xi)\ntotal: compute_at(out, xo)\n";
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[12], 3))], vec![]);
    agree_on_gpu(&p, &schedule(text), &b, &[vec![40]]);
}

/// One lane stores for all of a warp, in the place of an input: all lanes have read that before.
#[test]
fn a_warp_overwrites_an_input() {
    let mut p = Pipeline::new("overwriting");
    let input = p.input(Input::new("in", &[ScalarType::I32], 1));
    let [x] = sumsq_codegen::Var::all(["x"]);
    let lanes = p.define("lanes", [x], x.expr() * 2);
    let out = p.define("out", [x], input.at(&[x.expr()], 0) + 1);
    p.output(&lanes);
    p.output(&out);
    let text = "lanes: split(x, xo, xi, 32, guard) gpu_blocks(xo) gpu_lanes(xi)\n\
                out: in_place_of(in) split(x, xo, xi, 32, guard) gpu_blocks(xo) compute_with(lanes, xo)\n";
    let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[40], 3))], vec![]);
    agree_on_gpu(&p, &schedule(text), &b, &[vec![40], vec![40]]);
}

const WARPS: &str = "out: split(x, xo, xi, 32, predicate) split(y, yo, yi, 4, predicate) reorder(xi, yi, xo, yo) gpu_blocks(xo) \
                     gpu_blocks(yo) gpu_threads(yi) gpu_lanes(xi)\n";

/// Values that no lane stores: each lane of the warp computes them for itself.
#[test]
fn a_warp_reads_what_its_thread_computed() {
    let nests = runs(&cross(), &format!("{WARPS}wide: compute_at(out, yi)"), &SIZES);
    in_order(&nests, &["gpu_threads for out.s0.yi", "realize wide", "for wide.s0.x in", "gpu_lanes for"]);
}

/// Of what lanes store in a thread's storage, neither another lane nor the thread itself reads an element.
#[test]
fn lanes_keep_what_they_store() {
    let (threads, lanes) =
        (WARPS.replace("gpu_lanes(xi)", ""), "split(x, xw, lane, 32, guard) gpu_lanes(lane)");
    for text in [
        format!("{WARPS}wide: compute_at(out, yi) {lanes}"),
        format!("{threads}wide: compute_at(out, yi) {lanes}"),
        // The one element of which all threads but one have nothing.
        format!("{threads}wide: compute_at(out, xi) {lanes}"),
    ] {
        let ptx = sumsq_codegen::compile::ptx(&cross(), &schedule(&text), &sumsq_codegen::Target::cuda(80));
        let said = ptx.expect_err(&text).to_string();
        assert!(said.contains("a lane would read what another one stores"), "{text}\n{said}");
    }
}

/// Functions of a parameter are hoisted out of a loop of the host, and not out of a kernel into a loop around it: the walk of segments computes none.
#[test]
fn functions_are_hoisted_of_a_loop_of_the_host() {
    let mut p = Pipeline::new("functions");
    let [x, y] = sumsq_codegen::Var::all(["x", "y"]);
    let angle = p.param("angle", ScalarType::F32);
    let whole = |e: Expr| (e * 1000.0).floor().cast(ScalarType::I32);
    let table = p.define("table", [x], whole(angle.cos() + x.expr().cast(ScalarType::F32) * angle.tan()));
    let out = p.define("out", [x, y], table.of(x.expr()) + whole(angle.sin() * angle.tan()) * y.expr());
    p.output(&out);
    let text = "table: compute_root vectorize(x, 8)\n\
                out: split(x, xo, xi, 32, predicate) gpu_blocks(xo) gpu_threads(xi)\n";
    let b = bindings(vec![], vec![("angle", Value::Float(0.5))]);
    agree_on_gpu(&p, &schedule(text), &b, &[vec![40, 3]]);
}

/// A function of constants is not hoisted out of a loop of the host in which kernels run, either.
#[test]
fn functions_stay_in_loops_around_kernels() {
    let mut p = Pipeline::new("around");
    let [x, y] = sumsq_codegen::Var::all(["x", "y"]);
    let angle = p.param("angle", ScalarType::F32);
    let inner = p.define("inner", [x, y], x.expr() * 3 + y.expr());
    let value = inner.of((x.expr(), y.expr())).cast(ScalarType::F32) * (angle.sinh() + 1.0);
    let out = p.define("out", [x, y], value.cast(ScalarType::I32));
    p.output(&out);
    let text = "inner: compute_at(out, y) split(x, xo, xi, 32, guard) gpu_blocks(xo) gpu_threads(xi)\n";
    let b = bindings(vec![], vec![("angle", Value::Float(2.5))]);
    agree_on_gpu(&p, &schedule(text), &b, &[vec![40, 3]]);
}

/// The mask of the lanes of a loop of the host is hoisted out of it: a vector, which the walk of segments has no place for.
#[test]
fn a_vector_is_hoisted_of_a_loop_of_the_host() {
    let mut p = Pipeline::new("hoisted");
    let (b, x) = (sumsq_codegen::Var::new("b"), sumsq_codegen::Var::new("x"));
    let bins = p.func(Func::new("bins", &[b], vec![Expr::int(ScalarType::U8, 7)]));
    let at = x.expr().max(0).min(11);
    let out = p.func(Func::new("out", &[x], vec![bins.at(&[at], 0).cast(ScalarType::I32)]));
    p.output(&out);
    let text = "bins: compute_root split(b, bg, bc, 2, auto) split(bg, bo, bl, 8, auto) vectorize(bl)\n\
                out: split(x, xo, xi, 32, predicate) gpu_blocks(xo) gpu_threads(xi)\n";
    for n in [1, 9, 40] {
        agree_on_gpu(&p, &schedule(text), &bindings(vec![], vec![]), &[vec![n]]);
    }
}

/// Numbers of 64 bits are shifted by all 64 bits of a number.
#[test]
fn shifts_by_far_too_much() {
    let x = Var::new("x");
    let amounts = [1i64 << 32, (1 << 40) + 1, i64::MAX, -1, 64, 63, 1, 0];
    for ty in [ScalarType::I64, ScalarType::U64] {
        let mut p = Pipeline::new("shifts");
        let by = amounts.iter().enumerate().fold(Expr::int(Type::of(ty), 0), |by, (i, n)| {
            Expr::select(x.expr().eq_(i as i32), Expr::int(Type::I64, *n).cast(ty), by)
        });
        let value = (x.expr() * -7 - 3).cast(ty);
        let out = p.define_tuple("out", [x], vec![value.shl(&by), value.shr(&by)]);
        p.output(&out);
        let text = "out: split(x, bx, tx, 4, predicate) gpu_blocks(bx) gpu_threads(tx)";
        let b = bindings(vec![], vec![]);
        agree(&p, &schedule(text), &b, &[vec![amounts.len()]]);
        agree_on_gpu(&p, &schedule(text), &b, &[vec![amounts.len()]]);
    }
}

/// Blocks that compute one element for a loop of the host.
#[test]
fn kernels_reach_what_is_small() {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("small");
    let one = p.define("one", [x, y], x.expr() * 3 + y.expr());
    let out = p.define("out", [x, y], one.of((x, y)) + 1);
    p.output(&out);
    let text = "one: compute_at(out, x) split(x, xg, xt, 32, auto) gpu_blocks(xg)";
    agree_on_gpu(&p, &schedule(text), &bindings(vec![], vec![]), &[vec![3, 2]]);
}

/// Atomic updates of what is in a thread's own loops.
#[test]
fn a_thread_updates_its_own() {
    let x = Var::new("x");
    let mut p = Pipeline::new("own");
    let r = RDom::new([("r", 0, 5)]);
    let (count, at) = (p.define("count", [x], Expr::from(1)), Expr::var("r") % 3 + x.expr());
    let count = p.update(&count, x, count.of(x) + at, &r);
    let out = p.define("out", [x], count.of(x) + count.of(x + 1));
    p.output(&out);
    let text = "out: split(x, bx, tx, 8, predicate) gpu_blocks(bx) gpu_threads(tx)
count: compute_at(out, tx)
count.update(0): atomic";
    agree_on_gpu(&p, &schedule(text), &bindings(vec![], vec![]), &[vec![20]]);
}

/// Sums in a thread's own loops, of which only some iterations may be: LLVM loads what the others would add, too, and drops it.
#[test]
fn sums_of_which_iterations_are_guarded() {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("guarded");
    let image = p.input(Input::new("image", &[ScalarType::U8], 2));
    let r = RDom::new([("s", Expr::from(0), image.extent(1))]);
    let nothing = Expr::from(0).cast(ScalarType::U8);
    let count = Func::new("count", &[], vec![nothing.clone(), nothing]);
    let more = (0..2).map(|i| count.at(&[], i) + Expr::from(1).cast(ScalarType::U8)).collect();
    let count = p.func(count.update(vec![], more, r));
    let out = p.define("out", [x, y], count.at(&[], 0).cast(ScalarType::U32));
    p.output(&out);
    let text = "out: split(x, bx, tx, 32, predicate) gpu_blocks(y) gpu_threads(tx)
count: compute_at(out, tx)
count.update(0): split(s, strip, row, 3, auto) rfactor(strip as v, into partial) split(strip, strip, few, 5, guard) unroll(few)
partial: compute_at(count.update(0), strip)";
    for rows in [1, 7, 40] {
        let b = bindings(vec![("image", pattern(&[ScalarType::U8], &[3, rows], 3))], vec![]);
        agree_on_gpu(&p, &schedule(text), &b, &[vec![1, 1]]);
    }
}

/// Code for a GPU of which no kernel is left: the host's loops, chosen by the address of the output, find that in the pointers they are given.
#[test]
fn without_kernels_stores_may_bypass_the_caches() {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("streams");
    p.define("unread", [x], x.expr());
    let out = p.define("out", [x, y], x.expr() + y.expr() * 3);
    p.output_strided(&out, Constraint::defaults(2));
    let s = schedule("unread: compute_root gpu_blocks(x)\nout: non_temporal(1)");
    let lowered = lower(&p, &s, &LowerOptions::default()).expect("lowers").to_string();
    in_order(&lowered, &["if ", "out.phase.0", "streaming"]);
    agree_on_gpu(&p, &s, &bindings(vec![], vec![]), &[vec![64, 5]]);
}
