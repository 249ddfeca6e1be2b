//! The tool on input that is wrong, singular or not finite: exit code, message, files.

use crate::bench::{Bench, Run, doubles, floats, ints};
use sumsq::{ArrayData, NamedArray};

const HEAD: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
"#;

/// A folder whose energy is `HEAD` (4 lines with the first, empty one) and `text`.
fn bench(text: &str, arrays: &[NamedArray]) -> Bench {
    let bench = Bench::new(&format!("{HEAD}{text}"));
    bench.inputs(arrays);
    bench
}

fn x(values: &[f32]) -> NamedArray {
    floats("X", &[values.len()], values)
}

/// Fails with exit code 2, says all of that, and writes nothing.
#[track_caller]
fn refused(bench: &Bench, more: &[&str], said: &[&str]) {
    let run = bench.solve(&[&["--output", "o.npz", "--report", "r.json", "--plot", "p.png"], more].concat());
    said.iter().for_each(|said| run.fails_with(2, said));
    assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
}

fn solved(bench: &Bench, more: &[&str]) -> (Run, serde_json::Value, Vec<f64>) {
    let run = bench.solve(&[&["--output", "o.npz", "--report", "r.json"], more].concat());
    run.succeeds();
    let ArrayData::F64(x) = bench.read("o.npz").remove(0).data else { panic!("mixed writes float64") };
    (run, bench.json("r.json"), x)
}

#[test]
fn residuals_that_mix_domains() {
    let two_graphs = r#"
local G = Graph("G", 1, "v0", {N}, 2, "v1", {N}, 3)
local F = Graph("F", 4, "u", {N}, 5)
Energy(X(G.v0) - X(F.u))
"#;
    let arrays = [x(&[0.0; 3]), ints("G.v0", &[1], &[0]), ints("G.v1", &[1], &[1]), ints("F.u", &[1], &[2])];
    refused(&bench(two_graphs, &arrays), &[], &["mixes domains", "graph G", "graph F", "energy.t:7"]);

    let two_spaces = "local W, H = Dim(\"W\", 1), Dim(\"H\", 2)\nlocal Y = Unknown(\"Y\", opt_float, {W,H}, 1)\nEnergy(X(0), Y(0,0))\nEnergy(X(0) - Y(0,0))\n";
    let arrays = [x(&[0.0; 3]), floats("Y", &[2, 2], &[0.0; 4])];
    refused(&bench(two_spaces, &arrays), &[], &["{N}", "{W,H}", "energy.t:7"]);
}

#[test]
fn unknowns_that_no_residual_reads() {
    let text = "local Y = Unknown(\"Y\", opt_float, {N}, 1)\nEnergy(X(0) - 1)\n";
    refused(&bench(text, &[x(&[0.0; 3]), floats("Y", &[3], &[0.0; 3])]), &[], &["`Y`", "no residual"]);
    refused(&bench("", &[x(&[0.0; 3])]), &[], &["Energy"]);
}

#[test]
fn derivatives_that_are_not_finite_at_the_start() {
    let text = "Energy(X(0) - 2)\nResidual{name=\"angles\", acos(X(0)) - 1}\n";
    let said = [
        "residual 2 of group `angles` (line 5) is -1 at element (2) of {N}",
        "its derivative by `X`[2] channel 0",
    ];
    for precision in ["mixed", "f32", "f64"] {
        refused(&bench(text, &[x(&[0.5, 0.25, 1.0])]), &["--precision", precision], &said);
    }
    // The language's own rule: there sqrt has slope 0.
    solved(&bench("Energy(sqrt(X(0)) - 2, X(0) - 1)\n", &[x(&[0.0, 0.5])]), &[]);
}

/// The culprit is looked for residual by residual: with the pattern of J, of 28 partials a pixel, it would take more than 4 GiB, and without
/// it takes 1.1.
#[test]
fn derivatives_that_are_not_finite_in_a_large_image() {
    let energy = r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float, {W,H}, 0)
