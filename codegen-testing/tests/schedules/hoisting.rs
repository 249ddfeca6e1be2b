//! Memory that is allocated farther out than it is stored: the same values, and fewer allocations.

use crate::folding::{STEADY, pipeline, run};
use crate::support::{refused, schedule};
use sumsq_codegen::{Expr, Func, Pipeline, RDom, Var};
use sumsq_codegen_testing::check::{bindings, pattern};
use sumsq_codegen_testing::checked::run_lowered;

/// Allocations of `f` and the elements of the largest, over 16 x 9 points; the values are right there and over other domains.
fn allocations(p: &Pipeline, text: &str) -> [usize; 2] {
    for domain in [[1, 1], [7, 5], [16, 9], [21, 13]] {
        run(p, text, domain).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
    let b = bindings(vec![("in", pattern(&[sumsq_codegen::ScalarType::I32], &[16, 9], 3))], vec![]);
    let ran = run_lowered(p, &schedule(text), &b, &[vec![16, 9]]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let of = ran.counters.of("f.0");
    [of.allocations, of.allocated]
}

#[test]
fn once_for_all_iterations_of_loops_between() {
    let p = pipeline(STEADY, false);
    let strips = "out: split(y, yo, yi, 4, guard)";
    // Two rows of 17, padded.
    assert_eq!(allocations(&p, &format!("{strips} f: compute_at(out, yi)"))[0], 9);
    let [count, elements] =
        allocations(&p, &format!("{strips} f: compute_at(out, yi) hoist_storage(out, yo)"));
    assert_eq!((count, elements >= 34), (3, true));
    // A window of each strip, in the memory of all.
    let windows = "out: split(y, yo, yi, 6, guard) split(yi, ym, yj, 3, guard)
                   f: store_at(out, ym) compute_at(out, yj)";
    assert_eq!(allocations(&p, windows)[0], 4);
    assert_eq!(allocations(&p, &format!("{windows} hoist_storage(out, yo)"))[0], 2);
    let folded = format!("{windows} fold_storage(y, 2) hoist_storage(out, yo)");
    assert_eq!(allocations(&p, &folded)[0], 2);
    // Tiles whose loops are apart, and a Func with an update.
    let tiles = "out: split(x, xo, xi, 4, guard) split(y, yo, yi, 2, guard) reorder(xi, yi, xo, yo)
                 f: compute_at(out, xo)";
    for p in [&p, &pipeline(STEADY, true)] {
        assert_eq!(allocations(p, tiles), [20, 5 * 3]);
        assert_eq!(allocations(p, &format!("{tiles} hoist_storage(out, yo)")), [5, 5 * 3]);
        let heap =
            allocations(p, &format!("{tiles} hoist_storage(out, yo) store_in(heap) align_storage(x, 8)"));
        assert_eq!(heap, [5, 16 * 3]);
    }
    let threads = tiles.replace("reorder", "parallel(yo) vectorize(xi) reorder");
    assert_eq!(allocations(&p, &format!("{threads} hoist_storage(out, yo)"))[0], 5);
    // In place, which changes nothing.
    assert_eq!(allocations(&p, &format!("{tiles} hoist_storage(out, xo)")), [20, 5 * 3]);
}

/// The sum over a triangle: iterations need more and more, all of them as much as the last.
#[test]
fn sizes_that_grow() {
    let [vx, vy] = ["x", "y"].map(Var::new);
    let (mut p, i, _) = crate::support::plane("triangle");
    let f =
        p.func(Func::new("f", &[vx], vec![i.at(&[vx.expr().max(0).min(i.extent(0) - 1), Expr::from(0)], 0)]));
    let r = RDom::new([("r", Expr::from(0), vy.expr() + 1)]);
    let out = Func::new("out", &[vx, vy], vec![Expr::from(0)]);
    let more = out.at(&[vx.expr(), vy.expr()], 0) + f.at(&[r.var(0) + vx.expr()], 0);
    let out = p.func(out.update(vec![vx.expr(), vy.expr()], vec![more], r));
    p.output(&out);
    let columns = "out.update(0): reorder(r, x, y) f: compute_at(out.update(0), x)";
    assert_eq!(allocations(&p, columns), [16 * 9, 9]);
    let rows = format!("{columns} hoist_storage(out.update(0), y)");
    assert_eq!(allocations(&p, &rows), [9, 16 + 8]);
    // The last strip has rows that do not count, of which no bound is known outside.
    let strips =
        "out.update(0): split(y, yo, yi, 4, guard) reorder(r, x, yi, yo) f: compute_at(out.update(0), yi)";
    let message = refused(&p, &schedule(&format!("{strips} hoist_storage(out.update(0), yo)")));
    assert_eq!(
        message,
        "f: hoist_storage(out.update(0), yo): how large x is inside of that loop is not known outside"
    );
}

#[test]
fn refusals() {
    let p = pipeline(STEADY, false);
    for (text, message) in [
        (
            "out: split(y, yo, yi, 4, guard) f: store_at(out, yo) compute_at(out, yi) hoist_storage(out, yi)",
            "f: hoist_storage(out, yi): is not at or outside of store_at",
        ),
        (
            "out: split(y, yo, yi, 4, guard) parallel(yi) f: compute_at(out, yi) hoist_storage(out, yo)",
            "f: hoist_storage(out, yo): iterations of loop yi, which run at the same time, would share the memory",
        ),
        ("f: compute_root hoist_storage(out, y)", "f: hoist_storage: needs a compute_at inside it"),
        (
            "f: compute_at(out, x) hoist_storage(out, z)",
            "f: hoist_storage(out, z): z is not a loop here; the loops are x y",
        ),
    ] {
        assert_eq!(refused(&p, &schedule(text)), message);
    }
}
