//! Whole solves, with the options of users: time, launches and host waits per step.

use super::facts::Facts;
use super::iteration::on_device;
use super::{Done, Extent};
use sumsq::codegen::runtime::cuda::Device;
use sumsq::energy::Energy;
use sumsq::{Control, NamedArray, ProblemData, SolveOptions, Solver};
use sumsq_benches::suite::ceres_problems::{Case, dog, image_warping, skull, tulips_in_coffee};
use sumsq_tests::{energy_of, example_energy};

/// Repetitions, after one that does not count.
const TIMES: usize = 5;

/// A solve.
struct Solve {
    name: String,
    energy: Energy,
    inputs: Vec<NamedArray>,
    options: SolveOptions,
    /// Energy at which it is done.
    target: f64,
}

pub fn solves(facts: &mut Facts, extent: Extent) -> Done<()> {
    if extent == Extent::Quick {
        let case = sumsq_tests::Case::open("laplacian_small");
        let energy = example_energy(energy_of(&case.name));
        let options = SolveOptions::default();
        let solve =
            Solve { name: case.name, energy, inputs: case.arrays, options, target: f64::NEG_INFINITY };
        return measure(facts, &solve, 1);
    }
    for radius in [1e4, 1e5, 1e6] {
        let options = SolveOptions { radius: Some(radius), iterations: Some(200), ..SolveOptions::default() };
        let solve = of(image_warping()?, &format!(", R0 = {radius:e}, to E <= 80"), options, 80.0)?;
        measure(facts, &solve, TIMES)?;
    }
    let steps = |n| SolveOptions { iterations: Some(n), ..SolveOptions::default() };
    measure(facts, &of(dog()?, "", steps(100), f64::NEG_INFINITY)?, TIMES)?;
    let fifty = SolveOptions { function_tolerance: Some(0.0), ..steps(50) };
    measure(facts, &of(skull()?, ", 50 steps", fifty, f64::NEG_INFINITY)?, TIMES)?;
    measure(facts, &of(tulips_in_coffee()?, "", steps(100), f64::NEG_INFINITY)?, TIMES)
}

fn of(case: Case, how: &str, options: SolveOptions, target: f64) -> Done<Solve> {
    let energy = Energy::from_text(case.energy, &case.text)?;
    Ok(Solve { name: format!("{}{how}", case.name), energy, inputs: case.inputs, options, target })
}

fn measure(facts: &mut Facts, s: &Solve, times: usize) -> Done<()> {
    let device = Device::shared(0)?;
    let solver = Solver::compile(s.energy.clone(), &on_device())?;
    let start = ProblemData::bind(solver.energy(), &s.inputs)?;
    let mut problem = solver.plan(&start)?;
    let mut seconds = vec![];
    for turn in 0..=times {
        let mut data = start.clone();
        let before = device.counts();
        let report = problem.solve_with(&mut data, &s.options, &mut |i| {
            if i.energy <= s.target { Control::Abort } else { Control::Continue }
        })?;
        let after = device.counts();
        seconds.push(report.seconds.solve * 1e3);
        if turn == times {
            let (name, steps) = (&s.name, report.iterations.len());
            facts.add_many(format!("{name}: solve"), seconds.split_off(1), "ms");
            facts.add(format!("{name}: E"), report.energy_final, "");
            facts.add(format!("{name}: steps"), steps as f64, "");
            facts.add(format!("{name}: PCG iterations"), report.linear_iterations_total as f64, "");
            let per = |n: u64| n as f64 / steps.max(1) as f64;
            facts.add(format!("{name}: launches a step"), per(after.launches - before.launches), "");
            facts.add(format!("{name}: host waits a step"), per(after.waits - before.waits), "");
            facts.note(format!("{name}: ends by {}", report.termination.name()));
            break;
        }
    }
    Ok(())
}
