//! Funcs that are computed inside of a vectorised loop: each lane has values of its own.

use crate::support::{in_order, plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Pipeline, RDom, ScalarType};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// Every output pixel has taps of its own, as in a change of size: `out(x, y)` is the sum over `k` of `tap(x, k) in(3 x / 4 + k, y)`, with
/// `tap(x, k) = near(x, k) + near(x, k + 1)` and `near(x, k) = (scale x + k) mod 7`.
fn resized() -> Pipeline {
    let (mut p, i, [x, y]) = plane("resized");
    let scale = p.param("scale", I32);
    let k = sumsq_codegen::Var::new("k");
    let at = |k: Expr| [x.expr(), k];
    let near = p.func(Func::new("near", &[x, k], vec![(scale * x.expr() + k.expr()) % 7]));
    let tap = near.at(&at(k.expr()), 0) + near.at(&at(k.expr() + 1), 0);
    let tap = p.func(Func::new("tap", &[x, k], vec![tap]));
    let r = RDom::new([("k", 0, 4)]);
    let out = Func::new("out", &[x, y], vec![Expr::from(0)]);
    let read = i.at(&[x.expr() * 3 / 4 + r.var(0), y.expr()], 0);
    let sum = out.at(&[x.expr(), y.expr()], 0) + tap.at(&at(r.var(0)), 0) * read;
    let out = p.func(out.update(vec![x.expr(), y.expr()], vec![sum], r));
    p.output(&out);
    p
}

/// Runs it on both machines, at sizes with whole and broken vectors; the lowered body.
fn run(text: &str) -> String {
    let mut body = String::new();
    for (w, h) in [(1, 1), (8, 2), (21, 3)] {
        for scale in [-2, 3] {
            let input = pattern(&[I32], &[w + 8, h], 5);
            let b = bindings(vec![("in", input)], vec![("scale", Value::Int(scale))]);
            body = check(&resized(), &schedule(text), &b, &[vec![w, h]], 0.0).body;
            agree(&resized(), &schedule(text), &b, &[vec![w, h]]);
        }
    }
    body
}

const LANES: &str = "out.update(0): split(x, xo, xi, 8, predicate) reorder(k, xi, xo, y) vectorize(xi) \
                     near: inline ";

#[test]
fn a_value_of_each_lane_is_a_vector() {
    let body = run(&format!("{LANES} tap: compute_at(out.update(0), k) store_in(register)"));
    // One slot per lane, at constant places.
    in_order(&body, &["allocate tap.0: i32[8:i64]", "tap.0[ramp(0:i64, 1:i64, 8)]"]);
}

#[test]
fn values_of_each_lane_lie_lane_by_lane() {
    // All taps of a pixel at once: four for each of eight lanes.
    let body = run(&format!("{LANES} tap: compute_at(out.update(0), xi)"));
    in_order(&body, &["allocate tap.0: i32[32:i64]"]);
    // A window that slides inside of the lanes: five values of `near`, of which each iteration computes one.
    let body = run("out.update(0): split(x, xo, xi, 8, predicate) reorder(k, xi, xo, y) vectorize(xi) \
                    tap: compute_at(out.update(0), k) near: store_at(out.update(0), xi) compute_at(out.update(0), k)");
    in_order(&body, &["allocate near.0: i32[16:i64]"]);
}

#[test]
fn masked_lanes_compute_nothing() {
    for tail in ["guard", "predicate"] {
        run(&format!(
            "out.update(0): split(x, xo, xi, 16, {tail}) reorder(k, xi, xo, y) vectorize(xi) \
             tap: compute_at(out.update(0), k) near: compute_at(out.update(0), xi)"
        ));
    }
}

#[test]
fn lanes_share_no_storage() {
    assert_eq!(
        refused(
            &resized(),
            &schedule(&format!("{LANES} tap: store_at(out.update(0), xo) compute_at(out.update(0), k)"))
        ),
        "tap: store_at: iterations of the vectorised loop xi would share the storage"
    );
}
