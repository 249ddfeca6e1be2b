//! Coordinates divided by a parameter, and their remainders: required regions, storage, and what happens by 0 and by less.

use crate::support::schedule;
use sumsq_codegen::nests::bounds_query::BoundsQuery;
use sumsq_codegen::{Expr, Func, Input, Name, Pipeline, ScalarType, Schedule, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern, try_check};
use sumsq_codegen_testing::checked::run_nests;
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::{Bindings, Value, eval_scalar};

const I32: ScalarType = ScalarType::I32;

/// `out(x) = f(e(x, p))`, `f(z) = 3 in(z)`, and e; p is promised to lie in 1 to 16, or may be anything.
fn pipeline(promised: bool, e: impl Fn(Expr, &Expr) -> Expr) -> (Pipeline, Expr) {
    let [x, z] = ["x", "z"].map(Var::new);
    let mut p = Pipeline::new("periods");
    let d = if promised { p.param_in("p", I32, 1, 16) } else { p.param("p", I32) };
    let i = p.input(Input::new("in", &[I32], 1));
    let f = p.func(Func::new("f", &[z], vec![i.at(&[z.expr()], 0) * 3]));
    let e = e(x.expr(), &d);
    let out = p.func(Func::new("out", &[x], vec![f.at(&[e.clone()], 0)]));
    p.output(&out);
    (p, e)
}

/// The divisors that a run may give.
fn divisors(promised: bool) -> impl Iterator<Item = i64> {
    let all = (-7..=7).chain([-100, 16, 100]);
    all.filter(move |p| !promised || (1..=16).contains(p))
}

/// Least and greatest value of `e` for x in `[0, n)`.
fn brute(e: &Expr, p: i64, n: i64) -> (i64, i64) {
    let at = |x: i64| {
        let v = eval_scalar(e, &[(Name::from("x"), x)], &[("p".into(), Value::Int(p))]).expect("closed");
        v.as_int().expect("an integer")
    };
    (0..n).map(at).fold((i64::MAX, i64::MIN), |(a, b), v| (a.min(v), b.max(v)))
}

/// Exact over a whole period and within one, else all remainders; quotients are exact.
#[test]
fn regions_are_those_of_brute_force() {
    for promised in [false, true] {
        for first in [-9i64, -1, 0, 2, 5] {
            let (rest, e) = pipeline(promised, |x, p| (x + first) % p + 1);
            let (quotient, q) = pipeline(promised, |x, p| (x + first) / p - 2);
            let [rests, quotients] =
                [&rest, &quotient].map(|p| BoundsQuery::of(p, &Schedule::new()).expect("legal"));
            for (p, n) in divisors(promised).flat_map(|p| (1..20).map(move |n| (p, n))) {
                let region = |q: &BoundsQuery| {
                    let n = n as i32;
                    q.regions(&[("out", &[n])], &[("p", (p as i32).into())]).expect("all is known")["in"][0]
                };
                assert_eq!(region(&quotients), brute(&q, p, n), "({first} + [0, {n})) / {p}");
                let (came, want) = (region(&rests), brute(&e, p, n));
                let period = p.abs().max(1);
                let within = first.div_euclid(period) == (first + n - 1).div_euclid(period);
                let want = if within || n >= period { want } else { (1, period) };
                assert_eq!(came, want, "({first} + [0, {n})) % {p}");
            }
        }
    }
}

fn given(p: i64, input: usize) -> Bindings {
    bindings(vec![("in", pattern(&[I32], &[input], 3))], vec![("p", Value::Int(p))])
}

#[test]
fn remainders_run() {
    for text in [
        "f: compute_root",
        "out: split(x, xo, xi, 4, guard) f: compute_at(out, xo) store_in(heap)",
        "out: split(x, xo, xi, 8, predicate) vectorize(xi) f: compute_at(out, xo) store_in(heap)",
    ] {
        let s = schedule(text);
        for promised in [false, true] {
            let (p, _) = pipeline(promised, |x, p| (x - 3) % p);
            for d in divisors(promised).filter(|d| d.abs() < 20) {
                let b = given(d, 16);
                let stored = check(&p, &s, &b, &[vec![19]], 0.0).counters.of("f").allocated;
                assert!(stored <= d.unsigned_abs().max(1) as usize, "{text}: {stored} for {d}");
                agree(&p, &s, &b, &[vec![19]]);
            }
        }
    }
}

/// A promised range bounds storage of a constant size; without one there is none.
#[test]
fn a_promise_bounds_the_storage_of_remainders() {
    let s = schedule("f: compute_root store_in(stack)");
    let (p, _) = pipeline(true, |x, p| x % p);
    let c = check(&p, &s, &given(5, 16), &[vec![19]], 0.0).counters.of("f");
    assert_eq!((c.allocated, c.stores), (16, 5));
    let (p, _) = pipeline(false, |x, p| x % p);
    let e = try_check(&p, &s, &given(5, 16), &[vec![19]], 0.0).err().map(|e| e.to_string());
    assert_eq!(e.as_deref(), Some("f: store_in(stack): the extent of z has no constant bound"));
}

/// A remainder asks for more than the input has.
#[test]
fn remainders_beyond_an_input_are_refused() {
    let (p, _) = pipeline(false, |x, p| x % p);
    for (d, last) in [(9, 8), (-9, 8), (100, 18)] {
        let Err(e) = run_nests(&p, &Schedule::new(), &given(d, 5), &[vec![19]]) else { panic!("legal") };
        let what = "in is read beyond dimension 0 by out: from, to, first readable, last readable, missing before, missing behind";
        let line = e.to_string().lines().next().unwrap_or_default().to_string();
        assert_eq!(line, format!("periods: assertion: {what} 0 {last} 0 4 0 {}", last - 4));
    }
}
