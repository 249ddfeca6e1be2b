//! The linear solver on the reference cases: gain ratios of linear energies, numbers of PCG iterations.

use sumsq::{CompileOptions, Method, Options, Precision, Preconditioner, SolveOptions};
use sumsq_tests::{Case, solve};

/// The model of a linear energy is exact: the gain ratio is 1 at any radius, whatever PCG has reached.
fn gain_ratio(name: &str) {
    let case = Case::open(name);
    let mut judged = 0;
    for radius in [1e-3, 1.0, 1e4, 1e12] {
        let options = Options {
            compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
            solve: SolveOptions {
                radius: Some(radius),
                iterations: Some(20),
                function_tolerance: Some(0.0),
                ..SolveOptions::default()
            },
        };
        let report = solve(&case.energy, &mut case.data(), &options);
        let mut energy = report.energy_initial;
        for step in &report.iterations {
            let predicted = (energy - step.energy) / step.gain_ratio;
            if step.accepted && predicted >= 1e-8 * energy {
                assert!((step.gain_ratio - 1.0).abs() <= 1e-6, "{name}, radius {radius}: {step:?}");
                judged += 1;
            }
            assert!(step.accepted || predicted.is_nan() || predicted < 1e-8 * energy, "{name}: {step:?}");
            energy = step.energy;
        }
    }
    assert!(judged >= 8, "{name}: only {judged} steps were large enough to judge");
}

#[test]
fn gain_ratio_of_laplacian() {
    gain_ratio("laplacian");
}

#[test]
fn gain_ratio_of_poisson() {
    gain_ratio("poisson_image_editing_small");
}

/// Iterations of Jacobi-PCG on the first Gauss-Newton system, to relative residuals of 1e-9 and 1e-12, within 5 percent.
fn iterations(name: &str, expected: [usize; 2]) {
    let case = Case::open(name);
    for (tau, expected) in [1e-9, 1e-12].into_iter().zip(expected) {
        let options = Options {
            compile: CompileOptions {
                preconditioner: Preconditioner::Jacobi,
                precision: Precision::F64,
                ..CompileOptions::default()
            },
            solve: SolveOptions {
                method: Method::GaussNewton,
                iterations: Some(1),
                linear_tolerance: Some(tau),
                ..SolveOptions::default()
            },
        };
        let report = solve(&case.energy, &mut case.data(), &options);
        let came = report.linear_iterations_total;
        println!("{name}: {came} iterations to {tau:e}, {expected} expected");
        assert!(came.abs_diff(expected) as f64 <= 0.05 * expected as f64, "{name}: {came}, not {expected}");
        assert!(report.iterations[0].linear_residual <= tau);
    }
}

macro_rules! cases {
    ($($test:ident $name:literal $expected:expr),* $(,)?) => { mod iterations { $(
        #[test]
        fn $test() { super::iterations($name, $expected); }
    )* } };
}

cases! {
    laplacian "laplacian" [117, 163],
    poisson_image_editing_small "poisson_image_editing_small" [85, 103],
    volumetric_mesh_deformation "volumetric_mesh_deformation" [131, 158],
    image_warping_small "image_warping_small" [397, 553],
    arap_hand "arap_hand" [175, 210],
    shape_from_shading_small "shape_from_shading_small" [975, 1358],
    optical_flow_flower "optical_flow_flower" [304, 373],
}
