//! Lowered pipelines against the reference evaluator, by running statements on checked memory.

mod common;

use common::{bindings, check, pattern, try_check, with_halo};
use sumsq_codegen::reference::Value;
use sumsq_codegen::schedule::Memory;
use sumsq_codegen::{Error, Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};

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
    let bx = p.func(Func::new("bx", &[vx.clone(), vy.clone()], vec![at(-1) + at(0) * 2 + at(1)]));
    let by = |dy: i64| bx.at(&[x.clone(), &y + dy], 0);
    let out = p.func(Func::new("out", &[vx, vy], vec![by(-1) + by(0) * 3 + by(1)]));
    p.output(&out);
    (p, bx, out)
}

fn run_blur(s: &Schedule) -> common::Ran {
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
        assert!(matches!(&e, Err(Error::Run { message, .. }) if message.contains("in is read beyond dimension 0")));
    }
}

#[test]
fn compute_at_the_vector() {
    let mut s = Schedule::new();
    s.func("out").vectorize("x", 16, Tail::Predicate);
    s.func("bx").compute_at(LoopLevel::pure("out", "xo")).store_in(Memory::Register).vectorize("x", 16, Tail::Predicate);
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
    assert_eq!(r.stores["bx"], 37 * (11 + 3 * 2), "{}", r.nests);
    s.func("bx").fold_storage("y", 2);
    let (p, ..) = blur();
    let b = bindings(vec![("in", with_halo(&pattern(&[I32], &[5, 3], 3), &[1, 1]))], vec![]);
    let e = try_check(&p, &s, &b, &[vec![5, 3]], 0.0).err();
    assert!(matches!(&e, Some(Error::Schedule { rule, .. }) if rule.contains("3 coordinates are live")), "{e:?}");
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
    s.func("sum_l").compute_at(LoopLevel::update("sum_s", 0, "s")).store_in(Memory::Register).vectorize_loop("l");
    s.update("sum_l", 0).reorder(&["l", "rxo", "row"]).vectorize_loop("l");
    for (w, h, strip) in [(1, 1, 1), (16, 4, 2), (37, 11, 4), (15, 3, 7)] {
        let b = bindings(vec![("in", pattern(&[F32], &[w, h], 5))], vec![("S", Value::Int(strip))]);
        check(&p, &s, &b, &[vec![]], 0.0);
    }
}

/// Design section 4a, B5: sweep A of PCG on a Laplacian.
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
    let pf = p.func(Func::new("p", &[vx.clone(), vy.clone()], vec![value]));
    let (w, h) = (r.extent(0), r.extent(1));
    let zero = Expr::from(0.0f32);
    let inside = |c: Expr, dx: i64, dy: i64| Expr::select(c.likely(), pf.at(&[&x + dx, &y + dy], 0), zero.clone());
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
    s.func("pq_sl").compute_at(LoopLevel::update("pq_s", 0, "s")).store_in(Memory::Register).vectorize_loop("l");
    s.update("pq_sl", 0).reorder(&["l", "rxo", "row"]).vectorize_loop("l");
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
            // Rows of 80 = [-16, 63]: three strips of 4, 4, 3 rows, each with two more.
            assert_eq!(ran.stores["p"], 80 * (11 + 3 * 2), "{}", ran.nests);
            if std::env::var_os("SHOW").is_some() {
                println!("{}\n\n{}", ran.nests, ran.body);
            }
        }
    }
}
