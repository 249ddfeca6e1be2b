//! Index arithmetic: small values, so that nothing overflows, under facts about the variables.

use crate::{Environment, check, eval, seeds, splat};
use sumsq_codegen::analysis::algebra::Facts;
use sumsq_codegen::lower::simplify::{simplify_index, simplify_index_with};
use sumsq_codegen::{BinaryOp, Expr, ExprKind, ScalarType, Type};
use sumsq_codegen_testing::reference::Value;
use sumsq_codegen_testing::rng::Rng;

/// An i32 expression over a, b, c, d and n.
fn expr(rng: &mut Rng, lanes: u16, depth: usize) -> Expr {
    if lanes > 1 && rng.percent(25) {
        let (base, stride) = (expr(rng, 1, depth.saturating_sub(1)), Expr::from(rng.range(-2, 3) as i32));
        return Expr::new(ExprKind::Ramp(base, stride), Type::I32.with_lanes(lanes));
    }
    if lanes.is_multiple_of(2) && depth > 0 && rng.percent(8) {
        let parts = vec![expr(rng, lanes / 2, depth - 1), expr(rng, lanes / 2, depth - 1)];
        return rng.pick(&[Expr::interleave, Expr::concat])(parts);
    }
    if depth == 0 || rng.percent(10) {
        let e = match rng.below(3) {
            0 => Expr::from(rng.range(-9, 20) as i32),
            _ => Expr::var(rng.pick(&["a", "b", "c", "d"])),
        };
        return splat(if rng.percent(10) { Expr::param("n", ScalarType::I32) } else { e }, lanes);
    }
    let sub = |rng: &mut Rng| expr(rng, lanes, depth - 1);
    let ty = Type::I32.with_lanes(lanes);
    match rng.below(13) {
        0..3 => sub(rng) + sub(rng),
        3 | 4 => sub(rng) - sub(rng),
        5 => sub(rng) * splat(Expr::from(rng.range(-5, 5) as i32), lanes),
        6 => sub(rng) / splat(Expr::from(rng.pick(&[1, 2, 3, 4, 8, 16, -4, 0])), lanes),
        7 => sub(rng).modulo(splat(Expr::from(rng.pick(&[1, 2, 3, 4, 8, 16, -4, 0])), lanes)),
        8 => sub(rng).min(sub(rng)),
        9 => sub(rng).max(sub(rng)),
        10 => {
            let c = condition(rng, lanes, depth - 1);
            Expr::select(c, sub(rng), sub(rng))
        }
        11 => {
            // Digits of a number, which are the number, or another one's.
            let (e, c) = (sub(rng), rng.pick(&[2, 3, 4]));
            let (high, low) =
                (e.clone() / splat(Expr::from(c), lanes), e.modulo(splat(Expr::from(c), lanes)));
            high * splat(Expr::from(rng.pick(&[c, c, 5])), lanes) + low
        }
        _ => {
            let e = sub(rng);
            debug_assert_eq!(e.ty(), ty);
            e.unary(sumsq_codegen::UnaryOp::Neg)
        }
    }
}

fn condition(rng: &mut Rng, lanes: u16, depth: usize) -> Expr {
    use BinaryOp::*;
    if depth > 0 && rng.percent(30) {
        let (a, b) = (condition(rng, lanes, depth - 1), condition(rng, lanes, depth - 1));
        return match rng.below(4) {
            0 => a.or(b),
            1 => a.not_(),
            2 => a.likely().and(b),
            _ => a.and(b),
        };
    }
    let (a, b) = (expr(rng, lanes, depth.min(2)), expr(rng, lanes, depth.min(2)));
    Expr::binary(rng.pick(&[Eq, Ne, Lt, Le, Lt, Le, Gt, Ge]), a, b)
}

/// A value or condition, of one lane in the end, or in i64.
fn index(rng: &mut Rng) -> Expr {
    let lanes = rng.pick(&[1, 1, 1, 4, 8]);
    match rng.below(4) {
        0 => condition(rng, lanes, 3),
        1 if lanes > 1 => {
            let op = rng.pick(&[BinaryOp::And, BinaryOp::Or]);
            Expr::reduced(op, condition(rng, lanes, 2), rng.pick(&[1, 1, 2, 4]))
        }
        1 => expr(rng, lanes, 4).cast(ScalarType::I64) * expr(rng, lanes, 1).cast(ScalarType::I64),
        _ => expr(rng, lanes, 4),
    }
}

#[test]
fn index_keeps_its_value() {
    for seed in seeds() {
        let mut rng = Rng::new(seed);
        let e = index(&mut rng);
        let number = |n: &'static str, v: i64| (n.into(), Value::Int(v));
        let environment =
            |_| -> Environment { ["a", "b", "c", "d", "n"].map(|n| number(n, rng.range(-40, 60))).to_vec() };
        let environments: Vec<Environment> = (0..12).map(environment).collect();
        check(seed, &e, &simplify_index, &environments);
    }
}

/// a in a box, b in a box that starts at a, c fixed, d bound to an expression of them, n at least 1, and perhaps a condition.
#[test]
fn facts_keep_values_and_bounds() {
    for seed in seeds() {
        let mut rng = Rng::new(seed ^ 0x5eed << 32);
        let (a0, an, bn, c0) = (rng.range(-6, 6), rng.range(1, 4), rng.range(1, 4), rng.range(-9, 9));
        let number = |v: i64| Expr::from(v as i32);
        let mut facts = Facts::new();
        facts.interval("n", Some(number(1)), None);
        facts.interval("c", Some(number(c0)), Some(number(c0)));
        facts.enter_for(&"a".into(), &number(a0), &number(an));
        facts.enter_for(&"b".into(), &Expr::var("a"), &number(bn));
        let d = Expr::var("a") * rng.range(1, 4) + (Expr::var("b") / 2) - rng.range(0, 3);
        facts.enter_let(&"d".into(), &d);
        let given = rng.percent(40).then(|| condition(&mut rng, 1, 1));
        given.iter().for_each(|g| facts.assume(g));
        let mut environments: Vec<Environment> = vec![];
        for (a, b, n) in
            (a0..a0 + an).flat_map(|a| (a..a + bn).flat_map(move |b| [1, 2, 7].map(|n| (a, b, n))))
        {
            let int = |n: &'static str, v| (n.into(), Value::Int(v));
            let mut env = vec![int("a", a), int("b", b), int("c", c0), int("n", n)];
            let bound = eval(&d, &env)[0];
            env.push(("d".into(), bound));
            if given.as_ref().is_none_or(|g| eval(g, &env)[0] == Value::Int(1)) {
                environments.push(env);
            }
        }
        let e = index(&mut rng);
        check(seed, &e, &|e| simplify_index_with(e, &facts), &environments);
        if e.ty() != Type::I32 {
            continue;
        }
        let (lower, upper) = (facts.lower(&e), facts.upper(&e));
        for env in &environments {
            let v = eval(&e, env)[0].as_int().unwrap_or_default();
            let inside = lower.is_none_or(|l| l <= v) && upper.is_none_or(|u| v <= u);
            assert!(inside, "seed {seed}: {e} is {v}, not in [{lower:?}, {upper:?}], at {env:?}");
        }
    }
}
