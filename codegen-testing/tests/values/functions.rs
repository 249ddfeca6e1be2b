//! Functions as modules hold them, against their definitions by the reference evaluator: to the bit.

use crate::{bindings, row};
use sumsq_codegen::functions::Function;
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Schedule, Tail, Var};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::reference::{Value, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

/// In every lane, and in relaxed stages too, where nothing but the functions computes.
#[test]
fn compiled_functions_have_the_bits_of_their_definitions() {
    let mut rng = Rng::new(77);
    let expanded =
        |f: &&Function| !matches!(f, Function::Sin | Function::Cos | Function::Exp | Function::Log);
    let functions: Vec<Function> = Function::ALL.iter().filter(expanded).copied().collect();
    for ty in [ScalarType::F32, ScalarType::F64] {
        let round = |v: f64| if ty == ScalarType::F32 { f64::from(v as f32) } else { v };
        let mut a: Vec<f64> = (0..61).map(|_| round(rng.bits() as f64 / (1u64 << 61) as f64 - 4.0)).collect();
        a.extend([0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NAN, round(1e-310), round(1e30), 0.5]);
        let b: Vec<f64> = a.iter().rev().copied().collect();
        let mut p = Pipeline::new("functions");
        let i = Var::new("i");
        let [x, y] = ["a", "b"].map(|name| p.input(Input::new(name, &[ty], 1)).at(&[i.expr()], 0));
        for &f in &functions {
            let func = Func::new(
                f.name(),
                std::slice::from_ref(&i),
                vec![Expr::apply(f, &[x.clone(), y.clone()][..f.arity()])],
            );
            let func = p.func(func);
            p.output(&func);
        }
        let floats = |v: &[f64]| row(ty, v.iter().map(|&v| Value::Float(v)).collect());
        let given = bindings(vec![("a", floats(&a)), ("b", floats(&b))]);
        let domains: Vec<_> = functions.iter().map(|_| vec![(0, a.len())]).collect();
        let expected = evaluate_over(&p, &given, &domains).unwrap();
        for (lanes, relaxed) in [(1, false), (8, false), (16, true)] {
            let mut s = Schedule::new();
            for f in functions.iter().filter(|_| lanes > 1) {
                let directives = s.func(f.name()).vectorize("i", lanes, Tail::Predicate);
                if relaxed {
                    directives.relaxed();
                }
            }
            let compiled = native::compile(&p, &s).unwrap();
            let came = native::execute(&p, &compiled, &given, &domains, 1).unwrap();
            for ((f, came), expected) in functions.iter().zip(came).zip(&expected) {
                for (k, (came, expected)) in came.planes[0].iter().zip(&expected.planes[0]).enumerate() {
                    let at = format!("{f:?}({:e}, {:e}) of {ty:?} in {lanes} lanes", a[k], b[k]);
                    assert!(came.same(*expected), "{at}: {came}, not {expected}");
                }
            }
        }
    }
}
