//! Checked execution: runs statements of every level, one operation at a time, on memory that remembers.
//!
//! An element knows whether it was written and by which iterations of parallel loops it was touched. An error is:
//! - reading what was never written (uninitialised storage, a value not computed yet);
//! - touching what is outside of its buffer: domain and halo of inputs and outputs, the region of a `Realize`, the
//!   extent of an `Allocate`; writing to the halo or the pads of an output;
//! - a race: two iterations of one parallel loop touch one element, at least one of them writing ([`races`]);
//! - a failed assertion of the program.
//!
//! So regions, guards, storage and parallel loops are tested, and not only results. On the way it counts
//! ([`Counters`]): what each Func stores, loads, computes and allocates, how long a value waits for its reader, and how
//! long the longest chain of dependences is.
//!
//! It is slow: for tests, and for the tables that show what a schedule does.

mod counters;
mod eval;
mod indivisible;
mod machine;
mod memory;
pub mod races;

pub use counters::{Counters, FuncCounters};
pub use machine::Machine;
pub use memory::Buffer;

use crate::reference::{Bindings, Realization};
use sumsq_codegen::error::Error;
use sumsq_codegen::func::Pipeline;
use sumsq_codegen::ir::stmt::LoweredFunction;
use sumsq_codegen::lower::trim::trim;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::nests::build_nests;
use sumsq_codegen::plan::plan;
use sumsq_codegen::schedule::Schedule;
use sumsq_codegen::stack::on_large_stack;

/// Elements of one storage: each takes some hundred bytes here.
pub const MOST_ELEMENTS: usize = 1 << 22;
/// Ends the first line of the error about a storage of more than [`MOST_ELEMENTS`].
pub const TOO_LARGE: &str = "more than checked memory holds";
/// Values that one run computes, lane by lane: some seconds.
pub const MOST_VALUES: usize = 1 << 22;
/// Ends the first line of the error about a run of more than [`MOST_VALUES`].
pub const TOO_LONG: &str = "more than a checked run takes";

/// First coordinate and number of coordinates of an output, per dimension.
pub type Domain = Vec<(i32, usize)>;

fn from_zero(extents: &[Vec<usize>]) -> Vec<Domain> {
    extents.iter().map(|e| e.iter().map(|&n| (0, n)).collect()).collect()
}

/// Results of a checked run of a pipeline.
pub struct Run {
    /// The statement that ran, as text.
    pub text: String,
    /// Values of the outputs, in their order; an element that was not written is an error.
    pub outputs: Vec<Realization>,
    /// The counters.
    pub counters: Counters,
}

/// Runs the loop nests of `p` under `s` (coordinates, before flattening): the level at which Funcs and points are still
/// told apart. `extents` gives the domain of each output.
pub fn run_nests(p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>]) -> Result<Run, Error> {
    run_nests_over(p, s, b, &from_zero(extents))
}

/// As [`run_nests`] over domains.
pub fn run_nests_over(p: &Pipeline, s: &Schedule, b: &Bindings, domains: &[Domain]) -> Result<Run, Error> {
    on_large_stack(|| {
        let plan = plan(p, s)?;
        let built = build_nests(&plan)?;
        let mut m = Machine::new();
        m.bind_pipeline(p, s, b, domains);
        built.storage.iter().for_each(|(func, s)| m.fold(func, &s.fold));
        built.storage.iter().filter(|(_, s)| s.window.is_some()).for_each(|(func, _)| m.window(func));
        finish(p, m, &trim(&built.body), domains)
    })
}

/// Runs the lowered function of `p` under `s`: flat buffers, vectors, both bodies of partitioned loops.
pub fn run_lowered(p: &Pipeline, s: &Schedule, b: &Bindings, extents: &[Vec<usize>]) -> Result<Run, Error> {
    run_lowered_over(p, s, b, &from_zero(extents))
}

/// As [`run_lowered`] over domains.
pub fn run_lowered_over(p: &Pipeline, s: &Schedule, b: &Bindings, domains: &[Domain]) -> Result<Run, Error> {
    let f = on_large_stack(|| lower(p, s, &LowerOptions { verify: true, ..LowerOptions::default() }))?;
    run_function_over(&f, p, s, b, domains)
}

/// Runs the function that was lowered of `p` under `s`.
pub fn run_function_over(
    f: &LoweredFunction,
    p: &Pipeline,
    s: &Schedule,
    b: &Bindings,
    domains: &[Domain],
) -> Result<Run, Error> {
    on_large_stack(|| {
        let mut m = Machine::new();
        m.bind_pipeline(p, s, b, domains);
        finish(p, m, &f.body, domains)
    })
}

fn finish(
    p: &Pipeline,
    mut m: Machine,
    body: &sumsq_codegen::ir::stmt::Stmt,
    domains: &[Domain],
) -> Result<Run, Error> {
    let text = body.to_string();
    let failed =
        |message: String| Error::Run { pipeline: p.name.clone(), message: format!("{message}\n{text}") };
    m.run(body).map_err(failed)?;
    let mut outputs = vec![];
    for (o, domain) in p.outputs.iter().zip(domains) {
        let (min, extents): (Vec<_>, Vec<_>) = domain.iter().copied().unzip();
        let mut r = Realization::zeros(&p.funcs[&o.func].types(), &extents).moved_to(&min);
        for (i, at) in r.points().into_iter().enumerate() {
            for k in 0..r.types.len() {
                let missing = || failed(format!("output {}.{k}{at:?} is not written", o.func));
                r.planes[k][i] = m.output(&o.func, k, &at).ok_or_else(missing)?;
            }
        }
        if m.written(&o.func).is_some_and(|n| n > r.points().len() * r.types.len()) {
            return Err(failed(format!("output {} is written outside of its domain", o.func)));
        }
        outputs.push(r);
    }
    Ok(Run { text, outputs, counters: m.into_counters() })
}

#[cfg(test)]
mod tests;
