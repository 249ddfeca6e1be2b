//! The first schedule of large sums into few elements: one sweep with all sums in registers, for buffers of any size.

use crate::check::{flat, on_threads};
use sumsq_codegen::ScalarType::F64;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::gradient::{propagate_adjoints, schedule};
use sumsq_codegen::{Constraint, Expr, Input, Pipeline, RDom, Schedule, Source, Var, boundary};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::values;
use sumsq_codegen_testing::reference::{Bindings, Realization, Value, evaluate_over};
use sumsq_codegen_testing::rng::Rng;

/// A filter of any size with the adjoint of its kernel, and a sum over a row.
fn filter() -> Pipeline {
    let mut p = Pipeline::new("filter");
    let image = p.input(Input::strided("image", &[F64], 2));
    let kernel = p.input(Input::strided("kernel", &[F64], 2));
    let w = p.input(Input::strided("w", &[F64], 2));
    let near = p.func(boundary::repeat_edge("near", &image, &image.domain()));
    let [x, y] = Var::all(["x", "y"]);
    let r = RDom::new([("rx", 0, kernel.extent(0)), ("ry", 0, kernel.extent(1))]);
    let term = near.of((x + r.var(0), y + r.var(1))) * kernel.of((r.var(0), r.var(1)));
    let out = p.sum("v", &r, term);
    let out = p.define("out", [x, y], out);
    p.output_strided(&out, Constraint::defaults(2));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["kernel"]).unwrap();
    p.outputs.clear();
    p.output_strided(d.of("kernel").unwrap(), Constraint::defaults(2));
    let row = RDom::new([("row", w.min(0), w.extent(0))]);
    let total = p.sum("total", &row, w.of((row.var(0), w.min(1))) * 2.0);
    let total = p.define("twice", [], total);
    p.output(&total);
    p
}

fn near(a: &Realization, b: &Realization) {
    for (a, b) in flat(a).into_iter().zip(flat(b)) {
        assert!((a - b).abs() <= 1e-11 * (1.0 + b.abs()), "{a} instead of {b}");
    }
}

/// Does the code of `p` under `s` give what the evaluator gives, on any threads, for inputs of these domains and these parameters?
fn assert_as_evaluated(
    (p, s, compiled): (&Pipeline, &Schedule, &Compiled),
    inputs: &[(&str, &[(i32, usize)])],
    params: &[(&str, f64)],
    domains: &[Vec<(i32, usize)>],
) {
    let mut rng = Rng::new(5);
    let mut b = Bindings::default();
    b.inputs.extend(inputs.iter().map(|(name, domain)| ((*name).into(), values(&[F64], domain, &mut rng))));
    b.params.extend(params.iter().map(|(name, v)| ((*name).into(), Value::Float(*v))));
    let expected = evaluate_over(p, &b, domains).unwrap();
    for (came, want) in on_threads(p, compiled, &b, domains, s).iter().zip(&expected) {
        near(came, want);
    }
}

#[test]
fn one_sweep_for_all_elements() {
    let p = filter();
    let estimates: [(&str, &[i32]); 4] =
        [("image", &[20000, 900]), ("w", &[20000, 900]), ("kernel", &[3, 5]), ("d_kernel", &[3, 5])];
    let s = schedule(&p, &estimates, &[], &[]).unwrap();
    let text = s.to_string();
    assert!(
        text.contains("d_kernel_sums1: compute_at(d_kernel_partial1.update(0), _0_block) store_in(register)")
    );
    assert!(
        text.contains("total_sums1: compute_at(total_partial1.update(0), strip) store_in(register)"),
        "{text}"
    );
    let compiled = native::compile(&p, &s).unwrap();
    for (kernel, (w, h)) in [((3, 5), (37, 21)), ((4, 2), (8, 16)), ((1, 11), (70, 5)), ((2, 1), (9000, 3))] {
        let (image, kernel) = ([(0, w), (0, h)], [(0, kernel.0), (0, kernel.1)]);
        let inputs: [(&str, &[(i32, usize)]); 3] = [("image", &image), ("w", &image), ("kernel", &kernel)];
        assert_as_evaluated((&p, &s, &compiled), &inputs, &[], &[kernel.to_vec(), vec![]]);
    }
}

