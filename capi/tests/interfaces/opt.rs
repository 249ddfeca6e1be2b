//! The published interface.

use crate::support::*;
use sumsq::{CompileOptions, Method, Options, Precision, SolveOptions};

/// A quadratic energy with a weight, and numbers of many widths.
const WIDTHS: &str = r#"
    local N = Dim("N", 0)
    local X = Unknown("X", float2, {N}, 0)
    local B = Array("B", uint8, {N}, 1)
    local S = Array("S", int16, {N}, 2)
    local D = Array("D", double, {N}, 3)
    local O = Array("O", opt_float, {N}, 4)
    local w = Param("w", opt_float, 5)
    local k = Param("k", int, 6)
    local f = Param("f", float2, 7)
    Energy(w * (X(0, 0) - B(0)), k * (X(0, 1) - S(0)))
    Energy(X(0, 0) - X(1, 0) - D(0), X(0, 1) - X(1, 1) - O(0))
    Energy(f(0) * X(0, 0) + f(1) * X(0, 1))
"#;

/// One step that minimises a quadratic energy.
fn exact() -> Options {
    Options {
        compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
        solve: SolveOptions {
            method: Method::GaussNewton,
            iterations: Some(1),
            linear_iterations: Some(400),
            forcing: 0.0,
            ..SolveOptions::default()
        },
    }
}

#[test]
fn declared_widths_decide_what_is_read() {
    let energy = file(WIDTHS);
    let b = [0u8, 255, 3, 128, 7];
    let s = [-300i16, 2, 17, 32767, -1];
    let d = [0.125, -1e-3, 3.5, 1.0 / 3.0, 0.0];
    let o = [1.5, -2.25, 0.5, 8.0, 4.0];
    let arrays = [
        floats("X", &[5, 2], &[0.5; 10]),
        integers("B", &[5], &b.map(i64::from)),
        integers("S", &[5], &s.map(i64::from)),
        floats("D", &[5], &d),
        floats("O", &[5], &o),
        floats("w", &[], &[0.75]),
        integers("k", &[], &[-3]),
        floats("f", &[2], &[0.5, 0.25]),
    ];
    let (report, expected) = rust(&energy.path, &arrays, &exact());

    for double in [true, false] {
        let opt = Opt::new(&energy.path, "gaussNewtonGPU", double, &[5]);
        // The unknown is declared float in both; opt_float follows the state. One guard number after the unknown's.
        let x = Memory::new(&[0.5f32; 11]);
        let (o64, w64) = (Memory::new(&o), Memory::new(&[0.75f64]));
        let (o32, w32) = (Memory::new(&o.map(|v| v as f32)), Memory::new(&[0.75f32]));
        let (b, s, d) = (Memory::new(&b), Memory::new(&s), Memory::new(&d));
        let (k, f) = (Memory::new(&[-3i32]), Memory::new(&[0.5f32, 0.25]));
        let (o, w) = if double { (o64.at(), w64.at()) } else { (o32.at(), w32.at()) };
        let mut table = [x.at(), b.at(), s.at(), d.at(), o, w, k.at(), f.at()];
        opt.int("nIterations", 1);
        opt.int("lIterations", 400);
        opt.init(&mut table);
        close(opt.cost(), report.energy_initial / 2.0, 1e-14);
        assert_eq!(opt.step(&mut table), 1);
        assert_eq!(opt.step(&mut table), 0);
        close(opt.cost(), report.energy_final / 2.0, 1e-10);
        for (came, expected) in x.get().into_iter().zip(&expected[0]) {
            close(f64::from(came), *expected, if double { 1e-7 } else { 1e-5 });
        }
        assert_eq!(x.get()[10], 0.5);
    }
}

