//! Vectors whose lanes read what lies beside each other in rows.

use crate::support::schedule;
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, RDom, ScalarType, Source, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::{agree, agree_over};
use sumsq_codegen_testing::reference::Value;

const TYPES: [ScalarType; 6] =
    [ScalarType::U8, ScalarType::I16, ScalarType::I32, ScalarType::F32, ScalarType::F64, ScalarType::I64];

/// `out(x, y) = f(y, x) + f(y + 1, x)`: a tile of `f` is read across its rows, whole and under masks, from places known and unknown.
#[test]
fn a_tile_is_read_across() {
    let [x, y] = Var::all(["x", "y"]);
    for ty in TYPES {
        let mut p = Pipeline::new("across");
        let i = p.input(Input::new("in", &[ty], 2));
        let f = p.define("f", [x, y], i.of((x, y)) * 3 + i.of((x, y)));
        let out = p.define("out", [x, y], f.of((y, x)) + f.of((y + 1, x)) * 5);
        p.output(&out);
        for lanes in [4, 8, 16, 32] {
            for tail in ["guard", "predicate"] {
                for known in ["unroll(yi)", ""] {
                    let text = format!(
                        "out: split(x, xo, xi, {lanes}, {tail}) split(y, yo, yi, 8, guard)
                              reorder(xi, yi, xo, yo) vectorize(xi) {known}
                         f: compute_at(out, xo) bound_extent(x, 9) bound_extent(y, {lanes}) align_storage(x, 16)
                            store_in(stack)"
                    );
                    let b = bindings(vec![("in", pattern(&[ty], &[80, 80], 3))], vec![]);
                    agree(&p, &schedule(&text), &b, &[vec![37, 21]]);
                }
            }
        }
    }
}

/// `out(x, y) = f(y, x) + f(y, 2 x)`: the same tile across its rows, and across every second one from the same place.
#[test]
fn a_tile_is_read_across_at_two_strides() {
    let [x, y] = Var::all(["x", "y"]);
    for ty in TYPES {
        let mut p = Pipeline::new("strides");
        let i = p.input(Input::new("in", &[ty], 2));
        let f = p.define("f", [x, y], i.of((x, y)) * 3 + i.of((x, y)));
        let out = p.define("out", [x, y], f.of((y, x)) + f.of((y, x * 2)) * 5);
        p.output(&out);
        for lanes in [4, 8] {
            let text = format!(
                "out: bound(x, 0, {lanes}) vectorize(x)
                 f: compute_root bound_extent(x, 21) align_storage(x, 32)"
            );
            let b = bindings(vec![("in", pattern(&[ty], &[40, 40], 3))], vec![]);
            agree(&p, &schedule(&text), &b, &[vec![lanes, 21]]);
        }
    }
}

/// Entries of a table whose indices differ by 1 in every lane: two, four and five of them, one read under another's index, and one alone; of
/// several statements, which begin at the same entry.
#[test]
fn neighbours_in_a_table() {
    let x = Var::new("x");
    for ty in TYPES {
        let mut p = Pipeline::new("table");
        let i = p.input(Input::new("in", &[ScalarType::I32], 1));
        let t = p.input(Input::new("t", &[ty], 1));
        let at = (i.of(x) % 13) * 3;
        let sum = |from: i32, n: i32| {
            let term = |k: i32| t.of(&at + (from + k)) * (k + 2);
            (1..n).fold(term(0), |sum, k| sum + term(k))
        };
        let out = Func::new(
            "out",
            &[x],
            vec![sum(0, 2) + sum(4, 4) - sum(10, 5) + sum(20, 1), sum(1, 8), sum(0, 4)],
        );
        let out = p.func(out);
        p.output(&out);
        for lanes in [2, 3, 4, 8, 16, 32] {
            let s = schedule(&format!("out: split(x, xo, xi, {lanes}, predicate) vectorize(xi)"));
            let inputs =
                vec![("in", pattern(&[ScalarType::I32], &[101], 7)), ("t", pattern(&[ty], &[60], 5))];
            agree(&p, &s, &bindings(inputs, vec![]), &[vec![101]]);
        }
    }
}

