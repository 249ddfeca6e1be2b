//! PCG as a loop that the device runs by itself, as while nodes of several lengths and in chunks, and as one that the host runs: the same bits,
//! and one wait of the host a step.

use super::Extent;
use crate::ways::Way;
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{Backend, CompileOptions, SolveOptions, Solver};
use sumsq_tests::{Case, bits};

const WAYS: [Way; 5] = [Way::Host, Way::Chunks, Way::Kernel, Way::While(2), Way::While(usize::MAX)];

/// Steps of a solve, and of a longer one.
const STEPS: [usize; 2] = [2, 3];

pub fn loops(extent: Extent) {
    let device = Device::shared(0).unwrap_or_else(|e| panic!("{e}"));
    let names = ["laplacian_small", "arap_hand", "image_warping_small", "poisson_image_editing_small"];
    for name in &names[..extent.of(4, 2)] {
        let case = Case::open(name);
        let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
        let solver = Solver::compile(case.energy.clone(), &compile).unwrap_or_else(|e| panic!("{e}"));
        let mut by_host = None;
        for how in WAYS {
            if !how.is_there(&device) {
                println!("this driver's graphs hold no loops");
                continue;
            }
            how.choose(&device);
            let before = device.counts();
            let solved = solved(&solver, &case, STEPS[0]);
            let after = device.counts();
            let [launches, graphs] = [after.launches - before.launches, after.graphs - before.graphs];
            println!("{name} by {how}: {solved}, {launches} launches, {graphs} graphs");
            assert!(solved.iterations > 8, "{name}: {} PCG iterations", solved.iterations);
            let (host, most) = by_host.get_or_insert_with(|| (solved.clone(), launches));
            assert!(solved.same(host), "{name} by {how}: {solved}, the host {host}");
            if how != Way::Host {
                assert!(launches < *most, "{name} by {how}: the device loops by itself");
                // Either way of the exchanges, for all steps: what differs between them lies in memory.
                assert!(graphs <= 2, "{name} by {how}: {graphs} graphs for {} steps", STEPS[0]);
                assert_eq!(graphs == 0, how == Way::Kernel, "{name} by {how}: {graphs} graphs");
            }
            if how == Way::While(usize::MAX) {
                let longer = self::solved(&solver, &case, STEPS[1]);
                let more = longer.steps - solved.steps;
                assert!(more > 0, "{name}: {} steps", longer.steps);
                let waits = longer.waits_in_steps - solved.waits_in_steps;
                assert_eq!(waits, more as u64, "{name}: waits of {more} more steps");
            }
        }
    }
}

/// Outcome of a solve.
#[derive(Clone)]
struct Solved {
    steps: usize,
    /// Of PCG.
    iterations: usize,
    energy: f64,
    /// Bits of the unknowns.
    x: Vec<u64>,
    waits: u64,
    /// As if a linearisation followed the last step, which waits.
    waits_in_steps: u64,
}

impl Solved {
    fn same(&self, other: &Solved) -> bool {
        let of = |s: &Solved| (s.steps, s.iterations, s.energy.to_bits());
        of(self) == of(other) && self.x == other.x
    }
}

impl std::fmt::Display for Solved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Solved { steps, iterations, energy, waits, .. } = self;
        write!(f, "E = {energy:e} after {steps} steps, {iterations} PCG iterations, {waits} waits")
    }
}

fn solved(solver: &Solver, case: &Case, steps: usize) -> Solved {
    let solve =
        SolveOptions { iterations: Some(steps), function_tolerance: Some(0.0), ..SolveOptions::default() };
    let mut data = case.data();
    let mut problem = solver.plan(&data).unwrap_or_else(|e| panic!("{e}"));
    let report = problem.solve(&mut data, &solve).unwrap_or_else(|e| panic!("{e}"));
    Solved {
        steps: report.iterations.len(),
        iterations: report.linear_iterations_total,
        energy: report.energy_final,
        x: bits(&data),
        waits: report.waits,
        waits_in_steps: report.waits + u64::from(report.iterations.last().is_some_and(|step| !step.accepted)),
    }
}
