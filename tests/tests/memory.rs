//! Memory over a thousand steps with levels: what a step takes it gives back. This file has one test alone, since it looks at the process.

#![cfg(target_os = "linux")]

use sumsq::{Control, Method, Precision, Preconditioner, SolveOptions, Solver};
use sumsq_tests::hierarchies::{compiled, coupled, lattice_held};
use sumsq_tests::small::Small;

/// Steps in all, and those before which memory is looked at first.
const STEPS: usize = 1000;
const WARM: usize = 200;

/// Bytes that allocators may keep back. The levels of a problem take a hundred thousand, and a step makes all of them anew.
const SLACK: usize = 2 << 20;

/// Bytes of the process that are in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

/// A thousand steps, in solves of so many; how much memory has grown by behind the first ones, and how many steps were with levels.
fn grown(kind: Preconditioner, (energy, data): &Small, method: Method, each: usize) -> (usize, usize) {
    let options = SolveOptions {
        method,
        iterations: Some(each),
        linear_iterations: Some(30),
        function_tolerance: Some(0.0),
        gradient_tolerance: 0.0,
        step_tolerance: 0.0,
        forcing: 1e-6,
        ..SolveOptions::default()
    };
    let solver = Solver::compile(energy.clone(), &compiled(kind, Precision::Mixed, 2)).unwrap();
    let mut problem = solver.plan(data).unwrap().with_free_compilation();
    let (mut steps, mut with_levels, mut before) = (0, 0, 0);
    while steps < STEPS {
        let report = problem
            .solve_with(&mut data.clone(), &options, &mut |step| {
                steps += 1;
                with_levels += usize::from(["multigrid", "aggregation"].contains(&step.preconditioner));
                if steps == WARM {
                    before = resident();
                }
                Control::Continue
            })
            .unwrap();
        assert!(report.failure().is_none() && !report.iterations.is_empty(), "{report:?}");
    }
    (resident().saturating_sub(before), with_levels)
}

#[test]
fn a_thousand_steps_take_no_more_memory_than_a_few() {
    let (grid, mesh) = (coupled(31, 23, 0.01), lattice_held(20, 17, 0.01));
    for (kind, problem) in [
        (Preconditioner::Multigrid, &grid),
        (Preconditioner::Aggregation, &mesh),
        (Preconditioner::Auto, &grid),
    ] {
        // Linear systems of one linearisation after the other, and of other radii of the same.
        for (method, each) in [(Method::GaussNewton, STEPS), (Method::LevenbergMarquardt, 8)] {
            let (bytes, with_levels) = grown(kind, problem, method, each);
            println!("{kind:?}, {method:?}: {bytes} bytes more, {with_levels} steps with levels");
            assert!(bytes <= SLACK, "{kind:?}, {method:?}: {bytes} bytes more");
            // At a minimum `auto` needs none.
            let least = if kind == Preconditioner::Auto { 1 } else { STEPS };
            assert!(with_levels >= least, "{kind:?}, {method:?}: {with_levels} steps with levels");
        }
    }
}
