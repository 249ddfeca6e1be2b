//! prefetch: what a later iteration reads, and nothing that does not exist (checked memory refuses that).

use crate::support::{plane, refused, schedule};
use sumsq_codegen::{Func, Pipeline, ScalarType};
use sumsq_codegen_testing::check::{bindings, check, pattern};

const I32: ScalarType = ScalarType::I32;

/// `f(x, y) = 2 in(x, y)`, `out(x, y) = f(x, y) + in(x, y + 2)`.
fn pair() -> Pipeline {
    let (mut p, i, vars) = plane("pair");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let f = p.func(Func::new("f", &vars, vec![i.at(&[x.clone(), y.clone()], 0) * 2]));
    let value = f.at(&[x.clone(), y.clone()], 0) + i.at(&[x, y + 2], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

fn nests(text: &str) -> String {
    let mut last = String::new();
    for (w, h) in [(1, 1), (9, 3), (40, 5)] {
        let b = bindings(vec![("in", pattern(&[I32], &[w, h + 2], 3))], vec![]);
        last = check(&pair(), &schedule(text), &b, &[vec![w, h]], 0.0).nests;
    }
    last
}

#[test]
fn rows_are_fetched_ahead() {
    let text = nests("f: compute_root out: prefetch(in, y, 2)");
    // The row y + 2 of iteration y + 2, at most the last one that is read.
    assert!(text.contains("for out.s0.y.in.1 in [min("), "{text}");
    assert!(text.contains("prefetch in(min(out.s0.y.in.0 * 16, out.extent.0 - 1), out.s0.y.in.1)"), "{text}");
    nests(
        "f: compute_root prefetch(in, x, 1) out: prefetch(f, y, 1) split(x, xo, xi, 4, auto) vectorize(xi)",
    );
    nests("f: compute_at(out, y) out: parallel(y) prefetch(in, y, 0)");
    // In the nest of a Func inside of another: at most the last that this run reads.
    nests("f: compute_at(out, x) split(x, xo, xi, 4, guard) prefetch(in, xo, 1)");
    nests(
        "f: compute_root split(y, yo, yi, 2, guard) in_(out, as g) g: compute_at(out, y) split(x, xo, xi, 4, guard) prefetch(f, xo, 2)",
    );
    nests("f: compute_root out: split(y, yo, yi, 3, shift_inwards) prefetch(f, yo, 1) prefetch(in, yi, 1)");
}

#[test]
fn refusals() {
    for (text, message) in [
        ("out: prefetch(in, z, 1)", "out: prefetch(in, z, 1): z is not a loop here; the loops are x y"),
        ("out: prefetch(f, y, 1)", "out: prefetch(f, y, 1): f is inlined, or there is no such Func or input"),
        ("f: compute_root prefetch(out, y, 1)", "f: prefetch(out, y, 1): it does not read out"),
        (
            "out: split(x, xo, xi, 4, predicate) vectorize(xi) prefetch(in, xi, 1)",
            "out: prefetch(in, xi, 1): the loop is vectorised",
        ),
    ] {
        assert_eq!(refused(&pair(), &schedule(text)), message);
    }
}
