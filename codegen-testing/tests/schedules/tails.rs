//! Reads and writes of tail strategies: regions do not depend on how a loop is split.

use crate::support::{ran, refused, schedule};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{
    Constraint, Error, Expr, Func, Input, Layout, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var,
};
use sumsq_codegen_testing::check::{bindings, check, pattern};

const I32: ScalarType = ScalarType::I32;
/// The tails that never read beyond what the definitions need.
const EXACT: [Tail; 4] = [Tail::Auto, Tail::GuardWithIf, Tail::Predicate, Tail::ShiftInwards];

/// `out(x) = g(x) + g(x + 2)`, `g(x) = in(x) - 3 in(x + 1)`: `w` values of `out` need `w + 3` of `in`.
fn chain() -> Pipeline {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("chain");
    let i = p.input(Input::new("in", &[I32], 1));
    let g = p.func(Func::new("g", &[v], vec![i.at(&[x.clone()], 0) - i.at(&[&x + 1], 0) * 3]));
    let out = p.func(Func::new("out", &[v], vec![g.at(&[x.clone()], 0) + g.at(&[&x + 2], 0)]));
    p.output(&out);
    p
}

/// Runs `s` where the input holds exactly what `w` outputs need, and where it holds one element less.
fn footprint_is_exact(s: &Schedule, w: usize) {
    let p = chain();
    let b = bindings(vec![("in", pattern(&[I32], &[w + 3], 7))], vec![]);
    check(&p, s, &b, &[vec![w]], 0.0);
    let e = ran(&p, s, &[w as i32 + 2], &[w as i32]).expect_err("one is missing");
    let last = w + 2;
    let reader = if s.to_string().contains("g:") { "g" } else { "out" };
    let numbers = "from, to, first readable, last readable, missing before, missing behind";
    let message =
        format!("chain: in is read beyond dimension 0 by {reader}: {numbers}: 0, {last}, 0, {}, 0, 1", w + 1);
    assert_eq!(e.to_string(), message, "{s}");
}

#[test]
fn no_split_changes_the_footprint() {
    for w in [1, 2, 4, 5, 9, 17, 23] {
        for tail in EXACT {
            let mut s = Schedule::new();
            s.func("out").split("x", "xo", "xi", 5, tail);
            footprint_is_exact(&s, w);
            s.func("g").compute_at(LoopLevel::pure("out", "xo")).vectorize("x", 4, tail);
            footprint_is_exact(&s, w);
        }
    }
}

/// Three splits, none of which divides another: of the block, and of what is in it, in producer and consumer.
#[test]
fn nested_splits_that_do_not_divide_keep_the_footprint() {
    for w in [1, 3, 7, 8, 16, 22, 31] {
        for (outer, middle, inner) in [
            (Tail::ShiftInwards, Tail::ShiftInwards, Tail::ShiftInwards),
            (Tail::ShiftInwards, Tail::Predicate, Tail::ShiftInwards),
            (Tail::GuardWithIf, Tail::ShiftInwards, Tail::ShiftInwards),
            (Tail::Auto, Tail::Auto, Tail::Auto),
        ] {
            let mut s = Schedule::new();
            s.func("out").split("x", "xo", "xi", 7, outer).split("xi", "xio", "xii", 3, middle);
            s.func("out").split("xo", "xoo", "xoi", 2, inner);
            footprint_is_exact(&s, w);
            s.func("g").compute_at(LoopLevel::pure("out", "xoo"));
            s.func("g").split("x", "a", "b", 5, outer).split("b", "c", "d", 4, inner).vectorize_loop("d");
            footprint_is_exact(&s, w);
        }
    }
}

