//! `sumsq solve`.

use crate::args::SolveArgs;
use crate::failure::{Failure, INTERRUPTED, NOT_GOOD};
use crate::output::tell;
use crate::progress::Progress;
use crate::{engine, inputs, report};
use std::process::ExitCode;
use sumsq::Termination;
use sumsq::codegen::runtime::profile;
use sumsq_examples::io::{Outputs, check_target, npz, picture};

/// Solves a problem. The unknowns written are the last good ones, also where the solve failed or was interrupted.
pub fn run(args: &SolveArgs) -> Result<ExitCode, Failure> {
    let targets = || [&args.output, &args.report, &args.plot].into_iter().flatten();
    for (number, target) in targets().enumerate() {
        check_target(target).map_err(Failure::output)?;
        if targets().take(number).any(|other| other == target) {
            return Err(Failure::message(format!("two outputs go to {}", target.display())));
        }
    }
    args.plot.as_deref().map_or(Ok(()), picture::check_name).map_err(Failure::input)?;
    if args.profile {
        profile::enable();
    }
    let energy = engine::load(&args.energy, args.options.budgets())?;
    let options = args.options.options()?;
    let inputs = inputs::read(&args.inputs, &energy, options.compile.max_memory)?;
    let progress = Progress::new(options.solve.decided_for(&energy).iterations());
    let solved = engine::solve(energy, &inputs, &options, args.options.linear_solver(), &mut |step| {
        progress.step(step)
    });
    drop(progress);
    let solved = solved?;

    let mut outputs = Outputs::default();
    if let Some(path) = &args.output {
        let bytes = npz::encode(&solved.unknowns).map_err(Failure::output)?;
        outputs.add(path, bytes).map_err(Failure::output)?;
    }
    if let Some(path) = &args.report {
        outputs.add(path, report::json(&solved.report)?).map_err(Failure::output)?;
    }
    if let Some(path) = &args.plot {
        let name = args.energy.file_stem().unwrap_or_default().to_string_lossy();
        outputs.add(path, report::plot(&name, &solved.report)?).map_err(Failure::output)?;
    }
    report::finish(outputs, &solved.report.to_string())?;
    // Empty unless somebody asked for it when the pipelines were compiled.
    tell(&profile::report().to_string());
    if let Some(why) = solved.report.failure() {
        tell(&format!("the solve failed: {why}; the unknowns are the last good ones\n"));
        return Ok(ExitCode::from(NOT_GOOD));
    }
    let interrupted = solved.report.termination == Termination::Interrupted;
    Ok(ExitCode::from(if interrupted { INTERRUPTED } else { 0 }))
}
