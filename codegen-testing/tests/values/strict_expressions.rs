//! Strict expressions in relaxed code: they have the bits of their definition, and the same expressions without marks do not.

use crate::{bindings, row};
use sumsq_codegen::gradient::propagate_adjoints;
use sumsq_codegen::lower::expand_math::expand_math_expr;
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Source, Target, Var};
use sumsq_codegen_testing::native::{agree, agree_on_gpu, compile, compile_for_gpu, execute};
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate_over};

const N: usize = 37;

/// Inputs `a`, `b` and `c`, whose sums and products are never exact.
fn inputs(ty: ScalarType) -> Bindings {
    let values = |phase: f64| {
        let one = |k: usize| Value::of(ty, (k as f64 * 0.37 + phase).sin() * 10f64.powi(k as i32 % 5 - 2));
        row(ty, (0..N).map(one).collect())
    };
    bindings(vec![("a", values(0.0)), ("b", values(1.0)), ("c", values(2.0))])
}

/// `out(x) = value(a(x), b(x), c(x))`, strict or not.
fn pointwise(ty: ScalarType, value: &dyn Fn([Expr; 3]) -> Expr) -> Pipeline {
    let mut p = Pipeline::new("pointwise");
    let x = Var::new("x");
    let inputs = ["a", "b", "c"].map(|name| p.input(Input::new(name, &[ty], 1)));
    let value = value([0, 1, 2].map(|k| inputs[k].of(x)));
    let out = p.define("out", [x], value);
    p.output(&out);
    p
}

/// Scalars, vectors, and vectors of a number of lanes that no register has.
fn schedules(directives: &str) -> [Schedule; 3] {
    let of = |vectors: &str| format!("out: {directives} {vectors}");
    ["", "vectorize(x, 8)", "vectorize(x, 6)"].map(|vectors| Schedule::parse(&of(vectors)).expect("text"))
}

fn run(p: &Pipeline, s: &Schedule, b: &Bindings) -> Vec<Realization> {
    let domains: Vec<Vec<(i32, usize)>> =
        p.outputs.iter().map(|o| p.funcs[&o.func].vars.iter().map(|_| (0, N)).collect()).collect();
    execute(p, &compile(p, s).expect("compiles"), b, &domains, 1).expect("runs")
}

/// Values by the evaluator, which has no functions of its own.
fn expected(p: &Pipeline, b: &Bindings) -> Vec<Vec<Value>> {
    let mut p = p.clone();
    p.funcs.values_mut().flat_map(|f| &mut f.values).for_each(|e| *e = expand_math_expr(e));
    evaluate_over(&p, b, &[vec![(0, N)]]).expect("evaluates").swap_remove(0).planes
}

type Value3 = fn([Expr; 3]) -> Expr;

/// Expressions that the directives change, by what each is about.
const CHANGED: [(&str, Value3); 8] = [
    ("what a sum loses", |[a, b, _]| &b - ((&a + &b) - &a)),
    ("a product that is added", |[a, b, c]| a * b + c),
    ("a difference of products", |[a, b, c]| &a * &b - &b * c),
    ("a common factor", |[a, b, c]| &a * &c + b * &c),
    ("a quotient by a constant", |[a, ..]| a / 3),
    ("constants that meet", |[a, ..]| (a + 0.1) + 0.2),
    ("a function", |[a, b, _]| (a * b).exp() * 0.3f32 + 1),
    ("a remainder", |[a, b, c]| a.modulo(b.abs() + 0.1f32) * 0.7f32 + c),
];

#[test]
fn what_is_marked_keeps_its_bits() {
    for ty in [ScalarType::F32, ScalarType::F64] {
        let b = inputs(ty);
        for (name, value) in CHANGED {
            let strict = pointwise(ty, &|args| value(args).strict_float());
            let plain = pointwise(ty, &value);
            let mut differs = false;
            let expected = expected(&strict, &b);
            for s in schedules("relaxed reciprocals") {
                assert_eq!(run(&strict, &s, &b)[0].planes, expected, "{name} of {}\n{s}", ty.name());
                differs |= run(&plain, &s, &b)[0].planes != expected;
            }
            assert!(differs, "{name} of {} is the same", ty.name());
        }
    }
    // Halves are marked, too; they round by conversions that have no flags.
    for s in schedules("relaxed reciprocals") {
        let strict = pointwise(ScalarType::F16, &|args| CHANGED[0].1(args).strict_float());
        agree(&strict, &s, &inputs(ScalarType::F16), &[vec![N]]);
    }
}

