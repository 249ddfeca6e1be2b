//! PCG as a loop that the device runs by itself, in pieces of several lengths, and as one that the host runs: the same bits.

use super::Extent;
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{Backend, CompileOptions, SolveOptions, Solver};
use sumsq_tests::{Case, bits};

/// Turns between two looks of the host; with 0 the host loops.
const TURNS: [usize; 4] = [64, 2, 1 << 20, 0];

/// Steps of a solve.
const STEPS: usize = 4;

pub fn loops(extent: Extent) {
    let device = Device::shared(0).unwrap_or_else(|e| panic!("{e}"));
    if !device.has_loops() {
        println!("this driver's graphs hold no loops");
        return;
    }
    for name in &["laplacian_small", "image_warping_small", "poisson_image_editing_small"][..extent.of(3, 2)]
    {
        let mut all = TURNS.map(|turns| {
            device.set_loop_turns(turns);
            let before = device.counts();
            let solved = solved(name);
            let after = device.counts();
            let (launches, waits) = (after.launches - before.launches, after.waits - before.waits);
            let graphs = after.graphs - before.graphs;
            println!(
                "{name}, {turns} turns: {} PCG iterations, {launches} launches, {graphs} graphs, {waits} waits",
                solved.0
            );
            // Either way of the exchanges, for all steps: what differs between them lies in memory.
            assert!(graphs <= 2, "{name}, {turns} turns: {graphs} graphs for {STEPS} steps");
            (solved, launches)
        });
        assert!(all[0].0.0 > 8, "{name}: {} PCG iterations", all[0].0.0);
        assert!(all[0].1 < all[3].1, "{name}: the device loops by itself");
        let host = all[3].0.clone();
        for (turns, (by_device, _)) in TURNS.iter().zip(&mut all) {
            assert!(*by_device == host, "{name}, {turns} turns: {by_device:?}, the host {host:?}");
        }
    }
}

/// Iterations, the final energy and the bits of the unknowns.
fn solved(name: &str) -> (usize, f64, Vec<u64>) {
    let case = Case::open(name);
    let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
    let solve = SolveOptions { iterations: Some(STEPS), ..SolveOptions::default() };
    let solver = Solver::compile(case.energy.clone(), &compile).unwrap_or_else(|e| panic!("{e}"));
    let mut data = case.data();
    let mut problem = solver.plan(&data).unwrap_or_else(|e| panic!("{e}"));
    let report = problem.solve(&mut data, &solve).unwrap_or_else(|e| panic!("{e}"));
    (report.linear_iterations_total, report.energy_final, bits(&data))
}
