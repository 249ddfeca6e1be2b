//! Lowering: statements to statements, one file a pass.
//!
//! Takes the statements of [`crate::nests`], over coordinates; gives a [`LoweredFunction`]: flat buffers, explicit vectors, and
//! nothing left that a back end would have to decide. [`lower`] is the list of passes, each with the reason for its place; what
//! it needs and leaves is said in the pass's file. Three levels of statements, which [`verify`](crate::ir::verify) tells apart:
//! *multi* (coordinates: `Realize`, `Provide`, `Call`), *flat* (buffers: `Allocate`, `Store`, `Load`) and *vector*.
//!
//! With `SUMSQ_DUMP=dir` (or [`LowerOptions::dump`]) the plan and then the statement after each pass are written to
//! `dir/<pipeline>/NN_after_<pass>.ir`, and the regions that build_nests inferred to `NN_regions.txt`.

pub(crate) mod addresses;
mod alike;
mod begun;
pub(crate) mod contract;
mod cut;
pub(crate) mod dead_allocations;
pub mod expand_math;
pub(crate) mod flatten;
pub(crate) mod hoist;
mod interior;
pub(crate) mod interleave;
pub(crate) mod join;
pub(crate) mod kernels;
pub(crate) mod known_params;
pub(crate) mod loop_nest;
mod masks;
pub(crate) mod narrow;
pub(crate) mod offsets;
pub mod partition;
pub(crate) mod reciprocals;
mod residues;
mod running;
pub(crate) mod segments;
pub(crate) mod separable;
pub mod simplify;
pub(crate) mod skip_stages;
pub(crate) mod streams;
mod tails;
pub mod trim;
mod unguarded;
mod uniform;
pub mod unroll;
mod unshared;
pub mod vectorize;
pub(crate) mod warps;
mod words;

use crate::analysis::algebra::Facts;
use crate::environment::asked;
use crate::error::Error;
use crate::expr::{Expr, Flat, Name, Param, Part};
use crate::func::{Layout, Output, Pipeline};
use crate::ir::args::Arg;
use crate::ir::stmt::{LoweredFunction, Required, Stmt};
use crate::ir::verify::{Level, verify};
use crate::limits::Limits;
use crate::nests::{self, Built};
use crate::plan::plan;
use crate::plan::plans::{FuncPlan, Plan, Stage};
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use crate::types::ScalarType;
use flatten::{External, FlattenEnv, Intermediate};
use rustc_hash::{FxHashMap, FxHashSet};
use simplify::simplify_index;
use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of lowering.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// Write the plan and the statement after each pass below this folder.
    pub dump: Option<PathBuf>,
    /// Check the invariants of statements after each pass.
    pub verify: bool,
    /// Keep what [`crate::runtime::profile`] needs.
    pub profile: bool,
    /// Most that lowering may take.
    pub limits: Limits,
}

impl Default for LowerOptions {
    /// `SUMSQ_DUMP` names the folder; debug builds verify, and others with `SUMSQ_VERIFY`; `SUMSQ_PROFILE` turns profiles on.
    fn default() -> Self {
        LowerOptions {
            dump: std::env::var_os("SUMSQ_DUMP").map(PathBuf::from),
            verify: cfg!(debug_assertions) || asked("SUMSQ_VERIFY"),
            profile: crate::runtime::profile::enabled(),
            limits: Limits::default(),
        }
    }
}

