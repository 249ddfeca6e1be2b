//! Bounds of tiled selects and clamps: the storage of a tile, the values computed for it, and what is required of the input
//! equal what following the definitions finds.

use crate::support::schedule;
use sumsq_codegen::nests::bounds_query::BoundsQuery;
use sumsq_codegen::{Expr, Func, Input, Name, Pipeline, ScalarType, Source, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::{Value, eval_scalar};

const I32: ScalarType = ScalarType::I32;
/// Extents of input and output.
const INPUT: usize = 48;
const OUT: [usize; 2] = [19, 11];

/// Coordinates over x and y. A region is an interval, and that of a select holds both arms wherever it is read: the arms
/// that brute force has to look at.
type Coordinates = fn(&Expr, &Expr) -> Vec<Expr>;

const CASES: [(&str, Coordinates); 6] = [
    ("clamp", |x, _| vec![(x - 3).max(0).min(12)]),
    ("clamp of a slope", |x, y| vec![(x * 2 - y + 4).max(2).min(30)]),
    ("select", |x, _| vec![x.clone(), x + 5]),
    ("select of slopes", |x, y| vec![x * 2, y + 20]),
    ("select of clamps", |x, y| vec![(x - 4).max(0), (y + 30 - x).min(33).max(6)]),
    ("clamp of a quotient", |x, y| vec![((x + y * 3) / 4).max(1).min(9)]),
];

/// `out(x, y) = f(c(x, y))`, c the one arm or a select of both, `f(z) = 3 in(z)`.
fn pipeline(arms: &[Expr], clamped: bool) -> Pipeline {
    let [x, y, z] = ["x", "y", "z"].map(Var::new);
    let mut p = Pipeline::new("tiled");
    let i = p.input(Input::new("in", &[I32], 1));
    let f = p.func(Func::new("f", &[z], vec![i.at(&[z.expr()], 0) * 3]));
    let at = match arms {
        [a, b] => Expr::select((x.expr() + y.expr()).lt(13), a, b),
        _ => arms[0].clone(),
    };
    // A clamp around a select cuts its interval.
    let at = if clamped { at.max(5).min(17) } else { at };
    let out = p.func(Func::new("out", &[x, y], vec![f.at(&[at], 0)]));
    p.output(&out);
    p
}

/// Least and greatest coordinate over a tile.
fn brute(arms: &[Expr], clamped: bool, x: std::ops::Range<usize>, y: std::ops::Range<usize>) -> (i64, i64) {
    let mut ends = (i64::MAX, i64::MIN);
    for (x, y) in y.flat_map(|y| x.clone().map(move |x| (x, y))) {
        let at: [(Name, i64); 2] = [("x".into(), x as i64), ("y".into(), y as i64)];
        for e in arms {
            let v = eval_scalar(e, &at, &[]).expect("closed").as_int().expect("an integer");
            ends = (ends.0.min(v), ends.1.max(v));
        }
    }
    if clamped { (ends.0.clamp(5, 17), ends.1.clamp(5, 17)) } else { ends }
}

#[test]
fn tiles_allocate_and_compute_what_they_read() {
    let b = bindings(vec![("in", pattern(&[I32], &[INPUT], 3))], vec![]);
    for (name, coordinates) in CASES {
        let arms = coordinates(&Expr::var("x"), &Expr::var("y"));
        for (clamped, (w, h)) in
            [false, true].into_iter().flat_map(|c| [(4, 3), (8, 8), (5, 2)].map(|t| (c, t)))
        {
            let p = pipeline(&arms, clamped);
            for (kind, tail) in [("", "guard"), ("vectorize(xi)", "predicate")] {
                let s = format!(
                    "out: split(x, xo, xi, {w}, {tail}) split(y, yo, yi, {h}, {tail}) reorder(xi, yi, xo, yo) {kind}
                     f: compute_at(out, xo) store_in(heap)"
                );
                let s = schedule(&s);
                let (mut stores, mut largest, mut tiles) = (0, 0, 0);
                for (x, y) in (0..OUT[1]).step_by(h).flat_map(|y| (0..OUT[0]).step_by(w).map(move |x| (x, y)))
                {
                    let (lo, hi) = brute(&arms, clamped, x..(x + w).min(OUT[0]), y..(y + h).min(OUT[1]));
                    let n = (hi - lo + 1) as usize;
                    (stores, largest, tiles) = (stores + n, largest.max(n), tiles + 1);
                }
                let ran = check(&p, &s, &b, &[OUT.to_vec()], 0.0);
                let c = ran.counters.of("f");
                assert_eq!(
                    (c.stores, c.allocated, c.allocations),
                    (stores, largest, tiles),
                    "{name}, clamped: {clamped}\n{s}{}",
                    ran.nests
                );
                let q = BoundsQuery::of(&p, &s).expect("legal");
                let came =
                    q.regions(&[("out", &OUT.map(|n| n as i32))], &[]).expect("all is known")["in"].clone();
                let whole = brute(&arms, clamped, 0..OUT[0], 0..OUT[1]);
                assert_eq!(came, [whole], "{name}, clamped: {clamped}\n{s}");
            }
        }
    }
}

/// Splits around the tiles change nothing about what one tile needs.
#[test]
fn outer_splits_do_not_over_allocate() {
    let b = bindings(vec![("in", pattern(&[I32], &[INPUT], 3))], vec![]);
    for (name, coordinates) in CASES {
        let arms = coordinates(&Expr::var("x"), &Expr::var("y"));
        let p = pipeline(&arms, false);
        let run = |outer: &str, tail: &str| {
            let s = format!(
                "out: split(x, xo, xi, 4, {tail}) split(y, yo, yi, 3, {tail}) {outer} f: store_in(heap) compute_at(out, {})",
                if outer.contains("xoi") { "xoi" } else { "xo" }
            );
            let s = schedule(&s);
            let c = check(&p, &s, &b, &[OUT.to_vec()], 0.0).counters.of("f");
            (c.stores, c.allocated, c.allocations)
        };
        let want = run("reorder(xi, yi, xo, yo)", "guard");
        let nested =
            "split(xo, xoo, xoi, 3, guard) split(yo, yoo, yoi, 2, guard) reorder(xi, yi, xoi, yoi, xoo, yoo)";
        assert_eq!(run(nested, "guard"), want, "{name}");
        assert_eq!(run(nested, "predicate"), want, "{name}");
    }
}

/// Blocks of 2 in blocks of 8: behind the last point, a block of 8 has blocks of 2 that hold none. Whatever the coordinate, they need
/// nothing beyond what is stored for the block of 8.
#[test]
fn blocks_without_points_need_nothing() {
    let s = schedule(
        "out: split(x, xo, xi, 8, guard) split(xi, xio, xii, 2, guard)
         f: compute_at(out, xio) store_at(out, xo)",
    );
    type Coordinate = fn(&Expr, Expr) -> Expr;
    let coordinates: [(&str, Coordinate); 6] = [
        ("remainder", |x, _| x.modulo(5)),
        ("remainder of the negative", |x, _| (Expr::from(3) - x).modulo(5)),
        ("mask", |x, _| x.and(7)),
        ("product", |x, k| x * k),
        ("square", |x, _| x * x),
        ("magnitude", |x, k| (x - k).abs()),
    ];
    for (name, coordinate) in coordinates {
        for (w, k) in [1, 2, 3, 9, 14].into_iter().flat_map(|w| [-3, 0, 2].map(|k| (w, k))) {
            let [x, z] = ["x", "z"].map(Var::new);
            let mut p = Pipeline::new(name);
            let k_param = p.param("k", I32);
            let f = p.func(Func::new("f", &[z], vec![z.expr() * 3]));
            let out = p.func(Func::new("out", &[x], vec![f.at(&[coordinate(&x.expr(), k_param)], 0)]));
            p.output(&out);
            check(&p, &s, &bindings(vec![], vec![("k", Value::Int(k))]), &[vec![w]], 0.0);
        }
    }
}

/// A likely condition on what the same iteration stores: there is nothing to test in front of it.
#[test]
fn conditions_on_what_the_loop_stores() {
    let [x, y] = Var::all(["x", "y"]);
    let mut p = Pipeline::new("stored");
    let near = p.define("near", [x, y], Expr::select(x.expr().lt(1).likely(), Expr::from(y), Expr::from(-1)));
    let place = p.define("place", [y], y % 2);
    let out = p.define("out", [x, y], near.of((place.of(y), y)) + x);
    p.output(&out);
    for text in
        ["place: compute_at(out, x)", "place: compute_at(out, x) store_at(out, y)", "place: compute_root"]
    {
        agree(&p, &schedule(text), &bindings(vec![], vec![]), &[vec![7, 5]]);
    }
}
