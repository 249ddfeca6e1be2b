//! Updates, which run over cells that are dual numbers.

use super::*;
use sumsq_codegen::func::{RDom, RVar, Source};

/// A pipeline with a float input `a` of one dimension.
fn with_input() -> (Pipeline, Input) {
    let mut p = Pipeline::new("reduction");
    let a = p.input(Input::new("a", &[F64], 1));
    (p, a)
}

/// Checks outputs over `n` points, the input having 12.
#[track_caller]
fn check_over(mut p: Pipeline, outputs: &[&Func], n: usize) {
    outputs.iter().for_each(|f| p.output(f));
    let domains: Vec<_> = outputs.iter().map(|f| vec![(0, n); f.vars.len()]).collect();
    check(&p, &given(&[("a", numbers(&[12], 7))], &[]), &domains);
}

#[test]
fn sums() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 4)]);
    let term = (a.of(x + r.var(0)) * a.of(r.var(0))).sin();
    let f = p.func(Func::sum("f", &[x], r, vec![term]));
    check_over(p, &[&f], 9);
}

/// Several points of the domain store to each cell: the last one stays.
#[test]
fn colliding_stores() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 12)]);
    let f = p.define("f", [x], a.of(x) * 0.5);
    let f = p.update(&f, r.var(0) / 5, a.of(r.var(0)).exp(), &r);
    check_over(p, &[&f], 5);
}

#[test]
fn minima_and_maxima() {
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 12)]);
    let value = a.of(r.var(0));
    let start = [f64::INFINITY, f64::NEG_INFINITY].map(|v| Expr::float(F64, v));
    let f = Func::new("f", &[], start.to_vec());
    let values = vec![f.at(&[], 0).min(value.sin()), f.at(&[], 1).max(&value * &value)];
    let f = p.func(f.update(vec![], values, r));
    check_over(p, &[&f], 0);
}

/// The greatest element with its place: tuples of a float and an integer.
#[test]
fn places_of_maxima() {
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 12)]);
    let f = Func::new("f", &[], vec![Expr::float(F64, -100.0), Expr::from(-1)]);
    let value = a.of(r.var(0)).exp();
    let greater = value.gt(f.at(&[], 0));
    let place = Expr::select(greater.clone(), r.var(0), f.at(&[], 1));
    let values = vec![Expr::select(greater, value, f.at(&[], 0)), place];
    let f = p.func(f.update(vec![], values, r));
    let read = f.at(&[], 0) * a.of(f.at(&[], 1).clamp(0, 11));
    let read = p.define("read", [], read);
    check_over(p, &[&f, &read], 0);
}

/// Each cell squared in place, over and over.
#[test]
fn squares_in_place() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 3)]);
    let f = p.define("f", [x], a.of(x) + 0.5);
    let f = p.update(&f, x, f.of(x) * f.of(x), &r);
    let f = p.update(&f, x, f.of(x) * a.of(x), &RDom::default());
    check_over(p, &[&f], 12);
}

/// A recursive filter forth and back.
#[test]
fn scans() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 1, 11)]);
    let f = p.define("f", [x], a.of(x));
    let at = r.var(0);
    let f = p.update(&f, at.clone(), f.of(&at - 1).sin() * 0.8 + f.of(at) * 0.3, &r);
    let back = 11 - r.var(0);
    let f = p.update(&f, back.clone(), f.of(&back + 1) * f.of(back) + 0.1, &r);
    check_over(p, &[&f], 12);
}

/// Bins that decay with each sample they get, in a bin that the samples choose.
#[test]
fn histograms() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 12)]);
    let f = p.define("f", [x], a.of(x));
    let sample = a.of(r.var(0));
    let bin = ((&sample + 1.0) * 2.0).cast(I32).clamp(0, 3);
    let f = p.update(&f, bin.clone(), f.of(bin) * 0.9 + sample.exp(), &r);
    check_over(p, &[&f], 5);
}

/// A predicate that sees the place and the data.
#[test]
fn predicates() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 12)]);
    let at = r.var(0);
    let r = r.filter(at.modulo(2).eq_(1)).filter(a.of(at.clone()).gt(-0.5));
    let f = p.define("f", [x], a.of(x));
    let f = p.update(&f, x, f.of(x) * 0.7 + a.of(at) * a.of(x), &r);
    check_over(p, &[&f], 12);
}

/// Rows of several lengths, one of them of less than none.
#[test]
fn ragged_domains() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let offsets = p.input(Input::new("offsets", &[I32], 1));
    let (min, next) = (offsets.of(x), offsets.of(x + 1));
    let row = RVar { name: "r".into(), min: min.clone(), extent: next - min };
    let r = RDom { vars: vec![row], predicate: None };
    let term = a.of(r.var(0)) * a.of(x);
    let f = p.func(Func::sum("f", &[x], r, vec![term]));
    p.output(&f);
    let rows = [0.0, 3.0, 3.0, 8.0, 7.0, 12.0];
    let offsets = Realization::from_fn(&[I32], &[6], |c, _| rows[c[0] as usize]);
    check(&p, &given(&[("a", numbers(&[12], 7)), ("offsets", offsets)], &[]), &[vec![(0, 5)]]);
}

/// Updates that read beyond what was asked for, and run over more of a dimension for it.
#[test]
fn boxes_that_grow() {
    let (x, y) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 1, 4)]);
    let s = Func::new("s", &[x, y], vec![a.of(x) * a.of(y + 5)]);
    let along_x = |at: Expr| s.at(&[at, y.expr()], 0);
    let along_y = |at: Expr| s.at(&[x.expr(), at], 0);
    let at = r.var(0);
    let first = along_x(at.clone()) * along_x(&at - 1) + 0.3;
    let second = along_y(at.clone()) + along_y(&at - 1) * 0.5;
    let s2 = s.clone().update(vec![at.clone(), y.expr()], vec![first], r.clone());
    let s2 = p.func(s2.update(vec![x.expr(), at], vec![second], r));
    let corner = p.define("corner", [], s2.of((4, 4)));
    check_over(p, &[&corner], 0);
}

/// Two tuple elements exchanged, with steps between: all values of an update come before any store.
#[test]
fn exchanges() {
    let (x, _) = vars();
    let (mut p, a) = with_input();
    let r = RDom::new([("r", 0, 5)]);
    let f = Func::new("f", &[x], vec![a.of(x), a.of(x + 1), x.expr()]);
    let [u, v, n] = [0, 1, 2].map(|k| f.at(&[x.expr()], k));
    let values = vec![v.sin() * a.of(r.var(0)), u + v, n + 1];
    let f = p.func(f.update(vec![x.expr()], values, r));
    check_over(p, &[&f], 8);
}
