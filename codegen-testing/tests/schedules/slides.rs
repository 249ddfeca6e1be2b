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
    let cases: [(Value, &str, &str); 9] = [
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
            "does not slide: several loops lie between, yi x",
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

#[test]
fn updates_do_not_slide() {
    let (mut p, i, [x, y]) = plane("updated");
    let f = p.define("f", [x, y], i.of((x, y)));
    let f = p.add_to(&f, (x, y), 1, &RDom::default());
    let out = p.define("out", [x, y], f.of((x, y)) + f.of((x, y + 1)));
    p.output(&out);
    let text = "out: split(y, y, yi, 16, guard) f: store_at(out, y) compute_at(out, yi)";
    assert_eq!(said(&p, text), "does not slide: it has updates");
}
