//! bound, bound_extent, align_bounds, align_storage, reorder_storage, set_estimate.

use crate::support::{plane, ran, refused, schedule};
use sumsq_codegen::{Constraint, Expr, Func, Pipeline, ScalarType, Schedule};
use sumsq_codegen_testing::check::{bindings, check, pattern};

const I32: ScalarType = ScalarType::I32;

/// `out(x, y) = g(x, y) + g(x + 2, y)`, `g(x, y) = 3 in(x, y)` with the coordinate clamped.
fn taps() -> Pipeline {
    let (mut p, i, vars) = plane("taps");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let inside = x.clone().max(0).min(i.extent(0) - 1);
    let g = p.func(Func::new("g", &vars, vec![i.at(&[inside, y.clone()], 0) * 3]));
    let value = g.at(&[x.clone(), y.clone()], 0) + g.at(&[&x + 2, y], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

/// The nests and the lowered body for an output of 16 x 5.
fn texts(s: &Schedule) -> (String, String) {
    let b = bindings(vec![("in", pattern(&[I32], &[16, 5], 3))], vec![]);
    let r = check(&taps(), s, &b, &[vec![16, 5]], 0.0);
    (r.nests, r.body)
}

#[test]
fn a_bound_makes_loops_constant() {
    let (nests, _) =
        texts(&schedule("out: bound(x, 0, 16) bound_extent(y, 5) g: compute_root bound(x, -2, 24)"));
    assert!(nests.contains("for out.s0.x in [0, 16)"), "{nests}");
    assert!(nests.contains("for out.s0.y in [0, 5)"), "{nests}");
    assert!(nests.contains("for g.s0.x in [-2, 22)"), "{nests}");
    // A dimension with a constant extent is unrolled as a whole.
    texts(&schedule("out: bound(y, 0, 5) unroll(y)"));
    texts(&schedule(
        "out: split(x, xo, xi, 4, predicate) g: compute_at(out, xo) bound_extent(x, 8) vectorize(x)",
    ));
}

/// An output whose region is said goes to its buffer, which is as large, and nowhere else.
#[test]
fn a_bound_output_has_no_storage() {
    let mut p = taps();
    p.outputs.clear();
    p.output_strided(&p.funcs["out"].clone(), Constraint::defaults(2));
    let b = bindings(vec![("in", pattern(&[I32], &[16, 5], 3))], vec![]);
    for text in ["out: bound(x, 0, 16)", "out: bound_extent(x, 16) bound(y, 0, 5) split(x, xo, xi, 4, auto)"]
    {
        let r = check(&p, &schedule(text), &b, &[vec![16, 5]], 0.0);
        assert_eq!(r.counters.of("out").allocations, 0, "{text}\n{}", r.nests);
    }
}

/// Blocks behind a guard follow each other from the first point on: what they read is no more than whole blocks hold.
#[test]
fn guarded_blocks_of_a_bounded_extent_lie_side_by_side() {
    let (mut p, i, vars) = plane("blocks");
    let at = [vars[0].expr(), vars[1].expr()];
    let inside = at[0].clone().max(0).min(i.extent(0) - 1);
    let f = p.func(Func::new("f", &vars, vec![i.at(&[inside, at[1].clone()], 0) * 3]));
    let g = p.func(Func::new("g", &vars, vec![f.at(&at, 0) + 1]));
    let out = p.func(Func::new("out", &vars, vec![g.at(&at, 0) * 2]));
    p.output(&out);
    let tail = |outer: &str, factor: usize| {
        format!(
            "out: split(x, xo, xr, {factor}, {outer}) split(xr, xm, xi, 4, guard) reorder(xi, xm, y, xo)
             g: compute_at(out, xm) bound_extent(x, 4) f: compute_at(out, xo) store_in(heap)"
        )
    };
    for (text, width) in [(tail("predicate", 8), 8), (tail("guard", 12), 12)] {
        for w in [16, 13, 12, 9, 3] {
            let b = bindings(vec![("in", pattern(&[I32], &[w, 5], 3))], vec![]);
            let r = check(&p, &schedule(&text), &b, &[vec![w, 5]], 0.0);
            assert_eq!(r.counters.of("f").allocated, width * 5, "{text}, {w} wide\n{}", r.nests);
        }
    }
    assert_eq!(
        refused(&p, &schedule(&tail("guard", 6))),
        "g: bound_extent(x, 4): an iteration of out, xm may need no coordinate, and its block would begin behind what there is to read"
    );
}

#[test]
fn a_bound_is_checked() {
    let run = |text: &str, w| ran(&taps(), &schedule(text), &[16, 5], &[w, 5]).map_err(|e| e.to_string());
    assert_eq!(run("out: bound(x, 0, 16)", 16), Ok(()));
    for (text, w, message) in [
        (
            "out: bound(x, 0, 16)",
            17,
            "taps: out: bound(x, 0, 16): needed from, to, given from, to: 0, 16, 0, 15",
        ),
        (
            "out: bound(x, 0, 16)",
            15,
            "taps: out: bound(x, 0, 16): the extent of dimension 0 of the output differs, it is: 15",
        ),
        (
            "out: bound_extent(x, 8)",
            9,
            "taps: out: bound_extent(x, 8): needed from, to, given from, to: 0, 8, 0, 7",
        ),
        (
            "g: compute_root bound(x, 0, 17)",
            16,
            "taps: g: bound(x, 0, 17): needed from, to, given from, to: 0, 17, 0, 16",
        ),
        (
            "g: compute_at(out, y) bound(x, 1, 40)",
            16,
            "taps: g: bound(x, 1, 40): needed from, to, given from, to: 0, 17, 1, 40",
        ),
    ] {
        assert_eq!(run(text, w), Err(message.to_string()), "{text}");
    }
}

#[test]
fn storage_is_padded_and_reordered() {
    let (_, body) = texts(&schedule("g: compute_root align_storage(x, 48)"));
    assert!(
        body.contains("let g.pitch.1 = (i64(out.extent.0) + 1:i64) / 48:i64 * 48:i64 + 48:i64"),
        "{body}"
    );
    let (_, body) = texts(&schedule("g: compute_root reorder_storage(y, x)"));
    assert!(body.contains("g.pitch.0") && !body.contains("g.pitch.1"), "{body}");
    let (_, body) = texts(&schedule("g: compute_root align_storage(y, 8) bound(y, 0, 5) bound(x, 0, 18)"));
    // Rows of 18 in pitches of 32, eight of them.
    assert!(body.contains("allocate g.0: i32[256:i64]"), "{body}");
}

#[test]
fn estimates_change_nothing() {
    assert_eq!(
        texts(&Schedule::new()),
        texts(&schedule("out: set_estimate(x, 0, 1920) set_estimate(y, -8, 1080)"))
    );
}

#[test]
fn refusals() {
    for (s, text) in [
        ("g: compute_root bound(z, 0, 4)", "g: bound(z): the Func has no such dimension"),
        ("g: compute_root bound(x, 0, 0)", "g: bound(x, 0, 0): the extent must be at least 1"),
        (
            "out: split(x, xo, xi, 4, predicate) g: compute_at(out, xo) bound_extent(x, 5)",
            "g: bound_extent(x, 5): 6 coordinates may be needed at out, xo",
        ),
        (
            "out: split(x, xo, xi, 16, guard) split(xi, xio, xii, 4, guard)
             g: compute_at(out, xio) store_at(out, xo) bound_extent(x, 64)",
            "g: bound_extent(x, 64): an iteration of out, xio may need no coordinate, and its storage is further out",
        ),
        (
            "out: split(x, xo, xr, 8, predicate) split(xr, xm, xi, 4, guard) g: compute_at(out, xm) bound_extent(x, 6)",
            "g: bound_extent(x, 6): an iteration of out, xm may need no coordinate, and its block would begin behind what there is to read",
        ),
        ("g: compute_root set_estimate(x, 0, 0)", "g: set_estimate(x, 0, 0): the extent must be at least 1"),
        ("g: compute_root align_storage(x, 0)", "g: align_storage(x, 0): the modulus must be in 1..=2^20"),
        ("g: compute_root reorder_storage(x)", "g: reorder_storage(x): name all dimensions, fastest first"),
        ("g: compute_root reorder_storage(x, x)", "g: reorder_storage(x, x): x is named twice"),
        ("out: reorder_storage(y, x)", "out: reorder_storage(y, x): an output lies as its buffer does"),
    ] {
        assert_eq!(refused(&taps(), &schedule(s)), text);
    }
    let mut s = Schedule::new();
    s.func("g").compute_root().bound_extent("x", Expr::var("q"));
    assert_eq!(refused(&taps(), &s), "g: bound_extent(x, q): q is no i32 made of constants and parameters");
}
