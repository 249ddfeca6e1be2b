//! Strict floats: what may change them is refused, all else gives the bits of the definition.

use crate::{bindings, row};
use sumsq_codegen::{Expr, Func, Input, Pipeline, RDom, ScalarType, Schedule, Tail};
use sumsq_codegen_testing::native::{agree, compile};
use sumsq_codegen_testing::reference::Value;

fn total(ty: ScalarType, strict: bool) -> Pipeline {
    let mut p = Pipeline::new("total");
    let i = p.input(Input::new("in", &[ty], 1));
    let r = RDom::new([("r", Expr::from(0), i.extent(0))]);
    let term = i.at(&[r.var(0)], 0);
    let f = p.func(Func::sum("f", &[], r, vec![&term * &term]));
    p.output(&f);
    if strict {
        p.strict_float();
    }
    p
}

#[test]
fn reordering_directives_are_refused() {
    let mut vector = Schedule::new();
    vector.update("f", 0).relaxed().split("r", "ro", "ri", 8, Tail::Predicate).vectorize_loop("ri");
    let mut parts = Schedule::new();
    parts.update("f", 0).split("r", "ro", "ri", 8, Tail::Predicate).rfactor(&[("ri", "u")], "f_u");
    let text = |p: &Pipeline, s: &Schedule| compile(p, s).err().map_or(String::new(), |e| e.to_string());
    let strict = total(ScalarType::F32, true);
    let rule = "may change floats, which are strict in pipeline total";
    assert_eq!(text(&strict, &vector), format!("f.update(0): relaxed: {rule}"));
    assert_eq!(text(&strict, &parts), format!("f.update(0): rfactor(into f_u): {rule}"));
    // Nor does a special version, which says so for itself, in text and in the interior of another.
    let lanes = "split(r, ro, ri, 8, predicate) vectorize(ri)";
    let nested = format!("specialize(in.extent.0 > 4) {{ specialize(in.extent.0 > 8) {{ {lanes} }} }}");
    for special in [format!("specialize(in.extent.0 > 4) {{ {lanes} }}"), nested] {
        let s = Schedule::parse(&format!("f.update(0): {special}")).expect("text");
        assert_eq!(text(&strict, &s), format!("f.update(0): vectorize(ri): {rule}"));
        assert_eq!(text(&total(ScalarType::I32, true), &s), "");
    }
    // Integers do not mind.
    assert_eq!(text(&total(ScalarType::I32, true), &parts), "");
}

/// A sum that shows every change of order and every contraction.
#[test]
fn sums_are_those_of_the_definition() {
    let values: Vec<Value> =
        (0..100).map(|k| Value::of(ScalarType::F32, (k as f64 * 0.37).sin() * 1e3)).collect();
    let p = total(ScalarType::F32, true);
    let mut s = Schedule::new();
    s.update("f", 0).split("r", "ro", "ri", 8, Tail::GuardWithIf).unroll("ri");
    for s in [Schedule::new(), s] {
        let b = bindings(vec![("in", row(ScalarType::F32, values.clone()))]);
        let r = &agree(&p, &s, &b, &[vec![]])[0];
        let want = values.iter().fold(0f32, |sum, v| {
            let v = v.as_f64() as f32;
            sum + v * v
        });
        assert_eq!(r.planes[0], [Value::Float(want as f64)]);
    }
}

/// The order of a maximum decides the sign of a zero.
#[test]
fn extrema_keep_their_order() {
    let mut p = Pipeline::new("greatest");
    let i = p.input(Input::new("in", &[ScalarType::F32], 2));
    let r = RDom::new([("r", Expr::from(0), i.extent(0)), ("s", Expr::from(0), i.extent(1))]);
    let least = Func::new("f", &[], vec![Expr::least(ScalarType::F32)]);
    let value = least.at(&[], 0).max(i.at(&[r.var(0), r.var(1)], 0));
    let f = p.func(least.update(vec![], vec![value], r));
    p.output(&f);
    for directive in ["reorder(s, r)", "fuse(s, r, p)", "parallel(s)"] {
        let s = Schedule::parse(&format!("f.update(0): atomic {directive}")).expect("text");
        let lowered = |p: &Pipeline| sumsq_codegen::lower::lower(p, &s, &Default::default());
        assert!(lowered(&p).is_ok(), "{directive}");
        let mut strict = p.clone();
        strict.strict_float();
        let rule = "may change floats, which are strict in pipeline greatest";
        let text = lowered(&strict).expect_err("another order").to_string();
        assert_eq!(text, format!("f.update(0): {directive}: {rule}"));
    }
}
