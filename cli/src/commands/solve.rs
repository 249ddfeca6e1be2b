//! `sumsq solve`.

use crate::args::SolveArgs;
use crate::failure::{Failure, NOT_GOOD};
use crate::progress::Progress;
use crate::{engine, inputs, report};
use std::process::ExitCode;
use sumsq_examples::io::{check_target, npz};

/// Solves a problem. The unknowns written are the last good ones, also where the solve failed.
pub fn run(args: &SolveArgs) -> Result<ExitCode, Failure> {
    for target in [&args.output, &args.report, &args.plot].into_iter().flatten() {
        check_target(target).map_err(Failure::input)?;
    }
    let energy = engine::load(&args.energy, args.options.budgets())?;
    let inputs = inputs::read(&args.inputs, &energy)?;
    let options = args.options.options()?;
    let progress = Progress::new(options.solve.iterations);
    let solved = engine::solve(energy, &inputs, &options, &mut |step| progress.step(step));
    drop(progress);
    let solved = solved?;

    if let Some(path) = &args.output {
        npz::write(path, &solved.unknowns).map_err(Failure::input)?;
    }
    if let Some(path) = &args.report {
        report::write_json(path, &solved.report)?;
    }
    if let Some(path) = &args.plot {
        let name = args.energy.file_stem().unwrap_or_default().to_string_lossy();
        report::write_plot(path, &name, &solved.report)?;
    }
    print!("{}", solved.report);
    // Empty unless SUMSQ_PROFILE asked for it when the pipelines were compiled.
    eprint!("{}", sumsq::codegen::runtime::profile::report());
    let Some(why) = solved.report.failure() else { return Ok(ExitCode::SUCCESS) };
    eprintln!("the solve failed: {why}; the unknowns are the last good ones");
    Ok(ExitCode::from(NOT_GOOD))
}
