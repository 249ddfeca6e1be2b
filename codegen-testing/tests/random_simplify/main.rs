//! The simplifier on random expressions: the value stays, simplifying again changes nothing, and it ends.
//!
//! *Index* expressions obey the rule that nothing overflows, and may use facts about their variables; they are tried at every
//! point where the facts hold. *Data* expressions are of all types, and are tried on extreme values. Both may have lanes. An
//! expression that fails is made smaller before it is printed. `SUMSQ_FUZZ_CASES` sets how many are tried,
//! `SUMSQ_FUZZ_SEED` the first seed.

mod data;
mod index;

use sumsq_codegen::lower::simplify::{simplify_expr, simplify_index};
use sumsq_codegen::{BinaryOp, Expr, ScalarType, Type};
use sumsq_codegen_testing::reference::{Value, eval_lanes};
use sumsq_codegen_testing::rng::setting;

/// Expressions of each sort in an ordinary test run.
const CASES: u64 = 3000;

/// Seeds of a run.
fn seeds() -> std::ops::Range<u64> {
    let first = setting("SUMSQ_FUZZ_SEED", 1);
    first..first + setting("SUMSQ_FUZZ_CASES", CASES)
}

/// Values of variables and parameters by name.
type Environment = Vec<(sumsq_codegen::Name, Value)>;

/// The lanes of an expression; integers may be variables, all else parameters.
fn eval(e: &Expr, env: &Environment) -> Vec<Value> {
    let vars: Vec<_> = env.iter().filter_map(|(n, v)| Some((n.clone(), v.as_int()?))).collect();
    let params: Vec<_> = env.iter().map(|(n, v)| (n.clone().into(), *v)).collect();
    eval_lanes(e, &vars, &params).unwrap_or_else(|error| panic!("{error}: {e}"))
}

/// Equal to the bit, NaNs all alike.
fn identical(a: &[Value], b: &[Value]) -> bool {
    let one = |(a, b): (&Value, &Value)| match (a, b) {
        (Value::Float(x), Value::Float(y)) => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
        _ => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(one)
}

/// Returns what is wrong with `simplify` on `e`, if anything is.
fn fault(e: &Expr, simplify: &dyn Fn(&Expr) -> Expr, environments: &[Environment]) -> Option<String> {
    let simple = simplify(e);
    if simple.ty() != e.ty() {
        return Some(format!("{e} is {}, {simple} is {}", e.ty(), simple.ty()));
    }
    for env in environments {
        let (want, got) = (eval(e, env), eval(&simple, env));
        if !identical(&want, &got) {
            return Some(format!("{e}\n  became {simple}\n  which is {got:?}, not {want:?}, at {env:?}"));
        }
    }
    let again = simplify(&simple);
    (again != simple).then(|| format!("{e}\n  became {simple}\n  and then {again}"))
}

/// Fails with the smallest faulty variant of `e` that is found.
fn check(seed: u64, e: &Expr, simplify: &dyn Fn(&Expr) -> Expr, environments: &[Environment]) {
    let Some(mut message) = fault(e, simplify, environments) else { return };
    let mut smallest = e.clone();
    'smaller: loop {
        for candidate in sumsq_codegen_testing::smaller::smaller(&smallest) {
            if let Some(m) = fault(&candidate, simplify, environments) {
                (smallest, message) = (candidate, m);
                continue 'smaller;
            }
        }
        panic!("seed {seed}: {message}");
    }
}

/// A chain of 100,000 nodes, and a DAG whose tree has 2^60, are done without recursion and node by node.
#[test]
fn deep_and_shared_expressions_end() {
    let x = Expr::var("x");
    let chain = (0..100_000).fold(x.clone(), |e, k| match k % 4 {
        0 => e + k,
        1 => e.max(k),
        2 => e * 1,
        _ => e - 7,
    });
    let at = |e: &Expr, v: i64| eval(e, &vec![("x".into(), Value::Int(v))]);
    for v in [-5, 1 << 20] {
        assert_eq!(at(&simplify_expr(&chain), v), at(&chain, v));
    }
    let data = Expr::param("p", ScalarType::U32);
    let shared =
        (0..60).fold(data, |e, k| Expr::binary(BinaryOp::Xor, &e, &e + k).shr(Expr::int(ScalarType::U32, 0)));
    let env = vec![("p".into(), Value::Int(12345))];
    assert_eq!(eval(&simplify_expr(&shared), &env), eval(&shared, &env));
    // 300 terms that cancel in pairs.
    let name = |k: i32| Expr::var(format!("v{k}"));
    let sum = (0..150).fold(Expr::from(1), |e, k| e + name(k));
    let gone = (0..150).fold(sum, |e, k| e - name(149 - k));
    assert_eq!(simplify_index(&gone).as_int(), Some(1));
}

/// A vector of `lanes` with a scalar in every lane.
fn splat(e: Expr, lanes: u16) -> Expr {
    let ty: Type = e.ty().with_lanes(lanes);
    if lanes == 1 { e } else { Expr::new(sumsq_codegen::ExprKind::Broadcast(e), ty) }
}
