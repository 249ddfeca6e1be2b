//! Ill-typed definitions are refused, in words that name them; never a panic, never wrong code.

use sumsq_codegen::{BinaryOp, Expr, ExprKind, Func, Pipeline, RDom, ScalarType, Schedule, Var};
use sumsq_codegen_testing::native::compile;
use sumsq_codegen_testing::reference::{Bindings, evaluate};

/// Returns what the compiler and the reference evaluator say of `f(x) = value`.
fn refused(value: Expr) -> String {
    let mut p = Pipeline::new("p");
    let f = p.func(Func::new("f", &[Var::new("x")], vec![value]));
    p.output(&f);
    let compiled = compile(&p, &Schedule::new()).err().map_or(String::new(), |e| e.to_string());
    let evaluated =
        evaluate(&p, &Bindings::default(), &[vec![1]]).err().map_or(String::new(), |e| e.to_string());
    assert_eq!(compiled, evaluated);
    compiled
}

#[test]
fn operands() {
    let x = Expr::var("x");
    let float = x.cast(ScalarType::F32);
    let text = |fault: &str| format!("pipeline p: f: {fault}");
    let add = Expr::binary(BinaryOp::Add, &x, &float);
    assert_eq!(refused(add), text("operands of Add are i32 and f32: x + f32(x)"));
    let less = Expr::binary(BinaryOp::Lt, &x, &float);
    assert_eq!(refused(less), text("operands of Lt are i32 and f32: x < f32(x)"));
    assert_eq!(refused(x.cast(ScalarType::Bool) + Expr::bool(true)), text("Add of bool: bool(x) + true"));
    assert_eq!(refused(float.and(&float)), text("And of f32: f32(x) & f32(x)"));
    assert_eq!(refused(x.sin()), text("Sin of i32: sin(x)"));
    assert_eq!(refused(x.pow(&x)), text("Pow of i32: pow(x, x)"));
    assert_eq!(refused(Expr::binary(BinaryOp::Shl, &float, &float)), text("Shl of f32: f32(x) << f32(x)"));
    assert_eq!(
        refused(Expr::select(&x, &x, &x)),
        text("the condition of a select of i32 is i32: select(x, x, x)")
    );
    let arms = Expr::new(ExprKind::Select(x.lt(3), x.clone(), float.clone()), x.ty());
    assert_eq!(refused(arms), text("arms of a select are i32 and f32: select(x < 3, x, f32(x))"));
    assert_eq!(refused(Expr::fma(&x, &x, &x)), text("operands of Fma are i32, i32 and i32: fma(x, x, x)"));
    let bits = float.reinterpret(ScalarType::U64);
    assert_eq!(refused(bits), text("f32 has not the bits of u64: bits_as_u64(f32(x))"));
    let none: [Expr; 0] = [];
    let none = Expr::mux(&x, none);
    assert_eq!(refused(none), text("a mux of no values: give it at least one: interleave()"));
    let mixed = Expr::mux(&x, [x.clone(), Expr::bool(true)]);
    assert_eq!(refused(mixed), text("arms of a select are i32 and bool: select(x == 0, x, true)"));
    assert_eq!(refused(x.likely()), text("likely of i32: likely(x)"));
    assert_eq!(refused(float.likely()), text("likely of f32: likely(f32(x))"));
}

/// The table of [`sumsq_codegen::Operand`], and numbers that a type does not have.
#[test]
fn operands_meet_in_one_type() {
    use ScalarType::*;
    let of = |ty: ScalarType| Expr::var("x").cast(ty);
    for (a, b, both) in [
        (U8, U16, U16),
        (I8, I32, I32),
        (U8, F32, F32),
        (I64, F32, F32),
        (F16, F64, F64),
        (U16, I16, I16),
        (U32, I8, I32),
        (I16, U16, I16),
    ] {
        for (a, b) in [(a, b), (b, a)] {
            let (a, b) = (of(a), of(b));
            for e in
                [&a + &b, a.max(&b), Expr::select(a.lt(&b), &a, &b), a.saturating_add(&b), a.halving_add(&b)]
            {
                assert_eq!(e, e.cast(both));
                assert_eq!(refused(e), "");
            }
        }
    }
    let pixel = of(U8);
    for (e, ty) in [
        (&pixel * 3, U8),
        (&pixel * 2.0, U8),
        (&pixel * 0.5f32, F32),
        (1 + of(F64), F64),
        (of(F32) * 0.1, F32),
        (pixel.saturating_add(1), U8),
        (pixel.saturating_sub(1), U8),
        (pixel.rounding_halving_add(3), U8),
        (pixel.absd(9), U8),
        (pixel.widening_add(1), U16),
        (pixel.widening_sub(1), I16),
    ] {
        assert_eq!(e.ty().scalar, ty, "{e}");
        assert_eq!(refused(e), "");
    }
    let remedy = "cast the operand beside it to a type that has it";
    assert_eq!(refused(&pixel * 300), format!("pipeline p: f: 300:i64 is no u8: {remedy}: u8(x) * 300:i64"));
    assert_eq!(refused(&pixel * 0.5), format!("pipeline p: f: 0.5 is no u8: {remedy}: u8(x) * 0.5"));
    assert_eq!(refused(&pixel - -1), format!("pipeline p: f: -1:i64 is no u8: {remedy}: u8(x) - -1:i64"));
}

#[test]
fn updates_and_calls() {
    let text = |change: &dyn Fn(Func) -> Func| {
        let mut p = Pipeline::new("p");
        let f = p.func(change(Func::new("f", &[Var::new("x")], vec![Expr::var("x")])));
        p.output(&f);
        compile(&p, &Schedule::new()).err().map_or(String::new(), |e| e.to_string())
    };
    let x = Expr::var("x");
    let wider = text(&|f| {
        f.clone().update(
            vec![x.clone()],
            vec![f.at(std::slice::from_ref(&x), 0).cast(ScalarType::I64)],
            RDom::default(),
        )
    });
    assert_eq!(wider, "pipeline p: f.update(0) stores i64 into i32");
    let wide = x.cast(ScalarType::I64);
    let coordinate = text(&|f| {
        f.clone().update(vec![x.clone()], vec![f.at(std::slice::from_ref(&wide), 0)], RDom::default())
    });
    assert_eq!(coordinate, "pipeline p: f.update(0): a coordinate of f is not an i32");
    let r = RDom::new([("r", Expr::from(0), Expr::from(3))]);
    let r = r.clone().filter(r.var(0));
    let predicate =
        text(&|f| f.clone().update(vec![x.clone()], vec![f.at(std::slice::from_ref(&x), 0)], r.clone()));
    assert_eq!(predicate, "pipeline p: f.update(0): the predicate is i32, not bool: r");
    let r = RDom::new([("r", Expr::from(0), wide.clone())]);
    let bounds =
        text(&|f| f.clone().update(vec![x.clone()], vec![f.at(std::slice::from_ref(&x), 0)], r.clone()));
    assert_eq!(bounds, "pipeline p: f.update(0): the bounds of r are no i32");
    let place = text(&|f| {
        f.clone().update(vec![wide.clone()], vec![f.at(std::slice::from_ref(&x), 0)], RDom::default())
    });
    assert_eq!(place, "pipeline p: f.update(0): a coordinate of f is not an i32");
}
