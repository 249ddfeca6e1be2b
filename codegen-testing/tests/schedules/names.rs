//! Loops that keep the name of the one that they replace, and the directives that are short for such a split.

use crate::support::{plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Source, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};

const I32: ScalarType = ScalarType::I32;

/// `out(x, y) = g(x, y) + g(x, y + 1)`, `other(x, y) = 2 g(x, y)`, `g(x, y) = in(x, y) + 10 y`.
fn pair() -> Pipeline {
    let (mut p, i, [x, y]) = plane("pair");
    let g = p.define("g", [x, y], i.of((x, y)) + y * 10);
    let out = p.define("out", [x, y], g.of((x, y)) + g.of((x, y + 1)));
    let other = p.define("other", [x, y], g.of((x, y)) * 2);
    p.output(&out);
    p.output(&other);
    p
}

/// The nests, which give the reference's values for regions of several sizes.
fn run(s: &Schedule) -> String {
    let mut last = String::new();
    for (w, h) in [(1, 1), (3, 5), (16, 4), (21, 11)] {
        let b = bindings(vec![("in", pattern(&[I32], &[w, h + 1], 3))], vec![]);
        last = check(&pair(), s, &b, &[vec![w, h], vec![w, h]], 0.0).nests;
    }
    last
}

fn printed(text: &str) -> String {
    pair().print_loop_nest(&schedule(text)).expect("legal")
}

#[test]
fn the_outer_loop_keeps_its_name() {
    let s = "g: compute_at(out, y) clone_in(other, as g2) out: split(y, y, yi, 4, guard) parallel(y) split(x, x, xi, 8, predicate) \
             vectorize(xi)";
    run(&schedule(s));
    assert_eq!(
        printed(s),
        "\
produce out:
  parallel for y:
    produce g:
      for y:
        for x:
          g(...) = ...
    consume g:
      for yi:
        for x:
          vectorized for xi in [0, 7]:
            out(...) = ...
produce other:
  for y:
    for x:
      other(...) = ...
"
    );
}

#[test]
fn short_for_a_split_and_a_mark() {
    for (short, long) in [
        ("parallel(y, 8)", "split(y, y, yi, 8, auto) parallel(y)"),
        ("vectorize(x, 8)", "split(x, x, xi, 8, auto) vectorize(xi)"),
        ("vectorize(x, 8, guard)", "split(x, x, xi, 8, guard) vectorize(xi)"),
        ("unroll(x, 2)", "split(x, x, xu, 2, auto) unroll(xu)"),
        (
            "vectorize(x, 4) unroll(x, 2)",
            "split(x, x, xi, 4, auto) vectorize(xi) split(x, x, xu, 2, auto) unroll(xu)",
        ),
    ] {
        let of = |text| format!("out: {text}\n");
        assert_eq!(schedule(&of(short)).to_string(), of(long));
        let special = |text| format!("out: specialize(out.extent.0 > 4) {{ {text} }}\n");
        assert_eq!(schedule(&special(short)).to_string(), special(long));
        assert!(run(&schedule(&of(short))).contains("out.s0"), "{short}");
    }
    let mut s = Schedule::new();
    s.func("out").parallel_by("y", 4).vectorize_by("x", 8).unroll_by("x", 2);
    assert_eq!(s, schedule("out: parallel(y, 4) vectorize(x, 8) unroll(x, 2)"));
    let nests = run(&s);
    for l in ["parallel for out.s0.y", "vectorized for out.s0.xi", "unrolled for out.s0.xu"] {
        assert!(nests.contains(l), "{l} is not in\n{nests}");
    }
}

/// Any of the loops that a directive makes, again and again, and in the versions of a stage.
#[test]
fn every_way_to_use_a_name_again() {
    for text in [
        "out: split(y, yo, y, 4, guard) parallel(yo)",
        "out: split(y, y, a, 2, guard) split(y, y, b, 3, guard) reorder(y, x, b, a)",
        "out: fuse(x, y, x) split(x, x, xi, 8, predicate) vectorize(xi)",
        "out: fuse(x, y, y) parallel(y, 5)",
        "out: parallel(y, 2) rename(y, rows)",
        "out: split(y, y, yi, 4, guard) prefetch(in, y, 1) partition(y, never)",
        "out: specialize(out.extent.0 > 4) { vectorize(x, 4) } parallel(y, 2)",
        "g: compute_at(out, y) clone_in(other, as g2) out: specialize(out.extent.0 > 4) { parallel(y, 2) }",
        "g: compute_at(out, y) clone_in(other, as g2) out: specialize(out.extent.0 > 4) { unroll(x, 2) } unroll(y, 2) unroll(x, 3)",
        "g: compute_at(out, y) out: parallel(y, 2) other: parallel(y, 2) compute_with(out, y)",
        "g: compute_root out: split(y, y, yi, 2, guard) rename(y, a) other: split(y, a, yi, 2, guard) compute_with(out, a)",
        // The loops are called alike, whatever they were before.
        "g: compute_root out: split(y, y, a, 2, guard) split(y, y, b, 2, guard) other: split(y, y, b, 2, guard) compute_with(out, y)",
    ] {
        run(&schedule(text));
    }
}

