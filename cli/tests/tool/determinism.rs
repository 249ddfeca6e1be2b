//! Bits of results across processes: each has other addresses, and other numbers of threads are asked for.

use crate::bench::{Bench, doubles};

#[test]
fn processes_and_threads_do_not_change_a_bit() {
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
    let (w, h, n) = (61, 47, 301);
    let wave = |count: usize, step: f64| (0..count).map(|i| (i as f64 * step).sin()).collect::<Vec<f64>>();
    bench.inputs(&[
        doubles("X", &[h, w, 2], &wave(2 * w * h, 0.37)),
        doubles("Y", &[n], &wave(n, 0.11)),
        doubles("T", &[1], &[0.8]),
        doubles("A", &[h, w], &wave(w * h, 0.05)),
    ]);
    let solved = |more: &[&str]| {
        bench.solve(&[&["--output", "o.npz", "--iterations", "6"], more].concat()).succeeds();
        std::fs::read(bench.path("o.npz")).unwrap()
    };
    for precision in ["mixed", "f32", "f64"] {
        let expected = solved(&["--precision", precision, "--threads", "1"]);
        for threads in ["1", "2", "3", "7"] {
            let came = solved(&["--precision", precision, "--threads", threads]);
            assert!(came == expected, "{precision}, {threads} threads");
        }
    }
}
