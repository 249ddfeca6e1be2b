//! `sumsq demo`.

use crate::args::{DemoArgs, DemoName};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::{engine, report};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use sumsq::Report;
use sumsq_examples::demos::{Problem, arap_mesh_deformation, image_warping};

/// Solves a demo's problem and writes its pictures, results and report.
pub fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::Input(miette::miette!("cannot make the folder {}: {error}", args.out.display()))
    })?;
    let (name, report, mut files) = match args.name {
        DemoName::ImageWarping => {
            let scene = image_warping::Scene::tulips().map_err(Failure::input)?;
            let solved = solve(&scene.problem())?;
            let energies = report::energies(&solved.report);
            let files = scene.write(&solved.unknowns, &energies, &args.out).map_err(Failure::input)?;
            ("image_warping", solved.report, files)
        }
        DemoName::ArapMeshDeformation => {
            let scene = arap_mesh_deformation::Scene::dog().map_err(Failure::input)?;
            let solved = solve(&scene.problem())?;
            let energies = report::energies(&solved.report);
            let files = scene.write(&solved.unknowns, &energies, &args.out).map_err(Failure::input)?;
            ("arap_mesh_deformation", solved.report, files)
        }
    };
    files.push(write_report(name, &report, &args.out)?);
    print!("{name}: {}", report::table(&report));
    for file in files {
        println!("wrote {}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn solve(problem: &Problem) -> Result<engine::Solved, Failure> {
    let energy = engine::from_text(problem.energy, problem.text)?;
    let progress = Progress::new(problem.options.iterations);
    engine::solve(energy, &problem.inputs, &problem.options, &mut |step| progress.step(step))
}

fn write_report(name: &str, report: &Report, out: &Path) -> Result<PathBuf, Failure> {
    let path = out.join(format!("{name}.json"));
    report::write_json(&path, report)?;
    Ok(path)
}
