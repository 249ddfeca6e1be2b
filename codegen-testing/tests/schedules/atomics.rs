//! atomic: updates that meet at an element, in parallel and as lanes.

use crate::support::{refused, schedule};
use ScalarType::{Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
use sumsq_codegen::Target;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool};
use sumsq_codegen::{BinaryOp, Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Var};
use sumsq_codegen_testing::check::{bindings, check, pattern};
use sumsq_codegen_testing::native::agree;

/// `out(in(rx, ry) mod 5) = out(...) op e(rx, ry)` from `start`. Products of f16 are of 1 and -1.
fn histogram(ty: ScalarType, op: BinaryOp, start: f64) -> Pipeline {
    let b = Var::new("b");
    let mut p = Pipeline::new("histogram");
    let i = p.input(Input::new("in", &[I32], 2));
    let r = RDom::new([("rx", Expr::from(0), i.extent(0)), ("ry", Expr::from(0), i.extent(1))]);
    let bin = i.at(&[r.var(0), r.var(1)], 0).modulo(5).max(0).min(4);
    let e = (r.var(0) * 3 + r.var(1)).modulo(4) + 1;
    let e = match op {
        _ if ty == Bool => e.gt(2),
        BinaryOp::Mul if ty == F16 => Expr::select(e.gt(2), Expr::from(-1), Expr::from(1)).cast(ty),
        _ => e.cast(ty),
    };
    let start = if ty == Bool { Expr::bool(start != 0.0) } else { Expr::constant(ty, start) };
    let f = Func::new("out", &[b], vec![start]);
    let value = Expr::binary(op, f.at(std::slice::from_ref(&bin), 0), e);
    let out = p.func(f.update(vec![bin], vec![value], r));
    p.output(&out);
    p
}

const PARALLEL: &str = "out.update(0): atomic parallel(ry)";
const LANES: &str = "out.update(0): atomic split(rx, xo, xi, 8, predicate) vectorize(xi) parallel(ry)";

#[test]
fn every_operator_of_every_type() {
    use BinaryOp::{Add, And, Max, Min, Mul, Or, Xor};
    let ints = [I8, I16, I32, I64, U8, U16, U32, U64];
    let cases = ints.iter().flat_map(|&t| [Add, Mul, Min, Max, And, Or, Xor].map(|op| (t, op)));
    let floats = [F16, F32, F64].iter().flat_map(|&t| [Add, Min, Max].map(|op| (t, op)));
    let more = [(F16, Mul), (Bool, And), (Bool, Or), (Bool, Xor)];
    let b = bindings(vec![("in", pattern(&[I32], &[13, 4], 5))], vec![]);
    for (ty, op) in cases.chain(floats).chain(more) {
        let p = histogram(ty, op, if op == Or { 0.0 } else { 3.0 });
        for text in [PARALLEL, LANES] {
            // Sums of small whole numbers are exact in any order.
            let text = text.replace("atomic", if ty.is_float() { "relaxed atomic" } else { "atomic" });
            check(&p, &schedule(&text), &b, &[vec![5]], 0.0);
            if ty == F16 || ty == Bool {
                agree(&p, &schedule(&text), &b, &[vec![5]]);
            }
        }
    }
}

/// Machine code on several threads loses no update.
#[test]
fn threads_do_not_lose_updates() {
    for (ty, text) in
        [(I32, PARALLEL), (I32, LANES), (U8, LANES), (F64, "out.update(0): relaxed atomic parallel(ry)")]
    {
        for op in [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max] {
            let p = histogram(ty, op, 1.0);
            let buffer = |ty, n: &[i32]| Buffer::new(BufferSpec::new(ty, n)).expect("memory");
            let (w, h) = (37, 61);
            let input = buffer(I32, &[w, h]);
            for y in 0..h {
                for x in 0..w {
                    input.set(&[x, y], 0, (x * 7 + y * y) % 11);
                }
            }
            let run = |s: &Schedule, threads| {
                let compiled = Compiled::new(&p, s, &Target::host()).expect("legal");
                let out = buffer(ty, &[5]);
                compiled.run(&Pool::new(threads), &[("in", &input), ("out", &out)], &[]).expect("runs");
                (0..5).map(|b| out.get::<f64>(&[b], 0).expect("a bin")).collect::<Vec<_>>()
            };
            // Products of floats round, those of integers wrap.
            let (want, got) = (run(&Schedule::new(), 1), run(&schedule(text), 4));
            if ty.is_float() && op == BinaryOp::Mul {
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * a.abs();
                assert!(want.iter().zip(&got).all(near), "{want:?} {got:?}");
            } else {
                assert_eq!(want, got, "{ty:?} {op:?}\n{text}");
            }
        }
    }
}

#[test]
fn refusals() {
    let p = histogram(F32, BinaryOp::Add, 0.0);
    for (text, message) in [
        (
            "out.update(0): parallel(ry)",
            "out.update(0): parallel(ry): iterations of this reduction variable may write the same element; use rfactor or atomic",
        ),
        (
            PARALLEL,
            "out.update(0): parallel(ry): atomic sums of floats come in any order and round differently; say `relaxed` if \
             that may be",
        ),
        (
            "out.update(0): vectorize(rx)",
            "out.update(0): vectorize(rx): lanes of this reduction variable may write the same element; use rfactor or atomic",
        ),
        ("out: atomic", "out: atomic: a pure definition has nothing to update"),
    ] {
        assert_eq!(refused(&p, &schedule(text)), message);
    }
    let p = histogram(I32, BinaryOp::Sub, 0.0);
    assert_eq!(
        refused(&p, &schedule(PARALLEL)),
        "out.update(0): atomic: the update is no f(a) = f(a) op e, op in + * min max & | ^"
    );
}
