//! Lowered pipelines against the reference evaluator, by running statements on checked memory.

use sumsq_codegen::schedule::Memory;
use sumsq_codegen::{Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern, try_check, with_halo};
use sumsq_codegen_testing::reference::{Realization, Value};

const F32: ScalarType = ScalarType::F32;
const F64: ScalarType = ScalarType::F64;
const I32: ScalarType = ScalarType::I32;

fn xy() -> (Var, Var, Expr, Expr) {
    let (x, y) = (Var::new("x"), Var::new("y"));
    let (ex, ey) = (x.expr(), y.expr());
    (x, y, ex, ey)
}

/// `blur` of an input with halo 1: bx(x, y) = in(x-1..x+1, y), out = bx(x, y-1..y+1).
fn blur() -> (Pipeline, Func, Func) {
    let (vx, vy, x, y) = xy();
    let mut p = Pipeline::new("blur");
    let mut input = Input::new("in", &[I32], 2);
    input.halo = vec![1, 1];
    let i = p.input(input);
    let at = |dx: i64| i.at(&[&x + dx, y.clone()], 0);
    let bx = p.func(Func::new("bx", &[vx, vy], vec![at(-1) + at(0) * 2 + at(1)]));
    let by = |dy: i64| bx.at(&[x.clone(), &y + dy], 0);
    let out = p.func(Func::new("out", &[vx, vy], vec![by(-1) + by(0) * 3 + by(1)]));
    p.output(&out);
    (p, bx, out)
}

fn run_blur(s: &Schedule) -> sumsq_codegen_testing::check::Ran {
    let (p, ..) = blur();
    let mut last = None;
    for (w, h) in [(1, 1), (5, 3), (16, 8), (17, 9), (37, 11)] {
        let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[w, h], 3), &[1, 1]))], vec![]);
        last = Some(check(&p, s, &b, &[vec![w, h]], 0.0));
    }
    last.expect("some size")
}

#[test]
fn inlined_and_root() {
    run_blur(&Schedule::new());
    let mut s = Schedule::new();
    s.func("bx").compute_root();
    run_blur(&s);
}

#[test]
fn tiles_vectors_and_parallel_strips() {
    for tail in [Tail::GuardWithIf, Tail::Predicate] {
        let mut s = Schedule::new();
        s.func("out").tile("x", "y", "xo", "yo", "xi", "yi", 8, 4, tail).vectorize_loop("xi").parallel("yo");
        s.func("bx").compute_at(LoopLevel::pure("out", "xo")).vectorize("x", 4, tail);
        run_blur(&s);
        let mut s = Schedule::new();
        s.func("out").split("y", "yo", "yi", 4, tail).vectorize("x", 8, tail).unroll("yi");
        s.func("bx").compute_at(LoopLevel::pure("out", "yo")).vectorize("x", 4, Tail::RoundUp);
        // RoundUp reads beyond the halo of 1.
        let (p, ..) = blur();
        let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[17, 9], 3), &[1, 1]))], vec![]);
        let e = try_check(&p, &s, &b, &[vec![17, 9]], 0.0);
        assert!(
            matches!(&e, Err(Error::Run { message, .. }) if message.contains("in is read beyond dimension 0"))
        );
    }
}

#[test]
fn compute_at_the_vector() {
    let mut s = Schedule::new();
    s.func("out").vectorize("x", 16, Tail::Predicate);
    s.func("bx").compute_at(LoopLevel::pure("out", "xo")).store_in(Memory::Register).vectorize(
        "x",
        16,
        Tail::Predicate,
    );
    let r = run_blur(&s);
    assert!(!r.nests.contains("for bx.s0.xo"), "a vector at a time needs no loop:\n{}", r.nests);
}

