//! The benchmarks by name.

mod ablation;
mod assembled;
mod burst;
mod ceres;
pub mod ceres_problems;
mod compile;
mod convolution;
mod deconvolution;
mod demosaicking;
mod engine;
mod engine_pipelines;
mod gradients;
mod iteration;
mod levels;
mod materialize;
mod pcg;
mod photograph;
mod pipeline_arrays;
pub(crate) mod pipeline_cases;
mod pipeline_library;
mod pipeline_ours;
mod pipeline_summary;
mod pipelines;
mod plan;
mod preconditioners;
pub mod start;
mod stream;
mod tutorial;
pub mod wide;

use crate::report::Report;
use std::error::Error;
use std::path::{Path, PathBuf};
use sumsq::NamedArray;
use sumsq_examples::io::npz::Archive;

/// Threads of every benchmark, on both sides.
pub const THREADS: usize = 2;

/// A name and what it runs; an error names what is missing.
pub type Benchmark = (&'static str, fn() -> Result<Report, Box<dyn Error>>);

/// Every benchmark.
pub const BENCHMARKS: &[Benchmark] = &[
    ("stream", || Ok(stream::run())),
    ("pcg", || Ok(pcg::run())),
    ("wide", wide::run),
    ("preconditioners", preconditioners::run),
    ("levels", levels::run),
    ("assembled", || Ok(assembled::run())),
    ("plan", || Ok(plan::run())),
    ("compile", || Ok(compile::run())),
    ("start", start::run),
    ("ablation", || Ok(ablation::run())),
    ("materialize", || Ok(materialize::run())),
    ("ceres", ceres::run),
    ("engine", engine::run),
    ("pipelines", pipelines::run),
    ("convolution", convolution::run),
    ("gradients", gradients::run),
    ("demosaicking", demosaicking::run),
    ("burst", burst::run),
    ("deconvolution", deconvolution::run),
    ("tutorial", tutorial::run),
];

/// Root of the workspace, or the folder `SUMSQ_ROOT` that has cases and energies as the workspace has.
fn root() -> PathBuf {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("SUMSQ_ROOT").map_or_else(here, PathBuf::from)
}

/// A path in the inputs that are no part of the project: they lie in `../shared` beside it, or where `SUMSQ_SHARED` says.
fn published(path: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    std::env::var_os("SUMSQ_SHARED").map_or_else(beside, PathBuf::from).join(path)
}

/// The inputs of image warping at its published size, from the reference cases.
fn image_warping_512() -> Result<Vec<NamedArray>, String> {
    let path = root().join("data/cases/image_warping.npz");
    Archive::open(&path).and_then(|archive| archive.read_all()).map_err(|e| e.to_string())
}
