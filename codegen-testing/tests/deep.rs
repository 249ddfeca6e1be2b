//! Expressions a hundred thousand operations deep, through every public entry, from a thread whose own stack is small.

use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::compile::aot::compile_to_object;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::nests::bounds_query::BoundsQuery;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::{Expr, Func, Input, Pipeline, ScalarType, Schedule, Var};
use sumsq_codegen_testing::checked;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate};

const DEPTH: u32 = 100_000;
/// Size for which LLVM, which takes quadratic time, has a second.
const COMPILED: u32 = 10_000;
const U32: ScalarType = ScalarType::U32;

/// Enough for any loop, not for a recursion.
const SMALL_STACK: usize = 256 << 10;

fn on_small_stack(f: impl FnOnce() + Send) {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().stack_size(SMALL_STACK).spawn_scoped(s, f);
        thread.expect("a thread").join().expect("no panic");
    });
}

/// `x`, times 3 and exclusive or k in turns: no simplification makes it shorter.
fn chain(x: Expr, depth: u32) -> Expr {
    (0..depth).fold(x, |e, k| if k % 2 == 0 { e * 3 } else { e.xor(Expr::int(U32, k as i64)) })
}

fn chained(x: u32, depth: u32) -> u32 {
    (0..depth).fold(x, |e, k| if k % 2 == 0 { e.wrapping_mul(3) } else { e ^ k })
}

/// `f(v)`, a chain over `in(v)`.
fn deep(depth: u32) -> Pipeline {
    let v = Var::new("v");
    let mut p = Pipeline::new("deep");
    let i = p.input(Input::new("in", &[U32], 1));
    let f = Func::new("f", std::slice::from_ref(&v), vec![chain(i.at(&[v.expr()], 0), depth)]);
    let f = p.func(f);
    p.output(&f);
    p
}

#[test]
fn expressions() {
    on_small_stack(|| {
        let make = || chain(Expr::param("p", U32), DEPTH);
        let (a, b) = (make(), make());
        assert!(a == b && a.clone() == b);
        assert!(a != chain(Expr::param("q", U32), DEPTH));
        assert_eq!(a.to_string(), b.to_string());
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
        let mut set = std::collections::HashSet::new();
        assert!(set.insert(a) && !set.insert(b));
        // A tree of 2^100 leaves, made twice.
        let doubled = || (0..100).fold(Expr::param("p", U32), |e, _| &e + &e);
        assert!(doubled() == doubled());
    });
}

#[test]
fn schedules() {
    on_small_stack(|| {
        let cond = chain(Expr::param("p", U32), DEPTH).gt(Expr::int(U32, 5));
        let mut s = Schedule::new();
        s.func("f").specialize(cond, |_| ());
        let text = s.to_string();
        let read = Schedule::parse(&text).expect("reads");
        assert_eq!(read.to_string(), text);
        let mut p = deep(1);
        p.param("p", U32);
        assert!(lower(&p, &read, &LowerOptions::default()).is_ok());
    });
}

#[test]
fn lowering_and_looking() {
    on_small_stack(|| {
        let (p, s) = (deep(DEPTH), Schedule::new());
        let f = lower(&p, &s, &LowerOptions { verify: true, ..LowerOptions::default() }).expect("lowers");
        assert!(f.to_string().len() > DEPTH as usize);
        let copy = f.clone();
        drop((f, copy));
        let regions = BoundsQuery::of(&p, &s).expect("query").regions(&[("f", &[7])], &[]).expect("regions");
        assert_eq!(regions["in"], [(0, 6)]);
        let nest = p.print_loop_nest(&s).expect("nest");
        assert_eq!(nest, "produce f:\n  for v:\n    f(...) = ...\n");
    });
}

#[test]
fn evaluating() {
    on_small_stack(|| {
        let (p, s) = (deep(DEPTH), Schedule::new());
        let mut input = Realization::zeros(&[U32], &[3]);
        input.planes[0] = (5..8).map(Value::Int).collect();
        let b = Bindings { inputs: [("in".into(), input)].into_iter().collect(), params: Default::default() };
        let want: Vec<Value> = (5..8).map(|x| Value::Int(chained(x, DEPTH) as i64)).collect();
        assert_eq!(evaluate(&p, &b, &[vec![3]]).expect("evaluates")[0].planes[0], want);
        for run in [checked::run_nests, checked::run_lowered] {
            assert_eq!(run(&p, &s, &b, &[vec![3]]).expect("runs").outputs[0].planes[0], want);
        }
    });
}

#[test]
fn compiling() {
    on_small_stack(|| {
        let (p, s, target) = (deep(COMPILED), Schedule::new(), Target::host());
        let compiled = Compiled::new(&p, &s, &target).expect("compiles");
        let new = || Buffer::new(BufferSpec::new(U32, &[3])).expect("memory");
        let (input, out) = (new(), new());
        (0..3).for_each(|x| assert!(input.set(&[x], 0, 5 + x as u32)));
        compiled.run(&Pool::new(1), &[("in", &input), ("f", &out)], &[]).expect("runs");
        let got = (0..3).map(|x| out.get::<u32>(&[x], 0).expect("inside"));
        assert!(got.eq((5..8).map(|x| chained(x, COMPILED))));
        assert!(compile_to_object(&p, &s, &target).is_ok());
    });
}
