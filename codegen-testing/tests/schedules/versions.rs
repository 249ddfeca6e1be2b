//! specialize, partition, in_, clone_in.

use crate::support::{plane, refused, schedule};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// `f(x, y) = in(x, y) * scale`, `g = f(x, y) + f(x + 1, y)`, `h = f(x, y + 1)`; g and h are outputs.
fn fork() -> Pipeline {
    let (mut p, i, vars) = plane("fork");
    let (x, y) = (vars[0].expr(), vars[1].expr());
    let scale = p.param("scale", I32);
    let f = p.func(Func::new("f", &vars, vec![i.at(&[x.clone(), y.clone()], 0) * scale]));
    let g = f.at(&[x.clone(), y.clone()], 0) + f.at(&[&x + 1, y.clone()], 0);
    let g = p.func(Func::new("g", &vars, vec![g]));
    let h = p.func(Func::new("h", &vars, vec![f.at(&[x, &y + 1], 0)]));
    p.output(&g);
    p.output(&h);
    p
}

/// Nests and lowered body.
fn run(text: &str) -> (String, String) {
    let mut last = (String::new(), String::new());
    for (w, h) in [(1, 1), (9, 3), (16, 4)] {
        for scale in [-2, 3] {
            let input = pattern(&[I32], &[w + 1, h + 1], 3);
            let b = bindings(vec![("in", input)], vec![("scale", Value::Int(scale))]);
            let r = check(&fork(), &schedule(text), &b, &[vec![w, h], vec![w, h]], 0.0);
            last = (r.nests, r.body);
        }
    }
    last
}

#[test]
fn versions_are_tried_in_order() {
    let (nests, _) = run(
        "g: reorder(y, x) specialize(scale > 0) { split(x, xo, xi, 8, auto) vectorize(xi) } specialize(g.extent.1 == 3) \
         { unroll(y) } parallel(x)",
    );
    let at = |s: &str| nests.find(s).unwrap_or_else(|| panic!("{s} is not in\n{nests}"));
    assert!(at("if scale > 0") < at("vectorized for g.s0.v1.xi"), "{nests}");
    assert!(at("vectorized for g.s0.v1.xi") < at("if g.extent.1 == 3"), "{nests}");
    assert!(at("if g.extent.1 == 3") < at("unrolled for g.s0.v2.y in [0, 3)"), "{nests}");
    // What was said before is in every version, what is said after only in the last.
    assert!(at("unrolled for g.s0.v2.y in [0, 3)") < at("parallel for g.s0.x"), "{nests}");
    assert!(!nests.contains("parallel for g.s0.v"), "{nests}");
}

/// Numbers in text take the type of the parameter beside them; parameters do not take each other's.
#[test]
fn numbers_fit_the_parameter() {
    let v = Var::new("v");
    let mut p = Pipeline::new("gains");
    let gain = p.param("gain", ScalarType::F32);
    let n = p.param("n", ScalarType::I64);
    let f = p.func(Func::new("f", &[v], vec![gain * n.cast(ScalarType::F32)]));
    p.output(&f);
    for (text, cond) in [
        ("gain > 1", "gain > 1f"),
        ("gain + 1 >= 0.5", "gain + 1f >= 0.5f"),
        ("2 * n < 10", "2:i64 * n < 10:i64"),
        ("bits_as_i32(fma(gain, 2, 1)) == 3", "bits_as_i32(fma(gain, 2f, 1f)) == 3"),
        ("gain == gain && !(n == -1)", "gain == gain && !(n == -1:i64)"),
        ("f32(n) != sqrt(gain)", "f32(n) != sqrt(gain)"),
    ] {
        let s = schedule(&format!("f: specialize({text}) {{ split(v, vo, vi, 8, auto) vectorize(vi) }}"));
        for (gain, n) in [(2.0, 4), (0.0, -1), (-1.5, 7)] {
            let b = bindings(vec![], vec![("gain", Value::Float(gain)), ("n", Value::Int(n))]);
            let nests = check(&p, &s, &b, &[vec![19]], 0.0).nests;
            assert!(nests.contains(&format!("if {cond} {{")), "{cond} is not in\n{nests}");
        }
    }
    for (text, rule) in [
        ("n > gain", "the expression: operands of Gt are i64 and f32: n > gain"),
        (
            "n > 0.5",
            "the expression: 0.5 is no i64: cast the operand beside it to a type that has it: n > 0.5",
        ),
    ] {
        let e = refused(&p, &schedule(&format!("f: specialize({text}) {{ }}")));
        assert_eq!(e, format!("f: specialize({text}) {{ }}: {rule}"));
    }
}

