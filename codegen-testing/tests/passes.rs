//! Passes after flattening against the interpreter: whatever the sizes, unrolling, vectorising, simplifying and
//! partitioning keep what a loop nest computes, and read and write nothing else.

use proptest::prelude::*;
use sumsq_codegen::analysis::algebra::Facts;
use sumsq_codegen::expr::{Expr, ExprKind};
use sumsq_codegen::ir::stmt::Stmt;
use sumsq_codegen::ir::verify::{Level, verify};
use sumsq_codegen::lower::partition::partition;
use sumsq_codegen::lower::simplify::{simplify, simplify_with};
use sumsq_codegen::lower::unroll::unroll;
use sumsq_codegen::lower::vectorize::vectorize;
use sumsq_codegen::schedule::{ForKind, Memory};
use sumsq_codegen::types::{ScalarType, Type};
use sumsq_codegen_testing::interpreter::Machine;

fn v(n: &str) -> Expr {
    Expr::var(n)
}
fn load(buffer: &str, index: Expr, ty: ScalarType) -> Expr {
    let kind = ExprKind::Load { buffer: buffer.into(), index: index.cast(ScalarType::I64), predicate: None };
    Expr::new(kind, Type::of(ty))
}
fn f(index: Expr) -> Expr {
    load("f.0", index, ScalarType::F32)
}
fn g(index: Expr) -> Expr {
    load("g.0", index, ScalarType::F32)
}
fn store(buffer: &str, index: Expr, value: Expr) -> Stmt {
    let (buffer, index) = (buffer.into(), index.cast(ScalarType::I64));
    Stmt::Store { buffer, index, value, predicate: None, aligned: false, non_temporal: false }
}
fn for_(var: &str, extent: Expr, kind: ForKind, body: Stmt) -> Stmt {
    Stmt::For { var: var.into(), min: Expr::from(0), extent, kind, body: Box::new(body) }
}
fn if_(cond: Expr, then: Stmt, otherwise: Option<Stmt>) -> Stmt {
    Stmt::If { cond, then: Box::new(then), otherwise: otherwise.map(Box::new) }
}
fn let_(name: &str, value: Expr, body: Stmt) -> Stmt {
    Stmt::Let { name: name.into(), value, body: Box::new(body) }
}

/// Bodies of a loop over x in [0, w), y being fixed: what schedules produce, and odder things.
fn body(which: usize) -> Stmt {
    let x = v("x");
    let zero = || Expr::from(0.0f32);
    let clamped = |e: Expr| e.max(Expr::from(0)).min(v("w") - 1);
    match which {
        // A stencil with guards.
        0 => {
            let left = Expr::select(x.clone().gt(0).likely(), f(clamped(x.clone() - 1)), zero());
            let right =
                Expr::select((x.clone() + 1).lt(v("w")).likely(), f((x.clone() + 1).min(v("w") - 1)), zero());
            store("g.0", x.clone(), left + right + f(x))
        }
        // A guarded load: out of bounds where the guard fails.
        1 => if_(
            x.clone().ge(2).likely(),
            store("g.0", x.clone(), f(x.clone() - 2)),
            Some(store("g.0", x.clone(), f(x))),
        ),
        // A ragged sum through an index list.
        2 => {
            let e = load("id.0", v("r") + x.clone(), ScalarType::I32);
            let add = store("g.0", x.clone(), g(x.clone()) + f(e % Expr::var("w")));
            let n = load("id.0", x.clone(), ScalarType::I32).min(v("w") - x.clone());
            for_("r", n, ForKind::Serial, add)
        }
        // Sums, largest and conditional sums over lanes.
        3 => Stmt::Block(vec![
            store("g.0", v("y"), g(v("y")) + f(x.clone()) + Expr::from(1.0f32)),
            store("s.0", Expr::from(0), load("s.0", Expr::from(0), ScalarType::F32).max(f(x.clone()))),
            if_(x.clone().modulo(Expr::from(3)).eq_(1), store("g.0", v("y"), g(v("y")) - f(x)), None),
        ]),
        // Storage and lets inside.
        4 => {
            let inner = Stmt::Block(vec![
                store("t.0", Expr::from(0), f(x.clone())),
                store("t.0", Expr::from(1), f(clamped(x.clone() + 1))),
                let_("z", load("t.0", Expr::from(1), ScalarType::F32), {
                    let z = Expr::new(ExprKind::Var("z".into()), Type::F32);
                    store("g.0", x.clone(), load("t.0", x.clone() % 2, ScalarType::F32) + z)
                }),
            ]);
            let extent = Expr::int(Type::I64, 2);
            Stmt::Allocate {
                buffer: "t.0".into(),
                ty: ScalarType::F32,
                extent,
                memory: Memory::Stack,
                zeroed: false,
                body: Box::new(inner),
            }
        }
        // Triangular: the start and the extent differ between lanes.
        5 => {
            let (min, extent) = (x.clone(), v("w") - x.clone());
            let body = Box::new(store("g.0", x.clone(), g(x) + f(v("r"))));
            Stmt::For { var: "r".into(), min, extent, kind: ForKind::Serial, body }
        }
        // Strided, reversed, halved.
        _ => {
            let (w, half) = (v("w"), x.clone() / 2);
            let value = f(w - 1 - x.clone()) + f(half.clone()) * f(x.clone() - half);
            store("g.0", x, value)
        }
    }
}

