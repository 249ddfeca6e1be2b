//! Pipelines of so many loops that their nests become functions of their own: values, and what fails in one of them.

use crate::support::schedule;
use sumsq_codegen::backend::llvm::listing;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Source, Target, Var};
use sumsq_codegen_testing::check::{bindings, pattern};
use sumsq_codegen_testing::native::agree;
use sumsq_codegen_testing::reference::Value;

const I32: ScalarType = ScalarType::I32;

/// Funcs in a chain, each the sum of two neighbours of the last; then for each row the sum of `wide(x, r)` over n coordinates r.
fn many() -> Pipeline {
    let mut p = Pipeline::new("many");
    let n = p.param("n", I32);
    let input = p.input(Input::new("in", &[I32], 2));
    let [x, y] = Var::all(["x", "y"]);
    let inside = |e: Expr, d: usize| e.max(0).min(input.extent(d) - 1);
    let start = input.at(&[inside(x.expr(), 0), inside(y.expr(), 1)], 0);
    let mut last = p.define("f0", [x, y], start);
    for k in 1..80 {
        let next = last.of((x.expr(), y.expr())) * 3 + last.of((x.expr() + 1, y.expr() - k % 2));
        last = p.define(format!("f{k}"), [x, y], next);
    }
    let wide = p.define("wide", [x, y], x.expr() * y.expr());
    let r = RDom::new([("r", Expr::from(0), n.clone()), ("s", Expr::from(0), n)]);
    let value = wide.of((r.var(0), r.var(1))) + last.of((x.expr(), y.expr()));
    let out = p.func(Func::sum("out", &[x, y], r, vec![value]));
    p.output(&out);
    p
}

#[test]
fn nests_are_functions() {
    let p = many();
    let roots: String = (0..80).map(|k| format!("f{k}: compute_root\n")).collect();
    let s = schedule(&format!("{roots}wide: compute_at(out.update(0), y)"));
    let text = listing(&lower(&p, &s, &LowerOptions::default()).unwrap(), &Target::host()).unwrap().llvm;
    assert!(text.matches("define internal void @body.").count() >= 80, "{text:.2000}");
    let b = bindings(vec![("in", pattern(&[I32], &[9, 7], 3))], vec![("n", Value::Int(5))]);
    agree(&p, &s, &b, &[vec![9, 7]]);

    // No machine has that much memory.
    let compiled = Compiled::new(&p, &s, &Target::host()).unwrap();
    let [input, out] = [(); 2].map(|()| Buffer::new(BufferSpec::new(I32, &[9, 7])).unwrap());
    let run =
        |n: i32| compiled.run(&Pool::new(1), &[("in", &input), ("out", &out)], &[("n", Scalar::I32(n))]);
    let said = run(1 << 24).unwrap_err().to_string();
    assert!(said.contains("out of memory: cannot allocate"), "{said}");
    run(2).unwrap();
}