local sum = 0
for y = -2, 2 do for x = -2, 2 do sum = sum + X(x,y) end end
Energy(sum - 12)
Residual{name="angles", acos(X(0,0)) - 1, X(0,0) - X(1,0)}
"#;
    let side = 2000;
    let mut values = vec![0.5; side * side];
    values[1234 * side + 567] = 1.0;
    let bench = Bench::new(energy);
    bench.inputs(&[floats("X", &[side, side], &values)]);
    let run = bench.solve_within(2 << 20, "--threads 2");
    for said in [
        "residual 2 of group `angles` (line 7) is -1 at element (567, 1234) of {W,H}",
        "its derivative by `X`[567, 1234] channel 0 is -inf",
    ] {
        run.fails_with(2, said);
    }
    assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
}

#[test]
fn extents_of_zero() {
    refused(&bench("Energy(X(0) - 1)", &[x(&[])]), &[], &["`N`", "0"]);
    refused(&bench("Energy(X(0) - 1)", &[x(&[1.0]), ints("N", &[], &[0])]), &[], &["`N`"]);
    let text = "local W, H = Dim(\"W\", 1), Dim(\"H\", 2)\nlocal Y = Unknown(\"Y\", opt_float, {W,H}, 1)\nEnergy(X(0))\nEnergy(Y(0,0))";
    refused(&bench(text, &[x(&[1.0]), floats("Y", &[0, 5], &[])]), &[], &["`H`"]);
}

#[test]
fn energies_beyond_their_budgets() {
    let deep = "local x = X(0) for i = 1, 3000 do x = sin(x) end\nEnergy(x)";
    refused(
        &bench(deep, &[x(&[0.0; 3])]),
        &[],
        &["operations inside each other", "energy.t:4", "--max-depth"],
    );
    let derived = "local s = 1 for i = 1, 300 do s = s * (X(i) + X(-i)) end\nEnergy(s)";
    let said = ["nodes and operands", "J", "energy.t:5", "--max-nodes"];
    refused(&bench(derived, &[x(&[0.0; 3])]), &["--max-nodes", "100000"], &said);
    let bench = bench("Energy(sin(sin(X(0))))", &[x(&[0.5; 3])]);
    refused(&bench, &["--max-depth", "1"], &["more than 1 operations"]);
    refused(&bench, &["--max-nodes", "20"], &["more than 20 nodes"]);
}

#[test]
fn words_of_lua_on_expressions() {
    let text = "Energy(X(0) == 3 and X(0) or 1)";
    refused(&bench(text, &[x(&[0.0; 3])]), &[], &["`==`", "eq(a,b)", "energy.t:4:8"]);
}

#[test]
fn graphs_without_edges() {
    let text = "local G = Graph(\"G\", 1, \"v0\", {N}, 2, \"v1\", {N}, 3)\nEnergy(X(G.v0) - X(G.v1) - 1)";
    refused(
        &bench(text, &[x(&[0.0; 3]), ints("G.v0", &[0], &[]), ints("G.v1", &[0], &[])]),
        &[],
        &["`G`", "no edges"],
    );
}