/// A weight changes between two steps: the next step minimises the new energy, and nothing is compiled or planned again.
#[test]
fn a_changed_weight_is_seen_by_the_next_step() {
    const SMOOTH: &str = r#"
        local W, H = Dim("W", 1), Dim("H", 0)
        local w = Param("w", float, 0)
        local A = Array("A", opt_float, {W, H}, 1)
        local X = Unknown("X", opt_float, {W, H}, 2)
        Energy(w * (X(0, 0) - A(0, 0)), X(0, 0) - X(1, 0), X(0, 0) - X(0, 1))
    "#;
    let energy = file(SMOOTH);
    let image: Vec<f64> = (0..12 * 7).map(|i| f64::from((i * 37) % 19)).collect();
    // Positions of the dims: H is 0, W is 1.
    let opt = Opt::new(&energy.path, "gaussNewtonGPU", true, &[7, 12]);
    opt.int("nIterations", 3);
    opt.int("lIterations", 400);
    let (w, a, x) = (Memory::new(&[0.5f32]), Memory::new(&image), Memory::new(&[0.0f64; 84]));
    let mut table = [w.at(), a.at(), x.at()];
    opt.init(&mut table);
    for weight in [0.5f32, 2.0, 0.125] {
        w.set(0, weight);
        assert_eq!(opt.step(&mut table), 1);
        let arrays = [
            floats("w", &[], &[f64::from(weight)]),
            floats("A", &[7, 12], &image),
            floats("X", &[7, 12], &[0.0; 84]),
        ];
        let (report, expected) = rust(&energy.path, &arrays, &exact());
        close(opt.cost(), report.energy_final / 2.0, 1e-10);
        x.get().iter().zip(&expected[0]).for_each(|(came, expected)| close(*came, *expected, 1e-8));
    }
    assert_eq!(opt.step(&mut table), 0);
    // More steps are allowed while the solve goes on.
    opt.int("nIterations", 4);
    assert_eq!(opt.step(&mut table), 1);
}

/// r = 3 (x - a): one step of LM under D = clamp(9, 9 min, 9 max) / R, by hand.
#[test]
fn the_lm_diagonal_is_clamped() {
    let energy = file(
        "local N = Dim(\"N\", 0)\nlocal X = Unknown(\"X\", opt_float, {N}, 0)\n\
         local A = Array(\"A\", opt_float, {N}, 1)\nEnergy(3 * (X(0) - A(0)))",
    );
    for (name, value, clamped) in [("min_lm_diagonal", 2.0f32, 2.0), ("max_lm_diagonal", 0.25, 0.25)] {
        let opt = Opt::new(&energy.path, "LMGPU", true, &[2]);
        let (x, a) = (Memory::new(&[0.0f64; 2]), Memory::new(&[1.0f64, -2.0]));
        let mut table = [x.at(), a.at()];
        opt.float("trust_region_radius", 4.0);
        opt.float("q_tolerance", 0.0);
        opt.float(name, value);
        opt.init(&mut table);
        close(opt.cost(), 22.5, 1e-14);
        opt.step(&mut table);
        let left: f64 = 1.0 - 9.0 / (9.0 + clamped * 9.0 / 4.0);
        close(opt.cost(), 22.5 * left * left, 1e-10);
    }
}

