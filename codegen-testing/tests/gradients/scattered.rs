//! Sums at coordinates that are data, under schedules that give threads copies of all elements; adjoints with squared partials; the same
//! pipeline in other floats.

use crate::check::{Case, on_threads};
use sumsq_codegen::ScalarType::{F32, F64, I32};
use sumsq_codegen::gradient::{propagate_adjoints, propagate_squares, schedule};
use sumsq_codegen::{Constraint, Expr, Input, Pipeline, RDom, ScalarType, Source, Var, boundary, in_floats};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

#[test]
fn samples_of_a_picture_add_to_copies() {
    let [x, y, n] = ["x", "y", "n"].map(Var::new);
    let mut p = Pipeline::new("samples");
    let f = p.input(Input::strided("f", &[F64], 2));
    let g = p.input(Input::strided("g", &[F64], 3));
    let near = |e: Expr| (e * 4.0).cast(I32).clamp(0, 5);
    let at = g.of((x, y, n));
    let sample = f.of((near(at.clone()), near(g.of((x, y, n)) * 0.7))) * at;
    let out = p.define("out", [x, y, n], sample);
    let mut rng = Rng::new(5);
    let domain = [(0, 7), (0, 6), (0, 5)];
    let case = Case::new(p, &out, &domain, &["f", "g"]);
    let case = case.bind("f", &[(0, 6), (0, 6)], &mut rng).bind("g", &domain, &mut rng);
    let (q, ..) = case.adjoint().unwrap();
    let sizes: [(&str, &[i32]); 4] =
        [("f", &[512, 512]), ("d_f", &[512, 512]), ("g", &[512, 512, 16]), ("w", &[512, 512, 16])];
    let s = schedule(&q, &sizes, &[], &[]).unwrap();
    let text = s.to_string();
    assert!(text.contains("rfactor(out_n_strip as copy") && text.contains("parallel(copy)"), "{text}");
    case.check_exact();
    let compiled = native::compile(&q, &s).unwrap_or_else(|e| panic!("{e}\n{s}"));
    let (q, b, domains) = case.adjoint().unwrap();
    let expected = evaluate_over(&q, &b, &domains).unwrap();
    let came = on_threads(&q, &compiled, &b, &domains, &s);
    for (a, b) in came.iter().zip(&expected).flat_map(|(a, b)| a.planes[0].iter().zip(&b.planes[0])) {
        assert!((a.as_f64() - b.as_f64()).abs() < 1e-12, "{a:?} and {b:?}");
    }
}

/// The filter `out(x) = sum over r of k(r) f(x + r)` with the repeated edge, and its weights.
fn filter(ty: ScalarType) -> Pipeline {
    let x = Var::new("x");
    let mut p = Pipeline::new("filter");
    let f = p.input(Input::strided("f", &[ty], 1));
    let k = p.input(Input::strided("k", &[ty], 1));
    p.input(Input::strided("w", &[ty], 1));
    let near = p.func(boundary::repeat_edge("near", &f, &f.domain()));
    let r = RDom::new([("r", 0, 3)]);
    let s = p.sum("s", &r, near.of(x + r.var(0) - 1) * k.of(r.var(0)));
    let out = p.define("out", [x], s.sin());
    p.output_strided(&out, vec![Constraint::new()]);
    p
}

fn values(ty: ScalarType, values: &[f64]) -> Realization {
    Realization::from_fn(&[ty], &[values.len()], |at, _| values[at[0] as usize])
}

/// d out / d k by hand: cos(s(x)) f(x + r - 1), squared and weighted.
#[test]
fn squares_of_partials_are_a_diagonal() {
    let (f, k, w) = ([0.3, -0.8, 1.1, 0.4, -0.2], [0.5, -0.25, 0.75], [1.0, 2.0, 0.5, 3.0, 1.5]);
    let mut p = filter(F64);
    let d = propagate_squares(&mut p, &[("out", "w")], &["k", "f"]).unwrap();
    let (dk, df) = (d.of("k").unwrap().clone(), d.of("f").unwrap().clone());
    p.outputs.clear();
    p.output_strided(&dk, vec![Constraint::new()]);
    p.output_strided(&df, vec![Constraint::new()]);
    let mut b = Bindings::default();
    for (name, v) in [("f", &f[..]), ("k", &k[..]), ("w", &w[..])] {
        b.inputs.insert(name.into(), values(F64, v));
    }
    let came = evaluate_over(&p, &b, &[vec![(0, 3)], vec![(0, 5)]]).unwrap();
    let near = |i: i32| f[i.clamp(0, 4) as usize];
    let slope = |x: i32| (0..3).map(|r| k[r as usize] * near(x + r - 1)).sum::<f64>().cos();
    for r in 0..3 {
        let expected: f64 = (0..5).map(|x| w[x as usize] * (slope(x) * near(x + r - 1)).powi(2)).sum();
        assert!((came[0].planes[0][r as usize].as_f64() - expected).abs() < 1e-14);
    }
    // In the interior each element is read once by each output: the diagonal. Twice by the outputs at the ends: without products.
    for u in 0..5 {
        let term = |x: i32, r: i32| match (x + r - 1).clamp(0, 4) == u {
            true => w[x as usize] * (slope(x) * k[r as usize]).powi(2),
            false => 0.0,
        };
        let expected: f64 = (0..5).flat_map(|x| (0..3).map(move |r| (x, r))).map(|(x, r)| term(x, r)).sum();
        assert!((came[1].planes[0][u as usize].as_f64() - expected).abs() < 1e-14, "{u}");
    }
}

/// A float32 pipeline in float64 is the float64 pipeline, on the same numbers; unknowns take the new type, other inputs are converted.
#[test]
fn a_pipeline_in_other_floats() {
    let (f, k, w) = ([0.1f32, -0.7, 1.3, 0.6, -0.9], [0.3f32, -0.2, 0.7], [1.0f32; 5]);
    let widened = in_floats(&filter(F32), F64, &["k"]);
    assert_eq!(widened.inputs["k"].types, [F64]);
    assert_eq!(widened.inputs["f"].types, [F32]);
    assert!(widened.funcs.values().all(|f| f.types() == [F64]));
    let bind = |types: [ScalarType; 3]| {
        let mut b = Bindings::default();
        let all = [("f", &f[..]), ("k", &k[..]), ("w", &w[..])];
        for ((name, v), ty) in all.into_iter().zip(types) {
            let v: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
            b.inputs.insert(name.into(), values(ty, &v));
        }
        b
    };
    let domains = [vec![(0, 5)]];
    let wide = evaluate_over(&widened, &bind([F32, F64, F32]), &domains).unwrap();
    let double = evaluate_over(&filter(F64), &bind([F64; 3]), &domains).unwrap();
    assert_eq!(wide[0].planes, double[0].planes);
    assert!(matches!(wide[0].planes[0][0], Value::Float(v) if v != f64::from(v as f32)), "digits of float64");
    let mut derived = widened;
    let d = propagate_adjoints(&mut derived, &[], &["k"]);
    assert!(d.unwrap_err().to_string().contains("no output has a seed"));
}