/// Under `scale == 1` the product is gone, and elsewhere it is not.
#[test]
fn a_version_knows_its_parameters() {
    let text = "g: specialize(scale == 1 && in.extent.0 == 17) { split(x, xo, xi, 8, guard) vectorize(xi) }";
    let (_, body) = run(text);
    let (_, branches) = body.split_once("if scale == 1 && in.extent.0 == 17 {").expect("the condition");
    let (special, rest) = branches.split_once("\n} else {").expect("two branches");
    assert!(!special.contains("scale") && rest.contains("scale"), "{body}");
    // And the values are those of a run in which it holds.
    for scale in [1, 2] {
        let b = bindings(vec![("in", pattern(&[I32], &[17, 4], 3))], vec![("scale", Value::Int(scale))]);
        check(&fork(), &schedule(text), &b, &[vec![16, 3], vec![16, 3]], 0.0);
    }
}

#[test]
fn a_version_knows_its_condition() {
    let (_, body) = run("g: specialize(g.extent.0 == 16) { split(x, xo, xi, 8, guard) vectorize(xi) }");
    // 16 = 2 * 8: the version has no tail.
    let special = body.split("else").next().expect("text");
    assert!(special.contains("for g.s0.v1.xo in [0, 2)"), "{body}");
}

#[test]
fn partition_never_tests_in_place() {
    let text = "g: split(x, xo, xi, 8, predicate) vectorize(xi)";
    let (_, auto) = run(text);
    let (_, never) = run(&format!("{text} partition(xo, never)"));
    let (_, back) = run(&format!("{text} partition(xo, never) partition(xo, auto)"));
    assert_eq!(auto, back);
    let stores = |s: &str| s.matches("g.0[").count();
    assert_eq!((stores(&auto), stores(&never)), (2, 1), "{auto}\n{never}");
}

/// A condition in a `select` that nobody marked.
#[test]
fn partition_always_finds_every_condition() {
    let v = Var::new("x");
    let x = v.expr();
    let mut p = Pipeline::new("border");
    let i = p.input(Input::new("in", &[I32], 1));
    let inner = i.at(&[x.clone().max(1) - 1], 0);
    let f = p.func(Func::new("f", &[v], vec![Expr::select(x.gt(0), inner, Expr::from(7))]));
    p.output(&f);
    let b = bindings(vec![("in", pattern(&[I32], &[40], 3))], vec![]);
    let body = |text: &str| check(&p, &schedule(text), &b, &[vec![40]], 0.0).body;
    let auto = body("");
    let always = body("f: partition(x, always)");
    assert_eq!((auto.matches("f.0[").count(), auto.matches("select(").count()), (1, 1), "{auto}");
    // Neither the interior nor the border makes a choice.
    assert_eq!((always.matches("f.0[").count(), always.matches("select(").count()), (2, 0), "{always}");
}

#[test]
fn versions_of_versions() {
    let (nests, _) = run(
        "g: specialize(scale > 0) { split(x, xo, xi, 8, guard) specialize(g.extent.1 == 3) { unroll(y) } vectorize(xi) }",
    );
    let at = |s: &str| nests.find(s).unwrap_or_else(|| panic!("{s} is not in\n{nests}"));
    assert!(at("if scale > 0") < at("if g.extent.1 == 3"), "{nests}");
    assert!(at("if g.extent.1 == 3") < at("unrolled for g.s0.v2.y in [0, 3)"), "{nests}");
    assert!(at("unrolled for g.s0.v2.y in [0, 3)") < at("for g.s0.v2.xi"), "{nests}");
    assert!(at("for g.s0.v2.xi") < at("vectorized for g.s0.v1.xi"), "{nests}");
    assert!(at("vectorized for g.s0.v1.xi") < at("for g.s0.x in"), "{nests}");
}

