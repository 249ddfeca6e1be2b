//! Golden texts of small loops.

use super::*;
use crate::expr::Part;
use crate::schedule::Memory;
use crate::types::{ScalarType, Type};

fn v(n: &str) -> Expr {
    Expr::var(n)
}
fn load(buffer: &str, index: Expr, ty: ScalarType) -> Expr {
    let index = index.cast(ScalarType::I64);
    let ty = Type::of(ty).with_lanes(index.ty().lanes);
    Expr::load(buffer, index, ty)
}
fn f(index: Expr) -> Expr {
    load("f.0", index, ScalarType::F32)
}
fn store(index: Expr, value: Expr) -> Stmt {
    let index = index.cast(ScalarType::I64);
    Stmt::store("g.0", index, value)
}
fn for_(var: &str, extent: Expr, kind: ForKind, body: Stmt) -> Stmt {
    Stmt::For { var: var.into(), min: Expr::from(0), extent, kind, body: Box::new(body) }
}
fn text(body: Stmt) -> String {
    vectorize(&for_("x", Expr::from(8), ForKind::Vectorized, body)).unwrap().to_string()
}
fn rule(body: Stmt) -> String {
    vectorize(&for_("x", Expr::from(8), ForKind::Vectorized, body)).unwrap_err().to_string()
}

#[test]
fn dense_strided_and_gathered() {
    let x = v("xo") * 8 + v("x");
    let row = x.cast(ScalarType::I64) + v("y").cast(ScalarType::I64) * Expr::part("g", Part::Stride(1));
    let index = load("id.0", x.clone(), ScalarType::I32);
    assert_eq!(
        text(store(row, f(x.clone() + 1) + f(x.clone() * 2) * f(index) + f(v("y")))),
        "g.0[ramp(i64(xo) * 8:i64 + i64(y) * g.stride.1, 1:i64, 8)] = f.0[ramp(i64(xo) * 8:i64 + 1:i64, 1:i64, 8)] \
         + f.0[ramp(i64(xo) * 16:i64, 2:i64, 8)] * f.0[i64(id.0[ramp(i64(xo) * 8:i64, 1:i64, 8)])] + x8(f.0[i64(y)]) \
         aligned\n"
    );
}

#[test]
fn conditions_become_predicates() {
    let x = v("xo") * 8 + v("x");
    let body = Stmt::If {
        cond: x.clone().lt(v("w")).likely(),
        then: Box::new(store(x.clone() + 1, f(x))),
        otherwise: None,
    };
    assert_eq!(
        text(body),
        "if likely(xo * 8 < w) {\n  g.0[ramp(i64(xo) * 8:i64 + 1:i64, 1:i64, 8)] = \
         f.0[ramp(i64(xo) * 8:i64, 1:i64, 8) if likely(ramp(xo * 8, 1, 8) < x8(w))] \
         if likely(ramp(xo * 8, 1, 8) < x8(w))\n}\n"
    );
}

#[test]
fn ragged_sums_run_to_the_longest_lane() {
    let degree = load("n.0", v("x"), ScalarType::I32);
    let sum = load("g.0", v("x"), ScalarType::F32) + f(load("e.0", v("r") * 8 + v("x"), ScalarType::I32));
    let t = text(for_("r", degree, ForKind::Serial, store(v("x"), sum)));
    let n = "n.0[ramp(0:i64, 1:i64, 8)]";
    let m = format!("x8(r) < {n}");
    let e = format!("e.0[ramp(i64(r) * 8:i64, 1:i64, 8) if {m}]");
    let g = "ramp(0:i64, 1:i64, 8)";
    assert_eq!(
        t,
        format!(
            "for r in [0, reduce_max({n})) {{\n  g.0[{g}] = g.0[{g} if {m}] + f.0[i64({e}) if {m}] if {m} aligned\n}}\n"
        )
    );
}

#[test]
fn lanes_combine_in_one_element() {
    let old = load("g.0", v("y"), ScalarType::F32);
    let body = Stmt::If {
        cond: v("x").lt(v("w")),
        then: Box::new(store(v("y"), old.clone() + f(v("x")))),
        otherwise: None,
    };
    let m = "ramp(0, 1, 8) < x8(w)";
    let expected = format!(
        "if 0 < w {{\n  g.0[i64(y)] = g.0[i64(y)] + reduce_add(select({m}, f.0[ramp(0:i64, 1:i64, 8) if {m}], x8(-0f)))\n}}\n"
    );
    assert_eq!(text(body), expected);
    let taken = store(v("y"), Expr::select(v("x").ne_(v("k")), old.max(f(v("x"))), old.clone()));
    assert!(text(taken).contains("max(g.0[i64(y)], reduce_max(select("));
    let e = rule(store(v("y"), old.sqrt() + f(v("x"))));
    assert!(e.starts_with("x: vectorize(x): all lanes store to the same element of g.0"), "{e}");
}

#[test]
fn storage_inside_gets_a_slot_per_lane() {
    let inner = Stmt::Allocate {
        buffer: "g.0".into(),
        ty: ScalarType::F32,
        extent: Expr::int(Type::I64, 3),
        memory: Memory::Stack,
        zeroed: false,
        body: Box::new(store(Expr::from(2), f(v("x")))),
    };
    assert_eq!(
        text(inner),
        "allocate g.0: f32[24:i64] on stack\ng.0[ramp(16:i64, 1:i64, 8)] = f.0[ramp(0:i64, 1:i64, 8)] aligned\n"
    );
}

#[test]
fn loops_inside_each_other_are_lanes_of_one_vector() {
    // Two pairs of neighbours each have a sum.
    let pairs = |index: Expr| {
        let old = load("g.0", index.clone(), ScalarType::F32);
        store(index, old + f(v("y") * 4 + v("x") * 2 + v("r")) * load("w.0", v("r"), ScalarType::F32))
    };
    let nest = |outer: &str, inner: &str, body| {
        let inner = for_(inner, Expr::from(2), ForKind::Vectorized, body);
        vectorize(&for_(outer, Expr::from(2), ForKind::Vectorized, inner))
    };
    let g = "g.0[ramp(0:i64, 1:i64, 2)]";
    let expected = format!(
        "{g} = {g} + reduce_add(f.0[ramp(i64(y) * 4:i64, 1:i64, 4)] * w.0[i64(ramp(0, 1, 4) % x4(2))], 2) aligned\n"
    );
    assert_eq!(nest("x", "r", pairs(v("x"))).unwrap().to_string(), expected);
    // Lanes that meet become neighbours.
    assert_eq!(nest("r", "x", pairs(v("x"))).unwrap().to_string(), expected);
    assert!(nest("x", "r", pairs(v("y"))).unwrap().to_string().contains("reduce_add(f.0[ramp("));
    let many = for_("y", Expr::from(64), ForKind::Vectorized, store(v("x") * 64 + v("y"), f(v("x"))));
    assert_eq!(rule(many), "x: vectorize(x): loop y inside it: 512 lanes are not possible: 1 to 256");
}
