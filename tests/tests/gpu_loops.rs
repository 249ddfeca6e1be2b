//! PCG as a loop that the device runs by itself, and as one that the host runs: the same bits.

use sumsq::{Backend, CompileOptions, SolveOptions, Solver};
use sumsq_tests::{Case, bits};

/// Iterations, the final energy and the bits of the unknowns.
fn solved(name: &str) -> (usize, f64, Vec<u64>) {
    let case = Case::open(name);
    let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
    let solve = SolveOptions { iterations: Some(4), ..SolveOptions::default() };
    let solver = Solver::compile(case.energy.clone(), &compile).unwrap();
    let mut data = case.data();
    let report = solver.plan(&data).unwrap().solve(&mut data, &solve).unwrap();
    let iterations = report.iterations.iter().map(|i| i.linear_iterations).sum();
    (iterations, report.energy_final, bits(&data))
}

#[test]
fn the_device_and_the_host_loop_alike() {
    let control = sumsq_libcuda::preload().unwrap();
    for name in ["laplacian_small", "poisson_image_editing_small", "image_warping_small"] {
        control.set("DRIVER_VERSION", "12040");
        control.reset_counters();
        let by_device = solved(name);
        let few = control.counters().launches;
        // Graphs of older drivers hold no loops.
        control.set("DRIVER_VERSION", "12030");
        control.reset_counters();
        let by_host = solved(name);
        assert_eq!(by_device, by_host, "{name}");
        println!(
            "{name}: {} PCG iterations, {few} launches with loops, {} without",
            by_host.0,
            control.counters().launches
        );
        assert!(by_host.0 > 8, "{name}: {} PCG iterations", by_host.0);
    }
}
