//! sum, product, minimum, maximum, argmin and argmax, over windows, with predicates, nested, and over nothing.

use crate::{bindings, row};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Var};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value};

const I32: ScalarType = ScalarType::I32;

fn numbers() -> Vec<i64> {
    (0..20).map(|k: i64| (k * k * 7 + 3 * k) % 23 - 9).collect()
}

fn given() -> Bindings {
    bindings(vec![("in", row(I32, numbers().into_iter().map(Value::Int).collect()))])
}

/// The pipeline of `values(in at x + r, r)` for r in a window of 5, of which the odd ones count.
fn windows(make: impl Fn(&mut Pipeline, &RDom, Expr) -> Vec<Expr>) -> Vec<Realization> {
    let mut p = Pipeline::new("windows");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let r = RDom::new([("r", Expr::from(-1), Expr::from(5))]);
    let r = r.clone().filter((&x.expr() + &r.var(0)).modulo(2).eq_(1));
    let term = i.at(&[(x.expr() + r.var(0)).max(0).min(i.extent(0) - 1)], 0);
    let values = make(&mut p, &r, term);
    let f = p.func(Func::new("f", &[x], values));
    p.output(&f);
    agree(&p, &Schedule::new(), &given(), &[vec![20]])
}

/// `(r, value)` of the window's points that count, in order.
fn window(x: i64) -> Vec<(i64, i64)> {
    let v = numbers();
    (-1..4).filter(|r| (x + r).rem_euclid(2) == 1).map(|r| (r, v[(x + r).clamp(0, 19) as usize])).collect()
}

fn check(r: &Realization, k: usize, want: impl Fn(&[(i64, i64)]) -> i64) {
    for x in 0..20 {
        assert_eq!(r.get(&[x], k), Some(Value::Int(want(&window(x as i64)))), "value {k} at {x}");
    }
}

#[test]
fn of_one_value() {
    let r = windows(|p, r, t| {
        let squares = p.sum("squares", r, &t * &t);
        vec![
            p.sum("s", r, t.clone()),
            p.product("t", r, t.clone()),
            p.minimum("lo", r, t.clone()),
            p.maximum("hi", r, t),
            squares,
        ]
    });
    let values = |w: &[(i64, i64)]| w.iter().map(|p| p.1).collect::<Vec<_>>();
    check(&r[0], 0, |w| values(w).iter().sum());
    check(&r[0], 1, |w| values(w).iter().product());
    check(&r[0], 2, |w| values(w).into_iter().min().unwrap());
    check(&r[0], 3, |w| values(w).into_iter().max().unwrap());
    check(&r[0], 4, |w| values(w).iter().map(|v| v * v).sum());
}

#[test]
fn places_of_extremes() {
    let r = windows(|p, r, t| {
        let mut v = p.argmin("lo", r, &t / 4);
        v.extend(p.argmax("hi", r, t / 4));
        v
    });
    // The first of equals.
    let key = |p: &(i64, i64)| p.1.div_euclid(4);
    let first = |w: &[(i64, i64)], best: i64| *w.iter().find(|p| key(p) == best).unwrap();
    let least = |w: &[(i64, i64)]| first(w, w.iter().map(key).min().unwrap());
    let greatest = |w: &[(i64, i64)]| first(w, w.iter().map(key).max().unwrap());
    check(&r[0], 0, |w| least(w).0);
    check(&r[0], 1, |w| key(&least(w)));
    check(&r[0], 2, |w| greatest(w).0);
    check(&r[0], 3, |w| key(&greatest(w)));
}

/// The terms of one are reductions over another, whose bounds use its variable.
#[test]
fn nested() {
    let mut p = Pipeline::new("nested");
    let x = Var::new("x");
    let i = p.input(Input::new("in", &[I32], 1));
    let outer = RDom::new([("a", Expr::from(0), Expr::from(3))]);
    let inner = RDom::new([("b", Expr::from(0), outer.var(0) + 1)]);
    let at = (x.expr() + outer.var(0) * inner.var(0)).max(0).min(i.extent(0) - 1);
    let low = p.minimum("low", &inner, i.at(&[at], 0));
    let total = p.sum("total", &outer, low);
    let f = p.func(Func::new("f", &[x], vec![total]));
    p.output(&f);
    let r = &agree(&p, &Schedule::new(), &given(), &[vec![20]])[0];
    let v = numbers();
    for x in 0..20i64 {
        let low = |a: i64| (0..=a).map(|b| v[(x + a * b).min(19) as usize]).min().unwrap();
        assert_eq!(r.get(&[x as i32], 0), Some(Value::Int((0..3).map(low).sum())), "at {x}");
    }
}

#[test]
fn over_nothing() {
    let mut p = Pipeline::new("nothing");
    let r = RDom::new([("r", Expr::from(7), Expr::from(0))]);
    let t = r.var(0).cast(ScalarType::I16);
    let mut values = vec![
        p.sum("s", &r, t.clone()),
        p.product("t", &r, t.clone()),
        p.minimum("lo", &r, t.clone()),
        p.maximum("hi", &r, t.clone()),
    ];
    values.extend(p.argmin("at", &r, t).into_iter().map(|e| e.cast(ScalarType::I16)));
    let f = p.func(Func::new("f", &[], values));
    p.output(&f);
    let r = &agree(&p, &Schedule::new(), &Bindings::default(), &[vec![]])[0];
    let got: Vec<i64> = r.planes.iter().map(|p| p[0].as_int().unwrap()).collect();
    assert_eq!(got, [0, 1, 32767, -32768, 7, 32767]);
}