/// A group of blocks that begins with the one that moves back: with the loop over a block outside of it, what is computed or
/// stored for the group starts before the place where that block would have been.
#[test]
fn the_first_block_of_a_group_may_move_back() {
    let p = chain();
    let groups =
        "out: split(x, xo, xi, 8, shift_inwards) split(xo, xoo, xoi, 4, predicate) reorder(xoi, xoo, xi)";
    let storage =
        ["", "store_whole store_in(stack)", "store_whole split(x, a, b, 16, round_up) vectorize(b)"];
    // With what rounding up adds to 3.
    let read = 3 + 15;
    for w in [1, 5, 8, 31, 32, 33, 40, 63, 64, 65, 71] {
        let b = bindings(vec![("in", pattern(&[I32], &[w + read], 7))], vec![]);
        for level in ["compute_at(out, xoo)", "compute_at(out, xoi) store_at(out, xoo)"] {
            for own in storage {
                check(&p, &schedule(&format!("{groups} g: {level} {own}")), &b, &[vec![w]], 0.0);
            }
        }
    }
}

/// The last block moves back by what is missing and stores its points again.
#[test]
fn shift_inwards_recomputes_and_does_not_guard() {
    let p = chain();
    let mut s = Schedule::new();
    s.func("out").compute_root();
    s.func("g").compute_root().vectorize("x", 8, Tail::ShiftInwards);
    let b = bindings(vec![("in", pattern(&[I32], &[24], 7))], vec![]);
    let done = check(&p, &s, &b, &[vec![21]], 0.0);
    // 23 points in three blocks of 8.
    assert_eq!(done.counters.of("g").stores, 24, "{}", done.nests);
}

/// A run on `w` outputs under this schedule of them.
fn rounded(p: &Pipeline, s: &Schedule, w: usize) -> Result<(), Error> {
    let b = bindings(vec![("in", pattern(&[I32], &[w + 3], 7))], vec![]);
    let run = ran(p, s, &[w as i32 + 3], &[w as i32]);
    if run.is_ok() {
        check(p, s, &b, &[vec![w]], 0.0);
    }
    run
}

/// An output that is rounded up is whole blocks: nothing is masked or guarded, and a run with another buffer is refused before it stores anything.
#[test]
fn an_output_that_is_rounded_up_is_whole_blocks() {
    let once = "out: split(x, xo, xi, 4, round_up) vectorize(xi)  g: compute_at(out, xo) vectorize(x)";
    let twice = "out: split(x, xo, xi, 2, round_up) split(xo, xoo, xoi, 2, round_up) unroll(xi)";
    let planar = chain();
    let mut strided = chain();
    strided.outputs[0].layout = Layout::Strided;
    strided.outputs[0].constraints = Constraint::defaults(1);
    for (p, text) in [(&planar, once), (&planar, twice), (&strided, once), (&strided, twice)] {
        let s = schedule(text);
        let code = lower(p, &s, &LowerOptions::default()).expect("legal").to_string();
        let stores: Vec<&str> = code.lines().filter(|l| l.contains("out.0[")).collect();
        assert!(!stores.is_empty() && stores.iter().all(|l| !l.contains(" if ")), "{code}");
        for w in [4, 8, 20] {
            assert_eq!(rounded(p, &s, w), Ok(()), "{text}");
        }
        for w in [1, 3, 5, 21] {
            let e = rounded(p, &s, w).expect_err("no multiple of 4");
            assert!(matches!(&e, Error::Run { .. }), "{e:?}");
            let rule = "extent of dimension 0 must be a multiple of 4, as round_up of x says, it is";
            assert_eq!(e.to_string(), format!("chain: out: {rule}: {w}"), "{text}");
        }
    }
}

/// Known extents are not tested again; one that is no multiple is refused with the schedule.
#[test]
fn extents_that_are_known_are_multiples_or_not() {
    let message = "must be a multiple";
    let code =
        |p: &Pipeline, s: &str| lower(p, &schedule(s), &LowerOptions::default()).expect("legal").to_string();
    let round = "out: split(x, xo, xi, 8, round_up) vectorize(xi)";
    assert!(code(&chain(), round).contains(message));
    assert!(!code(&chain(), &format!("{round} bound_extent(x, 24)")).contains(message));
    let e = refused(&chain(), &schedule(&format!("{round} bound_extent(x, 20)")));
    assert_eq!(e, "out: round_up of x: the extent, 20, is no multiple of 8; use Predicate");
    // Promised by the algorithm, in terms of a parameter: tested where buffers are bound.
    let mut p = chain();
    let blocks = p.param("blocks", I32);
    p.outputs[0].layout = Layout::Strided;
    p.outputs[0].constraints = vec![Constraint::new().stride(1).extent(blocks * 16)];
    assert!(!code(&p, round).contains(message), "{}", code(&p, round));
    let e = ran(&p, &schedule(round), &[27], &[24]).expect_err("no value of the parameter");
    assert!(matches!(e, Error::Bind { .. }), "{e:?}");
}

