//! `sumsq demo`.

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::report;
use std::process::ExitCode;
use sumsq::Iteration;
use sumsq_examples::demos::{ALL, Demo, Pass};
use sumsq_examples::io::npz;

/// Runs a demo and writes its pictures and report; without a name lists all demos.
pub fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let Some(demo) = args.name.as_deref().and_then(Demo::find) else {
        let width = ALL.iter().map(|demo| demo.name.len()).max().unwrap_or(0);
        ALL.iter().for_each(|demo| println!("{:width$}  {}", demo.name, demo.about));
        return Ok(ExitCode::SUCCESS);
    };
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Input(miette::miette!("cannot make the folder {}: {error}", args.out.display()))
    })?;
    if args.inputs {
        let path = args.out.join(format!("{}_inputs.npz", demo.name));
        let problem = demo.problem().map_err(Failure::input)?;
        npz::write(&path, &problem.inputs).map_err(Failure::input)?;
        println!("wrote {}", path.display());
    }
    let progress = Progress::open_ended();
    let mut observe = |label: &str, step: &Iteration| progress.step_of(label, step);
    let played = demo.run(&args.out, &mut observe).map_err(Failure::input)?;
    progress.end();
    let json = args.out.join(format!("{}.json", demo.name));
    report::write_demo_json(&json, &played)?;
    print!("{}: {}", demo.name, passes(&played.passes));
    for m in &played.measures {
        println!("{}: {:.4} {} before, {:.4} {} after", m.name, m.before, m.unit, m.after, m.unit);
    }
    for file in played.files.iter().chain([&json]) {
        println!("wrote {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of a single solve; of several, a line each.
fn passes(passes: &[Pass]) -> String {
    match passes {
        [single] => single.report.to_string(),
        several => report::summary(several),
    }
}
