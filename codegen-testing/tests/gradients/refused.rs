//! Refusals: each an exact message that names the culprit and the remedy.

use crate::line;
use sumsq_codegen::ScalarType::{F32, F64, I32};
use sumsq_codegen::gradient::{Memory, propagate_adjoints, propagate_adjoints_within};
use sumsq_codegen::{Constraint, Error, Expr, Input, Pipeline, RDom, Schedule, Source};
use sumsq_codegen_testing::native;
use sumsq_codegen_testing::random::differentiable::values;
use sumsq_codegen_testing::reference::Bindings;
use sumsq_codegen_testing::rng::Rng;

#[test]
fn refusals() {
    let (mut p, f, _, x) = line();
    let out = p.define("out", [x], f.of(x).cast(F32) * 2.0);
    p.output(&out);
    p.input(Input::strided("w", &[F64], 1));
    p.input(Input::strided("plane", &[F32], 2));
    p.input(Input::strided("index", &[I32], 1));
    let mut refused = |seeds: &[(&str, &str)], wrt: &[&str]| {
        propagate_adjoints(&mut p, seeds, wrt).unwrap_err().to_string()
    };
    assert_eq!(refused(&[("out", "w")], &["h"]), "pipeline line: there is no h to derive for");
    assert_eq!(
        refused(&[("out", "w")], &["index"]),
        "pipeline line: index is of integers, which have no derivative: derive for floats"
    );
    assert_eq!(
        refused(&[("out", "w")], &["f"]),
        "pipeline line: w is of (f64): the seed of out is of its floats, (f32)"
    );
    assert_eq!(
        refused(&[("out", "plane")], &["f"]),
        "pipeline line: plane has 2 dimensions: the seed of out has 1"
    );
    assert_eq!(refused(&[("out", "nobody")], &["f"]), "pipeline line: there is no nobody, the seed of out");
    assert_eq!(refused(&[("f", "w")], &["f"]), "pipeline line: w is the seed of f, which is no output");
    assert_eq!(
        refused(&[], &["f"]),
        "pipeline line: no output has a seed, and none is a scalar: name an adjoint for one"
    );
}

/// Sizes that are fixed must agree.
#[test]
fn seeds_of_another_size() {
    let (mut p, f, _, x) = line();
    let out = p.define("out", [x], f.of(x) * 2.0);
    let fixed = |n: i32| Constraint::new().min(0).extent(n).stride(1);
    p.output_strided(&out, vec![fixed(6)]);
    p.input(Input::strided("w", &[F64], 1).constrain(0, fixed(5)));
    assert_eq!(
        propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap_err().to_string(),
        "pipeline line: w covers 0 to 4 of dimension 0: out, of which it is the seed, covers 0 to 5"
    );
}

/// So must sizes that are known to differ, whatever they are; others are those of buffers, which each run compares.
#[test]
fn seeds_of_sizes_that_runs_decide() {
    let seeded = |output: fn(Expr) -> Expr, seed: fn(Expr) -> Expr| {
        let (mut p, f, _, x) = line();
        let out = p.define("out", [x], f.of(x) * 2.0);
        let over = |n: Expr| Constraint::new().min(0).extent(n).stride(1);
        p.output_strided(&out, vec![over(output(f.extent(0)))]);
        p.input(Input::strided("w", &[F64], 1).constrain(0, over(seed(f.extent(0)))));
        let d = propagate_adjoints(&mut p, &[("out", "w")], &["f"])?;
        p.output_strided(d.of("f").unwrap(), Constraint::defaults(1));
        Ok::<Pipeline, Error>(p)
    };
    assert_eq!(
        seeded(|n| n - 2, |n| n + 1).unwrap_err().to_string(),
        "pipeline line: w covers 0 to f.extent.0 of dimension 0: out, of which it is the seed, covers 0 to f.extent.0 - 3"
    );
    let p = seeded(|n| n, |n| n).unwrap();
    let compiled = native::compile(&p, &Schedule::new()).unwrap();
    let run = |n: usize| {
        let mut b = Bindings::default();
        for (name, n) in [("f", 5), ("w", n), ("g", 1)] {
            b.inputs.insert(name.into(), values(&[F64], &[(0, n)], &mut Rng::new(1)));
        }
        native::execute(&p, &compiled, &b, &[vec![(0, 5)], vec![(0, 5)]], 1).map(|_| ())
    };
    run(5).unwrap();
    assert_eq!(run(4).unwrap_err().to_string(), "line: w: the extent of dimension 0 must be 5, it is 4");
}

