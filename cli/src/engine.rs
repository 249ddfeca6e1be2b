//! The one place where the tool calls the solver library.

use crate::args::Stage;
use crate::failure::{Failure, warn};
use crate::output::tell;
use crate::{inputs, interrupt};
use std::path::Path;
use std::time::Instant;
use sumsq::assembled::{self, LinearSolver, solve_with};
use sumsq::check::{Certificate, CheckError};
use sumsq::codegen::backend::llvm::listing_within;
use sumsq::codegen::runtime::cuda::{self, CudaError, DeviceInfo};
use sumsq::energy::{Budgets, Energy, EnergyError};
use sumsq::matrix_free::preconditioner::kinds;
use sumsq::ptxas;
use sumsq::{
    Blame, CompileOptions, Control, Iteration, NamedArray, OptionError, Options, Preconditioner, ProblemData,
    Report, SolveError, SolveOptions, Solver,
};

/// A finished solve.
pub struct Solved {
    /// The report of its steps.
    pub report: Report,
    /// Every unknown, in its input shape.
    pub unknowns: Vec<NamedArray>,
}

/// All GPUs, or the reason why there is none.
pub fn devices() -> Result<Vec<DeviceInfo>, CudaError> {
    cuda::devices()
}

/// Loads an energy file, and tells what it prints.
pub fn load(path: &Path, budgets: Budgets) -> Result<Energy, Failure> {
    warned(Energy::from_file_within(path, budgets, |line| tell(&format!("{line}\n"))))
}

fn warned(built: Result<Energy, EnergyError>) -> Result<Energy, Failure> {
    let energy = built.map_err(Failure::diagnostic)?;
    energy.warnings.iter().for_each(|warning| warn(warning));
    Ok(energy)
}

/// Checks the inputs against the energy's declarations.
pub fn bind<'a>(energy: &Energy, inputs: &'a [NamedArray]) -> Result<ProblemData<'a>, Failure> {
    let data = ProblemData::bind(energy, inputs).map_err(Failure::input)?;
    data.warnings().iter().for_each(|warning| warn(warning));
    Ok(data)
}

/// Compiles, plans and solves, or assembles and solves; `on_step` is called after each step.
pub fn solve(
    energy: Energy,
    inputs: &[NamedArray],
    options: &Options,
    linear: LinearSolver,
    on_step: &mut dyn FnMut(&Iteration),
) -> Result<Solved, Failure> {
    let mut data = bind(&energy, inputs)?;
    data.check_exact(&energy, options.compile.precision).map_err(Failure::input)?;
    let known = data.warnings().to_vec();
    let mut observe = |step: &Iteration| {
        on_step(step);
        Control::Continue
    };
    let options_now = SolveOptions { cancel: interrupt::request(), ..options.solve.clone() };
    let report = match linear {
        LinearSolver::Cg => {
            let solver = Solver::compile(energy, &for_sizes(&options.compile, &data)).map_err(failure)?;
            let mut problem = solver.plan(&data).map_err(failure)?;
            let mut report = problem.solve_with(&mut data, &options_now, &mut observe).map_err(failure)?;
            // A solve that failed has its report all the same.
            report.held = problem.held(&data).ok();
            report
        }
        LinearSolver::Cholesky => {
            solve_with(&energy, &mut data, &options.compile, &options_now, linear, &mut observe)
                .map_err(assembled_failure)?
        }
    };
    report.warnings.iter().filter(|warning| !known.contains(warning)).for_each(|warning| warn(warning));
    let unknowns = data.unknown_arrays(options.compile.precision);
    Ok(Solved { report, unknowns })
}

/// The options with the sizes of the data, which some choices of storage depend on.
fn for_sizes(options: &CompileOptions, data: &ProblemData) -> CompileOptions {
    CompileOptions { sizes: Some(data.dims().to_vec()), ..options.clone() }
}

/// An error of the library as the command line says it: options are flags there.
pub fn failure(error: SolveError) -> Failure {
    let flag = |name: &str| format!("--{}", name.replace('_', "-"));
    match error {
        SolveError::Backend(CudaError::Unavailable(_) | CudaError::NoSuchDevice { .. }) => {
            Failure::Backend(format!("{error}; use --backend cpu"))
        }
        SolveError::Backend(CudaError::Memory { .. }) => {
            Failure::message(format!("{error}; use --backend cpu, or a smaller problem"))
        }
        SolveError::Backend(_) => Failure::Device(format!("{error}; use --backend cpu")),
        SolveError::Target(_) => Failure::Backend(format!("{error}; use a lower --target, or native")),
        SolveError::Option(OptionError::Number { name, expected, came }) => {
            Failure::message(format!("{}: expected {expected}, came {came}", flag(name)))
        }
        SolveError::Option(OptionError::Zero { name }) => {
            Failure::message(format!("{}: expected 1 or more", flag(name)))
        }
        SolveError::Option(OptionError::TooMany { name, most, came }) => {
            Failure::message(format!("{}: expected at most {most}, came {came}", flag(name)))
        }
        SolveError::Memory { .. } => {
            Failure::message(error.to_string().replace("max_memory", "--max-memory"))
        }
        SolveError::InitialNotFinite { place: Blame::Float32, .. } => {
            Failure::message(format!("{error}: use --precision mixed"))
        }
        SolveError::Option(OptionError::CertificatePrecision) => {
            Failure::message(format!("{error}: leave out --precision, or use --precision f64"))
        }
        SolveError::Energy(error) => Failure::diagnostic(error),
        other => Failure::input(other),
    }
}

