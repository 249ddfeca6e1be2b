//! rfactor of every associative form, the order of reduction variables, races.

use crate::support::{plane, refused, schedule};
use ScalarType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use sumsq_codegen::{BinaryOp, Expr, Func, Input, Pipeline, RDom, ScalarType, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::{Bindings, Value};

/// `f() = f() op e(in(rx, ry))` from `start` over an input of i32. Products of floats are of 1 and -1.
fn reduction(ty: ScalarType, op: BinaryOp, start: Expr) -> (Pipeline, Bindings) {
    let mut p = Pipeline::new("reduction");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let e = i.at(&[r.var(0), r.var(1)], 0);
    let e = match op {
        _ if ty == Bool => e.gt(3),
        BinaryOp::Mul if ty.is_float() => Expr::select(e.gt(3), Expr::from(-1), Expr::from(1)).cast(ty),
        _ => e.cast(ty),
    };
    let f = Func::new("f", &[], vec![start]);
    let value = Expr::binary(op, f.at(&[], 0), e);
    let f = p.func(f.update(vec![], vec![value], r));
    p.output(&f);
    (p, bindings(vec![("in", pattern(&[I32], &[11, 7], 5))], vec![]))
}

/// Schedules that take a reduction over `rx`, `ry` apart.
const FACTORED: [&str; 6] = [
    "f.update(0): split(rx, xo, xi, 4, predicate) vectorize(xi)",
    "f.update(0): rfactor(ry as v, into g) g.update(0): parallel(v)",
    "f.update(0): rfactor(rx as v, into g) g: vectorize(v) bound(v, 0, 11) g.update(0): split(v, vo, vi, 4, predicate) vectorize(vi)",
    "f.update(0): split(ry, s, r, 3, predicate) rfactor(s as v, into g) g.update(0): parallel(v)",
    "f.update(0): split(rx, xo, xi, 4, predicate) rfactor(xi as l, into g) g: bound(l, 0, 4) g.update(0): reorder(l, xo, ry) vectorize(l)",
    "f.update(0): split(ry, s, r, 2, guard) rfactor(s as v, into g) g.update(0): rfactor(rx as w, into h)",
];

#[test]
fn every_operator_of_every_type_is_factored() {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    let ints = [I8, I16, I32, I64, U8, U16, U32, U64];
    let cases = ints.iter().flat_map(|&t| [Add, Mul, Min, Max, And, Or, Xor].map(|op| (t, op)));
    let floats = [F16, F32, F64].iter().flat_map(|&t| [Add, Mul, Min, Max].map(|op| (t, op)));
    let bools = [And, Or, Xor].map(|op| (Bool, op));
    for (k, (ty, op)) in cases.chain(floats).chain(bools).enumerate() {
        let start = if ty == Bool { Expr::bool(op == And) } else { Expr::constant(ty, 3.0) };
        let (p, b) = reduction(ty, op, start);
        // Three of the ways each, all of them over the run. Sums of small whole numbers are exact in floats.
        for text in [FACTORED[0], FACTORED[1 + k % 5], FACTORED[1 + (k + 2) % 5]] {
            let s = schedule(text);
            check(&p, &s, &b, &[vec![]], 0.0);
            if k % 4 == 0 || ty == F16 || ty == Bool {
                agree(&p, &s, &b, &[vec![]]);
            }
        }
    }
}

/// `(x, y, value)` of the greatest or least value, which occurs many times.
fn extremum(ty: ScalarType, greatest: bool) -> (Pipeline, Bindings) {
    let mut p = Pipeline::new("extremum");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let e = (i.at(&[r.var(0), r.var(1)], 0) / 4).cast(ty);
    let f = Func::new("f", &[], vec![Expr::from(-1), Expr::from(-1), Expr::constant(ty, 1.0)]);
    let old = |k: usize| f.at(&[], k);
    let better = if greatest { e.gt(old(2)) } else { e.lt(old(2)) };
    let new = [r.var(0), r.var(1), e];
    let values = (0..3).map(|k| Expr::select(&better, &new[k], old(k))).collect();
    let f = p.func(f.update(vec![], values, r));
    p.output(&f);
    (p, bindings(vec![("in", pattern(&[I32], &[11, 7], 5))], vec![]))
}

/// Of equal candidates the first counts, however the domain is cut.
#[test]
fn argmax_tuples_are_factored_in_order() {
    for (ty, greatest) in [(I32, true), (I32, false), (F32, true), (F64, false), (U8, true)] {
        let (p, b) = extremum(ty, greatest);
        for text in [
            "f.update(0): rfactor(ry as v, into g) g.update(0): parallel(v)",
            "f.update(0): split(ry, s, r, 3, predicate) rfactor(s as v, into g) g.update(0): parallel(v)",
            "f.update(0): rfactor(rx as u, ry as v, into g) g.update(0): vectorize(u) split(v, vo, vi, 2, guard)",
            "f.update(0): fuse(rx, ry, r) split(r, k, i, 10, predicate) rfactor(k as v, into g)",
        ] {
            let text = text.replace(" vectorize(u)", "");
            check(&p, &schedule(&text), &b, &[vec![]], 0.0);
        }
    }
    let (p, _) = extremum(I32, true);
    for (text, message) in [
        (
            "f.update(0): rfactor(rx as v, into g)",
            "f.update(0): rfactor(rx as v, into g): an argmin or argmax must keep the outermost reduction loops, innermost first",
        ),
        (
            "f.update(0): reorder(ry, rx)",
            "f.update(0): reorder(ry, rx): changes the order of reduction variables of an update that does not commute",
        ),
        (
            "f.update(0): parallel(ry)",
            "f.update(0): parallel(ry): iterations of this reduction variable may write the same element; use rfactor or atomic",
        ),
        (
            "f.update(0): atomic",
            "f.update(0): atomic: the update is no f(a) = f(a) op e, op in + * min max & | ^",
        ),
    ] {
        assert_eq!(refused(&p, &schedule(text)), message);
    }
}

/// `f(x) = f(x) - in(r)` and the like are no reductions, nor is one whose `where` or place depends on the sum.
#[test]
fn what_is_not_associative() {
    let mut p = Pipeline::new("not");
    let i = p.input(Input::new("in", &[I32], 2));
    let v = Var::new("x");
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let e = i.at(&[r.var(0), r.var(1)], 0);
    let f = Func::new("f", &[v], vec![Expr::from(0)]);
    let own = f.at(&[v.expr()], 0);
    let mut f = f.update(vec![v.expr()], vec![&e - &own], r.clone());
    let growing = r.clone().filter(own.lt(100));
    f = f.update(vec![v.expr()], vec![&own + &e], growing);
    f = f.update(vec![v.expr()], vec![&own * 2 + &e], r.clone());
    let f = p.func(f);
    p.output(&f);
    for k in 0..3 {
        assert_eq!(
            refused(&p, &schedule(&format!("f.update({k}): rfactor(ry as v, into g)"))),
            format!(
                "f.update({k}): rfactor(ry as v, into g): the update is not an associative reduction (f(a) = f(a) op e, op in \
                 + * min max & | ^, or an argmin or argmax)"
            )
        );
        assert_eq!(
            refused(&p, &schedule(&format!("f.update({k}): reorder(ry, rx)"))),
            format!(
                "f.update({k}): reorder(ry, rx): changes the order of reduction variables of an update that does not commute"
            )
        );
        assert_eq!(
            refused(&p, &schedule(&format!("f.update({k}): parallel(rx)"))),
            format!(
                "f.update({k}): parallel(rx): iterations of this reduction variable may write the same element; use rfactor \
                 or atomic"
            )
        );
    }
}

#[test]
fn float_sums_keep_their_order_unless_relaxed() {
    let (p, b) = reduction(F32, BinaryOp::Add, Expr::from(0f32));
    let rule = "another order rounds a sum of floats differently; say `relaxed` if that may be";
    for text in ["reorder(ry, rx)", "fuse(ry, rx, r)"] {
        assert_eq!(
            refused(&p, &schedule(&format!("f.update(0): {text}"))),
            format!("f.update(0): {text}: {rule}")
        );
        check(&p, &schedule(&format!("f.update(0): {text} relaxed")), &b, &[vec![]], 0.0);
    }
    // Minima do not round, and splits keep the order.
    let (p, b) = reduction(F32, BinaryOp::Min, Expr::from(0f32));
    check(&p, &schedule("f.update(0): reorder(ry, rx)"), &b, &[vec![]], 0.0);
    let (p, b) = reduction(F32, BinaryOp::Add, Expr::from(0f32));
    check(&p, &schedule("f.update(0): split(rx, xo, xi, 4, predicate) fuse(xo, ry, r)"), &b, &[vec![]], 0.0);
}

/// Producers that a `where` reads are computed before it is tested, in whatever loop of the update that is.
#[test]
fn predicates_read_what_is_computed_inside() {
    let (mut p, i, vars) = plane("where");
    let at = [vars[0].expr(), vars[1].expr()];
    let g = p.func(Func::new("g", &vars, vec![i.at(&at, 0) * 3]));
    let h = p.func(Func::new("h", &vars, vec![i.at(&at, 0) - 2]));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let at = [r.var(0), r.var(1)];
    let some = r.filter(g.at(&at, 0).gt(4)).filter(h.at(&[0.into(), at[1].clone()], 0).ne_(1));
    let f = p.func(Func::sum("f", &[], some, vec![g.at(&at, 0) + h.at(&at, 0)]));
    p.output(&f);
    let b = bindings(vec![("in", pattern(&[I32], &[7, 5], 3))], vec![]);
    for levels in [["rx", "rx"], ["ry", "rx"], ["ry", "ry"]] {
        let at = |k: usize| format!("compute_at(f.update(0), {})", levels[k]);
        for text in [
            format!("g: {} h: {}", at(1), at(0)),
            format!("g: {} h: {} store_at(f.update(0), ry)", at(0), at(1)),
            format!("g: {} f.update(0): split(rx, xo, xi, 4, guard) unroll(xi)", at(0).replace("rx", "xo")),
        ] {
            check(&p, &schedule(&text), &b, &[vec![]], 0.0);
        }
    }
}

/// Lanes of a reduction variable whose iterations a `where` tells apart, around loops of others.
#[test]
fn lanes_around_loops_keep_their_conditions() {
    let mut p = Pipeline::new("lanes");
    let vars = ["x", "y"].map(Var::new);
    let r = RDom::new([("r", Expr::from(-1), Expr::from(4)), ("s", Expr::from(0), Expr::from(2))]);
    let below = r.clone().filter(r.var(0).le(r.var(1)));
    let f = p.func(Func::sum("f", &vars, below, vec![Expr::from(1)]));
    p.output(&f);
    let text = "f.update(0): rfactor(s as v, into g) \
                g.update(0): split(r, ro, ri, 3, predicate) reorder(v, x, ri, y, ro) vectorize(ri)";
    check(&p, &schedule(text), &bindings(vec![], vec![]), &[vec![2, 1]], 0.0);
}

/// A wrapper stands inside of loops that the input bounds.
#[test]
fn bounds_read_the_input_and_not_its_wrapper() {
    let mut p = Pipeline::new("lengths");
    let i = p.input(Input::new("in", &[I32], 1));
    let x = Var::new("x");
    let length = i.at(&[x.expr()], 0).max(0).min(6);
    let r = RDom::new([("r", Expr::from(0), length.clone())]);
    let f = p.func(Func::sum("f", &[x], r.clone(), vec![r.var(0) * 10 + length.clone()]));
    let r = RDom::new([("r", Expr::from(0), length)]);
    let g = p.func(Func::sum("g", &[x], r.clone(), vec![r.var(0) * 10]));
    p.output(&f);
    p.output(&g);
    let b = bindings(vec![("in", pattern(&[I32], &[7], 3))], vec![]);
    for text in ["w: compute_at(f.update(0), r)", "w: compute_at(f.update(0), x)", "w: compute_root"] {
        check(&p, &schedule(&format!("in: in_(f, as w) {text}")), &b, &[vec![7], vec![7]], 0.0);
    }
    assert_eq!(refused(&p, &schedule("in: in_(g, as w)")), "in: in_(g, as w): g does not call it");
}

/// Partial sums over strips of a run-time height, where each point has a number of terms of its own.
#[test]
fn ragged_sums_are_factored_by_parameters() {
    let mut p = Pipeline::new("ragged");
    let factor = p.param("factor", I32);
    let v = Var::new("x");
    let r = RDom::new([("r", Expr::from(1), v.expr() % 7)]);
    let f = p.func(Func::sum("f", &[v], r.clone(), vec![r.var(0) * 10 + v.expr()]));
    // A coordinate, too, may be divided by what only a run knows.
    let near = f.at(&[v.expr() / &factor], 0);
    let out = p.func(Func::new("out", &[v], vec![near]));
    p.output(&out);
    for (text, divisors) in [
        ("", &[-3, 0, 2][..]),
        (
            "f: compute_root f.update(0): split(r, strip, row, factor, guard) rfactor(strip as s, into part) part.update(0): reorder(row, s, x)",
            &[1, 2, 9],
        ),
    ] {
        for &k in divisors {
            let b = bindings(vec![], vec![("factor", Value::Int(k))]);
            check(&p, &schedule(text), &b, &[vec![13]], 0.0);
        }
    }
}

/// A part of a reduction variable that rfactor keeps, fused with a part of another one.
#[test]
fn kept_parts_are_fused() {
    let (p, b) = reduction(I32, BinaryOp::Add, Expr::from(3));
    let kept = "f.update(0): split(rx, s, row, 4, predicate) rfactor(s as w, ry as v, into g)
                g.update(0): split(v, vo, vi, 3, guard)";
    for text in [
        "fuse(w, vi, both) parallel(vo)",
        "reorder(vi, w) fuse(vi, w, both) split(both, bo, bi, 5, guard)",
        "fuse(w, vi, both) split(both, bo, bi, 4, predicate) vectorize(bi) reorder(row, bo)",
    ] {
        let s = schedule(&format!("{kept} {text}"));
        check(&p, &s, &b, &[vec![]], 0.0);
        agree(&p, &s, &b, &[vec![]]);
    }
}
