//! Boundary conditions against what they are to look like, and their interior.

use crate::{bindings, row};
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Schedule, Tail, Var, boundary};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::{Realization, Value};

const I32: ScalarType = ScalarType::I32;

type Condition = fn(&str, &Input) -> Func;

/// Conditions with what each makes of `abcd`, from coordinate -6 on.
const CONDITIONS: [(&str, Condition, &str); 5] = [
    (
        "constant",
        |n, i| boundary::constant_exterior(n, i, &i.domain(), &[Expr::from('k' as i32)]),
        "kkkkkkabcdkkkkkk",
    ),
    ("edge", |n, i| boundary::repeat_edge(n, i, &i.domain()), "aaaaaaabcddddddd"),
    ("repeat", |n, i| boundary::repeat_image(n, i, &i.domain()), "cdabcdabcdabcdab"),
    ("image", |n, i| boundary::mirror_image(n, i, &i.domain()), "cddcbaabcddcbaab"),
    ("interior", |n, i| boundary::mirror_interior(n, i, &i.domain()), "abcdcbabcdcbabcd"),
];

fn text(s: &str) -> Vec<Value> {
    s.chars().map(|c| Value::Int(c as i64)).collect()
}

#[test]
fn outside_of_the_domain() {
    for (name, condition, expected) in CONDITIONS {
        let mut p = Pipeline::new(name);
        let x = Var::new("x");
        let i = p.input(Input::new("in", &[I32], 1));
        let b = p.func(condition("b", &i));
        let f = p.func(Func::new("f", std::slice::from_ref(&x), vec![b.at(&[x.expr() - 6], 0)]));
        p.output(&f);
        for s in crate::scalar_and_vector(&p, 4) {
            let r = &agree(&p, &s, &bindings(vec![("in", row(I32, text("abcd")))]), &[vec![16]])[0];
            assert_eq!(r.planes[0], text(expected), "{name}");
            // A domain of one element is that element everywhere.
            let r = &agree(&p, &s, &bindings(vec![("in", row(I32, text("a")))]), &[vec![16]])[0];
            let one = if name == "constant" { "kkkkkkakkkkkkkkk" } else { "aaaaaaaaaaaaaaaa" };
            assert_eq!(r.planes[0], text(one), "{name}");
        }
    }
}

/// Around part of a Func, in one of two dimensions only, and for a tuple.
#[test]
fn of_a_func() {
    let mut p = Pipeline::new("part");
    let (x, y) = (Var::new("x"), Var::new("y"));
    let values = vec![x.expr() * 10 + y.expr(), x.expr() - y.expr()];
    let g = p.func(Func::new("g", &[x, y], values));
    let domain = vec![Some((Expr::from(3), Expr::from(4))), None];
    let b = p.func(boundary::mirror_image("b", &g, &domain));
    let at = [x.expr() - 5, y.expr()];
    let f = p.func(Func::new("f", &[x, y], vec![b.at(&at, 0), b.at(&at, 1)]));
    p.output(&f);
    let mut root = Schedule::new();
    root.func("g").compute_root();
    for s in [Schedule::new(), root] {
        let r: &Realization = &agree(&p, &s, &bindings(vec![]), &[vec![18, 3]])[0];
        for at in r.points() {
            let c = (at[0] as i64 - 8).rem_euclid(8);
            let (c, y) = (3 + c.min(7 - c), at[1] as i64);
            assert_eq!(r.get(&at, 0), Some(Value::Int(c * 10 + y)), "{at:?}");
            assert_eq!(r.get(&at, 1), Some(Value::Int(c - y)), "{at:?}");
        }
    }
}

/// In the interior a stencil over a boundary condition is dense loads and nothing else.
#[test]
fn the_interior_is_free() {
    for (name, condition, _) in CONDITIONS {
        let mut p = Pipeline::new(name);
        let x = Var::new("x");
        let i = p.input(Input::new("in", &[I32], 1));
        let b = p.func(condition("b", &i));
        let value = b.at(&[x.expr() - 1], 0) + b.at(&[x.expr() + 1], 0);
        let f = p.func(Func::new("f", &[x], vec![value]));
        p.output(&f);
        let mut s = Schedule::new();
        s.func("f").vectorize("x", 8, Tail::GuardWithIf);
        let body = lower(&p, &s, &LowerOptions { verify: true, ..LowerOptions::default() })
            .unwrap()
            .body
            .to_string();
        let interior = body.split("} else {").next().unwrap();
        let line = interior.lines().find(|l| l.trim_start().starts_with("f.0[")).unwrap();
        assert_eq!(line.matches("in.0[ramp(").count(), 2, "{body}");
        assert!(!["select", "min", "max", "%", " if "].iter().any(|w| line.contains(w)), "{body}");
    }
}