/// An error of the assembled path, likewise.
fn assembled_failure(error: assembled::SolveError) -> Failure {
    match error {
        assembled::SolveError::Option(error) => failure(error.into()),
        assembled::SolveError::Memory { .. } => {
            Failure::message(error.to_string().replace("max_memory", "--max-memory"))
        }
        other => Failure::input(other),
    }
}

/// Certifies the generated routines at `x` in direction `v`, both over all unknown scalars.
pub fn check(
    energy: &Energy,
    data: &ProblemData,
    options: &CompileOptions,
    x: &[f64],
    v: &[f64],
) -> Result<Certificate, Failure> {
    let solver = Solver::compile(energy.clone(), &for_sizes(options, data)).map_err(failure)?;
    let mut problem = solver.plan(data).map_err(failure)?;
    problem.certify(data, x, v).map_err(|e| match e {
        CheckError::Explicit(e) => Failure::input(e),
        CheckError::Routines(e) => failure(e),
    })
}

/// The code that the engine makes of an energy, as text: one pipeline after the other.
pub fn compiled_text(energy: &Energy, stage: Stage, options: &CompileOptions) -> Result<String, Failure> {
    match stage {
        Stage::Choices => return sumsq::choices(energy, options).map(|c| c.to_string()).map_err(failure),
        Stage::Ptx => {
            let all = sumsq::ptx(energy, options).map_err(failure)?;
            // Without the remarks in front.
            let module = |(_, text): &(String, String)| text[text.find(".version").unwrap_or(0)..].to_owned();
            return Ok(all.iter().map(|m| module(m) + "\n").collect());
        }
        Stage::Sass => {
            let all = sumsq::ptx(energy, options).map_err(failure)?;
            let code = |(_, text): &(String, String)| ptxas::sass(text, ptxas::capability(text));
            return all
                .iter()
                .map(code)
                .collect::<Result<_, _>>()
                .map_err(|e| Failure::Backend(e.to_string()));
        }
        Stage::Schedules => return sumsq::schedules(energy, options).map_err(failure),
        _ => {}
    }
    let limits = options.limits(Instant::now());
    let functions = sumsq::lowered(energy, options).map_err(failure)?;
    let target = options.target.anywhere();
    let mut text = String::new();
    for f in &functions {
        let part = match stage {
            Stage::Llvm | Stage::Asm => {
                let listing = listing_within(f, &target, &limits)
                    .map_err(|e| failure(SolveError::from(e).at_largest(energy)))?;
                if stage == Stage::Asm { listing.asm } else { listing.optimized }
            }
            _ => f.to_string(),
        };
        text.push_str(&part);
        text.push('\n');
    }
    Ok(text)
}

/// The levels for the inputs in a file of the kind that the options name, or, where that has none, of the first one with levels that the energy
/// can have. Those of aggregates are the ones at these unknowns.
pub fn hierarchies(energy: &Energy, file: &Path, options: &CompileOptions) -> Result<String, Failure> {
    let inputs = inputs::read(file, energy, None)?;
    let data = bind(energy, &inputs)?;
    let named = Some(options.preconditioner).filter(|of| of.has_levels());
    let first = || kinds::with_levels(energy).first().copied();
    // Where there is none multigrid says why.
    let preconditioner = named.or_else(first).unwrap_or(Preconditioner::Multigrid);
    let options = CompileOptions { preconditioner, ..for_sizes(options, &data) };
    let solver = Solver::compile(energy.clone(), &options).map_err(failure)?;
    let mut problem = solver.plan(&data).map_err(failure)?;
    let session = problem.init(&data, &SolveOptions::default()).map_err(failure)?;
    let mut text: String = session.hierarchies().iter().map(|grids| format!("{grids}\n")).collect();
    for space in session.without_levels() {
        text.push_str(&format!("{space}: no levels, keeps block Jacobi\n"));
    }
    Ok(text)
}

/// The parameters of generated code that follow from the sizes of the inputs in a file, a line each; and the options with these sizes.
pub fn sizes(
    energy: &Energy,
    file: &Path,
    options: &CompileOptions,
) -> Result<(String, CompileOptions), Failure> {
    let inputs = inputs::read(file, energy, None)?;
    let data = bind(energy, &inputs)?;
    let options = for_sizes(options, &data);
    let sizes = sumsq::sizes(energy, &options, &data).map_err(failure)?;
    let text = sizes.into_iter().map(|(name, value)| format!("size      {name} = {value}\n")).collect();
    Ok((text, options))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sumsq::codegen::target::MissingLevel;

    #[test]
    fn a_level_that_is_not_there_is_a_back_end_that_is_not_there() {
        let error = MissingLevel { level: "x86-64-v4", missing: "avx512f, avx512bw".to_string() };
        let Failure::Backend(said) = failure(error.into()) else { panic!("another exit code") };
        assert!(said.contains("no x86-64-v4: it lacks avx512f") && said.contains("--target"), "{said}");
    }
}
