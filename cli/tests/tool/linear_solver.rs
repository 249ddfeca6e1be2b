//! `--linear-solver cholesky`: the same answers as PCG's, and its own refusals.

use crate::bench::{Bench, doubles, floats};

const CHAIN: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local A = Array("A", opt_float, {N}, 1)
Energy(0.1 * (X(0) - A(0)), X(0) - X(1), sin(X(0)))
"#;

fn chain() -> Bench {
    let bench = Bench::new(CHAIN);
    let a: Vec<f32> = (0..40).map(|i| (i % 7) as f32).collect();
    bench.inputs(&[doubles("X", &[40], &[0.5; 40]), floats("A", &[40], &a)]);
    bench
}

#[test]
fn both_linear_solvers_come_to_one_minimum() {
    let bench = chain();
    let solved = |linear: &str| {
        let (x, report) = (format!("{linear}.npz"), format!("{linear}.json"));
        let exact = ["--function-tolerance", "0", "--linear-solver", linear];
        bench
            .solve(&[&exact[..], &["--precision", "f64", "--output", &x, "--report", &report]].concat())
            .succeeds();
        let energy = bench.json(&report)["energy_final"].as_f64().unwrap();
        (bench.json(&report), energy, bench.read(&x)[0].data.doubles())
    };
    let (by_pcg, by_cholesky) = (solved("pcg"), solved("cholesky"));
    assert!((by_pcg.1 - by_cholesky.1).abs() < 1e-12 * by_pcg.1, "{} {}", by_pcg.1, by_cholesky.1);
    let apart = by_pcg.2.iter().zip(&by_cholesky.2).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart < 1e-6, "{apart}");
    assert_eq!(by_cholesky.0["preconditioner"], "sparse Cholesky");
    let steps = by_cholesky.0["iterations"].as_array().unwrap();
    assert!(steps.iter().all(|step| step["linear_iterations"] == 1));
}

#[test]
fn cholesky_refuses_what_it_cannot_hold_or_evaluate() {
    let cholesky = ["--linear-solver", "cholesky"];
    let bench = chain();
    bench
        .solve(&[&cholesky[..], &["--max-memory", "1K"]].concat())
        .fails_with(2, "raise the limit (--max-memory)");
    let bench = Bench::new(&CHAIN.replace("sin(X(0))", "acos(X(0))"));
    bench.inputs(&[doubles("X", &[3], &[0.5, 1.0, 0.5]), floats("A", &[3], &[0.0; 3])]);
    bench.solve(&cholesky).fails_with(2, "a derivative is not finite at the start");
    let bench = Bench::new(&CHAIN.replace("sin(X(0))", "log(X(0))"));
    bench.inputs(&[doubles("X", &[2], &[0.5, -1.0]), floats("A", &[2], &[0.0; 2])]);
    bench.solve(&cholesky).fails_with(2, "at the start");
}
