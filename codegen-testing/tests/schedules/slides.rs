//! The printed loop nest says over which loop a Func slides, or why it does not.

use crate::support::{plane, schedule};
use sumsq_codegen::{Expr, Func, Pipeline, RDom, Source, Var};

/// Reads of a Func at a point.
type Value = fn(&Func, Var, Var) -> Expr;

/// `out(x, y) = value(f, x, y)`, `f(x, y) = in(x, y) + 1`.
fn reads(value: Value) -> Pipeline {
    let (mut p, i, [x, y]) = plane("reads");
    let f = p.define("f", [x, y], i.of((x, y)) + 1);
    let out = p.define("out", [x, y], value(&f, x, y));
    p.output(&out);
    p
}

/// Returns what is said of the storage of `f`.
fn said(p: &Pipeline, text: &str) -> String {
    let nest = p.print_loop_nest(&schedule(text)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let line = nest.lines().find(|l| l.trim().starts_with("store f")).unwrap_or_else(|| panic!("{nest}"));
    let (_, said) = line.split_once(" (").unwrap_or_else(|| panic!("{nest}"));
    said.trim_end_matches("):").to_string()
}

#[test]
fn over_which_loop_or_why_not() {
    let column = |f: &Func, x, y| f.of((x, y)) + f.of((x, y + 2));
    let strips = "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, yi)";
    let cases: [(Value, &str, &str); 14] = [
        (column, strips, "slides along y over yi"),
        (|f, x, y| f.of((x, 9 - y)) + f.of((x, 11 - y)), strips, "slides along y over yi"),
        (
            column,
            "out: split(x, x, xi, 16, guard) f: store_at(out, x) compute_at(out, xi)",
            "slides along x over xi",
        ),
        (
            column,
            "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, x)",
            "slides along y over yi",
        ),
        (
            |f, x, y| f.of((x, y)) + f.of((x + 1, y + 2)),
            "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, x)",
            "slides along x over x, along y over yi",
        ),
        (
            column,
            "out: split(y, y, yi, 16, guard) split(x, x, xi, 8, guard) f: store_at(out, y) compute_at(out, x) vectorize(x, 8, auto)",
            "slides along y over yi",
        ),
        (
            |f, x, y| f.of((x, y)) + f.of((x + 2, y)),
            "out: split(y, y, yi, 16, guard) split(x, x, xi, 8, guard) f: store_at(out, y) compute_at(out, x) vectorize(x, 8, auto)",
            "does not slide: several loops lie between, and x runs as lanes",
        ),
        (
            |f, x, y| f.of((x + y, y)) + f.of((x + y + 1, y)),
            "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, x)",
            "slides along x over x",
        ),
        (
            column,
            "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, x) fold_storage(x, 1)",
            "does not slide: iterations of x have nothing in common along x",
        ),
        (
            column,
            "out: split(y, y, yi, 16, guard) unroll(yi) f: store_at(out, y) compute_at(out, yi)",
            "does not slide: loop yi is not serial",
        ),
        (|f, x, _| f.of((x, 3)), strips, "does not slide: all iterations of yi need the same"),
        (|f, x, y| f.of((x + y, y)), strips, "does not slide: what is needed moves along x and y"),
        (
            |f, x, y| f.of((x, y)) + f.of((x, 9 - y)),
            strips,
            "does not slide: what is needed moves along y in no one direction",
        ),
        (
            column,
            "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, yi) split(y, y, rows, 2, round_up)",
            "does not slide: whole blocks are computed along y",
        ),
    ];
    for (value, text, line) in cases {
        assert_eq!(said(&reads(value), text), line, "{text}");
    }
}

/// All definitions compute what is new, if they keep to one coordinate of the dimension.
#[test]
fn funcs_with_updates() {
    let strips = "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, yi)";
    let of = |across: bool, text: &str| {
        let (mut p, i, [x, y]) = plane("updated");
        let f = p.define("f", [x, y], i.of((x, y)));
        let r = RDom::new([("r", 0, 3)]);
        let f = match across {
            true => p.add_to(&f, (x, r.var(0)), 1, &r),
            false => p.add_to(&f, (x, y), i.of((r.var(0), y)), &r),
        };
        let out = p.define("out", [x, y], f.of((x, y)) + f.of((x, y + 1)));
        p.output(&out);
        said(&p, text)
    };
    assert_eq!(of(false, strips), "slides along y over yi");
    assert_eq!(of(true, strips), "does not slide: updates do not keep to one y");
    let split = format!("{strips} split(y, yo, yi, 2, guard)");
    assert_eq!(of(false, &split), "does not slide: updates do not keep to one y");
}
