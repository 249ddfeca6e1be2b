//! Multigrid and aggregation: their levels as they are shown, and which of them is named where one cannot serve.

use crate::bench::{Bench, Run, doubles, ints};
use serde_json::Value;

/// A smooth image.
fn image() -> Bench {
    let bench = Bench::new(
        r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W,H}, 0)
local A = Array("A", opt_float, {W,H}, 1)
Energy(0.1 * (X(0,0) - A(0,0)), X(0,0) - X(1,0), X(0,0) - X(0,1))
"#,
    );
    let numbers: Vec<f64> = (0..45 * 30).map(|i| f64::from(i % 11)).collect();
    bench.inputs(&["X", "A"].map(|name| doubles(name, &[30, 45], &numbers)));
    bench
}

/// A chain of edges, and beside it elements that no two residuals share.
fn chain() -> Bench {
    let bench = Bench::new(
        r#"
local N, K = Dim("N", 0), Dim("K", 1)
local X = Unknown("X", opt_float, {N}, 0)
local Y = Unknown("Y", opt_float2, {K}, 1)
local G = Graph("G", 2, "a", {N}, 3, "b", {N}, 4)
Energy(0.01 * X(0), Y(0) - 1)
Energy(X(G.a) - X(G.b) - 1)
"#,
    );
    let n = 900;
    bench.inputs(&[
        doubles("X", &[n], &vec![0.0; n]),
        doubles("Y", &[5, 2], &[0.0; 10]),
        ints("G.a", &[n - 1], &(0..n as i64 - 1).collect::<Vec<_>>()),
        ints("G.b", &[n - 1], &(1..n as i64).collect::<Vec<_>>()),
    ]);
    bench
}

fn shown(bench: &Bench, more: &[&str]) -> Run {
    let line = ["show", "energy.t", "--stage", "hierarchy", "--inputs", "inputs.npz"];
    bench.sumsq(&[&line, more].concat())
}

/// The report of one step with a kind.
fn step(bench: &Bench, kind: &str) -> Value {
    bench.solve(&["--preconditioner", kind, "--iterations", "1", "--report", "r.json"]).succeeds();
    bench.json("r.json")
}

/// The table of a kind has the levels that the report of a step has.
fn assert_shows(bench: &Bench, more: &[&str], kind: &str) -> Run {
    let run = shown(bench, more);
    run.succeeds();
    let report = step(bench, kind);
    let grids = &report["grids"][0];
    let levels = grids["levels"].as_array().unwrap();
    assert!(levels.len() >= 2, "{report}");
    for (i, extents) in levels.iter().enumerate() {
        let extents: Vec<String> = extents.as_array().unwrap().iter().map(Value::to_string).collect();
        let expected = [
            i.to_string(),
            extents.join("x"),
            grids["stencils"][i].to_string(),
            grids["level_bytes"][i].to_string(),
        ];
        let row =
            |line: &str| line.replace(" x ", "x").split_whitespace().map(String::from).collect::<Vec<_>>();
        assert!(run.stdout.lines().any(|line| row(line) == expected), "{expected:?} in\n{}", run.stdout);
    }
    run
}

#[test]
fn levels_are_shown_as_reports_have_them() {
    let image = image();
    for more in [&[][..], &["--preconditioner", "multigrid"], &["--preconditioner", "jacobi"]] {
        let run = assert_shows(&image, more, "multigrid");
        assert!(run.stdout.contains("45 x 30 ") && run.stdout.contains("23 x 15 "), "{}", run.stdout);
    }
    assert_shows(&image, &["--preconditioner", "aggregation"], "aggregation");
    let chain = chain();
    for more in [&[][..], &["--preconditioner", "aggregation"]] {
        let run = assert_shows(&chain, more, "aggregation");
        assert!(run.stdout.ends_with("{K}: no levels, keeps block Jacobi\n"), "{}", run.stdout);
    }
    chain.sumsq(&["show", "energy.t", "--stage", "hierarchy"]).fails_with(2, "--inputs");
}

#[test]
fn spaces_without_levels_are_named() {
    let report = step(&chain(), "aggregation");
    assert_eq!(report["without_levels"], serde_json::json!(["{K}"]));
    assert!(step(&image(), "multigrid")["without_levels"].is_null());
    assert!(step(&chain(), "block_jacobi")["without_levels"].is_null());
}

#[test]
fn where_a_kind_cannot_serve_the_one_that_can_is_named() {
    let chain = chain();
    chain.solve(&["--preconditioner", "multigrid"]).fails_with(2, "use aggregation");
    shown(&chain, &["--preconditioner", "multigrid"]).fails_with(2, "use aggregation");
    // No unknown is read at two elements, and yet elements are coupled.
    let bench = Bench::new(
        r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local Y = Unknown("Y", opt_float, {N}, 1)
Energy(X(0) - Y(1), 0.1 * (X(0) - 1), Y(0))
"#,
    );
    bench.inputs(&["X", "Y"].map(|name| doubles(name, &[300], &[0.5; 300])));
    bench.solve(&["--preconditioner", "aggregation"]).fails_with(2, "use multigrid");
    bench.solve(&["--preconditioner", "multigrid"]).succeeds();
    let fit = crate::bench::fit();
    for kind in ["multigrid", "aggregation"] {
        fit.solve(&["--preconditioner", kind]).fails_with(2, "use block_jacobi");
        shown(&fit, &["--preconditioner", kind]).fails_with(2, "use block_jacobi");
    }
    shown(&fit, &[]).fails_with(2, "use block_jacobi");
}
