//! `sumsq demo`.

use crate::args::DemoArgs;
use crate::failure::{Failure, NOT_GOOD};
use crate::output::say;
use crate::progress::Progress;
use crate::report;
use std::fmt::Write;
use std::process::ExitCode;
use sumsq::Iteration;
use sumsq_examples::demos::{ALL, Demo, DemoError, Pass};
use sumsq_examples::io::{Outputs, npz};

/// Runs a demo and writes its pictures and report; without a name lists all demos.
pub fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let Some(demo) = args.name.as_deref().and_then(Demo::find) else {
        let width = ALL.iter().map(|demo| demo.name.len()).max().unwrap_or(0);
        let list = ALL.iter().map(|demo| format!("{:width$}  {}\n", demo.name, demo.about));
        say(&list.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Output(miette::miette!("cannot make the folder {}: {error}", args.out.display()))
    })?;
    let (mut outputs, mut files) = (Outputs::default(), Vec::new());
    if args.inputs {
        let problem = demo.problem().map_err(failed)?;
        let path = args.out.join(format!("{}_inputs.npz", demo.name));
        let bytes = npz::encode(&problem.inputs).map_err(Failure::output)?;
        outputs.add(&path, bytes).map_err(Failure::output)?;
        files.push(path);
    }
    let progress = Progress::open_ended();
    let mut observe = |label: &str, step: &Iteration| progress.step_of(label, step);
    let played = demo.run_for(&args.out, &mut outputs, &mut observe).map_err(failed)?;
    progress.end();
    let json = args.out.join(format!("{}.json", demo.name));
    outputs.add(&json, report::demo_json(&played)?).map_err(Failure::output)?;
    files.extend(played.files.iter().cloned().chain([json]));
    let mut text = format!("{}: {}", demo.name, passes(&played.passes));
    for m in &played.measures {
        let _ =
            writeln!(text, "{}: {:.4} {} before, {:.4} {} after", m.name, m.before, m.unit, m.after, m.unit);
    }
    for file in files {
        let _ = writeln!(text, "wrote {}", file.display());
    }
    report::finish(outputs, &text)?;
    let failed = played.passes.iter().any(|pass| pass.report.failure().is_some());
    Ok(ExitCode::from(if failed { NOT_GOOD } else { 0 }))
}

/// The failure of a demo that did not run.
fn failed(error: DemoError) -> Failure {
    match error {
        DemoError::File(error) => Failure::output(error),
        other => Failure::input(other),
    }
}

/// The table of a single solve; of several, a line each.
fn passes(passes: &[Pass]) -> String {
    match passes {
        [single] => single.report.to_string(),
        several => report::summary(several),
    }
}