#[test]
fn energies_that_start_infinite_or_nan() {
    let fit = "local A = Array(\"A\", opt_float, {N}, 1)\nEnergy(X(0) - 1)\nEnergy(2 * (X(0) - A(0)))\n";
    let a = |values: &[f32]| floats("A", &[values.len()], values);
    for (bad, value) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
        let bench = bench(fit, &[x(&[0.0; 4]), a(&[0.0, 0.0, bad, bad])]);
        for precision in ["mixed", "f32", "f64"] {
            let said = [
                "not finite at the start",
                "residual 2",
                "energy_2",
                "line 6",
                "element (2) of {N}",
                "`A`[2]",
                value,
            ];
            refused(&bench, &["--precision", precision], &said);
        }
        refused(&bench, &["--method", "gn"], &["not finite at the start"]);
    }

    let edges = "local A = Array(\"A\", opt_float, {N}, 1)\nlocal G = Graph(\"G\", 2, \"v0\", {N}, 3, \"v1\", {N}, 4)\nEnergy(X(G.v0) - X(G.v1) / A(G.v1))\n";
    let arrays =
        [x(&[1.0; 4]), a(&[1.0, 1.0, 1.0, 0.0]), ints("G.v0", &[2], &[0, 1]), ints("G.v1", &[2], &[2, 3])];
    refused(&bench(edges, &arrays), &[], &["hyperedge 1 of `G`", "`A`[3]", "`X`[1]"]);

    // Finite in float64, too large in float32.
    let large = bench(fit, &[x(&[0.0; 4]), a(&[1e25; 4])]);
    refused(&large, &["--precision", "f32"], &["not finite at the start", "mixed"]);
    large.solve(&["--precision", "mixed", "--iterations", "0"]).succeeds();
}

#[test]
fn no_data_under_a_guard_is_no_error() {
    let text = "local C = Array(\"C\", opt_float, {N}, 1)\nEnergy(Select(greater(C(0), -1e6), X(0) - C(0), 0))\nEnergy(0.1 * (X(0) - X(1)))\n";
    let c = floats("C", &[5], &[f32::NEG_INFINITY, 1.0, f32::NAN, f32::NEG_INFINITY, 3.0]);
    // NaN is not greater than anything.
    for precision in ["mixed", "f64"] {
        let (_, report, x) = solved(&bench(text, &[x(&[0.0; 5]), c.clone()]), &["--precision", precision]);
        assert_eq!(report["energy_initial"].as_f64(), Some(10.0));
        assert!(x.iter().all(|x| x.is_finite()), "{x:?}");
        assert!((x[1] - 1.0).abs() < 0.1 && (x[4] - 3.0).abs() < 0.1 && (x[0] - x[1]).abs() < 1e-3, "{x:?}");
    }
}

#[test]
fn everything_excluded() {
    let text = "local A = Array(\"A\", opt_float, {N}, 1)\nExclude(less(A(0), 1e38))\nEnergy(X(0) - A(0), X(0) - X(1))\n";
    // Not even numbers that are none matter where nothing is free.
    let bench = bench(text, &[x(&[3.0, 4.0]), floats("A", &[2], &[0.0, f32::NEG_INFINITY])]);
    for method in ["lm", "gn"] {
        let (run, report, x) = solved(&bench, &["--method", method]);
        assert!(run.stderr.contains("excluded"), "{}", run.stderr);
        assert_eq!(x, [3.0, 4.0]);
        assert_eq!(report["termination"], "no_free_unknown");
        for key in ["energy_initial", "energy_final"] {
            assert_eq!(report[key].as_f64(), Some(0.0), "{key}");
        }
        assert_eq!((report["unknowns"].as_u64(), report["residuals"].as_u64()), (Some(0), Some(0)));
    }
}

