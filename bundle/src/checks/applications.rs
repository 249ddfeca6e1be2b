//! The applications of `sumsq pipeline` by their schedules for a GPU, against those by which a CPU computes them in the plainest way.

use super::Extent;
use sumsq::codegen::limits::Effort;
use sumsq::codegen::runtime::Pool;
use sumsq::codegen::runtime::cuda::devices;
use sumsq::codegen::{Schedule, Target};
use sumsq_examples::pipelines::{ALL, Application, Planar};
use sumsq_tests::pipelines::{Size, prepared, same};

/// Of so many applications a quick run has one: a test has all on the stand-in.
const ONE_OF: usize = 6;

pub fn applications(extent: Extent) {
    let target = devices().unwrap_or_else(|e| panic!("{e}"))[0].target();
    let mut failures = vec![];
    for application in ALL.into_iter().step_by(extent.of(1, ONE_OF)) {
        println!("{}", application.name);
        if let Err(e) = application_on(&target, application) {
            failures.push(format!("{}: {e}", application.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn application_on(target: &Target, application: &'static Application) -> Result<(), String> {
    let run = |name: &str, target: &Target, effort: Effort| -> Result<Vec<(String, Planar)>, String> {
        let schedule: Schedule =
            application.schedule(name).ok_or(format!("no schedule {name}"))?.map_err(|e| e.to_string())?;
        let (prepared, inputs) =
            prepared(application, &schedule, target, effort, Size::Small).map_err(|e| e.to_string())?;
        prepared.run(&Pool::new(2), &inputs).map_err(|e| e.to_string())
    };
    let came = run("gpu", target, Effort::Full)?;
    same(&came, &run("root", &Target::host(), Effort::Least)?)
}
