//! The `sumsq` program as its users meet it: exit codes, messages, files.

use crate::bench::{Bench, FIT, array, doubles, fit, floats, ints};
use sumsq::ArrayData;

/// A chain held at both ends by data, with an excluded element in the middle.
const CHAIN: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local A = Array("A", opt_float, {N}, 1)
local M = Array("M", opt_float, {N}, 2)
Exclude(M(0))
Energy(2 * (X(0) - A(0)), X(0) - X(1))
"#;

const EDGES: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float, {N}, 0)
local G = Graph("G", 1, "v0", {N}, 2, "v1", {N}, 3)
Energy(X(G.v0) - X(G.v1) - 1)
"#;

#[test]
fn usage() {
    let bench = Bench::new(FIT);
    for line in
        [&["solve"][..], &["frobnicate"], &[], &["solve", "energy.t"], &["demo", "nothing"], &["show"]]
    {
        bench.sumsq(line).fails_with(2, "--help");
    }
    bench.sumsq(&["--help"]).succeeds();
    bench.sumsq(&["solve", "--help"]).succeeds();
    bench.sumsq(&["--version"]).succeeds();
}

/// Printed lines of a file go to standard error, also where it fails later: standard output is the tool's.
#[test]
fn energies_print_to_standard_error() {
    let bench = Bench::new(&format!("{FIT}print(\"extent\", 3)"));
    let run = bench.sumsq(&["show", "energy.t", "--stage", "declarations"]);
    run.succeeds();
    assert!(run.stderr.contains("extent\t3\n") && !run.stdout.contains("extent\t3"), "{}", run.stderr);
    let bench = Bench::new(&format!("{FIT}print(\"so far\")\nEnergy(nothing)"));
    bench.sumsq(&["show", "energy.t", "--stage", "declarations"]).fails_with(2, "so far");
}

#[test]
fn a_solve_writes_unknowns_report_and_plot() {
    let bench = fit();
    let run = bench.solve(&["--output", "o.npz", "--report", "r.json", "--plot", "p.png"]);
    run.succeeds();
    let unknowns = bench.read("o.npz");
    assert_eq!((unknowns.len(), unknowns[0].name.as_str(), &unknowns[0].shape), (1, "X", &vec![3]));
    let ArrayData::F64(x) = &unknowns[0].data else { panic!("mixed writes float64: {unknowns:?}") };
    for (x, a) in x.iter().zip([1.0, 2.0, 3.5]) {
        assert!((x - a).abs() < 1e-6, "{x} is not {a}");
    }
    let report = bench.json("r.json");
    assert_eq!(report["energy_initial"].as_f64(), Some(1.0 + 9.0 + 20.25));
    assert!(report["energy_final"].as_f64().unwrap() < 1e-9);
    assert_eq!((report["unknowns"].as_u64(), report["residuals"].as_u64()), (Some(3), Some(3)));
    assert_eq!(report["method"], "lm");
    assert!(
        run.stdout.contains("energy") && run.stdout.contains("3 unknowns, 3 residuals"),
        "{}",
        run.stdout
    );
    assert_eq!(&std::fs::read(bench.path("p.png")).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        bench.files(),
        ["energy.t", "inputs.npz", "o.npz", "p.png", "r.json"],
        "nothing temporary is left"
    );
}

#[test]
fn precision_decides_the_output_dtype_and_the_shape_is_the_inputs() {
    let bench = Bench::new(FIT);
    bench.inputs(&[doubles("X", &[3, 1], &[0.0; 3]), doubles("A", &[3, 1], &[1.0, 2.0, 3.0])]);
    for (precision, single) in [("f32", true), ("f64", false), ("mixed", false)] {
        bench.solve(&["--output", "o.npz", "--precision", precision]).succeeds();
        let unknowns = bench.read("o.npz");
        assert_eq!(matches!(unknowns[0].data, ArrayData::F32(_)), single, "{precision}");
        assert_eq!(unknowns[0].shape, [3, 1]);
    }
}

#[test]
fn zero_iterations_return_the_start() {
    let bench = fit();
    bench.solve(&["--output", "o.npz", "--report", "r.json", "--iterations", "0"]).succeeds();
    let ArrayData::F64(x) = &bench.read("o.npz")[0].data.clone() else { panic!() };
    assert_eq!(x, &[0.0, 5.0, -1.0]);
    let report = bench.json("r.json");
    assert_eq!(report["energy_final"], report["energy_initial"]);
    assert_eq!(report["iterations"].as_array().map(Vec::len), Some(0));
}