/// Other memory and other edges between two steps, an index space of two dims.
#[test]
fn graphs_and_pointers_are_read_again() {
    const GRID: &str = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W, H}, 0)
        local G = Graph("G", 1, "a", {W, H}, 2, "b", {W, H}, 3)
        Energy(0.5 * (X(0, 0) - 1))
        Energy(X(G.a) - X(G.b) - 2)
    "#;
    let energy = file(GRID);
    let opt = Opt::new(&energy.path, "gaussNewtonGPU", true, &[3, 2]);
    opt.int("lIterations", 100);
    let x = Memory::new(&[0.0f64; 6]);
    let check = |a: &[i32], b: &[i32], first: bool| {
        let (count, va, vb) = (Memory::new(&[(a.len() / 2) as i32]), Memory::new(a), Memory::new(b));
        let mut table = [x.at(), count.at(), va.at(), vb.at()];
        if first {
            opt.init(&mut table);
        }
        assert_eq!(opt.step(&mut table), 1, "{}", last_error());
        let wide = |v: &[i32]| v.iter().map(|&v| v.into()).collect::<Vec<i64>>();
        let edges = a.len() / 2;
        let arrays = [
            floats("X", &[2, 3], &[0.0; 6]),
            integers("G.a", &[edges, 2], &wide(a)),
            integers("G.b", &[edges, 2], &wide(b)),
        ];
        let (report, expected) = rust(&energy.path, &arrays, &exact());
        close(opt.cost(), report.energy_final / 2.0, 1e-12);
        x.get().iter().zip(&expected[0]).for_each(|(came, expected)| close(*came, *expected, 1e-10));
    };
    check(&[0, 0, 2, 1], &[1, 0, 0, 1], true);
    check(&[0, 0, 2, 1, 1, 1], &[1, 0, 0, 1, 2, 0], false);
    check(&[1, 0], &[2, 1], false);
}

/// The caller's floats hold the state rounded; as long as it leaves them alone the solve runs on its own.
#[test]
fn rounding_of_the_callers_floats_does_not_disturb_the_solve() {
    let energy = example("curveFitting.t");
    let n = 64;
    let points: Vec<f64> =
        (0..n).flat_map(|i| [f64::from(i) / 16.0, f64::from((i * 29) % 7) / 4.0]).collect();
    let (count, d) = (Memory::new(&[n]), Memory::new(&(0..n).collect::<Vec<i32>>()));
    let p = Memory::new(&vec![0i32; n as usize]);
    let arrays = [
        floats("funcParams", &[1, 2], &[1.25, 0.75]),
        floats("data", &[n as usize, 2], &points),
        integers("G.d", &[n as usize], &(0..i64::from(n)).collect::<Vec<_>>()),
        integers("G.p", &[n as usize], &vec![0; n as usize]),
    ];
    let options = Options {
        compile: CompileOptions { precision: Precision::Mixed, ..CompileOptions::default() },
        solve: SolveOptions {
            method: Method::LevenbergMarquardt,
            iterations: Some(8),
            linear_iterations: Some(10),
            forcing: f64::from(1e-4f32),
            function_tolerance: Some(0.0),
            ..SolveOptions::default()
        },
    };
    let (report, unknowns) = rust(&energy, &arrays, &options);

    let opt = Opt::new(&energy, "LMGPU", false, &[n as u32, 1]);
    opt.int("nIterations", 8);
    opt.float("function_tolerance", 0.0);
    opt.float("q_tolerance", 1e-4);
    let x = Memory::new(&[1.25f32, 0.75]);
    let points = Memory::new(&points.iter().map(|&v| v as f32).collect::<Vec<f32>>());
    let mut table = [x.at(), points.at(), count.at(), d.at(), p.at()];
    opt.solve(&mut table);
    assert_eq!(opt.cost(), report.energy_final / 2.0);
    assert_eq!(x.get(), [unknowns[0][0] as f32, unknowns[0][1] as f32]);

    // A new solve starts where the last one ended, to the bit; a value that the caller writes counts.
    let before = opt.cost();
    opt.int("nIterations", 0);
    opt.init(&mut table);
    assert_eq!(opt.cost(), before);
    x.set(0, 9.0);
    opt.init(&mut table);
    assert!(opt.cost() > before);
    assert_eq!(opt.step(&mut table), 0);
    assert_eq!(x.get()[0], 9.0);
}

