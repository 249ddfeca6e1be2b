//! compute_with: chains, loops of every kind, special versions.

use crate::support::{in_order, plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Pipeline, RDom, ScalarType};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// Outputs a, b, c and d of an input, of which c has an update that sums over four columns.
fn four() -> Pipeline {
    let (mut p, i, vars) = plane("four");
    let at = [vars[0].expr(), vars[1].expr()];
    p.param("scale", I32);
    for (k, n) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let mut f = Func::new(n, &vars, vec![i.at(&at, 0) + k as i64]);
        if n == "c" {
            let r = RDom::new([("r", Expr::from(0), Expr::from(4))]);
            let more = f.at(&at, 0) + i.at(&[r.var(0), at[1].clone()], 0) * 2;
            f = f.update(at.to_vec(), vec![more], r);
        }
        let f = p.func(f);
        p.output(&f);
    }
    p
}

/// The nests, after runs over equal domains and over different ones.
fn run(text: &str) -> String {
    let s = schedule(text);
    let mut nests = String::new();
    for (scale, domains) in
        [(0, [[9, 6]; 4]), (2, [[9, 6], [4, 8], [7, 3], [1, 1]]), (3, [[1, 7], [9, 2], [5, 8], [8, 8]])]
    {
        let extents: Vec<Vec<usize>> = domains.iter().map(|d| d.to_vec()).collect();
        let input = pattern(&[I32], &[9, 8], 1);
        let b = bindings(vec![("in", input)], vec![("scale", Value::Int(scale))]);
        nests = check(&four(), &s, &b, &extents, 0.0).nests;
        if scale == 2 {
            agree(&four(), &s, &b, &extents);
        }
    }
    nests
}

/// Loops that all of several stages have stand around those that fewer have; a stage comes after the one that it names.
#[test]
fn chains() {
    let yx = ["for a.s0.y.joint", "for a.s0.x.joint"];
    let cases: [(&str, &[&str]); 6] = [
        (
            "b: compute_with(a, y) c: compute_with(a, x)",
            &[yx[0], yx[1], "produce a", "produce c", "produce b"],
        ),
        (
            "b: compute_with(a, x) c: compute_with(b, x)",
            &[yx[0], yx[1], "produce a", "produce b", "produce c"],
        ),
        (
            "b: compute_with(a, x) c: compute_with(b, y)",
            &[yx[0], yx[1], "produce a", "produce b", "produce c {", "for c.s0.x"],
        ),
        (
            "b: compute_with(a, y) c: compute_with(b, x)",
            &[yx[0], "produce a", "for a.s0.x", "for b.s0.x.joint", "produce b", "produce c"],
        ),
        (
            "b: compute_with(a, y) c: compute_with(b, x) d: compute_with(a, x)",
            &[yx[0], yx[1], "produce a", "produce d", "for b.s0.x.joint", "produce b", "produce c"],
        ),
        (
            "c.update(0): compute_with(d, x) b: compute_with(c.update(0), y) a: compute_with(b, x)",
            &[
                "for d.s0.y.joint",
                "for d.s0.x.joint",
                "produce d",
                "for b.s0.x.joint",
                "produce b",
                "produce a",
            ],
        ),
    ];
    for (text, order) in cases {
        in_order(&run(text), order);
    }
}

/// Lanes, copies and threads run together as serial loops do.
#[test]
fn loops_of_every_kind() {
    let tiles = |tail: &str, n: u32, kind: &str| format!("split(x, xo, xi, {n}, {tail}) {kind}(xi)");
    for kind in ["vectorize", "unroll"] {
        for (tail, n, m) in [("guard", 4, 4), ("predicate", 4, 8), ("shift_inwards", 4, 4)] {
            let (a, b) = (tiles(tail, n, kind), tiles("predicate", m, kind));
            let nests = run(&format!("a: {a} b: {b} compute_with(a, xi)"));
            let found = nests.lines().filter(|l| l.contains("for a.s0.xi.joint"));
            assert!(found.clone().count() == 1 && found.clone().all(|l| l.contains(&kind[..6])), "{nests}");
        }
    }
    for text in [
        // A vector loop around a serial one, and a sum over lanes.
        "a: split(x, xo, xi, 4, guard) reorder(y, xi, xo) vectorize(xi) \
         b: split(x, xo, xi, 4, guard) reorder(y, xi, xo) vectorize(xi) compute_with(a, y)",
        "a: split(y, yo, yi, 2, guard) unroll(yi) parallel(yo) c.update(0): split(y, yo, yi, 2, guard) reorder(r, x, yi, yo) \
         unroll(yi) parallel(yo) vectorize(r) compute_with(a, yi)",
        "a: fuse(x, y, both) split(both, o, i, 8, predicate) vectorize(i) parallel(o) \
         b: fuse(x, y, both) split(both, o, i, 8, predicate) vectorize(i) parallel(o) compute_with(a, i) \
         d: fuse(x, y, both) split(both, o, i, 8, guard) unroll(i) parallel(o) compute_with(b, o)",
        "a: split(x, xo, xi, 4, guard) partition(xi, never) b: split(x, xo, xi, 4, guard) compute_with(a, xi) partition(xo, always)",
    ] {
        run(text);
    }
}

/// Of loops as long as constants say, the joint one may be as long as nobody says.
#[test]
fn copies_of_unknown_number() {
    let (mut p, i, vars) = plane("apart");
    let at = [vars[0].expr(), vars[1].expr()];
    let [x, y] = at.clone();
    let f = p.func(Func::new("f", &vars, vec![i.at(&at, 0)]));
    let g = p.func(Func::new("g", &vars, vec![i.at(&at, 0) * 2]));
    let h = p.func(Func::new("h", &vars, vec![f.at(&at, 0) + g.at(&[x * 2, y], 0)]));
    p.output(&h);
    for (kind, loop_) in [("vectorize", "vectorized x"), ("unroll", "unrolled x")] {
        let s = format!(
            "h: split(x, xo, xi, 4, guard) f: compute_at(h, xo) {kind}(x) g: compute_at(h, xo) {kind}(x) compute_with(f, x)"
        );
        let rule = format!("g: compute_with(f, x): the ranges of {loop_} differ by no constant");
        assert_eq!(refused(&p, &schedule(&s)), rule);
    }
}

/// Every version of one stage runs with every version of the other.
#[test]
fn versions() {
    let nests = run("a: specialize(scale > 1) { split(x, xo, xi, 4, guard) vectorize(xi) } \
                     b: compute_with(a, y) specialize(b.extent.0 > 5) { split(x, xo, xi, 4, guard) unroll(xi) } specialize(scale > 2) { parallel(x) }");
    assert_eq!(nests.matches(".y.joint in").count(), 6, "{nests}");
    run(
        "a: specialize(scale > 1) { parallel(y) } parallel(y) b: parallel(y) compute_with(a, y) c: compute_with(b, x) parallel(y)",
    );
    run(
        "d: split(x, xo, xi, 2, guard) specialize(scale > 1) { specialize(d.extent.0 > 2) { vectorize(xi) } } \
         c: split(x, xo, xi, 2, guard) compute_with(d, xo) specialize(scale > 2) { rename(xi, k) }",
    );
}
