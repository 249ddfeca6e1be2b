//! Small problems of every construct: certified against the assembled path, and solved as on the CPU.

use super::Extent;
use std::panic::{AssertUnwindSafe, catch_unwind};
use sumsq::codegen::Target;
use sumsq::energy::Energy;
use sumsq::{
    Backend, CompileOptions, Precision, Preconditioner, ProblemData, SolveError, SolveOptions, Solver,
};
use sumsq_tests::{Random, small};

pub fn constructs(_: Extent) {
    let mut wrong = vec![];
    for (name, (energy, data)) in small::all().into_iter().chain([("hub", small::hub())]) {
        println!("{name}");
        if catch_unwind(AssertUnwindSafe(|| agrees(&energy, &data))).is_err() {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "wrong: {}", wrong.join(", "));
}

/// Certifies a problem on the device, and holds three steps against those of the CPU; with every preconditioner that it can have.
fn agrees(energy: &Energy, data: &ProblemData) {
    for preconditioner in [Preconditioner::Auto, Preconditioner::Multigrid, Preconditioner::Aggregation] {
        agrees_with(preconditioner, energy, data);
    }
}

fn agrees_with(preconditioner: Preconditioner, energy: &Energy, data: &ProblemData) {
    let mut random = Random::new(11);
    let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
    let v = random.numbers(x.len());
    let compile = CompileOptions { precision: Precision::F64, preconditioner, ..CompileOptions::default() };
    let compiled = |target: Target| Solver::compile_for(energy.clone(), &compile, target);
    let on_cpu = match compiled(Target::host()) {
        Err(SolveError::Option(_)) => return,
        on_cpu => on_cpu.unwrap(),
    };
    let solve =
        SolveOptions { linear_tolerance: Some(1e-12), iterations: Some(3), ..SolveOptions::default() };
    let end = |solver: Solver| {
        let mut plan = solver.plan(data).unwrap();
        let certificate = plan.certify(data, &x, &v).unwrap();
        assert!(certificate.passed(), "{:?}", certificate.failures());
        plan.solve(&mut data.clone(), &solve).unwrap().energy_final
    };
    let device = CompileOptions { backend: Backend::Cuda, ..compile.clone() }.machine().unwrap();
    let (cpu, gpu) = (end(on_cpu), end(compiled(device).unwrap()));
    assert!((cpu - gpu).abs() <= 1e-9 * cpu.abs(), "E = {gpu}, on the CPU {cpu}");
}