/// An output that others read beyond its buffer has storage that is more than the buffer, and updates may not be rounded.
#[test]
fn round_up_is_for_what_the_buffer_holds() {
    let v = Var::new("x");
    let mut p = chain();
    let (out, x) = (p.funcs["out"].clone(), v.expr());
    let far = p.func(Func::new("far", &[v], vec![out.at(&[x + 9], 0)]));
    p.output(&far);
    let e = refused(&p, &schedule("out: split(x, xo, xi, 4, round_up)"));
    assert_eq!(
        e,
        "out: round_up of x: more may be computed of this output than its buffer holds; use Predicate"
    );
}

#[test]
fn shift_inwards_where_points_may_be_computed_twice() {
    let v = Var::new("x");
    let r = RDom::new([("r", Expr::from(0), Expr::from(3))]);
    let mut p = Pipeline::new("sum");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = p.func(Func::sum("f", &[v], r, vec![i.at(&[v.expr() + Expr::var("r")], 0)]));
    p.output(&f);
    let mut s = Schedule::new();
    s.update("f", 0).split("x", "xo", "xi", 4, Tail::ShiftInwards);
    assert_eq!(
        refused(&p, &s),
        "f.update(0): split(x, xo, xi, 4, shift_inwards): ShiftInwards would update some points twice: pure definitions only; use Predicate"
    );

    let mut s = Schedule::new();
    s.update("f", 0).split("x", "xo", "xi", 4, Tail::RoundUp);
    assert_eq!(
        refused(&p, &s),
        "f.update(0): split(x, xo, xi, 4, round_up): RoundUp writes beyond the region: pure definitions only; use Predicate"
    );

    let mut s = Schedule::new();
    s.func("f")
        .split("x", "xo", "xi", 4, Tail::ShiftInwards)
        .split("xo", "a", "b", 2, Tail::Auto)
        .parallel("a");
    assert_eq!(
        refused(&p, &s),
        "f: split(x, xo, xi, 4, shift_inwards): the last two blocks overlap, but the loop a runs them in parallel; \
         use Predicate"
    );

    // Nor may places in blocks, where the blocks are inside: the last two hold some points both.
    let mut s = Schedule::new();
    s.func("f").split("x", "xo", "xi", 4, Tail::ShiftInwards).reorder(&["xo", "xi"]).parallel("xi");
    assert_eq!(
        refused(&p, &s),
        "f: split(x, xo, xi, 4, shift_inwards): the last two blocks overlap, but the loop xi runs them in parallel; \
         use Predicate"
    );
    let mut s = Schedule::new();
    s.func("f").split("x", "xo", "xi", 4, Tail::Auto).reorder(&["xo", "xi"]).parallel("xi");
    check(&p, &s, &bindings(vec![("in", pattern(&[I32], &[10], 1))], vec![]), &[vec![7]], 0.0);

    let mut p = Pipeline::new("in_place");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = p.func(Func::new("f", &[v], vec![i.at(&[v.expr()], 0) + 1]));
    p.output_with(&f, Layout::Planar, vec![0]);
    let mut s = Schedule::new();
    s.func("f").in_place_of("in").split("x", "xo", "xi", 4, Tail::ShiftInwards);
    assert_eq!(
        refused(&p, &s),
        "f: in_place_of(in): some points are computed more than once, and would read what was overwritten"
    );
    // The same split, left to the compiler, is guarded.
    let mut s = Schedule::new();
    s.func("f").in_place_of("in").split("x", "xo", "xi", 4, Tail::Auto);
    sumsq_codegen::lower::lower(&p, &s, &Default::default()).expect("legal");
}
