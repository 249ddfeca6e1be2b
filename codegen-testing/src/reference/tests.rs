//! Pipelines whose results are known in closed form, and the errors.

use super::*;
use ScalarType::*;
use sumsq_codegen::func::{Func, Input, Pipeline, RDom, RVar, Update, Var};
use sumsq_codegen::types::Type;

fn vars() -> (Var, Var) {
    (Var::new("x"), Var::new("y"))
}

fn bound(name: &str, r: Realization) -> Bindings {
    let mut b = Bindings::default();
    b.inputs.insert(name.into(), r);
    b
}

fn ints(r: &Realization, k: usize) -> Vec<i64> {
    r.planes[k].iter().map(|v| v.as_int().unwrap()).collect()
}

/// `g(x) = f(x - 1) + f(x + 1)`, `f(x) = x^2`: 2 x^2 + 2.
#[test]
fn pure_funcs_are_infinite() {
    let (x, _) = vars();
    let mut p = Pipeline::new("squares");
    let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![x.expr() * x.expr()]));
    let g =
        Func::new("g", std::slice::from_ref(&x), vec![f.at(&[x.expr() - 1], 0) + f.at(&[x.expr() + 1], 0)]);
    let g = p.func(g);
    p.output(&g);
    let out = evaluate(&p, &Bindings::default(), &[vec![5]]).unwrap();
    assert_eq!(ints(&out[0], 0), [2, 4, 10, 20, 34]);
}

#[test]
fn histogram_and_its_scan() {
    let mut p = Pipeline::new("histogram");
    let input = p.input(Input::new("in", &[U8], 1));
    let b = Var::new("b");
    let bins = |v: Expr| v.cast(I32).max(0).min(3);
    let h = Func::new("h", std::slice::from_ref(&b), vec![Expr::from(0)]);
    let r = RDom::new([("r", Expr::from(0), input.extent(0))]);
    let bin = bins(input.at(&[r.var(0)], 0));
    let h = p.func(h.clone().update(vec![bin.clone()], vec![h.at(&[bin], 0) + 1], r));
    let c = Func::new("c", std::slice::from_ref(&b), vec![h.at(&[b.expr()], 0)]);
    let r = RDom::new([("r", Expr::from(1), Expr::from(3))]);
    let at = r.var(0);
    let sum = c.at(std::slice::from_ref(&at), 0) + c.at(&[at.clone() - 1], 0);
    let c = p.func(c.clone().update(vec![at], vec![sum], r));
    p.output(&h);
    p.output(&c);
    let data = [0, 1, 1, 3, 2, 9, 1, 0];
    let bindings = bound("in", Realization::from_fn(&[U8], &[8], |c, _| data[c[0] as usize] as f64));
    let out = evaluate(&p, &bindings, &[vec![4], vec![5]]).unwrap();
    assert_eq!(ints(&out[0], 0), [2, 3, 1, 2]);
    assert_eq!(ints(&out[1], 0), [2, 5, 6, 8, 0], "beyond the scanned range the pure value stays");
}

/// The summed area table by two one-dimensional scans, read at its far corner only: the first scan's rows are
/// demanded by the second scan alone.
#[test]
fn updates_reach_what_later_updates_read() {
    let (x, y) = vars();
    let mut p = Pipeline::new("integral");
    let s = Func::new("s", &[x, y], vec![x.expr() + y.expr() * 10]);
    let rx = RDom::new([("r", Expr::from(1), Expr::from(3))]);
    let (r, along_x) = (rx.var(0), |r: Expr| s.at(&[r, y.expr()], 0));
    let scan_x = along_x(r.clone()) + along_x(r.clone() - 1);
    let ry = RDom::new([("r", Expr::from(1), Expr::from(3))]);
    let along_y = |r: Expr| s.at(&[x.expr(), r], 0);
    let scan_y = along_y(r.clone()) + along_y(r.clone() - 1);
    let s2 = s.clone().update(vec![r.clone(), y.expr()], vec![scan_x], rx);
    let s2 = p.func(s2.update(vec![x.expr(), r.clone()], vec![scan_y], ry));
    let corner = p.func(Func::new("corner", &[], vec![s2.at(&[Expr::from(3), Expr::from(3)], 0)]));
    p.output(&corner);
    let out = evaluate(&p, &Bindings::default(), &[vec![]]).unwrap();
    let expected: i64 = (0..4).flat_map(|x| (0..4).map(move |y| x + 10 * y)).sum();
    assert_eq!(ints(&out[0], 0), [expected]);
}

