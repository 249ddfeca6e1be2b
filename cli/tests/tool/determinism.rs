//! Bits of results across processes: each has other addresses, and other numbers of threads are asked for.

use crate::bench::{Bench, doubles};
use std::process::Command;

fn problem() -> Bench {
    let bench = Bench::new(
        r#"
local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
local X = Unknown("X", opt_float2, {W, H}, 0)
local Y = Unknown("Y", opt_float, {N}, 1)
local T = Unknown("T", opt_float, {}, 2)
local A = Array("A", opt_float, {W, H}, 3)
Energy(X(0, 0, 0) * T() - A(0, 0), sin(X(0, 0, 1)) - X(1, 0, 0) * A(0, 0), 0.3 * (X(0, 0) - X(0, 1)))
Residual{name="robust", loss=Cauchy(0.3), exp(Y(0)) * T() - 1.5, Y(0) - 0.5 * Y(1)}
"#,
    );
    // Sums are those of several strips.
    let (w, h, n) = (131, 257, 20_001);
    let wave = |count: usize, step: f64| (0..count).map(|i| (i as f64 * step).sin()).collect::<Vec<f64>>();
    bench.inputs(&[
        doubles("X", &[h, w, 2], &wave(2 * w * h, 0.37)),
        doubles("Y", &[n], &wave(n, 0.11)),
        doubles("T", &[1], &[0.8]),
        doubles("A", &[h, w], &wave(w * h, 0.05)),
    ]);
    bench
}

const ENDS: [&str; 4] = ["--output", "o.npz", "--iterations", "6"];

/// The bytes of the unknowns.
fn solved(bench: &Bench, more: &[&str]) -> Vec<u8> {
    bench.solve(&[&ENDS[..], more].concat()).succeeds();
    std::fs::read(bench.path("o.npz")).unwrap()
}

#[test]
fn processes_and_threads_do_not_change_a_bit() {
    let bench = problem();
    for precision in ["mixed", "f32", "f64"] {
        let expected = solved(&bench, &["--precision", precision, "--threads", "1"]);
        for threads in ["1", "2", "3", "7"] {
            let came = solved(&bench, &["--precision", precision, "--threads", threads]);
            assert!(came == expected, "{precision}, {threads} threads");
        }
    }
}

/// Addresses without and with their randomisation, arrays on the heap and in pages of their own, a heap and a stack that begin elsewhere.
#[test]
fn address_layouts_do_not_change_a_bit() {
    let bench = problem();
    let heap = "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.top_pad=123457";
    let pages = "glibc.malloc.mmap_threshold=4096:glibc.malloc.perturb=165";
    let tunables = |text| format!("GLIBC_TUNABLES={text}");
    let stack = |bytes: usize| format!("MOVES_THE_STACK={}", "x".repeat(bytes));
    let layouts = [tunables(heap), tunables(pages), stack(1), stack(99), stack(70_001)];
    // Some sandboxes forbid the first.
    let fixed: &[&str] = &["setarch", "-R"];
    let is_there = Command::new("setarch").args(["-R", "true"]).status().is_ok_and(|s| s.success());
    let starts = if is_there { vec![&[][..], fixed] } else { vec![&[][..]] };
    for precision in ["mixed", "f32", "f64"] {
        let more = ["--precision", precision, "--threads", "3"];
        let expected = solved(&bench, &more);
        for start in &starts {
            for layout in &layouts {
                let tool = [&["env", layout.as_str()], *start, &[env!("CARGO_BIN_EXE_sumsq")]].concat();
                bench.solve_by(&tool, &[&ENDS[..], &more].concat()).succeeds();
                let came = std::fs::read(bench.path("o.npz")).unwrap();
                assert!(came == expected, "{precision}, {start:?}, {}", &layout[..layout.len().min(60)]);
            }
        }
    }
}

/// Code of a level has its features and no others, whatever this machine has; each process computes the same bits with it.
#[test]
fn a_level_is_the_same_in_every_process() {
    let bench = problem();
    let mut results = vec![];
    for (level, has, lacks) in
        [("x86-64-v2", "+sse4.2", "avx"), ("x86-64-v3", "+fma", "avx512"), ("x86-64-v4", "+avx512vl", "amx")]
    {
        let shown = bench.sumsq(&["show", "energy.t", "--stage", "llvm", "--target", level]);
        shown.succeeds();
        let of_functions = |key: &str| -> Vec<String> {
            let attributes = shown.stdout.lines().filter(|l| l.starts_with("attributes #"));
            let values =
                attributes.filter_map(|l| l.split(&format!("\"{key}\"=\"")).nth(1)?.split('"').next());
            values.map(str::to_owned).collect()
        };
        let (names, features) = (of_functions("target-cpu"), of_functions("target-features"));
        assert!(!names.is_empty() && names.iter().all(|n| n == level), "{level}: {names:?}");
        assert!(features.iter().all(|f| f.contains(has) && !f.contains(lacks)), "{level}: {features:?}");
        let run = bench.solve(&["--output", "o.npz", "--target", level]);
        if level == "x86-64-v4" && run.code == Some(3) {
            run.fails_with(3, "this machine is no x86-64-v4");
            continue;
        }
        let expected = solved(&bench, &["--target", level, "--threads", "1"]);
        assert!(solved(&bench, &["--target", level, "--threads", "3"]) == expected, "{level}");
        results.push(expected);
    }
    assert!(results.windows(2).all(|pair| pair[0] != pair[1]), "lanes and fused operations differ");
    bench.sumsq(&["show", "energy.t", "--target", "x86-64-v9"]).fails_with(2, "x86-64-v9");
}
