//! The first schedule of large sums into few elements: one sweep with all sums in registers, for buffers of any size.

use crate::check::{flat, on_threads};
use sumsq_codegen::ScalarType::F64;
use sumsq_codegen::gradient::{propagate_adjoints, schedule};
use sumsq_codegen::{Constraint, Input, Pipeline, RDom, Source, Var, boundary};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::values;
use sumsq_codegen_testing::reference::{Bindings, Realization, evaluate_over};
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
        let mut rng = Rng::new(5);
        let mut b = Bindings::default();
        for (name, domain) in
            [("image", [(0, w), (0, h)]), ("w", [(0, w), (0, h)]), ("kernel", [(0, kernel.0), (0, kernel.1)])]
        {
            b.inputs.insert(name.into(), values(&[F64], &domain, &mut rng));
        }
        let domains = [vec![(0, kernel.0), (0, kernel.1)], vec![]];
        let expected = evaluate_over(&p, &b, &domains).unwrap();
        for (came, want) in on_threads(&p, &compiled, &b, &domains, &s).iter().zip(&expected) {
            near(came, want);
        }
    }
}

/// Numbers that are read one by one, `c(0, n)` and `c(1, n)`: the slope of each is a sum of its own, which touches no other.
#[test]
fn a_sweep_for_each_number() {
    let mut p = Pipeline::new("ramps");
    let c = p.input(Input::strided("c", &[F64], 2));
    p.input(Input::strided("w", &[F64], 3));
    let [x, y, n] = Var::all(["x", "y", "n"]);
    let value = c.of((0, n)) * x.expr().cast(F64) + c.of((1, n)) * y.expr().cast(F64);
    let out = p.define("out", [x, y, n], value);
    p.output_strided(&out, Constraint::defaults(3));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["c"]).unwrap();
    p.outputs.clear();
    p.output_strided(d.of("c").unwrap(), Constraint::defaults(2));
    let estimates: [(&str, &[i32]); 3] = [("c", &[2, 5]), ("w", &[2000, 900, 5]), ("d_c", &[2, 5])];
    let s = schedule(&p, &estimates, &[], &[]).unwrap();
    let text = s.to_string();
    for k in [1, 2] {
        assert!(text.contains(&format!("d_c_sums{k}: compute_at(d_c_partial{k}.update(0)")), "{text}");
    }
    let compiled = native::compile(&p, &s).unwrap();
    let mut rng = Rng::new(5);
    let mut b = Bindings::default();
    for (name, domain) in [("c", vec![(0, 2), (0, 3)]), ("w", vec![(0, 37), (0, 21), (0, 3)])] {
        b.inputs.insert(name.into(), values(&[F64], &domain, &mut rng));
    }
    let domains = [vec![(0, 2), (0, 3)]];
    let expected = evaluate_over(&p, &b, &domains).unwrap();
    near(&on_threads(&p, &compiled, &b, &domains, &s)[0], &expected[0]);
}