/// Time spent in a pass.
pub type PassTime = (&'static str, Duration);

/// Lowers `p` under `schedule`.
pub fn lower(p: &Pipeline, schedule: &Schedule, options: &LowerOptions) -> Result<LoweredFunction, Error> {
    lower_timed(p, schedule, options).map(|r| r.0)
}

/// [`lower`], with the time that each pass took.
pub fn lower_timed(
    p: &Pipeline,
    schedule: &Schedule,
    options: &LowerOptions,
) -> Result<(LoweredFunction, Vec<PassTime>), Error> {
    on_large_stack(|| lower_here(p, schedule, options))
}

/// Refuses what [`lower`] refuses.
pub(crate) fn check(p: &Pipeline, schedule: &Schedule) -> Result<(), Error> {
    on_large_stack(|| scheduled(p, schedule, &LowerOptions::default()).map(drop))
}

fn lower_here(
    p: &Pipeline,
    schedule: &Schedule,
    options: &LowerOptions,
) -> Result<(LoweredFunction, Vec<PassTime>), Error> {
    let Scheduled { plan, storage, required, aliases, streams, facts, lowering: mut s } =
        scheduled(p, schedule, options)?;
    // Copies have constants for loop variables, lanes have ramps: conditions that hold for all of them become constants.
    s.pass("simplify", Level::Vector, |b| Ok(simplify::simplify_with(b, &facts)))?;
    // Behind the simplification, which drops reads under conditions that never hold; before code is copied.
    s.pass("dead_allocations", Level::Vector, |b| Ok(dead_allocations::dead_allocations(b)))?;
    let any = |holds: fn(&Stage) -> bool| plan.funcs.values().any(|f| f.stages.iter().any(holds));
    if any(|s| s.reciprocals) {
        // Behind vectorising, which shows what all lanes share; before reciprocals are moved out of loops.
        s.pass("reciprocals", Level::Vector, |b| Ok(reciprocals::reciprocals(b)))?;
    }
    // Before partitioning, so that both bodies of a loop share its invariants.
    s.pass("hoist", Level::Vector, |b| Ok(hoist::hoist(b)))?;
    // Behind vectorising: the conditions of all lanes are known, and tested at once.
    s.pass("partition", Level::Vector, |b| Ok(partition::partition_with(b, &facts)))?;
    if kernels::has_kernel(&s.body) {
        // Beside partitioning, for the loops that it leaves alone.
        s.pass("interior", Level::Vector, |b| Ok(interior::interior(b, &facts)))?;
    }
    // In the general body; in the interior the same conditions are gone.
    s.pass("masks", Level::Vector, |b| Ok(masks::masks(b)))?;
    // The interior body without its conditions, and indices without bounds.
    s.pass("simplify", Level::Vector, |b| Ok(simplify::simplify_with(b, &facts)))?;
    if !streams.is_empty() {
        // In the interior no vector is moved inwards.
        s.pass("aligned", Level::Vector, |b| Ok(streams::aligned(b, &streams, &mut FxHashMap::default())))?;
    }
    // Behind partitioning: in the interior stores have lost their masks, and none of what is merged is likely.
    s.pass("interleave", Level::Vector, |b| Ok(interleave::interleave(b, &aliases)))?;
    // In both bodies, whose conditions are found.
    s.pass("residues", Level::Vector, |b| Ok(residues::residues(b)))?;
    // Nothing is simplified behind these two: it would take the narrow sums apart again, and sort indices.
    s.pass("narrow", Level::Vector, |b| Ok(narrow::narrow_with(b, &facts)))?;
    s.pass("addresses", Level::Vector, |b| Ok(addresses::addresses(b)))?;
    let Lowering { body, log } = s;
    let relaxed = any(|s| s.relaxed);
    let args = args(&plan, &storage);
    let records = records(&plan, &storage);
    let name = p.name.clone();
    let f = LoweredFunction { name, args, body, relaxed, aliases, records, required };
    Ok((f, log.passes))
}

/// A pipeline behind the passes that may refuse its schedule.
struct Scheduled<'a> {
    plan: Plan,
    storage: Stored,
    required: Required,
    aliases: Vec<(Flat, Flat)>,
    streams: FxHashMap<Name, Expr>,
    facts: Facts,
    lowering: Lowering<'a>,
}

