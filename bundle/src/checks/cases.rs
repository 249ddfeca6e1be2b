//! Reference cases, solved to their listed minima with the options of their tests on the CPU: by every way that the device has to run PCG's loop,
//! to the same bits.

use super::Extent;
use crate::ways::Way;
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{Backend, CompileOptions, Report, SolveOptions, Solver};
use sumsq_tests::{Case, assert_close, bits};

/// The full size, whose minimum is listed nowhere, and the E that it is to reach.
const FULL: (&str, f64) = ("image_warping", 80.0);

/// Steps of a solve.
const WHOLE: usize = 120;
/// The case of which a quick run does fewer steps, and by whose end it has reached its minimum; then nothing but digits comes.
const QUICK: (&str, usize) = ("arap_hand", 56);

pub fn case(name: &str, extent: Extent) {
    let device = Device::shared(0).unwrap_or_else(|e| panic!("{e}"));
    let case = Case::open(name);
    let steps = if name == QUICK.0 { extent.of(WHOLE, QUICK.1) } else { WHOLE };
    let mut best = f64::INFINITY;
    for &radius in case.radii() {
        let mut first: Option<(Report, Vec<u64>)> = None;
        for way in Way::of_device(&device) {
            way.choose(&device);
            let (report, x) = solved(&case, radius, way, steps);
            let same = |(f, of): &(Report, Vec<u64>)| {
                let energies =
                    |r: &Report| r.iterations.iter().map(|s| s.energy.to_bits()).collect::<Vec<_>>();
                energies(f) == energies(&report) && *of == x
            };
            assert!(first.as_ref().is_none_or(same), "{name} by {way}: other bits than by another way");
            best = best.min(report.energy_final);
            first.get_or_insert((report, x));
        }
    }
    if name == FULL.0 {
        assert!(best <= FULL.1, "{name}: E = {best}");
        return;
    }
    let listed = case.minimum();
    println!("{name}: E = {best:.9e} ({:+.1e})", best / listed - 1.0);
    assert!(best <= listed * (1.0 + 1e-4), "{name}: E = {best}, listed {listed}");
}

/// The report of a solve and the bits of its unknowns.
fn solved(case: &Case, radius: f64, way: Way, steps: usize) -> (Report, Vec<u64>) {
    let compile = CompileOptions { backend: Backend::Cuda, ..CompileOptions::default() };
    let mut solve = SolveOptions {
        iterations: Some(steps),
        function_tolerance: Some(0.0),
        radius: Some(radius),
        ..SolveOptions::default()
    };
    if case.name == FULL.0 {
        solve = SolveOptions { iterations: Some(60), forcing: 1e-3, linear_iterations: Some(2000), ..solve };
    }
    let solver = Solver::compile(case.energy.clone(), &compile).unwrap_or_else(|e| panic!("{e}"));
    let mut data = case.data();
    let mut problem = solver.plan(&data).unwrap_or_else(|e| panic!("{e}"));
    let report = problem.solve(&mut data, &solve).unwrap_or_else(|e| panic!("{e}"));
    println!(
        "R0 = {radius:e}, {way}: E = {:e} after {} steps, {} PCG iterations, {:.3} s, {:?}",
        report.energy_final,
        report.iterations.len(),
        report.linear_iterations_total,
        report.seconds.solve,
        report.termination
    );
    assert_close("initial energy", report.energy_initial, case.number("/energy_initial"), 1e-9);
    let mut energy = report.energy_initial;
    for step in &report.iterations {
        assert!(if step.accepted { step.energy < energy } else { step.energy == energy }, "{step:?}");
        energy = step.energy;
    }
    (report, bits(&data))
}