/// The excluded elements may change between two steps.
#[test]
fn a_changed_mask_is_seen_by_the_next_step() {
    const MASKED: &str = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local M = Array("M", uint8, {N}, 1)
        Exclude(M(0))
        Energy(X(0) - 3)
    "#;
    let energy = file(MASKED);
    let opt = Opt::new(&energy.path, "gaussNewtonGPU", true, &[4]);
    let (x, m) = (Memory::new(&[0.0f64; 4]), Memory::new(&[1u8, 0, 1, 0]));
    let mut table = [x.at(), m.at()];
    opt.init(&mut table);
    opt.step(&mut table);
    assert_eq!(x.get(), [0.0, 3.0, 0.0, 3.0]);
    x.put(&[5.0, 6.0, 7.0, 8.0]);
    m.put(&[0, 1, 1, 0]);
    opt.step(&mut table);
    assert_eq!(x.get(), [3.0, 6.0, 7.0, 3.0]);
    assert_eq!(opt.cost(), 0.0);
}

/// LM ends by itself: that step returns 0.
#[test]
fn lm_ends_at_a_tolerance() {
    let energy = example("laplacian.t");
    let opt = Opt::new(&energy, "LMGPU", true, &[8, 8]);
    opt.int("nIterations", 100);
    opt.int("lIterations", 200);
    let (x, a) = (Memory::new(&[0.0f64; 64]), Memory::new(&(0..64).map(f64::from).collect::<Vec<_>>()));
    let mut table = [x.at(), a.at()];
    opt.init(&mut table);
    let steps = (0..).take_while(|_| opt.step(&mut table) == 1).count();
    assert!(steps < 20, "{steps} steps");
    assert_eq!(opt.step(&mut table), 0);
}

/// A constant view has its unknown's position and a global no dims: neither takes anything of its own from the caller.
#[test]
fn views_and_globals() {
    const LAGGED: &str = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local V = Array("V", opt_float, {N}, 0)
        local T = Unknown("T", opt_float2, {}, 1)
        local A = Array("A", opt_float, {N}, 2)
        Energy(X(0) + T(0) - A(0), X(0) - 0.5 * V(0), T(0) - 2, T(1) - X(0))
    "#;
    let energy = file(LAGGED);
    let opt = Opt::new(&energy.path, "gaussNewtonGPU", true, &[3]);
    opt.int("nIterations", 3);
    opt.int("lIterations", 100);
    let (x, t, a) =
        (Memory::new(&[1.0f64, 2.0, 3.0]), Memory::new(&[0.0f64, 0.0]), Memory::new(&[4.0f64, 5.0, 7.0]));
    let mut table = [x.at(), t.at(), a.at()];
    opt.init(&mut table);
    assert!(!opt.cost().is_nan(), "{}", last_error());
    let arrays = [
        floats("X", &[3], &[1.0, 2.0, 3.0]),
        floats("T", &[2], &[0.0; 2]),
        floats("A", &[3], &[4.0, 5.0, 7.0]),
    ];
    let options = |iterations| Options {
        solve: SolveOptions { iterations: Some(iterations), linear_iterations: Some(100), ..exact().solve },
        ..exact()
    };
    for steps in 1..=3 {
        assert_eq!(opt.step(&mut table), 1, "{}", last_error());
        let (report, expected) = rust(&energy.path, &arrays, &options(steps));
        assert_eq!(opt.cost(), report.energy_final / 2.0);
        assert_eq!([x.get(), t.get()].as_slice(), expected);
    }
    // The view is refreshed where a program changes its unknown.
    let cost = |x: &[f64; 3], t: &[f64; 2]| {
        let over_n = x
            .iter()
            .zip([4.0, 5.0, 7.0])
            .map(|(x, a)| [x + t[0] - a, 0.5 * x, t[1] - x].map(|r| r * r).iter().sum::<f64>());
        // `T(0) - 2` reads the global alone: it is there once.
        (over_n.sum::<f64>() + (t[0] - 2.0).powi(2)) / 2.0
    };
    x.put(&[8.0, -1.0, 0.25]);
    t.put(&[0.5, 3.0]);
    opt.init(&mut table);
    close(opt.cost(), cost(&[8.0, -1.0, 0.25], &[0.5, 3.0]), 1e-14);
}