/// The passes that may refuse a schedule.
fn scheduled<'a>(
    p: &Pipeline,
    schedule: &Schedule,
    options: &'a LowerOptions,
) -> Result<Scheduled<'a>, Error> {
    let mut log = Log { pipeline: p.name.clone(), options, passes: vec![], start: Instant::now() };
    let plan = plan(p, schedule)?;
    log.dump("apply_schedule", &plan)?;
    let Built { body, storage, required, regions, .. } = nests::build_nests(&plan)?;
    log.after("build_nests", &body, Level::Multi)?;
    log.write("regions.txt", &regions)?;
    kernels::check_kernels(&body)?;
    let aliases = aliases(&plan, &storage);
    let outputs: Vec<Name> = p.outputs.iter().map(|o| o.func.clone()).collect();
    let streams = if kernels::has_kernel(&body) { FxHashMap::default() } else { streams(&plan) };
    let env = FlattenEnv { keep_produce: options.profile, ..flatten_env(&plan, &storage, &streams) };
    let unaligned = unaligned(&plan, &storage);
    let mut s = Lowering { body, log };
    // Nothing is known at root; but passes that come to the same loops share the answers given there.
    let facts = Facts::new();
    // First, while every use stands beside the nest that computes what it uses.
    s.pass("skip_stages", Level::Multi, |b| Ok(skip_stages::skip_stages(b, &outputs)))?;
    // While conditions are on coordinates and loop variables; vectors would hide which loop a condition bounds.
    s.pass("trim", Level::Multi, |b| Ok(trim::trim(b)))?;
    // Regions and loops that are empty now go before they become buffers.
    s.pass("simplify", Level::Multi, |b| Ok(simplify::simplify_with(b, &facts)))?;
    // On coordinates, which say what lies in one row, and before unrolling, whose copies then share sums.
    s.pass("separable", Level::Multi, |b| Ok(separable::separable(b)))?;
    // Before unrolling and vectorising, which then see one index for each access instead of one for each dimension.
    s.pass("flatten", Level::Flat, |b| Ok(flatten::flatten(b, &env)))?;
    if !streams.is_empty() {
        // Before loops are copied.
        s.pass("streams", Level::Flat, |b| Ok(streams::streams(b, &streams)))?;
    }
    // Behind flattening, which reads strides; vectorising then knows them.
    s.pass("known_params", Level::Flat, |b| Ok(known_params::known_params(b)))?;
    // On scalars, once for all copies and lanes, and before anything looks for what sines and cosines share.
    s.pass("expand_math", Level::Flat, |b| Ok(expand_math::expand_math(b)))?;
    // While copies are one body.
    s.pass("tails", Level::Flat, |b| Ok(tails::tails(b)))?;
    // Before vectorising: a vector loop may hold unrolled ones, and the copies become vectors of their own.
    s.pass("unroll", Level::Flat, |b| unroll::unroll(b).map_err(|e| in_pipeline(p, e)))?;
    s.pass("vectorize", Level::Vector, |b| {
        vectorize::vectorize_with(b, &unaligned).map_err(|e| in_pipeline(p, e))
    })?;
    Ok(Scheduled { plan, storage, required, aliases, streams, facts, lowering: s })
}

/// An error of a pass that does not know the pipeline's name.
fn in_pipeline(p: &Pipeline, e: Error) -> Error {
    match e {
        Error::Pipeline { message, .. } => Error::Pipeline { pipeline: p.name.clone(), message },
        e => e,
    }
}

/// The Funcs that have intermediate storage.
type Stored = FxHashMap<Name, nests::Storage>;

