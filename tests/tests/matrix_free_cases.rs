//! The matrix-free path against the expected figures of the reference cases.

use sumsq::{CompileOptions, Method, Options, Precision, SolveOptions, Solver};
use sumsq_tests::{Case, assert_close};

fn exact_gauss_newton(name: &str, precision: Precision) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let case = Case::open(name);
    let tau = if precision == Precision::F64 { 1e-12 } else { 1e-9 };
    let expected = case.numbers("gn_energies");
    let drift = case.numbers("gn_energies_float32_rel_change");
    let options = Options {
        compile: CompileOptions { precision, ..CompileOptions::default() },
        solve: SolveOptions {
            method: Method::GaussNewton,
            iterations: Some(expected.len() - 1),
            linear_tolerance: Some(tau),
            linear_iterations: Some(20_000),
            ..SolveOptions::default()
        },
    };
    let solver = Solver::compile(case.energy.clone(), &options.compile).unwrap();
    let mut data = case.data();
    let mut problem = solver.plan(&data).unwrap();
    let report = problem.solve(&mut data, &options.solve).unwrap();
    let mut came = vec![report.energy_initial];
    came.extend(report.iterations.iter().map(|i| i.energy));
    (came, expected, drift)
}

fn f64_trace(name: &str) {
    let (came, expected, _) = exact_gauss_newton(name, Precision::F64);
    assert_close("initial energy", came[0], expected[0], 1e-9);
    for (i, (c, e)) in came.iter().zip(&expected).enumerate().skip(1) {
        assert_close(&format!("{name}: energy after step {i}"), *c, *e, 1e-6);
    }
}

fn f32_trace(name: &str) {
    let (came, expected, drift) = exact_gauss_newton(name, Precision::F32);
    assert_close("initial energy", came[0], expected[0], 2e-6);
    for i in 1..expected.len().min(4) {
        let bound = (1e-4 + 10.0 * drift[i]) * expected[i] + 1e-9 * expected[0];
        assert!((came[i] - expected[i]).abs() <= bound, "{name}, step {i}: {} for {}", came[i], expected[i]);
    }
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => { $( mod $name {
        #[test]
        fn exact_steps_f64() { super::f64_trace(stringify!($name)); }
        #[test]
        fn exact_steps_f32() { super::f32_trace(stringify!($name)); }
    } )* };
}
#[allow(non_snake_case)]
mod all {
    use super::*;
    cases!(
        laplacian_small,
        laplacian,
        poisson_image_editing_small,
        image_warping_small,
        curveFitting_small,
        curveFitting,
        arap_hand,
        volumetric_mesh_deformation,
        shape_from_shading_small,
        optical_flow_flower
    );
}