/// The producer's region is that of the version: a row of blocks in one, a single point's in the other.
#[test]
fn versions_hold_producers() {
    let (nests, _) = run(
        "f: clone_in(h, as f_h) compute_at(g, x) g: specialize(scale > 0) { split(y, yo, yi, 2, guard) reorder(yi, x, yo) }",
    );
    let [special, rest] = nests.split("} else {").collect::<Vec<_>>()[..] else { panic!("{nests}") };
    assert!(special.contains("realize f over [g.s0.v1.x, +2) x [g.s0.v1.y.base"), "{nests}");
    assert!(rest.contains("realize f over [g.s0.x, +2) x [g.s0.y, +1)"), "{nests}");
    // Stored outside: the ring slides in each version.
    for at in ["store_at(g, y) compute_at(g, x)", "store_at(g, y) compute_at(g, y)"] {
        run(&format!("f: clone_in(h, as f_h) {at} g: specialize(scale > 0) {{ parallel(y) }}"));
    }
}

#[test]
fn wrappers_stand_between_some_consumers() {
    // A row of the input is copied first.
    let (nests, _) = run(
        "in: in_(f, as tile) f: compute_root tile: compute_at(f, y) split(_0, a, b, 4, auto) vectorize(b)",
    );
    assert!(nests.contains("produce tile"), "{nests}");
    let (nests, _) = run("f: compute_root in_(g, as f_g) f_g: compute_at(g, y)");
    assert!(nests.contains("produce f_g") && nests.contains("= f(f_g.s0.x, f_g.s0.y)"), "{nests}");
    let (nests, _) = run("f: compute_root clone_in(h, as f_h) f_h: compute_at(h, y)");
    assert!(nests.contains("produce f_h") && nests.contains("f_h(f_h.s0.x, f_h.s0.y) = in("), "{nests}");
    let (nests, _) = run("f: in_(as all) all: compute_root");
    assert!(!nests.contains("produce f {") && nests.matches("all(").count() >= 4, "{nests}");
}

#[test]
fn refusals() {
    for (text, message) in [
        (
            "g: specialize(in(0, 0) > 2) { parallel(y) }",
            "g: specialize(in(0, 0) > 2): the condition must be made of constants and parameters",
        ),
        (
            "g: specialize(scale > 2) { compute_root }",
            "g: specialize(scale > 2): compute_root: only loops can differ between versions",
        ),
        (
            "f: compute_root specialize(scale > 2) { split(x, xo, xi, 4, round_up) }",
            "f: specialize(scale > 2): split(x, xo, xi, 4, round_up): RoundUp changes the region, which all versions share; \
             use Predicate",
        ),
        (
            "g: specialize(scale > 2) { split(y, yo, yi, 2, guard) } f: compute_at(g, y) in_(h, as f_h)",
            "f: compute_at(g, y): in the version for scale > 2: y is not a loop here; the loops are x yi yo",
        ),
        (
            "g: specialize(scale > 2) { split(x, xo, xi, 32, guard) gpu_lanes(xi) reorder(y, xi, xo) } f: compute_at(g, y) \
             in_(h, as f_h)",
            "f: compute_at(g, y): in the version for scale > 2: the level is inside of a loop of lanes",
        ),
        ("g: partition(y, always)", "g: partition(y, always): there is no condition on this loop"),
        ("g: partition(z, never)", "g: partition(z, never): z is not a loop here; the loops are x y"),
        ("f: in_(q, as w)", "f: in_(q, as w): there is no other Func q"),
        ("g: in_(h, as w)", "g: in_(h, as w): h does not call it"),
        ("f: in_(g, as h)", "f: in_(g, as h): the name h is taken"),
        ("q: in_(as w)", "q: in_(as w): there is no such Func or input"),
        ("in: clone_in(f, as c)", "in: clone_in(f, as c): there is no such Func"),
        ("in: compute_root", "in: compute_root: an input has no loops; schedule a wrapper of it (in_)"),
    ] {
        assert_eq!(refused(&fork(), &schedule(text)), message);
    }
}
