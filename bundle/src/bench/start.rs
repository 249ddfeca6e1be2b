//! From energy text to the first result of a kernel, in a process that has compiled nothing before.

use super::facts::Facts;
use super::iteration::on_device;
use super::problems::natural;
use super::{Done, Extent};
use std::time::Instant;
use sumsq::codegen::runtime::cuda::Device;
use sumsq::{ProblemData, Solver};

pub fn start(facts: &mut Facts, extent: Extent) -> Done<()> {
    let opening = Instant::now();
    let _device = Device::shared(0)?;
    facts.times("driver started and device opened", &[opening.elapsed()], ("s", 1.0));
    let names = ["image_warping", "laplacian", "arap_mesh_deformation", "shape_from_shading"];
    for name in &names[..extent.of(4, 1)] {
        let s = match extent {
            Extent::Whole => natural(name),
            Extent::Quick => super::iteration::tiny(name),
        };
        let begin = Instant::now();
        let energy = sumsq::energy::Energy::from_text(s.energy, &s.text)?;
        let solver = Solver::compile(energy, &on_device())?;
        let compiled = begin.elapsed();
        let data = ProblemData::bind(solver.energy(), &s.inputs)?;
        let mut problem = solver.plan(&data)?;
        problem.evaluate(&data)?;
        facts.times(format!("{name}: energy text to E and gradient"), &[begin.elapsed()], ("s", 1.0));
        facts.times(format!("{name}: of which to loaded code"), &[compiled], ("s", 1.0));
    }
    Ok(())
}