/// The loop over x split by `lanes`, guarded or predicated, the inner loop of the given kind.
fn split(body: Stmt, lanes: i64, kind: ForKind, likely: bool) -> Stmt {
    let x = v("xo") * lanes + v("xi");
    let guard = x.lt(v("w"));
    let guard = if likely { guard.likely() } else { guard };
    let inner = for_("xi", Expr::from(lanes as i32), kind, if_(guard, let_("x", x, body), None));
    for_("xo", (v("w") + (lanes - 1)) / lanes, ForKind::Serial, inner)
}

fn machine(w: i64, y: i64, values: &[i64]) -> Machine {
    let at = |i: i64| values[i as usize % values.len()];
    let mut m = Machine::default();
    m.names.insert("w".into(), vec![w as f64]);
    m.names.insert("y".into(), vec![y as f64]);
    m.buffers.insert("f.0".into(), (0..w).map(|i| at(i) as f64).collect());
    m.buffers.insert("g.0".into(), (0..w).map(|i| at(i + 7) as f64).collect());
    m.buffers.insert("id.0".into(), (0..w).map(|i| at(3 * i).rem_euclid(5) as f64).collect());
    m.buffers.insert("s.0".into(), vec![-3.0]);
    m
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lowered_loops_compute_the_same(
        which in 0usize..7,
        lanes in prop_oneof![Just(2i64), Just(4), Just(8), Just(16)],
        unrolled in any::<bool>(),
        likely in any::<bool>(),
        w in 1i64..40,
        at in 0i64..40,
        values in prop::collection::vec(-9i64..10, 5..30),
    ) {
        let start = machine(w, at % w, &values);
        let mut expected = start.clone();
        expected.run(&for_("x", v("w"), ForKind::Serial, body(which)));

        let kind = if unrolled { ForKind::Unrolled } else { ForKind::Vectorized };
        let mut facts = Facts::new();
        facts.interval("w", Some(Expr::from(1)), None);
        let mut s = simplify_with(&split(body(which), lanes, kind, likely), &facts);
        type Pass<'a> = (&'a str, &'a dyn Fn(&Stmt) -> Stmt);
        let passes: [Pass<'_>; 6] = [
            ("start", &|s| s.clone()),
            ("unroll", &|s| unroll(s).unwrap()),
            ("vectorize", &|s| vectorize(s).unwrap()),
            ("simplify", &|s| simplify_with(s, &facts)),
            ("partition", &|s| partition(s)),
            ("simplify again", &|s| simplify(s)),
        ];
        for (name, pass) in passes {
            s = pass(&s);
            let mut got = start.clone();
            let level = if matches!(name, "start" | "unroll") { Level::Flat } else { Level::Vector };
            prop_assert_eq!(verify(&with_free_names(&s), level), Ok(()), "after {}:\n{}", name, s);
            got.run(&s);
            prop_assert_eq!(&got.buffers, &expected.buffers, "after {}:\n{}", name, s);
            // A simplification marks what is left of a loop of one iteration.
            prop_assert!(name != "partition" || !s.to_string().contains("likely"));
        }
        let again = simplify(&s);
        prop_assert_eq!(again.to_string(), s.to_string(), "simplifying twice");
    }
}

/// Binds the free names of the tests, for the verifier.
fn with_free_names(s: &Stmt) -> Stmt {
    let zero = Expr::from(0);
    let_("w", zero.clone(), let_("y", zero, s.clone()))
}