#[test]
fn partial_results_of_loops_that_keep_their_name() {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let x = Var::new("x");
    let sum = p.func(Func::sum("sum", &[x], r.clone(), vec![i.of((r.var(0), r.var(1))) * x]));
    p.output(&sum);
    let b = bindings(vec![("in", pattern(&[I32], &[11, 7], 3))], vec![]);
    for text in [
        "sum.update(0): split(ry, ry, row, 2, guard) rfactor(ry as s, into parts) parts.update(0): parallel(s) unroll(row, 2)",
        "sum.update(0): split(rx, rx, lane, 4, guard) rfactor(lane as s, into parts) parts.update(0): parallel(x, 2) split(rx, rx, ri, 2, guard)",
        "sum.update(0): parallel(x, 2) rfactor(ry as s, into parts) parts: compute_at(sum.update(0), x) parts.update(0): vectorize(s, 4)",
        "sum.update(0): split(ry, ry, row, 2, guard) skip_unless(ry, ry >= 0)",
    ] {
        check(&p, &schedule(text), &b, &[vec![5]], 0.0);
    }
}

/// Variables may be called as a plan calls loops.
#[test]
fn variables_that_end_in_the_mark() {
    let (mut p, i, _) = plane("marked");
    let [x, y] = Var::all(["y~", "y"]);
    let f = p.define("f", [x, y], i.of((x, y)) * 10 + y);
    let g = p.define("g", [x, y], i.of((x, y)) + x);
    p.output(&f);
    p.output(&g);
    for text in [
        "f: split(y, y, yi, 2, guard)",
        "f: split(y, y, yi, 2, guard) g: split(y, y, yi, 2, guard) compute_with(f, y)",
        "f: specialize(f.extent.0 > 4) { split(y, y, yi, 2, guard) } unroll(y, 2)",
    ] {
        let b = bindings(vec![("in", pattern(&[I32], &[7, 5], 3))], vec![]);
        check(&p, &schedule(text), &b, &[vec![7, 5], vec![7, 5]], 0.0);
    }
}

#[test]
fn refusals() {
    for (text, rule) in [
        ("out: split(y, y, y, 4, guard)", "split(y, y, y, 4, guard): the new names must differ"),
        (
            "out: split(y, x, yi, 4, guard)",
            "split(y, x, yi, 4, guard): x already names a variable of this stage",
        ),
        (
            "out: split(y, y, yi, 4, guard) reorder(z, y)",
            "reorder(z, y): z is not a loop here; the loops are x yi y",
        ),
        (
            "out: split(y, y, yi, 4, guard) split(y, a, b, 2, guard) parallel(y)",
            "parallel(y): y is not a loop here; the loops are x yi b a",
        ),
        (
            "out: parallel(y, 2) split(x, y, xi, 2, guard)",
            "split(x, y, xi, 2, guard): y already names a variable of this stage",
        ),
        ("out: unroll(y, out.extent.1)", "unroll(yu)"),
        ("out: vectorize(x, 0)", "split(x, x, xi, 0, auto): the factor must be an i32 of at least 1"),
    ] {
        let e = match pair().print_loop_nest(&schedule(text)) {
            Err(e) => e.to_string(),
            Ok(_) => refused(&pair(), &schedule(text)),
        };
        assert!(e.starts_with("out: ") && e.contains(rule), "{e}");
    }
    for (text, message) in [
        (
            "out: parallel(y, 2, fast)",
            "`fast` is not a tail: auto, guard, predicate, round_up or shift_inwards",
        ),
        ("out: parallel(y, )", "expected an expression, not `)`"),
        ("out: serial(y, 2)", "expected `)`, not `,`"),
    ] {
        let e = Schedule::parse(text).expect_err(text).to_string();
        assert!(e.ends_with(&format!("line 1: {message}")), "{e}");
    }
}
