//! fuse, rename, serial: the same points in another loop structure.

use crate::support::{plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, LoopLevel, Pipeline, RDom, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::reference::{Bindings, Value};

const I32: ScalarType = ScalarType::I32;

/// `out(x, y) = g(x, y) + g(x, y + 1)`, `g(x, y) = in(x, y) + 10 y`.
fn columns() -> Pipeline {
    let (mut p, i, vars) = plane("columns");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let g = p.func(Func::new("g", &vars, vec![i.at(&[x.clone(), y.clone()], 0) + &y * 10]));
    let value = g.at(&[x.clone(), y.clone()], 0) + g.at(&[x.clone(), &y + 1], 0);
    let out = p.func(Func::new("out", &vars, vec![value]));
    p.output(&out);
    p
}

fn run(s: &Schedule) -> String {
    let mut last = String::new();
    for (w, h) in [(1, 1), (3, 5), (8, 4), (13, 7)] {
        let b = bindings(vec![("in", pattern(&[I32], &[w, h + 1], 3))], vec![]);
        last = check(&columns(), s, &b, &[vec![w, h]], 0.0).nests;
    }
    last
}

#[test]
fn fused_loops_cover_the_product() {
    let mut s = Schedule::new();
    s.func("out").fuse("x", "y", "p").parallel("p");
    s.func("g").compute_root().fuse("y", "x", "p").rename("p", "all").vectorize("all", 4, Tail::Predicate);
    let nests = run(&s);
    assert!(nests.contains("parallel for out.s0.p in [0, "), "{nests}");
    assert!(!nests.contains("for out.s0.x"), "{nests}");
}

/// The usual fuse of the outer loops of tiles, and a producer per tile.
#[test]
fn a_producer_per_fused_tile() {
    for tail in [Tail::Predicate, Tail::ShiftInwards] {
        let mut s = Schedule::new();
        s.func("out").tile("x", "y", "xo", "yo", "xi", "yi", 4, 2, tail).fuse("xo", "yo", "tile");
        s.func("out").fuse("xi", "yi", "i").vectorize_loop("i");
        s.func("g")
            .compute_at(LoopLevel::pure("out", "tile"))
            .fuse("x", "y", "p")
            .split("p", "a", "b", 3, tail);
        run(&s);
    }
}

#[test]
fn serial_undoes_parallel() {
    let mut s = Schedule::new();
    s.func("out").parallel("y").serial("y").rename("y", "row");
    let nests = run(&s);
    assert!(nests.contains("for out.s0.row in") && !nests.contains("parallel"), "{nests}");
}

fn total() -> (Pipeline, Bindings) {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let term = i.at(&[r.var(0), r.var(1)], 0);
    let sum = p.func(Func::sum("sum", &[], r, vec![term]));
    p.output(&sum);
    let b = bindings(vec![("in", pattern(&[I32], &[11, 7], 3))], vec![]);
    (p, b)
}

/// One loop over all points of a reduction, cut into equal parts.
#[test]
fn a_fused_reduction_is_factored() {
    let (p, b) = total();
    let mut s = Schedule::new();
    s.update("sum", 0)
        .fuse("rx", "ry", "r")
        .split("r", "part", "i", 16, Tail::Predicate)
        .rfactor(&[("part", "k")], "parts");
    s.update("parts", 0).parallel("k");
    check(&p, &s, &b, &[vec![]], 0.0);
    let mut s = Schedule::new();
    s.update("sum", 0).fuse("rx", "ry", "r").rename("r", "all").rfactor(&[("all", "k")], "parts");
    s.update("parts", 0).vectorize("k", 8, Tail::Predicate);
    check(&p, &s, &b, &[vec![]], 0.0);
}

#[test]
fn refusals() {
    let p = columns();
    for (s, text) in [
        ("out: fuse(x, z, p)", "out: fuse(x, z, p): z is not a loop here; the loops are x y"),
        ("out: fuse(x, x, p)", "out: fuse(x, x, p): a loop cannot be fused with itself"),
        (
            "out: split(x, y, xi, 4, guard)",
            "out: split(x, y, xi, 4, guard): y already names a variable of this stage",
        ),
        (
            "out: parallel(y) fuse(x, y, p)",
            "out: fuse(x, y, p): y is no serial loop; fuse first, then say how the fused loop runs",
        ),
        ("out: rename(x, y)", "out: rename(x, y): y already names a variable of this stage"),
        ("out: fuse(x, y, p) reorder(y, x)", "out: reorder(y, x): y is not a loop here; the loops are p"),
        (
            "out: split(x, xo, xi, -4, guard)",
            "out: split(x, xo, xi, -4, guard): the factor must be an i32 of at least 1",
        ),
        ("out: split(x, xi, xi, 4, guard)", "out: split(x, xi, xi, 4, guard): the new names must differ"),
    ] {
        assert_eq!(refused(&p, &schedule(s)), text);
    }
}

/// Lanes whose loops start alike, not at 0, and end where each lane says.
#[test]
fn ragged_loops_start_where_they_are_told() {
    for start in [-2, 0, 3] {
        let v = Var::new("x");
        let mut p = Pipeline::new("ragged");
        let first = p.param("first", I32);
        for (name, min) in [("constant", Expr::from(start)), ("parameter", first)] {
            let r = RDom::new([(format!("{name}_r"), min, v.expr() % 5 + 1)]);
            let term = r.var(0) * 10 + v.expr();
            let f = p.func(Func::sum(name, std::slice::from_ref(&v), r, vec![term]));
            p.output(&f);
        }
        let lanes = "split(x, xo, xi, 4, predicate) vectorize(xi)";
        let s = format!(
            "constant.update(0): {lanes} reorder(constant_r, xi, xo)
             parameter.update(0): {lanes} reorder(parameter_r, xi, xo)"
        );
        let b = bindings(vec![], vec![("first", Value::Int(start as i64))]);
        check(&p, &schedule(&s), &b, &[vec![13], vec![13]], 0.0);
    }
}