/// Returns how everything lies in memory.
fn flatten_env(plan: &Plan, storage: &Stored, streams: &FxHashMap<Name, Expr>) -> FlattenEnv {
    let mut env = FlattenEnv::default();
    for i in plan.pipeline.inputs.values() {
        let constraints = i.constraints.clone();
        let x = External { constraints, ..External::new(i.name.clone(), &i.types, i.layout) };
        env.inputs.insert(i.name.clone(), x);
    }
    for f in plan.funcs.values() {
        let name = &f.func.name;
        let types = f.func.types();
        if let Some(s) = storage.get(name) {
            let intermediate = Intermediate {
                types: types.clone(),
                memory: s.memory,
                fold: s.fold.clone(),
                pad: f.pad.clone(),
                order: f.storage_order.clone(),
                zeroed: false,
            };
            env.funcs.insert(name.clone(), intermediate);
        }
        if let Some(o) = &f.output {
            let mut x = output(f, o, storage);
            x.constraints = o.constraints.clone();
            x.non_temporal = match o.layout {
                Layout::Strided => streams.contains_key(name).then(|| Expr::bool(true)),
                _ => f.non_temporal.clone(),
            };
            x.alias = f.in_place_of.clone();
            env.outputs.insert(name.clone(), x);
        }
    }
    env
}

/// Of strided outputs whose stores are to bypass the caches, the condition under which they do: it is asked for, and first elements and rows lie
/// at multiples of 64 bytes. Their neighbours lie side by side.
fn streams(plan: &Plan) -> FxHashMap<Name, Expr> {
    let mut all = FxHashMap::default();
    for f in plan.funcs.values() {
        let (name, Some(o), Some(when)) = (&f.func.name, &f.output, &f.non_temporal) else { continue };
        let shape = plan.pipeline.shape(name);
        if o.layout != Layout::Strided || simplify_index(&shape.stride(0)).as_int() != Some(1) {
            continue;
        }
        let bytes = f.func.types().iter().map(|t| t.bytes() as i64).min().unwrap_or(1);
        let rows = (1..f.func.vars.len()).map(|d| shape.stride(d) * bytes);
        let places = std::iter::once(Expr::part(name.clone(), Part::Phase)).chain(rows);
        let asked = when.ne_(Expr::int(when.ty(), 0));
        let aligned = |n: Expr| n.modulo(64).eq_(Expr::int(ScalarType::I64, 0));
        all.insert(name.clone(), places.map(aligned).fold(asked, |all, one| all.and(one)));
    }
    all
}

/// Flat output buffers that start and go on anywhere.
fn unaligned(plan: &Plan, storage: &Stored) -> FxHashSet<Flat> {
    let outputs = plan.funcs.values().filter_map(|f| Some(output(f, f.output.as_ref()?, storage)));
    let strided = outputs.filter(|x| x.layout == Layout::Strided);
    strided.flat_map(|x| x.flats().map(|(flat, _)| flat).collect::<Vec<_>>()).collect()
}

/// The buffer of an output.
fn output(f: &FuncPlan, o: &Output, storage: &Stored) -> External {
    let is_output = storage.contains_key(&f.func.name);
    External { is_output, ..External::new(f.func.name.clone(), &f.func.types(), o.layout) }
}

/// Flat buffers of in-place outputs with those of the inputs they overwrite.
fn aliases(plan: &Plan, storage: &Stored) -> Vec<(Flat, Flat)> {
    let mut pairs = vec![];
    for f in plan.funcs.values() {
        let (Some(o), Some(input)) = (&f.output, &f.in_place_of) else { continue };
        let out = output(f, o, storage);
        let input = External::new(input.clone(), &out.types, o.layout);
        pairs.extend((0..out.types.len()).map(|k| (out.flat(k), input.flat(k))));
    }
    pairs
}

