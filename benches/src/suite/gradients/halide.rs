//! The side of Halide: what its `propagate_adjoints` derives, compiled ahead of time (`peers/halide/gradients`), in this process and on our buffers.

use super::{BUDGET, differ};
use crate::harness::{compare_within, time};
use crate::report::Report;
use crate::suite::THREADS;
use crate::suite::pipeline_library::{Compiled, RawArgument, Refused, load, refused};
use std::error::Error;
use sumsq::codegen::runtime::Buffer;

/// The library of what Halide compiled.
const LIBRARY: &str = "gradients";

type Failed = Box<dyn Error>;

/// Everything that Halide compiled, and what it did not.
pub struct Halide {
    compiled: Vec<Compiled>,
    refused: Vec<Refused>,
}

/// Ours, as Halide's side sees it.
pub struct Side<'a> {
    pub name: &'a str,
    pub run: Box<dyn Fn() -> Result<(), Failed> + 'a>,
    /// In the order of Halide's arguments.
    pub arguments: Vec<RawArgument<'a>>,
    /// Those that are written.
    pub outputs: Vec<(&'a str, &'a Buffer)>,
}

impl Halide {
    /// Pipelines that `cargo xtask setup --peers` left.
    ///
    /// # Errors
    /// It is not built.
    pub fn load() -> Result<Halide, Failed> {
        Ok(Halide { compiled: load(LIBRARY, THREADS)?, refused: refused(LIBRARY)? })
    }

    /// Checks that each of Halide's schedules agrees with ours, and times it.
    ///
    /// # Errors
    /// Ours does not run; Halide computes something else.
    pub fn against(&self, report: &mut Report, ours: &Side<'_>) -> Result<(), Failed> {
        let refused = self.refused.iter().filter(|r| r.application == ours.name);
        refused.for_each(|r| report.note(r.to_string()));
        (ours.run)()?;
        let expected = values(&ours.outputs);
        for theirs in self.compiled.iter().filter(|c| c.application == ours.name) {
            let label = format!("{}, with gradient: sumsq / Halide, {}", ours.name, theirs.schedule);
            ours.outputs
                .iter()
                .try_for_each(|(_, b)| b.copy_from(&vec![f32::NAN; b.to_vec::<f32>().len()]))?;
            theirs.call(&ours.arguments)?;
            for ((name, expected), (_, came)) in expected.iter().zip(values(&ours.outputs)) {
                differ(expected, &came).map_err(|e| format!("{label}: {name}: {e}"))?;
            }
            let mut own = || time(&mut || drop((ours.run)()));
            let mut run = || time(&mut || drop(theirs.call(&ours.arguments)));
            let ratio = compare_within(&label, &mut own, &mut run, BUDGET);
            report.fact(
                &format!("{}, compiled in: Halide, {}", ours.name, theirs.schedule),
                theirs.seconds,
                "s",
            );
            report.ratio(ratio);
        }
        Ok(())
    }
}

fn values<'a>(buffers: &[(&'a str, &Buffer)]) -> Vec<(&'a str, Vec<f32>)> {
    buffers.iter().map(|(name, buffer)| (*name, buffer.to_vec())).collect()
}