#[test]
fn coordinates_without_bounds() {
    let (mut p, f, g, x) = line();
    let out = p.define("out", [x], f.of((g.of(x) * 8.0).cast(I32)));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    assert_eq!(
        propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap_err().to_string(),
        "pipeline line: dimension 0 of f, which out reads at i32(g(x) * 8.0), has no bounds: the value of input g (clamp it, or give its value range); clamp the coordinate"
    );
}

/// A scatter may be atomic, but not where floats are strict.
#[test]
fn atomics_under_strict_floats() {
    let (mut p, f, g, x) = line();
    let at = (g.of(x) * 8.0).cast(I32).clamp(0, 7);
    let out = p.define("out", [x], f.of(at));
    p.output_strided(&out, Constraint::defaults(1));
    p.input(Input::strided("w", &[F64], 1));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    p.outputs.clear();
    p.output_strided(d.of("f").unwrap(), Constraint::defaults(1));
    let s = Schedule::parse("d_f.update(0): relaxed atomic parallel(out_x)").unwrap();
    native::compile(&p, &s).unwrap();
    p.strict_float();
    assert_eq!(
        native::compile(&p, &s).err().unwrap().to_string(),
        "d_f.update(0): relaxed: may change floats, which are strict in pipeline line"
    );
}

#[test]
fn steps_beyond_the_memory() {
    let steps = |bytes: u64, every: Option<u32>| {
        let (mut p, f, _, x) = line();
        let r = RDom::new([("r", 0, 1000)]);
        let h = p.define("h", [x], f.of(x));
        let h = p.update(&h, x, h.of(x) * h.of(x) - Expr::from(0.5), &r);
        let out = p.define("out", [x], h.of(x));
        p.output_strided(&out, Constraint::defaults(1));
        p.input(Input::strided("w", &[F64], 1));
        let memory = Memory { bytes, every, estimates: &[("out", &[100]), ("w", &[100])] };
        propagate_adjoints_within(&mut p, &[("out", "w")], &["f"], &memory).map(|_| ())
    };
    // 1001 states of 100 elements and their adjoints, 8 bytes each.
    steps(1_601_600, None).unwrap();
    assert_eq!(
        steps(1_601_599, None).unwrap_err().to_string(),
        "pipeline line: h.update(0): the states of 1000 iterations and their adjoints take 1601600 bytes, 1601599 are allowed: 999 iterations fit, or all with every 44th kept"
    );
    // Of 23 blocks two states in front, of one all 45, and as many adjoints.
    steps(2 * 800 * (2 * 24 + 45), Some(44)).unwrap();
    assert_eq!(
        steps(100_000, Some(5)).unwrap_err().to_string(),
        "pipeline line: h.update(0): every 5th state of 1000 iterations, those between two of them, and their adjoints take 652800 bytes, 100000 are allowed: every 44th takes 148800"
    );
    assert_eq!(
        steps(u64::MAX, Some(0)).unwrap_err().to_string(),
        "pipeline line: every 0th state is to be kept: keep every 1st, or a later one"
    );
}

#[test]
fn nothing_to_save() {
    let (mut p, f, _, x) = line();
    let h = p.define("h", [x], f.of(x).sin());
    let out = p.define("out", [x], h.of(x) * h.of(x));
    p.output_strided(&out, Constraint::defaults(1));
    let w: Pipeline = p.clone();
    p.input(Input::strided("w", &[F64], 1));
    let d = propagate_adjoints(&mut p, &[("out", "w")], &["f"]).unwrap();
    let refused = |saved: &str| d.split(&p, &[saved]).unwrap_err().to_string();
    assert_eq!(refused("nobody"), "pipeline line: there is no Func nobody to save");
    assert_eq!(
        refused("d_h"),
        "pipeline line: d_h is made of seeds: only what is there before them can be saved"
    );
    // The size of an output whose seed is a Func is not known without the output.
    let mut p = w;
    p.define("one", [x], 1.0);
    let d = propagate_adjoints(&mut p, &[("out", "one")], &["f"]).unwrap();
    assert_eq!(
        d.split(&p, &[]).unwrap_err().to_string(),
        "pipeline line: the backward part needs the size of out, which is no buffer of it: save out, or give it an input as seed"
    );
}