/// `f(i)` is `g(i, 0)` until the scan has been there, so that the rest of the scan reads no `g`: asked for at the far end of it, `g` would be
/// computed over the box of `(63, 0)` and `(0, 2)`, where its input has no values.
#[test]
fn what_an_update_overwrites_is_not_computed_ahead() {
    let (x, y) = vars();
    let mut p = Pipeline::new("ahead");
    let input = p.input(Input::new("in", &[I32], 1));
    let g = Func::new("g", &[x, y], vec![Expr::from(0)]);
    let read = input.at(&[x.expr() * y.expr()], 0);
    let g = g.clone().update(
        vec![x.expr(), y.expr()],
        vec![g.at(&[x.expr(), y.expr()], 0) + read],
        RDom::default(),
    );
    let far = vec![Expr::from(-1), Expr::from(-1)];
    let g = p.func(g.update(far, vec![Expr::from(7)], RDom::default()));
    let f = Func::new("f", &[x], vec![g.at(&[x.expr(), Expr::from(0)], 0)]);
    let r = RDom::new([("r", Expr::from(1), Expr::from(64))]);
    let next = f.at(&[r.var(0) - 1], 0) + 1;
    let f = p.func(f.clone().update(vec![r.var(0)], vec![next], r));
    let both = f.at(&[Expr::from(64)], 0) + g.at(&[Expr::from(0), Expr::from(2)], 0);
    let out = p.func(Func::new("out", &[], vec![both]));
    p.output(&out);
    let bindings = bound("in", Realization::from_fn(&[I32], &[64], |c, _| c[0] as f64 + 5.0));
    let out = evaluate(&p, &bindings, &[vec![]]).unwrap();
    assert_eq!(ints(&out[0], 0), [5 + 64 + 5]);
}

/// Values of an update are computed before any is stored; the last reduction variable is outermost.
#[test]
fn tuples_swap_and_loops_nest() {
    let mut p = Pipeline::new("order");
    let f = Func::new("f", &[], vec![Expr::from(1), Expr::from(2), Expr::from(0)]);
    let r = RDom::new([("i", Expr::from(0), Expr::from(3)), ("j", Expr::from(0), Expr::from(2))]);
    let digits = f.at(&[], 2) * 10 + r.var(0) + r.var(1) * 5;
    let f = p.func(f.clone().update(vec![], vec![f.at(&[], 1), f.at(&[], 0), digits], r));
    p.output(&f);
    let out = evaluate(&p, &Bindings::default(), &[vec![]]).unwrap();
    assert_eq!([ints(&out[0], 0), ints(&out[0], 1), ints(&out[0], 2)], [[1], [2], [12567]]);
}

#[test]
fn ragged_domains_and_predicates() {
    let x = Var::new("x");
    let mut p = Pipeline::new("ragged");
    let offsets = p.input(Input::new("offsets", &[I32], 1));
    let (at, next) = (offsets.at(&[x.expr()], 0), offsets.at(&[x.expr() + 1], 0));
    let r =
        RDom { vars: vec![RVar { name: "r".into(), min: at.clone(), extent: next - at }], predicate: None };
    let odd = r.var(0).modulo(2).eq_(1);
    let term = r.var(0);
    let s = p.func(Func::sum("s", std::slice::from_ref(&x), r.filter(odd), vec![term]));
    p.output(&s);
    let data = [0, 3, 3, 8, 7];
    let bindings = bound("offsets", Realization::from_fn(&[I32], &[5], |c, _| data[c[0] as usize] as f64));
    let out = evaluate(&p, &bindings, &[vec![4]]).unwrap();
    assert_eq!(ints(&out[0], 0), [1, 0, 3 + 5 + 7, 0], "an extent of -1 is empty");
}