#[test]
fn energies_that_are_wrong() {
    let cases = [
        ("local x = = 3", "energy.t"),
        ("Energy(X(0))", "X"),
        (&FIT.replace("Energy(X(0) - A(0))", "Energy(A(0))"), "X"),
        (&EDGES.replace("X(G.v0) - X(G.v1)", "X(G.v0) - X(0)"), "domain"),
    ];
    for (text, said) in cases {
        let bench = Bench::new(text);
        bench.inputs(&[floats("X", &[3], &[0.0; 3]), floats("A", &[3], &[0.0; 3])]);
        bench.solve(&["--output", "o.npz"]).fails_with(2, said);
        assert!(!bench.path("o.npz").exists());
    }
    Bench::new(FIT).sumsq(&["show", "absent.t"]).fails_with(2, "absent.t");
}

#[test]
fn arrays_that_are_wrong_are_named_and_nothing_is_written() {
    let x = || floats("X", &[3], &[0.0; 3]);
    let a = || floats("A", &[3], &[0.0; 3]);
    let cases = [
        (vec![x()], "`A` is missing"),
        (vec![a()], "`X` is missing"),
        (vec![x(), floats("A", &[4], &[0.0; 4])], "4"),
        (vec![x(), floats("A", &[3, 2], &[0.0; 6])], "`A`"),
        (vec![floats("X", &[3], &[0.0, f32::NAN, 0.0]), a()], "`X`"),
        (vec![x(), a(), ints("N", &[], &[7])], "`N`"),
        (vec![ints("X", &[3], &[1, 2, 3]), a(), floats("N", &[], &[3.0])], "`N`"),
        (vec![floats("X", &[0], &[]), floats("A", &[0], &[])], "`N`"),
        (vec![x(), floats("A", &[3], &[0.0, f32::NAN, 0.0])], "not finite"),
    ];
    for (inputs, said) in cases {
        let bench = Bench::new(FIT);
        bench.inputs(&inputs);
        bench.solve(&["--output", "o.npz", "--report", "r.json"]).fails_with(2, said);
        assert_eq!(bench.files(), ["energy.t", "inputs.npz"]);
    }
}

#[test]
fn graphs_that_are_wrong() {
    let x = || floats("X", &[3], &[0.0; 3]);
    let v = |name: &str, values: &[i64]| ints(name, &[values.len()], values);
    let cases = [
        (vec![x(), v("G.v0", &[0, 1])], "G.v1"),
        (vec![x(), v("G.v0", &[0, 1]), v("G.v1", &[1, 3])], "row 1"),
        (vec![x(), v("G.v0", &[0, -1]), v("G.v1", &[1, 2])], "row 1"),
        (vec![x(), v("G.v0", &[0, 1]), v("G.v1", &[1])], "edges"),
        (vec![x(), v("G.v0", &[]), v("G.v1", &[])], "no edges"),
        (vec![x(), floats("G.v0", &[1], &[0.0]), v("G.v1", &[1])], "G.v0"),
    ];
    for (inputs, said) in cases {
        let bench = Bench::new(EDGES);
        bench.inputs(&inputs);
        bench.solve(&[]).fails_with(2, said);
    }
}

#[test]
fn files_that_are_not_there() {
    let bench = fit();
    bench.sumsq(&["solve", "energy.t", "--inputs", "absent.npz"]).fails_with(2, "absent.npz");
    bench.solve(&["--output", "absent/o.npz"]).fails_with(4, "absent");
    bench.solve(&["--report", "absent/r.json"]).fails_with(4, "absent");
    bench.sumsq(&["solve", "energy.t", "--inputs", "energy.t"]).fails_with(2, "not an npz archive");
}

#[test]
fn unused_arrays_are_not_read_only_named() {
    let bench = Bench::new(FIT);
    let unused = array("unused", &[2], ArrayData::Bool(vec![true, false]));
    bench.inputs(&[floats("X", &[1], &[0.0]), floats("A", &[1], &[1.0]), unused]);
    let run = bench.solve(&[]);
    run.succeeds();
    assert!(run.stderr.contains("`unused`"), "{}", run.stderr);
}

#[test]
fn integer_and_bool_arrays_are_numbers() {
    let bench = Bench::new(FIT);
    bench.inputs(&[floats("X", &[2], &[0.0; 2]), ints("A", &[2], &[4, -3]), ints("N", &[], &[2])]);
    bench.solve(&["--output", "o.npz", "--precision", "f64"]).succeeds();
    let ArrayData::F64(x) = &bench.read("o.npz")[0].data.clone() else { panic!() };
    assert!((x[0] - 4.0).abs() < 1e-9 && (x[1] + 3.0).abs() < 1e-9, "{x:?}");
}

