use sumsq::energy::rust::EnergyBuilder;
use sumsq::{ArrayView, CompileOptions, ProblemData, SolveOptions, Solver};

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stay near the picture A, have small differences between neighbours.
    let e = EnergyBuilder::new();
    let (w, h) = (e.dim("W"), e.dim("H"));
    let (x, a) = (e.unknown("X", 1, &[w, h]), e.array("A", 1, &[w, h]));
    e.energy(0.2 * (x.at([0, 0]) - a.at([0, 0])));
    e.energy(x.at([0, 0]) - x.at([1, 0]));
    e.energy(x.at([0, 0]) - x.at([0, 1]));

    let noise = |i: usize| (i * 7919 % 101) as f32 / 100.0;
    let picture: Vec<f32> = (0..64 * 48).map(noise).collect();
    let array = |name| ArrayView::new(name, &[48, 64], picture.as_slice());

    let solver = Solver::compile(e.finish()?, &CompileOptions::default())?;
    let mut data = ProblemData::bind(solver.energy(), [array("X"), array("A")])?;
    let report = solver.plan(&data)?.solve(&mut data, &SolveOptions::default())?;
    println!("E: {} -> {}, {}", report.energy_initial, report.energy_final, report.termination.name());
    assert!(report.energy_final < 0.1 * report.energy_initial);
    Ok(())
}
