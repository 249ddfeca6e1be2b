//! Texts that show the syntax, and the bound on their length.

use crate::expr::Expr;
use crate::types::{ScalarType, Type};

fn v(n: &str) -> Expr {
    Expr::var(n)
}

#[test]
fn fewest_brackets() {
    let (a, b, c) = (v("a"), v("b"), v("c"));
    for (e, text) in [
        (a.clone() - (b.clone() - c.clone()), "a - (b - c)"),
        (a.clone() - b.clone() - c.clone(), "a - b - c"),
        ((a.clone() + 1) * b.clone(), "(a + 1) * b"),
        (a.clone() + b.clone() * c.clone(), "a + b * c"),
        (-(a.clone() + 1), "-(a + 1)"),
        (a.lt(b.clone()).and(b.eq_(c.clone()).not_()), "a < b && !(b == c)"),
        (Expr::select(a.lt(1), b.min(c.clone()), c.cast(ScalarType::I32)), "select(a < 1, min(b, c), c)"),
        (Expr::from(1.5f32) + Expr::from(0.1f32), "1.5f + 0.1f"),
        (Expr::from(2.0f64).sqrt(), "sqrt(2.0)"),
        (Expr::int(Type::I64, -3), "-3:i64"),
        (Expr::call("f", ScalarType::F32, vec![a.clone() + 1, b], 2), "f(a + 1, b).2"),
    ] {
        assert_eq!(e.to_string(), text);
    }
}

#[test]
fn text_is_linear_in_the_dag() {
    // Doubling sixty times: the tree has 2^60 leaves.
    let mut e = v("x") * 3 + v("y");
    for _ in 0..60 {
        e = &e + &e;
    }
    let text = e.to_string();
    assert!(text.starts_with("{ %0 = x * 3 + y; %1 = %0 + %0; "), "{text}");
    assert!(text.len() < 2000, "{text}");
    // A chain of a hundred thousand operations does not overflow the stack.
    let deep = (0..100_000).fold(v("x"), |e, _| e + 1);
    assert!(deep.to_string().len() < 1_000_000);
}