/// A relaxed operation takes a strict operand as it is: one operation alone has nothing to be reordered with.
#[test]
fn the_mark_ends_at_the_expression() {
    let b = inputs(ScalarType::F32);
    let outside: [Value3; 4] = [
        |[a, b, _]| (&a + &b).strict_float() - &a,
        |[a, b, c]| (a * b).strict_float() + c,
        |[a, b, c]| (&a * &c).strict_float() + (b * &c).strict_float(),
        |[a, b, _]| -(&a - &b).strict_float(),
    ];
    for value in outside {
        let p = pointwise(ScalarType::F32, &value);
        schedules("relaxed").iter().for_each(|s| drop(agree(&p, s, &b, &[vec![N]])));
    }
}

/// A Func that is inlined into a strict expression is no part of it, and stays apart from the same operation in it.
#[test]
fn inlined_funcs_keep_their_freedom() {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("inlined");
    let [a, b] = ["a", "b"].map(|name| p.input(Input::new(name, &[ScalarType::F32], 1)));
    let sum = p.define("sum", [x], a.of(x) + b.of(x));
    let out = p.define("out", [x], (sum.of(x) - (a.of(x) + b.of(x)) * 0.5f32).strict_float());
    p.output(&out);
    let s = Schedule::parse("out: relaxed").expect("text");
    let text = sumsq_codegen::lower::lower(&p, &s, &Default::default()).expect("lowers").to_string();
    let [read_a, read_b] = ["a", "b"].map(|name| format!("{name}.0[i64(out.s0.x)]"));
    let value = format!("strict({read_a} + {read_b} - strict(strict({read_a} + {read_b}) * 0.5f))");
    assert!(text.contains(&value), "{text}");
}

/// Kahan's sum: relaxed, its compensation is 0.
fn compensated(strict: bool) -> Pipeline {
    let [x] = Var::all(["x"]);
    let mut p = Pipeline::new("compensated");
    let input = p.input(Input::new("in", &[ScalarType::F32], 2));
    let r = RDom::new([("r", Expr::from(0), input.extent(1))]);
    let start = Func::new("sum", &[x], vec![Expr::from(0.0f32), Expr::from(0.0f32)]);
    let at = [x.expr()];
    let (old, lost) = (start.at(&at, 0), start.at(&at, 1));
    let term = input.of((x, r.var(0))) - lost;
    let new = &old + &term;
    let values = [new.clone(), (new - old) - term];
    let values = values.map(|v| if strict { v.strict_float() } else { v });
    let sum = p.func(start.update(at.to_vec(), values.to_vec(), r));
    let out = p.define("out", [x], sum.at(&[x.expr()], 0));
    p.output(&out);
    p
}

#[test]
fn a_compensated_sum_is_one() {
    let columns = 11;
    let terms = |k: usize| Value::of(ScalarType::F32, if k < columns { 1e4 } else { 0.1 + k as f64 * 1e-6 });
    let rows = 400;
    let input = Realization {
        types: vec![ScalarType::F32],
        min: vec![0, 0],
        extents: vec![columns, rows],
        halo: vec![0, 0],
        planes: vec![(0..columns * rows).map(terms).collect()],
    };
    let b = bindings(vec![("in", input)]);
    let mut differs = false;
    for vectors in ["", "vectorize(x, 8)"] {
        let text = format!("sum.update(0): relaxed reorder(x, r) {vectors}");
        let s = Schedule::parse(&text).expect("text");
        let expected = agree(&compensated(true), &s, &b, &[vec![columns]]);
        let domains = [vec![(0, columns)]];
        let plain = compensated(false);
        let loose = execute(&plain, &compile(&plain, &s).expect("compiles"), &b, &domains, 1).expect("runs");
        differs |= loose[0].planes != expected[0].planes;
    }
    assert!(differs, "the sum without marks is compensated, too");
}