#[test]
fn unknowns_that_float_freely() {
    // Element 2 is in no edge; the others know only differences.
    let text = "local G = Graph(\"G\", 1, \"v0\", {N}, 2, \"v1\", {N}, 3)\nEnergy(X(G.v0) - X(G.v1) - 1)";
    let arrays = [x(&[0.0, 0.5, 9.0, -2.0]), ints("G.v0", &[2], &[0, 1]), ints("G.v1", &[2], &[1, 3])];
    for more in [
        &["--method", "lm"][..],
        &["--method", "gn", "--iterations", "3"],
        &["--preconditioner", "none"],
        &["--precision", "f64"],
        &["--preconditioner", "aggregation"],
        &["--preconditioner", "aggregation", "--method", "gn", "--iterations", "3"],
    ] {
        let (_, report, x) = solved(&bench(text, &arrays), more);
        assert_eq!(x[2], 9.0);
        assert_eq!(report["unconstrained"].as_u64(), Some(1));
        assert!((x[0] - x[1] - 1.0).abs() < 1e-4 && (x[1] - x[3] - 1.0).abs() < 1e-4, "{more:?}: {x:?}");
        assert!(report["energy_final"].as_f64().unwrap() < 1e-8);
    }
    // One of two unknowns of an element without any say.
    let text = "local Y = Unknown(\"Y\", opt_float2, {N}, 1)\nEnergy(X(0) - 1, Select(greater(X(0), 100), Y(0,1), Y(0,0) - 2))\n";
    let arrays = [x(&[0.0; 3]), floats("Y", &[3, 2], &[0.0, 5.0, 0.0, 6.0, 0.0, 7.0])];
    let bench = bench(text, &arrays);
    let (_, report, _) = solved(&bench, &[]);
    assert_eq!(report["unconstrained"].as_u64(), Some(3));
    let ArrayData::F64(y) = bench.read("o.npz").remove(1).data else { panic!() };
    assert_eq!([y[1], y[3], y[5]], [5.0, 6.0, 7.0]);
    assert!((y[0] - 2.0).abs() < 1e-5, "{y:?}");
}

#[test]
fn numbers_that_are_none_in_unknowns_and_params() {
    let text = "local w = Param(\"w\", opt_float, 1)\nEnergy(w * X(0) - 1)";
    let w = |w: f64| doubles("w", &[], &[w]);
    refused(&bench(text, &[x(&[0.0, f32::NAN]), w(1.0)]), &[], &["`X`", "NaN"]);
    refused(&bench(text, &[x(&[f32::INFINITY, 0.0]), w(1.0)]), &[], &["`X`", "inf"]);
    refused(&bench(text, &[x(&[0.0, 0.0]), w(f64::NAN)]), &[], &["`w`", "NaN"]);
    refused(&bench(text, &[x(&[0.0, 0.0])]), &[], &["`w`", "missing"]);
}

#[test]
fn indices_out_of_range() {
    let text = "local W, H = Dim(\"W\", 1), Dim(\"H\", 2)\nlocal G = Graph(\"G\", 1, \"v0\", {N}, 2, \"p\", {W,H}, 3)\nlocal A = Array(\"A\", opt_float, {W,H}, 4)\nEnergy(X(G.v0) - A(G.p))";
    let a = floats("A", &[2, 3], &[0.0; 6]);
    let with = |v0: &[i64], p: &[i64]| {
        bench(
            text,
            &[x(&[0.0; 3]), a.clone(), ints("G.v0", &[v0.len()], v0), ints("G.p", &[p.len() / 2, 2], p)],
        )
    };
    refused(&with(&[0, 3], &[0, 0, 1, 1]), &[], &["G.v0", "row 1", "3"]);
    refused(&with(&[-1, 0], &[0, 0, 1, 1]), &[], &["G.v0", "row 0", "-1"]);
    // (x, y), x below W = 3, y below H = 2.
    refused(&with(&[0, 0], &[0, 0, 1, 2]), &[], &["G.p", "row 1", "2"]);
    refused(&with(&[0], &[0, 0, 1, 1]), &[], &["G"]);
    with(&[0, 2], &[2, 1, 0, 0]).solve(&[]).succeeds();
}