#[test]
fn halo_is_readable_and_beyond_it_is_an_error() {
    let x = Var::new("x");
    let mut p = Pipeline::new("halo");
    let mut input = Input::new("in", &[F32], 1);
    input.halo = vec![1];
    let input = p.input(input);
    let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![input.at(&[x.expr() - 1], 0)]));
    p.output(&f);
    let bindings = bound("in", Realization::from_fn(&[F32], &[3], |c, _| c[0] as f64 + 0.5));
    let out = evaluate(&p, &bindings, &[vec![5]]).unwrap();
    let got: Vec<f64> = out[0].planes[0].iter().map(|v| v.as_f64()).collect();
    assert_eq!(got, [0.0, 0.5, 1.5, 2.5, 0.0]);
    let message = evaluate(&p, &bindings, &[vec![6]]).unwrap_err().to_string();
    assert_eq!(message, "halo: input `in` is read at [4], outside its extents [3] from [0] with halo [1]");
}

#[test]
fn malformed_pipelines_are_refused() {
    let x = Var::new("x");
    let run = |funcs: Vec<Func>| {
        let mut p = Pipeline::new("bad");
        let last = funcs.into_iter().map(|f| p.func(f)).last().unwrap();
        p.output(&last);
        evaluate(&p, &Bindings::default(), &[vec![2]]).unwrap_err().to_string()
    };
    let call = |name: &str, at: Expr| Expr::call(name, I32, vec![at], 0);
    let pure = |name: &str, value: Expr| Func::new(name, std::slice::from_ref(&x), vec![value]);
    assert!(
        run(vec![pure("f", call("nobody", x.expr()))])
            .ends_with("f calls nobody, which is neither a Func nor an input")
    );
    assert!(
        run(vec![pure("f", call("f", x.expr()))])
            .ends_with("the pure definition of f calls itself: use an update definition")
    );
    let circle = vec![pure("f", call("g", x.expr())), pure("g", call("f", x.expr()))];
    assert!(run(circle).ends_with("these Funcs call each other in a circle: g, f"));
    assert!(run(vec![pure("f", Expr::var("z"))]).ends_with("f: variable z is not one of its own"));
    let shifted =
        pure("f", Expr::from(0)).update(vec![x.expr()], vec![call("f", x.expr() - 1)], RDom::default());
    assert!(run(vec![shifted]).contains("pure variable x must stand in its own place in every access to f"));
    let u = Update { args: vec![], values: vec![Expr::from(0)], rdom: RDom::default() };
    let mut f = pure("f", Expr::from(0));
    f.updates.push(u);
    assert!(run(vec![f]).ends_with("f.update(0) has other dimensions or tuple elements than f"));
}

#[test]
fn deep_and_shared_expressions() {
    let mut e = Expr::var("x");
    for _ in 0..200_000 {
        e = &e + &e;
    }
    let mut chain = Expr::var("x");
    for _ in 0..200_000 {
        chain = chain + 1;
    }
    assert_eq!(eval_scalar(&e, &[("x".into(), 1)], &[]), Ok(Value::Int(0)), "2^200000 wraps to 0");
    assert_eq!(eval_scalar(&chain, &[("x".into(), 5)], &[]), Ok(Value::Int(200_005)));
}

#[test]
fn long_chains_of_funcs() {
    let x = Var::new("x");
    let mut p = Pipeline::new("chain");
    let mut last = p.func(Func::new("f0", std::slice::from_ref(&x), vec![x.expr()]));
    for i in 1..3000 {
        let value = last.at(&[x.expr()], 0) + 1;
        last = p.func(Func::new(format!("f{i}"), std::slice::from_ref(&x), vec![value]));
    }
    p.output(&last);
    let out = evaluate(&p, &Bindings::default(), &[vec![2]]).unwrap();
    assert_eq!(ints(&out[0], 0), [2999, 3000]);
}

#[test]
fn vector_expressions_by_lane() {
    use sumsq_codegen::expr::{BinaryOp, ExprKind};
    let v = |kind, lanes| Expr::new(kind, Type::I32.with_lanes(lanes));
    let ramp = v(ExprKind::Ramp(Expr::from(3), Expr::from(2)), 4);
    let lanes = eval_lanes(&ramp, &[], &[]).unwrap();
    assert_eq!(lanes, [3, 5, 7, 9].map(Value::Int));
    let wide = v(ExprKind::Broadcast(Expr::from(10)), 4);
    let sum = Expr::new(ExprKind::VectorReduce(BinaryOp::Add, ramp + wide), Type::I32);
    assert_eq!(eval_scalar(&sum, &[], &[]), Ok(Value::Int(24 + 40)));
}