/// Numbers that are read one by one, `c(0, n)` and `c(1, n)`, and a parameter: one sweep for the slopes of the numbers, one for that of the
/// parameter and for a sum that depends on nothing else.
#[test]
fn numbers_of_one_definition_share_a_sweep() {
    let mut p = Pipeline::new("ramps");
    let c = p.input(Input::strided("c", &[F64], 2));
    let [gain, bias] = ["gain", "bias"].map(|name| p.param(name, F64));
    p.input(Input::strided("w", &[F64], 3));
    let [x, y, n] = Var::all(["x", "y", "n"]);
    let value = c.of((0, n)) * x.expr().cast(F64) + c.of((1, n)) * y.expr().cast(F64);
    let out = p.define("out", [x, y, n], (value * gain).sin() + bias);
    p.output_strided(&out, Constraint::defaults(3));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["c", "gain", "bias"]).unwrap();
    p.outputs.clear();
    for (name, dims) in [("c", 2), ("gain", 0), ("bias", 0)] {
        p.output_strided(d.of(name).unwrap(), Constraint::defaults(dims));
    }
    let sums = |f: &str| p.funcs[f].updates.iter().filter(|u| !u.rdom.vars.is_empty()).count();
    assert_eq!(["d_c", "d_gain", "d_bias", "d_c_tuple", "d_gain_tuple"].map(sums), [0, 0, 0, 1, 1]);
    assert_eq!(p.funcs["d_gain_tuple"].types().len(), 2);
    let estimates: [(&str, &[i32]); 3] = [("c", &[2, 5]), ("w", &[2000, 900, 5]), ("d_c", &[2, 5])];
    let s = schedule(&p, &estimates, &[], &[]).unwrap();
    let text = s.to_string();
    assert!(text.contains("d_c_tuple_sums1: compute_at(d_c_tuple_partial1.update(0)"), "{text}");
    // Five images are no tasks for many threads: rows of each are.
    let strips =
        "split(out_y, out_y_strip, out_y_row, 16, guard) rfactor(out_y_strip as strip, out_n as strip_out_n";
    assert!(text.contains(strips), "{text}");
    let compiled = native::compile(&p, &s).unwrap();
    let inputs: [(&str, &[(i32, usize)]); 2] = [("c", &[(0, 2), (0, 3)]), ("w", &[(0, 37), (0, 21), (0, 3)])];
    let domains = [vec![(0, 2), (0, 3)], vec![], vec![]];
    assert_as_evaluated((&p, &s, &compiled), &inputs, &[("gain", 0.3), ("bias", 0.1)], &domains);
}

/// The slope of a scale reads that of the mean of what was scaled, over the same pixels: one sweep for both would depend on itself.
#[test]
fn sums_that_depend_on_each_other_stay_apart() {
    let mut p = Pipeline::new("centred");
    let image = p.input(Input::strided("image", &[F64], 2));
    let scale = p.param("scale", F64);
    let [x, y] = Var::all(["x", "y"]);
    let scaled = p.define("scaled", [x, y], image.of((x, y)) * scale);
    let r = RDom::new([("rx", image.min(0), image.extent(0)), ("ry", image.min(1), image.extent(1))]);
    let total = p.sum("sum", &r, scaled.of((r.var(0), r.var(1))));
    let mean = p.define("mean", [], total / (image.extent(0) * image.extent(1)).cast(F64));
    let at: [Expr; 0] = [];
    let centred = p.define("centred", [x, y], (scaled.of((x, y)) - mean.at(&at, 0)).sin());
    p.output_strided(&centred, Constraint::defaults(2));
    let d = propagate_adjoints(&mut p, &[("centred", "image")], &["scale", "mean"]).unwrap();
    p.outputs.clear();
    for name in ["scale", "mean"] {
        p.output_strided(d.of(name).unwrap(), Constraint::defaults(0));
    }
    let sums = |f: &str| p.funcs[f].updates.iter().filter(|u| !u.rdom.vars.is_empty()).count();
    assert_eq!(["d_scale", "d_mean"].map(sums), [1, 1]);
    let loops =
        |f: &str| p.funcs[f].updates[0].rdom.vars.iter().map(|r| (&r.min, &r.extent)).collect::<Vec<_>>();
    assert_eq!(loops("d_scale"), loops("d_mean"));
    let s = schedule(&p, &[("image", &[400, 300])], &[], &[]).unwrap();
    let compiled = native::compile(&p, &s).unwrap();
    let inputs: [(&str, &[(i32, usize)]); 1] = [("image", &[(0, 19), (0, 11)])];
    assert_as_evaluated((&p, &s, &compiled), &inputs, &[("scale", 1.7)], &[vec![], vec![]]);
}
