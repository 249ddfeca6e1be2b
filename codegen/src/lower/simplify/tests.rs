//! Golden texts, and value, idempotence and decision tests on random expressions.

use super::*;
use crate::expr::{BinaryOp, ExprKind, UnaryOp};
use crate::types::{ScalarType, Type};
use proptest::prelude::*;

fn v(n: &str) -> Expr {
    Expr::var(n)
}
fn i(k: i32) -> Expr {
    Expr::from(k)
}
fn facts() -> Facts {
    let mut f = Facts::new();
    f.interval("w", Some(i(1)), None);
    f.enter_for(&"t".into(), &i(0), &((v("w") + 15) / 16));
    f
}

#[test]
fn index_arithmetic_is_normal() {
    let (x, y) = (v("x"), v("y"));
    let cases = [
        (x.clone() + 1 - x.clone(), "1"),
        ((x.clone() + 1) - (x.clone() - 1) + 1, "3"),
        (&x * 3 + &x - y.clone(), "x * 4 - y"),
        ((&x * 16 + 5) / 16, "x"),
        ((&x * 16 + &y) / 16, "x + y / 16"),
        ((&x * 4 + 8) / 8, "x / 2 + 1"),
        (((x.clone() + 3) / 4) / 8, "(x + 3) / 32"),
        (x.clone() - (&x / 8) * 8, "x % 8"),
        (&x * 2 - (&x / 8) * 16 + 1, "x % 8 * 2 + 1"),
        (&x % 16 % 4, "x % 4"),
        (x.clone() / 0, "0"),
        (&x / -4, "-(x / 4)"),
        (i(3) - x.clone(), "3 - x"),
        ((&x + &y) * 2 - &y * 2, "x * 2"),
    ];
    for (e, expected) in cases {
        assert_eq!(simplify_index(&e).to_string(), expected, "{e}");
    }
}

#[test]
fn facts_decide() {
    let f = facts();
    let (t, w) = (v("t"), v("w"));
    // A tile of 16 that starts inside the domain, cut at its end, has at most 16 elements.
    let extent = (&t * 16 + 15).min(w.clone() - 1) - &t * 16 + 1;
    assert_eq!(f.upper(&extent), Some(16));
    assert_eq!(f.lower(&extent), Some(1));
    assert!(f.proves_le(&(&t * 16), &(w.clone() - 1)));
    assert!(!f.proves_le(&(&t * 16 + 1), &(w.clone() - 1)));
    assert_eq!(f.upper(&((v("y") + 7) / 4 - v("y") / 4)), Some(2));
    let clamped = v("y").max(i(0)).min(w.clone() - 1);
    assert_eq!(f.decide(&clamped.lt(w.clone())), Some(true));
    assert_eq!(f.decide(&clamped.ge(0)), Some(true));
    assert_eq!(f.decide(&clamped.gt(0)), None);
}

#[test]
fn a_runtime_strip_height_cancels() {
    let (h, s) = (v("h"), v("s"));
    let mut f = Facts::new();
    f.interval("s", Some(i(1)), None);
    f.interval("h", Some(i(1)), None);
    let strips = (h.clone() + s.clone() - 1) / s.clone();
    f.enter_for(&"o".into(), &i(0), &strips);
    assert!(f.proves_le(&(v("o") * s.clone()), &(h - 1)));
}

#[test]
fn conditions_split_and_drop_what_is_known() {
    let f = facts();
    let e = (v("t") * 16).le((v("w") - 1).min(v("q")));
    assert_eq!(simplify_index_with(&e, &f).to_string(), "t * 16 <= q");
    assert_eq!(simplify_expr(&(v("x") + 3).lt(v("y") + 3)).to_string(), "x < y");
}

#[test]
fn floats_keep_signed_zeros_and_nans() {
    let x = Expr::new(ExprKind::Var("x".into()), Type::F32);
    let c = |v: f64| Expr::float(Type::F32, v);
    for (e, expected) in [
        (x.clone() * c(1.0), "x"),
        (x.clone() + c(0.0), "x + 0f"),
        (x.clone() + c(-0.0), "x"),
        (x.clone() - c(0.0), "x"),
        (x.clone() * c(0.0), "x * 0f"),
        (x.clone() - x.clone(), "x - x"),
        (x.clone() + x.clone().unary(UnaryOp::Neg), "x - x"),
        (c(0.1) + c(0.2), "0.3f"),
        (Expr::select(v("a").le(v("a")), x.clone(), c(2.0)), "x"),
    ] {
        assert_eq!(simplify_expr(&e).to_string(), expected, "{e}");
    }
}

