//! Energies on a GPU, which is a stand-in that interprets the kernels: certified against the assembled path, and solved.

use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::{Backend, CompileOptions, Precision, ProblemData, SolveOptions, Solver};
use sumsq_tests::{Case, Random, assert_close, small};

/// Certifies a problem on the GPU, and holds three steps against those of the CPU.
#[track_caller]
fn agrees(energy: &Energy, data: &ProblemData) {
    sumsq_libcuda::preload().unwrap();
    let mut random = Random::new(11);
    let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
    let v = random.numbers(x.len());
    let compile = CompileOptions { precision: Precision::F64, ..CompileOptions::default() };
    let solve =
        SolveOptions { linear_tolerance: Some(1e-12), iterations: Some(3), ..SolveOptions::default() };
    let on = |target: Target| {
        let solver = Solver::compile_for(energy.clone(), &compile, target).unwrap();
        let mut plan = solver.plan(data).unwrap();
        let certificate = plan.certify(data, &x, &v).unwrap();
        assert!(certificate.passed(), "{:?}", certificate.failures());
        plan.solve(&mut data.clone(), &solve).unwrap().energy_final
    };
    let (cpu, gpu) = (on(Target::host()), on(Target::cuda(90)));
    assert!((cpu - gpu).abs() <= 1e-9 * cpu.abs(), "E = {gpu}, on the CPU {cpu}");
}

#[test]
fn every_construct() {
    for (name, (energy, data)) in small::all() {
        println!("{name}");
        agrees(&energy, &data);
    }
}

/// Solves a case on the GPU with the options of its test on the CPU, to its listed minimum within `within` of it.
fn minimum(name: &str, within: f64) {
    sumsq_libcuda::preload().unwrap();
    let case = Case::open(name);
    let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
    let solve = SolveOptions {
        iterations: Some(120),
        function_tolerance: Some(0.0),
        radius: case.radii().first().copied(),
        ..SolveOptions::default()
    };
    let solver = Solver::compile(case.energy.clone(), &compile).unwrap();
    let mut data = case.data();
    let report = solver.plan(&data).unwrap().solve(&mut data, &solve).unwrap();
    assert_close("initial energy", report.energy_initial, case.number("/energy_initial"), 1e-9);
    let (e, listed) = (report.energy_final, case.minimum());
    println!("{name}: E = {e:.9e} ({:+.1e}), {:?}", e / listed - 1.0, report.termination);
    assert!(e <= listed * (1.0 + within), "{name}: E = {e}, listed {listed}");
}

#[test]
fn image_warping() {
    minimum("image_warping_small", 1e-4);
}

#[test]
fn as_rigid_as_possible() {
    minimum("arap_hand", 1e-4);
}

#[test]
fn curve_fitting() {
    minimum("curveFitting_small", 1e-6);
}