#[test]
fn gauss_newton_that_leaves_the_numbers() {
    // From -10 the step is exp(10) - 1: exp of that is infinite.
    let bench = bench("Energy(exp(X(0)) - 1)", &[x(&[-10.0])]);
    let run =
        bench.solve(&["--method", "gn", "--output", "o.npz", "--report", "r.json", "--precision", "f64"]);
    assert_eq!(run.code, Some(1), "{}\n{}", run.stdout, run.stderr);
    let said = "the solve failed: the energy or its gradient is not finite after a Gauss-Newton step; the unknowns are the last good ones";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let report = bench.json("r.json");
    assert_eq!(report["termination"], "diverged");
    assert_eq!(report["energy_final"], report["energy_initial"]);
    let ArrayData::F64(x) = bench.read("o.npz").remove(0).data else { panic!() };
    assert_eq!(x, [-10.0], "the last good unknowns");
    // LM shortens its steps instead.
    let run = bench.solve(&["--report", "r.json", "--precision", "f64", "--radius", "1e-2"]);
    run.succeeds();
    assert!(bench.json("r.json")["energy_final"].as_f64().unwrap() < 1e-9, "{}", run.stdout);
}

#[test]
fn energies_that_are_finite_nowhere_else() {
    let text = "local A = Array(\"A\", opt_float, {N}, 1)\nEnergy(Select(eq(X(0), 1), X(0), 1 / A(0)))\n";
    let bench = bench(text, &[x(&[1.0, 1.0]), floats("A", &[2], &[0.0, 0.0])]);
    let run = bench.solve(&["--output", "o.npz", "--report", "r.json"]);
    assert_eq!(run.code, Some(1), "{}\n{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("the solve failed: "), "{}", run.stderr);
    assert!(run.stderr.contains("; the unknowns are the last good ones"), "{}", run.stderr);
    let report = bench.json("r.json");
    assert_eq!(report["termination"], "invalid_steps");
    assert_eq!(report["energy_final"].as_f64(), Some(2.0));
    assert!(report["iterations"][0]["gain_ratio"].is_null());
    let ArrayData::F64(x) = bench.read("o.npz").remove(0).data else { panic!() };
    assert_eq!(x, [1.0, 1.0]);
}

#[test]
fn options_that_an_energy_cannot_honour() {
    let bench = Bench::new(
        "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float9, {N}, 0)\nEnergy(X(0) - 1)\n",
    );
    bench.inputs(&[floats("X", &[2, 9], &[0.0; 18])]);
    refused(
        &bench,
        &["--preconditioner", "multigrid"],
        &["multigrid needs an index space", "use block_jacobi"],
    );
    bench.solve(&[]).succeeds();
    for wrong in [
        ["--radius=-1", "--radius"],
        ["--iterations=-3", "--iterations"],
        ["--precision=f16", "--precision"],
        ["--threads=0", "--threads"],
        ["--forcing=nan", "--forcing"],
    ] {
        refused(&bench, &wrong[..1], &wrong[1..]);
    }
}

#[test]
fn archives_that_are_damaged() {
    let bench = bench("Energy(X(0) - 1)\n", &[x(&[0.5; 16])]);
    let archive = bench.path("inputs.npz");
    let good = std::fs::read(&archive).unwrap();
    let number = good.windows(4).position(|w| w == 0.5f32.to_le_bytes()).unwrap();
    let mut bad = good.clone();
    bad[number + 3] ^= 0x40;
    std::fs::write(&archive, &bad).unwrap();
    refused(&bench, &[], &["inputs.npz", "array `X`", "damaged"]);
    std::fs::write(&archive, &good[..good.len() - 1]).unwrap();
    refused(&bench, &[], &["not an npz archive"]);
    // Shapes are known to fit before any number is read.
    let text = "local A = Array(\"A\", opt_float, {N}, 1)\nEnergy(X(0) - A(0))\n";
    let bench = Bench::new(&format!("{HEAD}{text}"));
    bench.inputs(&[x(&[0.5; 16]), floats("A", &[17], &[0.25; 17])]);
    let mut bad = std::fs::read(bench.path("inputs.npz")).unwrap();
    let number = bad.windows(4).position(|w| w == 0.5f32.to_le_bytes()).unwrap();
    bad[number] ^= 1;
    std::fs::write(bench.path("inputs.npz"), &bad).unwrap();
    refused(&bench, &[], &["dim `N`", "16", "17"]);
}