#[test]
fn data_integers_wrap() {
    // 2^31 - 1 + 1 compared with what it wraps to: nothing may be concluded for loaded values.
    let d = Expr::call("f", ScalarType::I32, vec![v("x")], 0);
    let e = (d.clone() + 1).gt(d.clone());
    assert_eq!(simplify_expr(&e).to_string(), "f(x) + 1 > f(x)");
    let u = Expr::new(ExprKind::Var("u".into()), Type::of(ScalarType::U8));
    assert_eq!(simplify_expr(&((u.clone() + 200) / 2)).to_string(), "(u + 200:u8) / 2:u8");
}

#[test]
fn loops_that_run_once_and_dead_code_go() {
    let store = |index: Expr| Stmt::store("f.0", index.cast(ScalarType::I64), Expr::from(1.0f32));
    let for_ = |var: &str, min: Expr, extent: Expr, body: Stmt| Stmt::For {
        var: var.into(),
        min,
        extent,
        kind: crate::schedule::ForKind::Serial,
        body: Box::new(body),
    };
    let let_ = |n: &str, value: Expr, body: Stmt| Stmt::Let { name: n.into(), value, body: Box::new(body) };
    let once = for_("x", v("n"), v("n") + 1 - v("n"), store(v("x") + 2));
    assert_eq!(simplify(&once).to_string(), "f.0[i64(n) + 2:i64] = 1f\n");
    let maybe = for_("x", i(0), v("n").min(i(1)), store(v("x")));
    let text = "if likely(1 <= n) {\n  f.0[0:i64] = 1f\n}\n";
    assert_eq!(simplify(&maybe).to_string().replace("0 < n", "1 <= n"), text);
    let never = for_("x", i(0), i(0).min(v("n")), store(v("x")));
    assert_eq!(simplify(&let_("dead", v("n") * 2, never)).to_string(), "");
}

/// Value of an integer expression; variables a, b, c by index. i32 arithmetic in i64, so nothing wraps in `Index` tests.
fn eval(e: &Expr, env: &[i64; 3]) -> i64 {
    use BinaryOp::*;
    match e.kind() {
        ExprKind::Int(v) => *v,
        ExprKind::Var(n) => env[(n.as_bytes()[0] - b'a') as usize],
        ExprKind::Cast(a) => e.ty().scalar.wrap(eval(a, env)),
        ExprKind::Unary(UnaryOp::Neg, a) => e.ty().scalar.wrap(eval(a, env).wrapping_neg()),
        ExprKind::Unary(UnaryOp::Not, a) => 1 - eval(a, env),
        ExprKind::Select(c, a, b) => {
            if eval(c, env) != 0 {
                eval(a, env)
            } else {
                eval(b, env)
            }
        }
        ExprKind::Binary(op, x, y) => {
            let (x, y) = (eval(x, env), eval(y, env));
            let r = match op {
                Add => x.wrapping_add(y),
                Sub => x.wrapping_sub(y),
                Mul => x.wrapping_mul(y),
                Div => {
                    if y == 0 {
                        0
                    } else {
                        x.div_euclid(y)
                    }
                }
                Mod => {
                    if y == 0 {
                        0
                    } else {
                        x.rem_euclid(y)
                    }
                }
                Min => x.min(y),
                Max => x.max(y),
                And => x & y,
                Or => x | y,
                Eq => (x == y) as i64,
                Ne => (x != y) as i64,
                Lt => (x < y) as i64,
                Le => (x <= y) as i64,
                Gt => (x > y) as i64,
                Ge => (x >= y) as i64,
                _ => panic!("not generated"),
            };
            e.ty().scalar.wrap(r)
        }
        _ => panic!("not generated: {e}"),
    }
}

