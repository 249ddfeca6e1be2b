//! Schedules for vectors of any width, whatever those of the processor: certified against the assembled path.

use sumsq::codegen::Target;
use sumsq::{CompileLimits, CompileOptions, Precision, SolveOptions, Solver};
use sumsq_tests::{Random, made_fast, small};

const LANES: [i32; 4] = [4, 8, 16, 32];

/// Widths differ in the statements that LLVM is given: it optimises one of them.
fn options(lanes: i32, precision: Precision) -> CompileOptions {
    let limits = if lanes == 16 { CompileLimits::default() } else { made_fast() };
    CompileOptions { limits, precision, ..CompileOptions::default() }
}

#[test]
fn routines_are_the_same_for_all_lanes() {
    for (name, (energy, data)) in small::all() {
        let mut random = Random::new(5);
        let x: Vec<f64> = data.x().iter().map(|x| x + 0.1 * random.number()).collect();
        let v = random.numbers(x.len());
        for lanes in LANES {
            let options = options(lanes, Precision::F64);
            let target = Target::host().with_lanes(lanes);
            let solver = Solver::compile_for(energy.clone(), &options, target).unwrap();
            let certificate = solver.plan(&data).unwrap().certify(&data, &x, &v).unwrap();
            assert!(certificate.passed(), "{name}, {lanes} lanes: {:?}", certificate.failures());
        }
    }
}

#[test]
fn solves_end_at_the_same_energy_for_all_lanes() {
    for (name, (energy, data)) in small::all() {
        let mut first = None;
        for lanes in LANES {
            let options = options(lanes, Precision::default());
            let limits = SolveOptions { iterations: Some(3), ..SolveOptions::default() };
            let limits = SolveOptions { linear_tolerance: Some(1e-7), ..limits };
            let target = Target::host().with_lanes(lanes);
            let solver = Solver::compile_for(energy.clone(), &options, target).unwrap();
            let mut problem = solver.plan(&data).unwrap();
            let report = problem.solve(&mut data.clone(), &limits).unwrap();
            let e = *first.get_or_insert(report.energy_final);
            let off = (report.energy_final - e).abs();
            assert!(off <= 1e-4 * e, "{name}, {lanes} lanes: E = {} and {e}", report.energy_final);
        }
    }
}
