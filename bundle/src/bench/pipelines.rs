//! The applications of `sumsq pipeline` at the sizes at which they are used, by their schedules for a GPU.

use super::facts::Facts;
use super::{Done, Extent, copy_rate};
use std::time::Instant;
use sumsq::codegen::limits::Effort;
use sumsq::codegen::runtime::cuda::{Device, devices};
use sumsq::codegen::runtime::{Buffer, Pool};
use sumsq_examples::pipelines::{ALL, Application};
use sumsq_tests::pipelines::{Size, prepared};

/// Runs that are timed, behind one that copies the inputs to the device.
const RUNS: (usize, usize) = (20, 1);

/// Of so many applications a rehearsal has one.
const ONE_OF: usize = 9;

pub fn pipelines(facts: &mut Facts, extent: Extent) -> Done<()> {
    let mut failed = vec![];
    for application in ALL.into_iter().step_by(extent.of(1, ONE_OF)) {
        if let Err(e) = pipeline(facts, application, extent) {
            facts.note(format!("{}: {e}", application.name));
            failed.push(application.name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Milliseconds of a run whose inputs are on the device, and its time over that of copying all inputs and outputs once.
fn pipeline(facts: &mut Facts, application: &'static Application, extent: Extent) -> Done<()> {
    let schedule = application.schedule("gpu").ok_or("no schedule gpu")??;
    let (target, size) = (devices()?[0].target(), extent.of(Size::Natural, Size::Small));
    let (prepared, inputs) = prepared(application, &schedule, &target, Effort::Full, size)?;
    let (pool, device, buffers) = (Pool::new(1), Device::shared(0)?, prepared.buffers(&inputs)?);
    let named: Vec<(&str, &Buffer)> = buffers.iter().map(|(name, b)| (name.as_str(), b)).collect();
    let mut bound = prepared.compiled().bind(&named, &prepared.params())?;
    let mut times = vec![];
    for _ in 0..=extent.of(RUNS.0, RUNS.1) {
        let start = Instant::now();
        bound.run(&pool)?;
        device.synchronize()?;
        times.push(start.elapsed());
    }
    let times = times.split_off(1);
    let extents = buffers.last().map_or(vec![], |(_, b)| b.spec().extents.clone());
    let extents: Vec<String> = extents.iter().map(i32::to_string).collect();
    let what = format!("{} ({})", application.name, extents.join(" x "));
    facts.times(format!("{what}: run"), &times, ("ms", 1e-3));
    if let Some(rate) = copy_rate() {
        let bytes: usize = buffers.iter().map(|(_, b)| b.spec().len() * b.spec().ty.bytes()).sum();
        let pass = bytes as f64 / (rate * 1e9);
        let over = times.iter().map(|t| t.as_secs_f64() / pass).collect();
        facts.add_many(format!("{what}: run, over one pass"), over, "x");
    }
    Ok(())
}