/// Random index expressions over a, b, c.
fn index_expr(ty: ScalarType) -> impl Strategy<Value = Expr> {
    let var = move |n: &'static str| Expr::new(ExprKind::Var(n.into()), Type::of(ty));
    let leaf = prop_oneof![
        (-9i64..20).prop_map(move |k| Expr::int(Type::of(ty), k)),
        prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(var),
    ];
    leaf.prop_recursive(5, 40, 3, move |e| {
        let two = (e.clone(), e.clone());
        let by = prop_oneof![Just(1i64), Just(2), Just(4), Just(16), Just(3), Just(-4), Just(0)];
        prop_oneof![
            two.clone().prop_map(|(a, b)| a + b),
            two.clone().prop_map(|(a, b)| a - b),
            (e.clone(), -5i64..6).prop_map(|(a, k)| a * k),
            (e.clone(), by.clone()).prop_map(|(a, k)| a / k),
            (e.clone(), by).prop_map(|(a, k)| a % k),
            two.clone().prop_map(|(a, b)| a.min(b)),
            two.clone().prop_map(|(a, b)| a.max(b)),
            (e.clone(), e.clone(), two, 0..4).prop_map(|(a, b, (x, y), op)| {
                let c = match op {
                    0 => a.lt(b),
                    1 => a.le(b),
                    2 => a.eq_(b),
                    _ => a.ge(b).and(x.ne_(y.clone())),
                };
                Expr::select(c, x, y)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_values_are_kept(e in index_expr(ScalarType::I32), env in [-40i64..60, -40i64..60, -40i64..60]) {
        let s = simplify_index(&e);
        prop_assert_eq!(eval(&e, &env), eval(&s, &env), "{} -> {}", e, s);
        prop_assert_eq!(simplify_index(&s).to_string(), s.to_string(), "not idempotent: {}", e);
    }

    #[test]
    fn data_values_are_kept(e in index_expr(ScalarType::U8), env in [0i64..256, 0i64..256, 0i64..256]) {
        let s = simplify_expr(&e);
        prop_assert_eq!(eval(&e, &env), eval(&s, &env), "{} -> {}", e, s);
        prop_assert_eq!(simplify_expr(&s).to_string(), s.to_string(), "not idempotent: {}", e);
    }

    #[test]
    fn bounds_hold_on_boxes(
        e in index_expr(ScalarType::I32),
        a0 in -6i64..6, an in 1i64..5, bn in 1i64..5, c0 in -9i64..9,
    ) {
        // a in a box, b in [a, a + bn), c fixed: bounds that refer to outer variables.
        let facts = || {
            let mut f = Facts::new();
            f.interval("c", Some(Expr::from(c0 as i32)), Some(Expr::from(c0 as i32)));
            f.enter_for(&"a".into(), &Expr::from(a0 as i32), &Expr::from(an as i32));
            f.enter_for(&"b".into(), &Expr::var("a"), &Expr::from(bn as i32));
            f
        };
        let f = facts();
        let mut range: Option<(i64, i64)> = None;
        for a in a0..a0 + an {
            for b in a..a + bn {
                let x = eval(&e, &[a, b, c0]);
                range = Some(range.map_or((x, x), |(l, h)| (l.min(x), h.max(x))));
                let s = simplify_index_with(&e, &f);
                prop_assert_eq!(eval(&s, &[a, b, c0]), x, "{} -> {} at {} {} {}", e, s, a, b, c0);
            }
        }
        let (lo, hi) = range.unwrap_or((0, 0));
        if let Some(u) = f.upper(&e) { prop_assert!(hi <= u, "upper {} of {} but {}", u, e, hi); }
        if let Some(l) = f.lower(&e) { prop_assert!(l <= lo, "lower {} of {} but {}", l, e, lo); }
        if let Some(k) = f.quotient(&e, 4) {
            prop_assert_eq!((lo.div_euclid(4), hi.div_euclid(4)), (k, k), "{} of {}", k, e);
        }
        // A goal leaves out ways that cannot reach it, and no other; facts that were asked before would give the answer of then.
        for goal in [hi - 1, hi, hi + 3] {
            let (all, some) = (f.upper(&e), facts().upper_within(&e, goal));
            if let Some(u) = some { prop_assert!(hi <= u && u <= goal, "upper {} of {} within {} but {}", u, e, goal, hi); }
            if all.is_some_and(|u| u <= goal) { prop_assert!(some <= all && some.is_some(), "{:?} of {} within {}", some, e, goal); }
        }
    }
}