/// The same of a sum over `k`, whose copies read one after the other, all of them or up to where it ends.
#[test]
fn neighbours_of_copies() {
    let [x] = Var::all(["x"]);
    for (ty, taps) in TYPES.into_iter().flat_map(|ty| [1, 4, 7, 12].map(|taps| (ty, taps))) {
        let mut p = Pipeline::new("filter");
        let first = p.input(Input::new("first", &[ScalarType::I32], 1));
        let t = p.input(Input::new("t", &[ty], 1));
        let n = p.param("n", ScalarType::I32);
        let k = RDom::new([("k", Expr::from(0), n)]);
        let sum = p.define("sum", [x], Expr::from(0).cast(ty));
        let sum = p.add_to(&sum, x, t.of((first.of(x) % 23) + k.var(0)) * (k.var(0) + 1).cast(ty), &k);
        let out = p.define("out", [x], sum.of(x));
        p.output(&out);
        for (lanes, copies) in [(4, 4), (8, 2), (16, 4), (16, 6), (32, 8)] {
            let s = schedule(&format!(
                "out: split(x, xo, xi, {lanes}, guard) vectorize(xi)
                 sum: compute_at(out, xo) bound_extent(x, {lanes}) vectorize(x) store_in(register)
                 sum.update(0): reorder(x, k) vectorize(x) unroll(k, {copies}, guard)"
            ));
            let first = pattern(&[ScalarType::I32], &[128], 7);
            let inputs = vec![("first", first), ("t", pattern(&[ty], &[23 + taps], 5))];
            agree(&p, &s, &bindings(inputs, vec![("n", Value::Int(taps as i64))]), &[vec![101]]);
        }
    }
}

/// Pictures that are made larger, from places of either parity: elements that several lanes share, and remainders that choose among them.
#[test]
fn elements_that_lanes_share() {
    let [x, y] = Var::all(["x", "y"]);
    for ty in TYPES {
        let mut p = Pipeline::new("larger");
        let i = p.input(Input::strided("in", &[ty], 2));
        let doubled = i.of((x / 2, y / 2)) + i.of(((x + 1) / 2, (y + 1) / 2)) * 3;
        let chosen = Expr::select((x % 2).eq_(0), i.of((x / 2, y)), i.of((x / 2 + 1, y)) * 5);
        let tripled = i.of((x / 3, y)) + i.of((x / 4 + x % 4, y)) * 7;
        let out = p.define_tuple("out", [x, y], vec![doubled, chosen, tripled]);
        p.output_strided(&out, Constraint::defaults(2));
        for lanes in [2, 3, 4, 8, 12, 16, 32] {
            for tail in ["guard", "predicate", "shift_inwards"] {
                let s = schedule(&format!("out: vectorize(x, {lanes}, {tail})"));
                let b = || bindings(vec![("in", pattern(&[ty], &[70, 12], 3).moved_to(&[-12, -3]))], vec![]);
                for (min, n) in [(0, 50), (-7, 49), (3, 35)] {
                    agree_over(&p, &s, &b(), &[vec![(min, n), (-3, 5)]]);
                }
            }
        }
    }
}

/// The same on memory that notices every access out of bounds.
#[test]
fn nothing_else_is_read_of_what_lanes_share() {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("larger");
    let i = p.input(Input::new("in", &[ScalarType::I32], 1));
    let out = p.define("out", [x], i.of(x / 2) * 3 + i.of((x + 1) / 2));
    p.output(&out);
    for (lanes, n) in [(4, 9), (8, 8), (8, 31), (16, 64)] {
        let s = schedule(&format!("out: vectorize(x, {lanes}, predicate)"));
        let b = bindings(vec![("in", pattern(&[ScalarType::I32], &[n / 2 + 1], 3))], vec![]);
        let body = check(&p, &s, &b, &[vec![n]], 0.0).body;
        assert!(body.contains("interleave(in.0[ramp("), "{body}");
    }
}