/// A sum that is marked whole is no sum that could be reordered; one of marked terms is.
#[test]
fn marked_sums_keep_their_order() {
    let pipeline = |whole: bool| {
        let mut p = Pipeline::new("total");
        let input = p.input(Input::new("in", &[ScalarType::F32], 1));
        let r = RDom::new([("r", Expr::from(0), input.extent(0))]);
        let start = Func::new("f", &[], vec![Expr::from(0.0f32)]);
        let term = input.of(r.var(0)) * 0.1f32 + 0.2f32;
        let value = match whole {
            true => (start.at(&[], 0) + term).strict_float(),
            false => start.at(&[], 0) + term.strict_float(),
        };
        let f = p.func(start.update(vec![], vec![value], r));
        p.output(&f);
        p
    };
    for directives in [
        "split(r, ro, ri, 8, guard) rfactor(ri as u, into parts)",
        "split(r, ro, ri, 8, guard) vectorize(ri)",
        "atomic parallel(r)",
    ] {
        let s = Schedule::parse(&format!("f.update(0): relaxed {directives}")).expect("text");
        assert!(compile(&pipeline(true), &s).is_err(), "{directives}");
        assert!(compile(&pipeline(false), &s).is_ok(), "{directives}");
    }
}

/// On a GPU products are contracted before LLVM sees them, and quotients by constants are products.
#[test]
fn kernels_fuse_nothing_that_is_marked() {
    let b = inputs(ScalarType::F32);
    let text = "relaxed reciprocals split(x, xo, xi, 32, predicate) gpu_blocks(xo) gpu_threads(xi)";
    let s = Schedule::parse(&format!("out: {text}")).expect("text");
    let ptx = |p: &Pipeline| sumsq_codegen::compile::ptx(p, &s, &Target::cuda(90)).expect("PTX");
    for (name, value) in &CHANGED[1..4] {
        let strict = pointwise(ScalarType::F32, &|args| value(args).strict_float());
        agree_on_gpu(&strict, &s, &b, &[vec![N]]);
        assert!(!ptx(&strict).contains("fma."), "{name}");
        assert!(ptx(&pointwise(ScalarType::F32, value)).contains("fma."), "{name}");
    }
    let third = |strict: bool| {
        pointwise(ScalarType::F32, &|[a, ..]| if strict { (a / 3).strict_float() } else { a / 3 })
    };
    agree_on_gpu(&third(true), &s, &b, &[vec![N]]);
    assert!(ptx(&third(true)).contains("div.rn") && !ptx(&third(false)).contains("div.rn"));
    let function = pointwise(ScalarType::F32, &|args| CHANGED[6].1(args).strict_float());
    let compiled = compile_for_gpu(&function, &s).expect("compiles");
    let got = execute(&function, &compiled, &b, &[vec![(0, N)]], 1).expect("runs");
    assert_eq!(got[0].planes, expected(&function, &b));
}

/// The derivative is that of the same expression without marks.
#[test]
fn slopes_do_not_see_the_mark() {
    let text = |strict: bool| {
        let mut p = pointwise(ScalarType::F64, &|[a, b, c]| {
            let e = (&a * &b + a.max(&c)) / b.exp();
            if strict { e.strict_float() } else { e }
        });
        p.input(Input::strided("w", &[ScalarType::F64], 1));
        propagate_adjoints(&mut p, &[("out", "w")], &["a"]).expect("has slopes");
        // The values that slopes are made of are those of the expression, marked.
        p.funcs.values().map(|f| format!("{:?}", f.values)).collect::<String>()
    };
    let (strict, plain) = (text(true), text(false));
    assert!(strict.contains("strict(") && !plain.contains("strict("));
    let unmarked = |t: &str| t.replace("strict", "").replace(['(', ')'], "");
    assert_eq!(unmarked(&strict), unmarked(&plain));
}