#[test]
fn sliding_computes_each_row_once() {
    let mut s = Schedule::new();
    let strip = LoopLevel::pure("out", "yo");
    s.func("out").split("y", "yo", "yi", 4, Tail::Predicate);
    s.func("bx").store_at(strip).compute_at(LoopLevel::pure("out", "yi")).fold_storage("y", 4);
    let r = run_blur(&s);
    // 37 x 11: three strips, each with two rows more than it has.
    assert_eq!(r.counters.of("bx").stores, 37 * (11 + 3 * 2), "{}", r.nests);
    s.func("bx").fold_storage("y", 2);
    let (p, ..) = blur();
    let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[5, 3], 3), &[1, 1]))], vec![]);
    let e = try_check(&p, &s, &b, &[vec![5, 3]], 0.0).err();
    assert!(
        matches!(&e, Some(Error::Schedule { rule, .. }) if rule.contains("3 coordinates are live")),
        "{e:?}"
    );
}

fn total() -> Pipeline {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[F32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let term = i.at(&[r.var(0), r.var(1)], 0).cast(F64);
    let sum = p.func(Func::sum("sum", &[], r, vec![&term * &term, term]));
    p.output(&sum);
    p.params.insert("S".into(), I32);
    p
}

#[test]
fn sums_by_strips_rows_and_lanes() {
    let p = total();
    let mut s = Schedule::new();
    let strips = Expr::param("S", sumsq_codegen::Type::I32);
    s.update("sum", 0)
        .split("ry", "strip", "row", strips, Tail::Predicate)
        .split("rx", "rxo", "rxi", 16, Tail::Predicate)
        .rfactor(&[("strip", "s")], "sum_s");
    s.update("sum_s", 0).parallel("s").rfactor(&[("rxi", "l")], "sum_l").vectorize_loop("rxi");
    s.func("sum_l")
        .compute_at(LoopLevel::update("sum_s", 0, "s"))
        .store_in(Memory::Register)
        .vectorize_loop("l");
    s.update("sum_l", 0).reorder(&["l", "rxo", "row", "s"]).vectorize_loop("l");
    for (w, h, strip) in [(1, 1, 1), (16, 4, 2), (37, 11, 4), (15, 3, 7)] {
        let b = bindings(vec![("in", pattern(&[F32], &[w, h], 5))], vec![("S", Value::Int(strip))]);
        check(&p, &s, &b, &[vec![]], 0.0);
    }
}

/// Sweep A of PCG on a Laplacian.
fn sweep() -> (Pipeline, Schedule) {
    let (vx, vy, x, y) = xy();
    let mut p = Pipeline::new("sweep_a");
    let mut halo = |n: &str| {
        let mut i = Input::new(n, &[F32], 2);
        i.halo = vec![16, 1];
        p.input(i)
    };
    let (r, p_old) = (halo("r"), halo("p_old"));
    let beta = p.input(Input::new("beta", &[F32], 0));
    let at = [x.clone(), y.clone()];
    let value = r.at(&at, 0) / 4.0 + beta.at(&[], 0) * p_old.at(&at, 0);
    let pf = p.func(Func::new("p", &[vx, vy], vec![value]));
    let (w, h) = (r.extent(0), r.extent(1));
    let zero = Expr::from(0.0f32);
    let inside =
        |c: Expr, dx: i64, dy: i64| Expr::select(c.likely(), pf.at(&[&x + dx, &y + dy], 0), zero.clone());
    let q = pf.at(&at, 0) * 4.0
        - inside((&x + 1).lt(&w), 1, 0)
        - inside((&x - 1).ge(0), -1, 0)
        - inside((&y + 1).lt(&h), 0, 1)
        - inside((&y - 1).ge(0), 0, -1);
    let qf = p.func(Func::new("q", &[vx, vy], vec![q]));
    let dom = RDom::new([("rx", Expr::from(0), w), ("ry", Expr::from(0), h)]);
    let here = [dom.var(0), dom.var(1)];
    let pq = p.func(Func::sum("pq", &[], dom, vec![(pf.at(&here, 0) * qf.at(&here, 0)).cast(F64)]));
    p.output(&pf);
    p.output(&pq);
    p.params.insert("S".into(), I32);

    let mut s = Schedule::new();
    let strip = Expr::param("S", sumsq_codegen::Type::I32);
    s.update("pq", 0)
        .split("ry", "strip", "row", strip, Tail::Predicate)
        .split("rx", "rxo", "rxi", 16, Tail::Predicate)
        .rfactor(&[("strip", "s")], "pq_s");
    s.update("pq_s", 0).parallel("s").rfactor(&[("rxi", "l")], "pq_sl").vectorize_loop("rxi");
    s.func("pq_sl")
        .compute_at(LoopLevel::update("pq_s", 0, "s"))
        .store_in(Memory::Register)
        .vectorize_loop("l");
    s.update("pq_sl", 0).reorder(&["l", "rxo", "row", "s"]).vectorize_loop("l");
    s.func("p")
        .store_at(LoopLevel::update("pq_s", 0, "s"))
        .compute_at(LoopLevel::update("pq_sl", 0, "row"))
        .fold_storage("y", 4)
        .align_bounds("x", 16)
        .vectorize("x", 16, Tail::Predicate)
        .sink();
    (p, s)
}

#[test]
fn sweep_with_a_sink_in_a_ring() {
    let (p, s) = sweep();
    for (w, h, strip) in [(1, 1, 1), (16, 4, 2), (37, 11, 4), (33, 9, 100)] {
        let input = |seed| with_halo(&pattern(&[F32], &[w, h], seed), &[16, 1]);
        let b = bindings(
            vec![("r", input(5)), ("p_old", input(8)), ("beta", pattern(&[F32], &[], 9))],
            vec![("S", Value::Int(strip))],
        );
        let ran = check(&p, &s, &b, &[vec![w, h], vec![]], 0.0);
        if (w, h) == (37, 11) {
            // Rows of 64 = [-16, 47]: three strips of 4, 4, 3 rows, each with two more.
            assert_eq!(ran.counters.of("p").stores, 64 * (11 + 3 * 2), "{}", ran.nests);
            assert_eq!(ran.counters.of("p").output_stores, 37 * 11, "each point once\n{}", ran.nests);
            if std::env::var_os("SHOW").is_some() {
                println!("{}\n\n{}", ran.nests, ran.body);
            }
        }
    }
}

/// Sweep B: (x', r') in place inside a sum over rows of vectors; the sum reads r' from registers.
#[test]
fn maps_in_place_below_a_reduction() {
    let (vx, vy, x, y) = xy();
    let mut p = Pipeline::new("sweep_b");
    let (xi, ri, q) = (
        p.input(Input::new("x", &[F32], 2)),
        p.input(Input::new("r", &[F32], 2)),
        p.input(Input::new("q", &[F32], 2)),
    );
    let at = [x, y];
    let xn = p.func(Func::new("xn", &[vx, vy], vec![xi.at(&at, 0) + q.at(&at, 0) * 2.0]));
    let rn = p.func(Func::new("rn", &[vx, vy], vec![ri.at(&at, 0) - q.at(&at, 0)]));
    let dom = RDom::new([("rx", Expr::from(0), xi.extent(0)), ("ry", Expr::from(0), xi.extent(1))]);
    let here = [dom.var(0), dom.var(1)];
    let sq = |f: &Func| (f.at(&here, 0) * f.at(&here, 0)).cast(F64);
    let acc = p.func(Func::sum("acc", &[], dom.clone(), vec![sq(&rn), sq(&xn)]));
    for f in [&xn, &rn, &acc] {
        p.output(f);
    }
    let mut s = Schedule::new();
    s.update("acc", 0)
        .split("ry", "strip", "row", 3, Tail::Predicate)
        .split("rx", "rxo", "rxi", 8, Tail::Predicate)
        .rfactor(&[("strip", "s")], "acc_s");
    s.update("acc_s", 0).parallel("s").rfactor(&[("rxi", "l")], "acc_l").vectorize_loop("rxi");
    s.func("acc_l")
        .compute_at(LoopLevel::update("acc_s", 0, "s"))
        .store_in(Memory::Register)
        .vectorize_loop("l");
    s.update("acc_l", 0).reorder(&["l", "rxo", "row", "s"]).vectorize_loop("l");
    for (f, input) in [("xn", "x"), ("rn", "r")] {
        let level = LoopLevel::update("acc_l", 0, "rxo");
        s.func(f).compute_at(level).vectorize("x", 8, Tail::Predicate).sink().in_place_of(input);
    }
    for (w, h) in [(1, 1), (8, 3), (21, 7)] {
        let input = |seed| pattern(&[F32], &[w, h], seed);
        let b = bindings(vec![("x", input(1)), ("r", input(2)), ("q", input(3))], vec![]);
        let ran = check(&p, &s, &b, &[vec![w, h], vec![w, h], vec![]], 0.0);
        assert!(ran.body.contains("allocate rn.0: f32[8:i64] in registers"), "{}", ran.body);
    }

    // A stencil's p has recomputed rows: it may not overwrite what they are computed from.
    let (p, mut s) = sweep();
    s.func("p").in_place_of("p_old");
    assert_rule(&p, &s, "layout, halo, types or dimensions differ");
    let (mut p, mut s) = sweep();
    p.outputs[0].halo = vec![16, 1];
    s.func("p").in_place_of("p_old");
    assert_rule(&p, &s, "computed more than once");
    s.func("p").in_place_of("beta");
    assert_rule(&p, &s, "the input is read at other coordinates");
}

fn assert_rule(p: &Pipeline, s: &Schedule, rule: &str) {
    let r = sumsq_codegen::lower::lower(p, s, &Default::default());
    match r {
        Err(Error::Schedule { rule: came, .. }) => assert!(came.contains(rule), "{came}"),
        r => panic!("expected rule {rule}, came {r:?}"),
    }
}

/// Sums over the edges of a vertex: offsets, then ids of neighbours, as bound by whoever owns the graph.
#[test]
fn ragged_sums() {
    let v = Var::new("v");
    let mut p = Pipeline::new("ragged");
    let n = sumsq_codegen::func::extent_param("x", 0);
    let m = sumsq_codegen::func::extent_param("ids", 0);
    let mut offsets = Input::new("offsets", &[I32], 1);
    offsets.value_range = Some((Expr::from(0), m));
    let offsets = p.input(offsets);
    let mut ids = Input::new("ids", &[I32], 1);
    ids.value_range = Some((Expr::from(0), n - 1));
    let ids = p.input(ids);
    let x = p.input(Input::new("x", &[F32], 1));
    let start = offsets.at(&[v.expr()], 0);
    let dom = RDom::new([("e", start.clone(), offsets.at(&[v.expr() + 1], 0) - start)]);
    let term = x.at(&[ids.at(&[dom.var(0)], 0)], 0);
    let sum = p.func(Func::sum("sum", &[v], dom, vec![term]));
    p.output(&sum);
    let degrees = [0, 3, 1, 0, 7, 2, 2];
    let total: i32 = degrees.iter().sum();
    let starts: Vec<i32> = (0..=degrees.len()).map(|i| degrees[..i].iter().sum()).collect();
    let b = bindings(
        vec![
            (
                "offsets",
                sumsq_codegen_testing::reference::Realization::from_fn(&[I32], &[8], |c, _| {
                    starts[c[0] as usize] as f64
                }),
            ),
            (
                "ids",
                sumsq_codegen_testing::reference::Realization::from_fn(&[I32], &[total as usize], |c, _| {
                    (c[0] * 5 % 7) as f64
                }),
            ),
            ("x", pattern(&[F32], &[7], 1)),
        ],
        vec![],
    );
    check(&p, &Schedule::new(), &b, &[vec![7]], 0.0);
    let mut s = Schedule::new();
    s.func("sum").vectorize("v", 4, Tail::Predicate);
    s.update("sum", 0).split("v", "vo", "vi", 3, Tail::Predicate).parallel("vo");
    check(&p, &s, &b, &[vec![7]], 0.0);
    let mut s = Schedule::new();
    s.update("sum", 0).split("v", "vo", "vi", 4, Tail::Predicate).vectorize_loop("vi").parallel("vo");
    check(&p, &s, &b, &[vec![7]], 0.0);
    let mut s = Schedule::new();
    s.update("sum", 0).reorder(&["v", "e"]);
    assert_rule(&p, &s, "the bounds of e use a loop further in");
    // Without a promise on the ids the read of x has no bounds.
    p.inputs["ids"].value_range = None;
    let e = sumsq_codegen::lower::lower(&p, &Schedule::new(), &Default::default()).err();
    assert!(matches!(&e, Some(Error::Pipeline { message, .. }) if message.contains("input ids")), "{e:?}");
}

/// A histogram and its running sum: updates at data-dependent places and in an order that matters.
#[test]
fn histogram_and_scan() {
    let mut p = Pipeline::new("histogram");
    let i = p.input(Input::new("in", &[ScalarType::U8], 1));
    let v = Var::new("b");
    let bin = |at: &Expr| i.at(std::slice::from_ref(at), 0).cast(I32) / 4;
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let at = bin(&r.var(0));
    let hist = Func::new("hist", std::slice::from_ref(&v), vec![Expr::from(0)]);
    let value = hist.at(std::slice::from_ref(&at), 0) + 1;
    let hist = hist.update(vec![at], vec![value], r);
    let hist = p.func(hist);
    let scan = Func::new("scan", std::slice::from_ref(&v), vec![hist.at(&[v.expr()], 0)]);
    let r = RDom::new([("k", Expr::from(1), Expr::from(63))]);
    let value = scan.at(&[r.var(0)], 0) + scan.at(&[r.var(0) - 1], 0);
    let scan = scan.update(vec![r.var(0)], vec![value], r);
    let scan = p.func(scan);
    p.output(&scan);
    for (n, bins) in [(1, 64), (100, 64), (100, 10), (100, 70)] {
        let input =
            sumsq_codegen_testing::reference::Realization::from_fn(&[ScalarType::U8], &[n], |c, _| {
                (c[0] * 37 % 256) as f64
            });
        let b = bindings(vec![("in", input)], vec![]);
        check(&p, &Schedule::new(), &b, &[vec![bins]], 0.0);
        let mut s = Schedule::new();
        s.update("hist", 0).split("r", "ro", "ri", 7, Tail::GuardWithIf).rfactor(&[("ro", "o")], "parts");
        s.update("hist", 0).vectorize("b", 8, Tail::Predicate).parallel("ro");
        assert_rule(&p, &s, "may write the same element");
        let mut s = Schedule::new();
        s.update("hist", 0).split("r", "ro", "ri", 7, Tail::GuardWithIf).rfactor(&[("ro", "o")], "parts");
        s.update("hist", 0).vectorize("b", 8, Tail::Predicate);
        s.update("parts", 0).parallel("o");
        s.func("parts").vectorize("b", 8, Tail::RoundUp);
        check(&p, &s, &b, &[vec![bins]], 0.0);
        let mut s = Schedule::new();
        s.update("scan", 0).split("k", "ko", "ki", 4, Tail::GuardWithIf).reorder(&["ko", "ki"]);
        assert_rule(&p, &s, "changes the order of reduction variables");
    }
}

#[test]
fn illegal_directives_are_errors() {
    let (p, ..) = blur();
    type Case = (&'static str, fn(&mut Schedule));
    let cases: &[Case] = &[
        ("is not a loop here", |s| {
            s.func("out").parallel("z");
        }),
        ("y already names a variable of this stage", |s| {
            s.func("out").split("x", "y", "xi", 4, Tail::Predicate);
        }),
        ("at least 1", |s| {
            s.func("out").split("x", "xo", "xi", 0, Tail::Predicate);
        }),
        ("the extent, 6, is no multiple of 4", |s| {
            s.func("out").vectorize("x", 4, Tail::RoundUp).bound_extent("x", Expr::from(6));
        }),
        ("no small constant bound", |s| {
            s.func("out").vectorize_loop("x");
        }),
        ("an output must be computed", |s| {
            s.func("out").inline();
        }),
        ("there is no such Func", |s| {
            s.func("nobody").parallel("x");
        }),
        ("there is no such stage", |s| {
            s.func("bx").compute_at(LoopLevel::update("out", 0, "x"));
        }),
        ("is not a loop here", |s| {
            s.func("bx").compute_at(LoopLevel::pure("out", "xo"));
        }),
        ("power of two", |s| {
            s.func("bx").compute_root().fold_storage("y", 3);
        }),
        ("coordinates are live", |s| {
            s.func("bx").compute_root().fold_storage("y", 4);
        }),
        ("has no constant bound", |s| {
            s.func("bx").compute_root().store_in(Memory::Stack);
        }),
        ("not an associative", |s| {
            s.func("out").rfactor(&[("x", "u")], "part");
        }),
        ("only an output", |s| {
            s.func("bx").compute_root().sink();
        }),
        ("would share the storage", |s| {
            s.func("out").split("y", "yo", "yi", 4, Tail::Predicate).parallel("yi");
            s.func("bx").store_at(LoopLevel::pure("out", "yo")).compute_at(LoopLevel::pure("out", "yi"));
        }),
        ("iterations of the vectorised loop xi would share the storage", |s| {
            s.func("out").split("x", "xo", "xi", 4, Tail::Predicate).vectorize_loop("xi");
            let [at, within] = ["xo", "xi"].map(|var| LoopLevel::pure("out", var));
            s.func("bx").store_at(at).compute_at(within);
        }),
        ("is not at or outside", |s| {
            s.func("bx").compute_at(LoopLevel::pure("out", "y")).store_at(LoopLevel::pure("out", "x"));
        }),
    ];
    for (rule, build) in cases {
        let mut s = Schedule::new();
        build(&mut s);
        assert_rule(&p, &s, rule);
    }
}

#[test]
fn skipped_tiles_hold_zeros() {
    let (vx, vy, x, y) = xy();
    let mut p = Pipeline::new("skip");
    let i = p.input(Input::new("in", &[I32], 2));
    let on = p.input(Input::new("on", &[I32], 2));
    // The promise: the value is zero where the tile is off.
    let tile_on = |x: &Expr, y: &Expr| on.at(&[x / 4, y / 2], 0).ne_(Expr::from(0));
    let f = Func::new(
        "f",
        &[vx, vy],
        vec![Expr::select(tile_on(&x, &y), i.at(&[x.clone(), y.clone()], 0), Expr::from(0))],
    );
    let f = p.func(f);
    let g = p.func(Func::new("g", &[vx, vy], vec![f.at(&[x, y], 0) + 1]));
    p.output(&g);
    let tiles = Realization::from_fn(&[I32], &[3, 3], |c, _| ((c[0] + c[1]) % 2) as f64);
    let b = bindings(vec![("in", pattern(&[I32], &[10, 5], 3)), ("on", tiles)], vec![]);
    // In terms of the loop, and of the coordinate that it splits: its first value in the block.
    for block in [Expr::var("xo"), Expr::var("x") / 4] {
        let mut s = Schedule::new();
        s.func("f")
            .compute_root()
            .tile("x", "y", "xo", "yo", "xi", "yi", 4, 2, Tail::Predicate)
            .vectorize_loop("xi");
        s.func("f").skip_unless("xo", on.at(&[block, Expr::var("yo")], 0).ne_(Expr::from(0)));
        check(&p, &s, &b, &[vec![10, 5]], 0.0);
    }
    let mut s = Schedule::new();
    s.func("f").compute_root().split("x", "xo", "xi", 4, Tail::Predicate);
    s.func("f").skip_unless("xo", on.at(&[Expr::var("xi"), Expr::from(0)], 0).ne_(Expr::from(0)));
    assert_rule(&p, &s, "the condition uses a loop further in");
}

/// Tiles that begin anywhere may lie in two runs of the condition: they are computed if either is on.
#[test]
fn skipped_tiles_that_begin_anywhere() {
    let (vx, _, x, _) = xy();
    let mut p = Pipeline::new("skip");
    let i = p.input(Input::new("in", &[I32], 1));
    let on = p.input(Input::new("on", &[I32], 1));
    let run = |x: &Expr| on.at(&[(x / 4).max(0).min(on.extent(0) - 1)], 0).ne_(Expr::from(0));
    let there = x.clone().max(0).min(i.extent(0) - 1);
    let value = Expr::select(run(&x), i.at(&[there], 0), Expr::from(0));
    let f = p.func(Func::new("f", std::slice::from_ref(&vx), vec![value]));
    let g = p.func(Func::new("g", std::slice::from_ref(&vx), vec![f.at(&[&x + 1], 0) + f.at(&[&x - 6], 0)]));
    p.output(&g);
    for tail in [Tail::Predicate, Tail::GuardWithIf, Tail::ShiftInwards] {
        let mut s = Schedule::new();
        s.func("f").compute_root().split("x", "xo", "xi", 4, tail).skip_unless("xo", run(&x));
        for on in 0..8u32 {
            let runs = Realization::from_fn(&[I32], &[3], |c, _| f64::from(on >> c[0] & 1));
            check(
                &p,
                &s,
                &bindings(vec![("in", pattern(&[I32], &[11], 3)), ("on", runs)], vec![]),
                &[vec![11]],
                0.0,
            );
        }
    }
}

/// A condition may hold loop variables and parameters, of which text does not say which is which.
#[test]
fn conditions_of_skips_read_back() {
    let (vx, vy, _, _) = xy();
    let (vx, vy) = (Var::new(format!("{}.q", vx.name())), vy);
    let mut p = Pipeline::new("skip");
    let on = p.param("on", I32).gt(2);
    let cond = vx.expr().modulo(3).ne_(0).and(on);
    let vars = [vx, vy];
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let value = Expr::select(&cond, &at[0] + &at[1] + 1, Expr::from(0));
    let f = p.func(Func::new("f", &vars, vec![value]));
    let g = p.func(Func::new("g", &vars, vec![f.at(&at, 0)]));
    p.output(&g);
    let mut s = Schedule::new();
    s.func("f").compute_root().skip_unless("x.q", cond);
    let s = Schedule::parse(&s.to_string()).expect("as printed");
    for on in [2, 3] {
        check(&p, &s, &bindings(vec![], vec![("on", Value::Int(on))]), &[vec![7, 5]], 0.0);
    }
}

/// Scalars computed from sums, an output read by later stages beyond its domain, several outputs.
#[test]
fn several_outputs_read_each_other() {
    let x = Var::new("x");
    let mut p = Pipeline::new("several");
    let mut i = Input::new("in", &[F32], 1);
    i.halo = vec![2];
    let i = p.input(i);
    let a = p.func(Func::new("a", std::slice::from_ref(&x), vec![i.at(&[x.expr()], 0) * 2.0]));
    let dom = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let t = p.func(Func::sum("t", &[], dom.clone(), vec![a.at(&[dom.var(0)], 0)]));
    let scale = p.func(Func::new("scale", &[], vec![t.at(&[], 0) + 1.0]));
    let wide = a.at(&[x.expr() - 1], 0) + a.at(&[x.expr() + 1], 0);
    let c = p.func(Func::new("c", std::slice::from_ref(&x), vec![wide * scale.at(&[], 0)]));
    for f in [&a, &scale, &c] {
        p.output(f);
    }
    for n in [1, 9] {
        let b = bindings(vec![("in", with_halo(&pattern(&[F32], &[n], 4), &[2]))], vec![]);
        check(&p, &Schedule::new(), &b, &[vec![n], vec![], vec![n]], 0.0);
        let mut s = Schedule::new();
        s.func("a").vectorize("x", 4, Tail::Predicate);
        s.func("c").vectorize("x", 4, Tail::GuardWithIf);
        check(&p, &s, &b, &[vec![n], vec![], vec![n]], 0.0);
    }
}

/// The nests of sweep A as text: strips, rows, vectors, the ring of p and its two stores. `SUMSQ_UPDATE=1` rewrites it.
#[test]
fn sweep_reads_as_the_loops_one_would_write() {
    let (p, s) = sweep();
    let plan = sumsq_codegen::plan::plan(&p, &s).expect("legal");
    let nests = sumsq_codegen::nests::build_nests(&plan).expect("legal");
    let came = sumsq_codegen::lower::trim::trim(&nests.body).to_string();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/build_nests/sweep_a.ir");
    if std::env::var_os("SUMSQ_UPDATE").is_some() {
        std::fs::write(file, &came).expect("writable");
    }
    let want = std::fs::read_to_string(file).expect("tests/golden/build_nests/sweep_a.ir");
    let different = came.lines().zip(want.lines()).position(|(a, b)| a != b);
    assert!(came == want, "line {:?} differs; came\n{came}", different.map(|l| l + 1));
}
