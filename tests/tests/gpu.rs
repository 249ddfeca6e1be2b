//! Energies on a GPU, which is a stand-in that interprets the kernels: certified against the assembled path, and solved.

use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::{CompileOptions, Precision, ProblemData, SolveOptions, Solver};
use sumsq_tests::{Random, small};

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
