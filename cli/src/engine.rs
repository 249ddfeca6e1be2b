//! The one place where the tool calls the solver library.

use crate::args::Stage;
use crate::failure::{Failure, warn};
use std::path::Path;
use sumsq::energy::{Energy, EnergyError};
use sumsq::lm::Control;
use sumsq::{Iteration, NamedArray, Options, ProblemData, Report};

/// A finished solve.
pub struct Solved {
    /// What happened.
    pub report: Report,
    /// Every unknown, in its input shape.
    pub unknowns: Vec<NamedArray>,
}

/// Loads an energy file.
pub fn load(path: &Path) -> Result<Energy, Failure> {
    warned(Energy::from_file(path))
}

/// Builds an energy from the text of an energy file.
pub fn from_text(name: &str, text: &str) -> Result<Energy, Failure> {
    warned(Energy::from_text(name, text))
}

fn warned(built: Result<Energy, EnergyError>) -> Result<Energy, Failure> {
    let energy = built.map_err(Failure::diagnostic)?;
    energy.warnings.iter().for_each(|warning| warn(warning));
    Ok(energy)
}

/// Checks the inputs against the energy's declarations.
pub fn bind(energy: &Energy, inputs: &[NamedArray]) -> Result<ProblemData, Failure> {
    let data = ProblemData::bind(energy, inputs).map_err(Failure::input)?;
    data.warnings.iter().for_each(|warning| warn(warning));
    Ok(data)
}

/// Solves; `on_step` is called after each step and never aborts.
pub fn solve(
    energy: &Energy,
    inputs: &[NamedArray],
    options: &Options,
    on_step: &mut dyn FnMut(&Iteration),
) -> Result<Solved, Failure> {
    if options.backend == sumsq::Backend::Cuda {
        return Err(Failure::Backend(
            "the CUDA back end is not available in this build: use --backend cpu".into(),
        ));
    }
    let mut data = bind(energy, inputs)?;
    data.check_exact(energy, options.precision).map_err(Failure::input)?;
    let mut observe = |step: &Iteration| {
        on_step(step);
        Control::Continue
    };
    let report = run(energy, &mut data, options, &mut observe)?;
    report.warnings.iter().for_each(|warning| warn(warning));
    let unknowns = data.unknown_arrays(energy, options.precision);
    Ok(Solved { report, unknowns })
}

// INTEGRATION: replace by compile, plan and solve of the generated solver once it is there.
fn run(
    energy: &Energy,
    data: &mut ProblemData,
    options: &Options,
    observe: &mut dyn FnMut(&Iteration) -> Control,
) -> Result<Report, Failure> {
    use sumsq::explicit::{LinearSolver, solve_with};
    solve_with(energy, data, options, LinearSolver::Cg, observe).map_err(Failure::input)
}

/// What the engine makes of an energy at a late stage.
// INTEGRATION: loops, llvm and asm of the compiled pipelines.
pub fn compiled_text(_energy: &Energy, stage: Stage) -> Result<String, Failure> {
    Err(Failure::Input(miette::miette!("the stage {stage:?} is not available yet")))
}