/// Buffers of inputs, then of outputs, each in declaration order; then extents (i32) and strides (i64, dimensions
/// from 1; strided buffers: minima and all strides) of each in the same order; then parameters.
fn args(plan: &Plan, storage: &Stored) -> Vec<Arg> {
    let p = &plan.pipeline;
    let inputs =
        p.inputs.values().map(|i| (External::new(i.name.clone(), &i.types, i.layout), i.dims, false));
    let outputs = p.outputs.iter().map(|o| {
        let f = &plan.funcs[&o.func];
        (output(f, o, storage), f.func.vars.len(), true)
    });
    let (mut args, mut parts) = (vec![], vec![]);
    for (x, dims, written) in inputs.chain(outputs) {
        args.extend(x.flats().map(|(flat, ty)| Arg::Buffer { flat, ty, written }));
        let mut each = |dims: Range<usize>, part: fn(usize) -> Part| {
            parts.extend(dims.map(|d| (x.of.clone(), part(d))));
        };
        each(0..dims, Part::Extent);
        if x.layout == Layout::Strided {
            each(0..dims, Part::Min);
            each(0..dims, Part::Step);
        } else {
            each(1..dims, Part::Stride);
        }
    }
    let parts = parts.into_iter().map(|(of, part)| (Param::Of(of, part), part.ty().scalar));
    let params = p.params.iter().map(|(name, ty)| (Param::Named(name.clone()), *ty));
    args.extend(parts.chain(params).map(|(param, ty)| Arg::Scalar { param, ty }));
    args
}

/// The flat buffers that hold records, with their slots.
fn records(plan: &Plan, storage: &Stored) -> Vec<(Flat, u8)> {
    let inputs = plan.pipeline.inputs.values().map(|i| External::new(i.name.clone(), &i.types, i.layout));
    let outputs = plan.pipeline.outputs.iter().map(|o| output(&plan.funcs[&o.func], o, storage));
    let slots = |x: External| match x.layout {
        Layout::Record(n) => Some((x.flat(0), n)),
        Layout::Planar | Layout::Strided => None,
    };
    inputs.chain(outputs).filter_map(slots).collect()
}

/// The statement on its way through the passes.
struct Lowering<'a> {
    body: Stmt,
    log: Log<'a>,
}

impl Lowering<'_> {
    /// Runs a pass; what it makes is of `level`.
    fn pass(
        &mut self,
        name: &'static str,
        level: Level,
        pass: impl FnOnce(&Stmt) -> Result<Stmt, Error>,
    ) -> Result<(), Error> {
        self.body = pass(&self.body)?;
        self.log.after(name, &self.body, level)
    }
}

/// Names, times, dumps and checks passes.
struct Log<'a> {
    pipeline: String,
    options: &'a LowerOptions,
    passes: Vec<PassTime>,
    start: Instant,
}

impl Log<'_> {
    fn time(&mut self, pass: &'static str) {
        self.passes.push((pass, self.start.elapsed()));
        self.start = Instant::now();
    }

    /// Ends the time of a pass; what it made goes to the dump.
    fn dump(&mut self, pass: &'static str, made: &dyn Display) -> Result<(), Error> {
        self.time(pass);
        self.write(&format!("after_{pass}.ir"), made)?;
        self.start = Instant::now();
        Ok(())
    }

    /// Writes a file of the dump, under the number of the pass that ended last.
    fn write(&self, name: &str, made: &dyn Display) -> Result<(), Error> {
        let Some(dir) = &self.options.dump else { return Ok(()) };
        let dir = dir.join(&self.pipeline);
        let file = dir.join(format!("{:02}_{name}", self.passes.len()));
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&file, made.to_string()))
            .map_err(|e| self.error(format!("cannot write {}: {e}", file.display())))
    }

    fn after(&mut self, pass: &'static str, s: &Stmt, level: Level) -> Result<(), Error> {
        self.options.limits.in_time(&self.pipeline)?;
        self.dump(pass, s)?;
        if self.options.verify {
            // A violated invariant is a defect of the pass; the statement helps whoever looks for it.
            verify(s, level).map_err(|e| self.error(format!("internal error: after {pass}: {e}\n{s}")))?;
        }
        self.start = Instant::now();
        Ok(())
    }

    fn error(&self, message: String) -> Error {
        Error::Pipeline { pipeline: self.pipeline.clone(), message }
    }
}
