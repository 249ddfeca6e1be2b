//! Updates whose coordinates use pure variables of other places: a histogram for each row, bins that move with the row.

use crate::support::{plane, schedule};
use sumsq_codegen::ScalarType::{F32, I32};
use sumsq_codegen::lower::lower;
use sumsq_codegen::{Error, Expr, Func, Pipeline, RDom};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::{agree, compile, execute};
use sumsq_codegen_testing::reference::{Bindings, Value};

const BINS: i32 = 8;
const SIZE: [usize; 2] = [13, 9];

/// `hist(bin(r, y), y) += 1` over an input; `out(x, y)` is what lies at `x` in the bins of rows y and y + 1. Bins move with the row if
/// `moving`.
fn histograms(moving: bool) -> (Pipeline, Bindings) {
    let (mut p, i, vars) = plane("histograms");
    let [x, y] = vars.each_ref().map(|v| v.expr());
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let row = y.clone().max(0).min(i.extent(1) - 1);
    let bin = i.at(&[r.var(0), row], 0).modulo(BINS);
    let bin = if moving { bin + &y / 2 } else { bin };
    let hist = Func::new("hist", &vars, vec![Expr::from(0)]);
    let own = hist.at(&[bin.clone(), y.clone()], 0);
    let hist = p.func(hist.update(vec![bin, y.clone()], vec![own + 1], r));
    let value = hist.at(&[x.clone(), y.clone()], 0) * 100 + hist.at(&[x, y + 1], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    (p, bindings(vec![("in", pattern(&[I32], &SIZE, 7))], vec![]))
}

#[test]
fn histograms_of_rows() {
    for text in [
        "hist: compute_root",
        "hist: compute_root hist.update(0): parallel(y) out: parallel(y)",
        "hist: compute_root hist.update(0): split(y, yo, yi, 4, predicate) reorder(yi, r, yo) vectorize(yi)",
        "hist: compute_root hist.update(0): split(y, yo, yi, 4, guard) parallel(yo) unroll(yi)",
        "hist: compute_at(out, y)",
        "hist: compute_root align_bounds(y, 4)",
        "hist: compute_root split(y, yo, yi, 4, round_up) vectorize(yi)",
        "hist: compute_root hist.update(0): split(r, ro, ri, 4, predicate) rfactor(ri as v, into part) part: compute_root
         part.update(0): parallel(v)",
        "hist: compute_root hist.update(0): rfactor(r as v, into part) part: compute_at(hist.update(0), y)",
    ] {
        for moving in [false, true] {
            let (p, b) = histograms(moving);
            let s = schedule(text);
            for extents in [vec![BINS as usize, SIZE[1] - 1], vec![3, 5]] {
                check(&p, &s, &b, std::slice::from_ref(&extents), 0.0);
                agree(&p, &s, &b, &[extents]);
            }
        }
    }
}

/// The region of a histogram follows the rows that there are after rounding.
#[test]
fn bins_of_rounded_rows_are_stored() {
    let (p, b) = histograms(true);
    let ran = check(&p, &schedule("hist: compute_root align_bounds(y, 16)"), &b, &[vec![3, 2]], 0.0);
    // Rows 0 to 15, bins 0 to 7 + 15 / 2.
    assert_eq!(ran.counters.of("hist").allocated, 16 * (8 + 7), "{}", ran.nests);
}

#[test]
fn a_rounded_place_for_moving_bins_is_refused() {
    let (p, _) = histograms(true);
    let s = schedule("hist: compute_root align_bounds(y, 16) align_bounds(x, 4)");
    match lower(&p, &s, &Default::default()) {
        Err(e @ Error::Schedule { .. }) => assert!(e.to_string().contains("the region of x"), "{e}"),
        other => panic!("{:?}", other.is_ok()),
    }
}

/// Two updates, each of which makes coordinates of the other's pure variable.
#[test]
fn coordinates_that_follow_each_other_without_end_are_refused() {
    let (mut p, _, vars) = plane("circle");
    let [x, y] = vars.each_ref().map(|v| v.expr());
    let f = Func::new("f", &vars, vec![Expr::from(0)]);
    let f = f.update(vec![&y + 1, y.clone()], vec![Expr::from(1)], RDom::default());
    let f = p.func(f.update(vec![x.clone(), &x + 1], vec![Expr::from(2)], RDom::default()));
    let out = p.func(Func::new("out", &vars, vec![f.at(&[x, y], 0)]));
    p.output(&out);
    let e = lower(&p, &schedule("f: compute_root"), &Default::default()).err().map(|e| e.to_string());
    let rule = "its updates make coordinates of each other's pure variables, which has no end";
    assert_eq!(e, Some(format!("pipeline circle: f: {rule}")));
}

/// `hist(trunc(clamp(in(r), 0, 9) * p + 0.5)) += 1`, and bins `x` and `x + 1` of it in `out(x)`.
fn bins_of_floats() -> Pipeline {
    let (mut p, i, [x, _]) = plane("bins_of_floats");
    let scale = p.param("p", F32);
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let value = i.at(&[r.var(0), Expr::from(0)], 0).max(0).min(9).cast(F32) * scale + 0.5f32;
    let bin = value.cast(I32);
    let hist = Func::new("hist", &[x], vec![Expr::from(0)]);
    let own = hist.at(std::slice::from_ref(&bin), 0);
    let hist = p.func(hist.update(vec![bin], vec![own + 1], r));
    let sum = hist.at(&[x.expr()], 0) * 100 + hist.at(&[x + 1], 0);
    let out = p.func(Func::new("out", &[x], vec![sum]));
    p.output(&out);
    p
}

/// Bins are stored wherever floats may lead to: for factors of any sign, and none that is no number.
#[test]
fn bins_made_of_floats() {
    let p = bins_of_floats();
    let bound =
        |factor: f64| bindings(vec![("in", pattern(&[I32], &[40, 1], 7))], vec![("p", Value::Float(factor))]);
    for text in ["hist: compute_root", "hist: compute_root hist.update(0): relaxed atomic parallel(r)"] {
        let s = schedule(text);
        for factor in [1.0, 0.1, 7.3, 0.0, -2.5, 1e-30] {
            check(&p, &s, &bound(factor), &[vec![12]], 0.0);
            agree(&p, &s, &bound(factor), &[vec![12]]);
        }
        for factor in [f64::NAN, f64::INFINITY, 1e30] {
            let compiled = compile(&p, &s).expect("legal");
            let refused = execute(&p, &compiled, &bound(factor), &[vec![(0, 12)]], 2).expect_err("no number");
            let said = "a coordinate is computed with p, which is no number below 1e18";
            assert!(refused.to_string().contains(said), "{factor}: {refused}");
        }
    }
}
