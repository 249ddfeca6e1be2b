//! Options that change generated code, on every command that generates any.

use crate::bench::{Bench, floats, ints};

/// A smooth curve through robust data.
const CURVE: &str = r#"
local N = Dim("N", 0)
local X = Unknown("X", opt_float2, {N}, 0)
local A = Array("A", opt_float2, {N}, 1)
Residual{name="fit", loss=Huber(0.5), X(0) - A(0)}
Energy(X(0) * X(0) - X(1))
"#;

fn curve(n: usize) -> Bench {
    let bench = Bench::new(CURVE);
    let wave = |scale: f32| -> Vec<f32> { (0..2 * n).map(|i| scale * (i as f32).sin()).collect() };
    bench.inputs(&[floats("X", &[n, 2], &wave(0.7)), floats("A", &[n, 2], &wave(2.0))]);
    bench
}

fn show(bench: &Bench, more: &[&str]) -> String {
    let run = bench.sumsq(&[&["show", "energy.t"], more].concat());
    run.succeeds();
    run.stdout
}

#[test]
fn show_honours_each() {
    let bench = curve(8);
    let changes = [
        (&["--precision", "f64"][..], "loops"),
        (&["--preconditioner", "none"], "loops"),
        (&["--losses", "second_order"], "routines"),
        (&["--passes", "none"], "routines"),
        (&["--materialize", "jp"], "schedules"),
    ];
    for (option, stage) in changes {
        let at = ["--stage", stage];
        assert_ne!(show(&bench, &at), show(&bench, &[&at, option].concat()), "{option:?}");
    }
    let double = show(&bench, &["--stage", "llvm", "--precision", "f64"]);
    assert!(!double.contains("x float>"), "float64 throughout");
    bench
        .sumsq(&["show", "energy.t", "--stage", "loops", "--backend", "cuda", "--target", "sm_75"])
        .succeeds();
    bench.sumsq(&["show", "energy.t", "--materialize", "soup=j"]).fails_with(2, "soup");
    for stage in ["llvm", "asm", "ptx"] {
        let line = ["show", "energy.t", "--stage", stage, "--max-instructions", "400"];
        bench.sumsq(&line).fails_with(2, "at most 33 may be compiled");
        bench.sumsq(&line).fails_with(2, "energy.t:");
        let line = ["show", "energy.t", "--stage", stage, "--max-compile-seconds", "0"];
        bench.sumsq(&line).fails_with(2, "compilation takes longer than 0 s");
        bench.sumsq(&line).fails_with(2, "energy.t:");
    }
}

#[test]
fn check_certifies_what_they_choose() {
    let bench = curve(8);
    let check =
        |more: &[&str]| bench.sumsq(&[&["check", "energy.t", "--inputs", "inputs.npz"], more].concat());
    for more in [
        &["--precision", "f64"][..],
        &["--preconditioner", "none"],
        &["--preconditioner", "jacobi"],
        &["--losses", "first_order"],
        &["--losses", "second_order"],
        &["--passes", "none"],
        &["--materialize", "j"],
        &["--materialize", "j+jp"],
    ] {
        check(more).succeeds();
    }
    for narrow in ["mixed", "f32"] {
        check(&["--precision", narrow]).fails_with(2, "use --precision f64");
    }
    check(&["--materialize", "soup=j"]).fails_with(2, "soup");
}

#[test]
fn sizes_of_inputs_are_shown() {
    let shown = show(&curve(5000), &["--inputs", "inputs.npz", "--stage", "schedules"]);
    for line in ["size      n0.0 = 5000\n", "size      strip.s0 = ", "size      streaming = 0\n", "# "] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    let longer = show(&curve(500_000), &["--inputs", "inputs.npz"]);
    let strip = |text: &str| text.lines().find(|l| l.contains("strip.s0")).unwrap().to_owned();
    assert_ne!(strip(&shown), strip(&longer), "strips grow with the list");
    assert!(longer.contains("unknown   X over {N}"));

    let bench = curve(8);
    bench.inputs(&[floats("X", &[3, 2], &[0.0; 6]), ints("N", &[], &[4])]);
    bench.sumsq(&["show", "energy.t", "--inputs", "inputs.npz"]).fails_with(2, "`N`");
    bench.sumsq(&["show", "energy.t", "--inputs", "absent.npz"]).fails_with(2, "absent.npz");
}