#[test]
fn everything_excluded_is_no_error() {
    let bench = Bench::new(CHAIN);
    let ones = [1.0; 4];
    bench.inputs(&[floats("X", &[4], &[3.0; 4]), floats("A", &[4], &[0.0; 4]), floats("M", &[4], &ones)]);
    let run = bench.solve(&["--output", "o.npz", "--report", "r.json"]);
    run.succeeds();
    assert!(run.stderr.contains("excluded"), "{}", run.stderr);
    let report = bench.json("r.json");
    assert_eq!(
        (report["energy_final"].as_f64(), &report["termination"]),
        (Some(0.0), &"no_free_unknown".into())
    );
    let ArrayData::F64(x) = &bench.read("o.npz")[0].data.clone() else { panic!() };
    assert_eq!(x, &[3.0; 4]);
}

#[test]
fn excluded_elements_stay_and_the_rest_meets_the_normal_equations() {
    let bench = Bench::new(CHAIN);
    bench.inputs(&[
        floats("X", &[3], &[0.0, 6.0, 0.0]),
        floats("A", &[3], &[1.0, 0.0, -1.0]),
        floats("M", &[3], &[0.0, 1.0, 0.0]),
    ]);
    bench
        .solve(&[
            "--output",
            "o.npz",
            "--precision",
            "f64",
            "--linear-tolerance",
            "1e-14",
            "--method",
            "gn",
            "--iterations",
            "1",
        ])
        .succeeds();
    let ArrayData::F64(x) = &bench.read("o.npz")[0].data.clone() else { panic!() };
    // 4 (x0 - 1) + (x0 - 6) = 0 and 4 (x2 + 1) + (x2 - 6) = 0, by hand.
    assert_eq!(x[1], 6.0);
    assert!((x[0] - 2.0).abs() < 1e-9 && (x[2] - 0.4).abs() < 1e-9, "{x:?}");
}

#[test]
fn a_free_floating_unknown_stays_put_and_is_counted() {
    let bench = Bench::new(EDGES);
    bench.inputs(&[floats("X", &[3], &[0.0, 0.5, 9.0]), ints("G.v0", &[1], &[0]), ints("G.v1", &[1], &[1])]);
    bench.solve(&["--output", "o.npz", "--report", "r.json"]).succeeds();
    let ArrayData::F64(x) = &bench.read("o.npz")[0].data.clone() else { panic!() };
    assert_eq!(x[2], 9.0);
    assert!((x[0] - x[1] - 1.0).abs() < 1e-5, "{x:?}");
    assert_eq!(bench.json("r.json")["unconstrained"].as_u64(), Some(1));
}

#[test]
fn gauss_newton_takes_its_steps() {
    let bench = fit();
    bench
        .solve(&["--method", "gn", "--iterations", "1", "--report", "r.json", "--precision", "f64"])
        .succeeds();
    let report = bench.json("r.json");
    assert_eq!(report["method"], "gn");
    assert!(report["iterations"][0]["radius"].is_null(), "an infinite radius is null");
    assert!(report["energy_final"].as_f64().unwrap() < 1e-20);
}

#[test]
fn stages_can_be_shown() {
    let bench = fit();
    let shown = |stage: &str| {
        let run = bench.sumsq(&["show", "energy.t", "--stage", stage]);
        run.succeeds();
        run.stdout.clone()
    };
    let declarations = shown("declarations");
    for said in ["unknown   X over {N}", "array     A over {N}", "dim       N"] {
        assert!(declarations.contains(said), "{declarations}");
    }
    assert!(shown("dag").contains("r0 (energy_1, over {N}"));
    assert!(shown("derivatives").contains("dr0 / dX(0) = 1"), "{}", shown("derivatives"));
    assert!(shown("routines").contains("jtjp {N}[0] = p_X(0)"), "{}", shown("routines"));
    bench.sumsq(&["show", "energy.t", "--stage", "routines", "--stats"]).succeeds();
    let counted = bench.sumsq(&["show", "energy.t", "--stats"]);
    counted.succeeds();
    // J^T J p of X - A is p.
    let row = "| J^T J p | {N} | 0 | 0 | 0 | 0 | 0 | 0 | 1 |";
    assert!(counted.stdout.contains(row), "{}", counted.stdout);
    bench.sumsq(&["show", "energy.t", "--stats", "--passes", "bounds,sharing"]).succeeds();
    bench.sumsq(&["show", "energy.t", "--passes", "magic"]).fails_with(2, "magic");
    bench.sumsq(&["show", "energy.t", "--stage", "soup"]).fails_with(2, "soup");
}
