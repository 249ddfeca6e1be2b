//! Lowering: a straight list of passes, one file each.
//!
//! ```text
//! Pipeline + Schedule
//!   validate, wrappers, inline, apply_schedule (rfactor)         what is computed, and the loops of each stage
//!   build_nests (bounds_inference, joint_regions,       Realize / Produce / Provide / Call
//!     sliding_window, storage_folding,
//!     allocation_bounds, sinks)
//!   skip_stages, trim, simplify,
//!   flatten, expand_math, unroll, vectorize, simplify,  Allocate / Store / Load, vectors
//!   dead_allocations, hoist, partition,
//!   simplify, interleave, narrow
//! LoweredFunction
//! ```
//! With `SUMSQ_DUMP=dir` (or [`LowerOptions::dump`]) the plan and then the statement after each pass are written to
//! `dir/<pipeline>/NN_after_<pass>.ir`.

pub mod dead_allocations;
pub mod expand_math;
pub mod flatten;
pub mod hoist;
pub mod interleave;
pub mod loop_nest;
pub mod narrow;
pub mod partition;
pub mod simplify;
pub mod skip_stages;
pub mod trim;
pub mod unroll;
pub mod vectorize;

use crate::error::Error;
use crate::expr::Name;
use crate::func::{Layout, Pipeline, extent_param, min_param, step_param, stride_param};
use crate::ir::stmt::{Arg, ArgKind, LoweredFunction, Stmt};
use crate::ir::verify;
use crate::nests::{self, Built};
use crate::plan::plan;
use crate::plan::plans::{FuncPlan, Plan};
use crate::schedule::Schedule;
use crate::stack::on_large_stack;
use crate::types::ScalarType;
use flatten::{External, FlattenEnv, Intermediate};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How to lower.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// Write the plan and the statement after each pass below this folder.
    pub dump: Option<PathBuf>,
    /// Check the invariants of statements after each pass.
    pub verify: bool,
    /// Keep what [`crate::runtime::profile`] needs.
    pub profile: bool,
}

impl Default for LowerOptions {
    /// `SUMSQ_DUMP` names the folder; debug builds verify; `SUMSQ_PROFILE` turns profiles on.
    fn default() -> Self {
        LowerOptions {
            dump: std::env::var_os("SUMSQ_DUMP").map(PathBuf::from),
            verify: cfg!(debug_assertions),
            profile: crate::runtime::profile::enabled(),
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

fn lower_here(
    p: &Pipeline,
    schedule: &Schedule,
    options: &LowerOptions,
) -> Result<(LoweredFunction, Vec<PassTime>), Error> {
    let mut log = Log { pipeline: p.name.clone(), options, passes: vec![], start: Instant::now() };
    let plan = plan(p, schedule)?;
    log.dump("apply_schedule", &plan)?;
    let Built { mut body, storage, required } = nests::build_nests(&plan)?;
    log.after("build_nests", &body, verify::Level::Multi)?;
    let outputs: Vec<Name> = p.outputs.iter().map(|o| o.func.clone()).collect();
    body = skip_stages::skip_stages(&body, &outputs);
    log.after("skip_stages", &body, verify::Level::Multi)?;
    body = trim::trim(&body);
    log.after("trim", &body, verify::Level::Multi)?;
    body = simplify::simplify(&body);
    log.after("simplify", &body, verify::Level::Multi)?;
    let env = FlattenEnv { keep_produce: options.profile, ..flatten_env(&plan, &storage) };
    body = flatten::flatten(&body, &env);
    log.after("flatten", &body, verify::Level::Flat)?;
    body = expand_math::expand_math(&body);
    log.after("expand_math", &body, verify::Level::Flat)?;
    body = unroll::unroll(&body).map_err(|e| in_pipeline(p, e))?;
    log.after("unroll", &body, verify::Level::Flat)?;
    body = vectorize::vectorize_with(&body, &unaligned(&plan, &storage)).map_err(|e| in_pipeline(p, e))?;
    log.after("vectorize", &body, verify::Level::Vector)?;
    body = simplify::simplify(&body);
    log.after("simplify", &body, verify::Level::Vector)?;
    body = dead_allocations::dead_allocations(&body);
    log.after("dead_allocations", &body, verify::Level::Vector)?;
    body = hoist::hoist(&body);
    log.after("hoist", &body, verify::Level::Vector)?;
    body = partition::partition(&body);
    log.after("partition", &body, verify::Level::Vector)?;
    body = simplify::simplify(&body);
    log.after("simplify", &body, verify::Level::Vector)?;
    let aliases = aliases(&plan, &storage);
    body = interleave::interleave(&body, &aliases);
    log.after("interleave", &body, verify::Level::Vector)?;
    body = narrow::narrow(&body);
    log.after("narrow", &body, verify::Level::Vector)?;
    let relaxed = plan.funcs.values().any(|f| f.stages.iter().any(|s| s.relaxed));
    let args = args(&plan, &storage);
    let records = records(&plan, &storage);
    let name = p.name.clone();
    let f = LoweredFunction { name, args, body, relaxed, aliases, records, required };
    Ok((f, log.passes))
}

/// An error of a pass that does not know the pipeline's name.
fn in_pipeline(p: &Pipeline, e: Error) -> Error {
    match e {
        Error::Pipeline { message, .. } => Error::Pipeline { pipeline: p.name.clone(), message },
        e => e,
    }
}

/// How everything lies in memory.
fn flatten_env(plan: &Plan, storage: &FxHashMap<Name, nests::Storage>) -> FlattenEnv {
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
            let mut x = External::new(output_buffer(name, storage), &types, o.layout);
            x.constraints = o.constraints.clone();
            x.non_temporal = f.non_temporal.clone();
            x.alias = f.in_place_of.clone();
            env.outputs.insert(name.clone(), x);
        }
    }
    env
}

/// Flat output buffers that start and go on anywhere.
fn unaligned(plan: &Plan, storage: &FxHashMap<Name, nests::Storage>) -> FxHashSet<Name> {
    let strided = |f: &&FuncPlan| f.output.as_ref().is_some_and(|o| o.layout == Layout::Strided);
    let planes = |f: &FuncPlan| {
        let types = f.func.types();
        let x = External::new(output_buffer(&f.func.name, storage), &types, Layout::Strided);
        (0..types.len()).map(move |k| x.flat(k)).collect::<Vec<_>>()
    };
    plan.funcs.values().filter(strided).flat_map(planes).collect()
}

/// Prefix of the flat output buffers of a Func.
fn output_buffer(func: &Name, storage: &FxHashMap<Name, nests::Storage>) -> Name {
    if storage.contains_key(func) { format!("{func}.out").into() } else { func.clone() }
}

/// Flat buffers of in-place outputs with those of the inputs they overwrite.
fn aliases(plan: &Plan, storage: &FxHashMap<Name, nests::Storage>) -> Vec<(Name, Name)> {
    let mut pairs = vec![];
    for f in plan.funcs.values() {
        let (Some(o), Some(input)) = (&f.output, &f.in_place_of) else { continue };
        let types = f.func.types();
        let out = External::new(output_buffer(&f.func.name, storage), &types, o.layout);
        let input = External::new(input.clone(), &types, o.layout);
        pairs.extend((0..types.len()).map(|k| (out.flat(k), input.flat(k))));
    }
    pairs
}

/// Buffers of inputs, then of outputs, each in declaration order; then extents (i32) and strides (i64, dimensions
/// from 1; strided buffers: minima and all strides) of each in the same order; then parameters.
fn args(plan: &Plan, storage: &FxHashMap<Name, nests::Storage>) -> Vec<Arg> {
    let p = &plan.pipeline;
    let mut args = vec![];
    let mut scalars = vec![];
    let mut add =
        |name: &Name, buffer: Name, types: &[ScalarType], layout: Layout, dims: usize, kind: ArgKind| {
            let x = External::new(buffer, types, layout);
            let flat = if let Layout::Record(_) = layout { 1 } else { types.len() };
            args.extend((0..flat).map(|k| Arg { name: x.flat(k), ty: types[k], kind: kind.clone() }));
            for d in 0..dims {
                scalars.push((extent_param(name, d), ScalarType::I32));
            }
            if layout == Layout::Strided {
                scalars.extend((0..dims).map(|d| (min_param(name, d), ScalarType::I32)));
                scalars.extend((0..dims).map(|d| (step_param(name, d), ScalarType::I64)));
            } else {
                scalars.extend((1..dims).map(|d| (stride_param(name, d), ScalarType::I64)));
            }
        };
    for i in p.inputs.values() {
        add(&i.name, i.name.clone(), &i.types, i.layout, i.dims, ArgKind::Input);
    }
    for o in &p.outputs {
        let f = &plan.funcs[&o.func].func;
        add(&o.func, output_buffer(&o.func, storage), &f.types(), o.layout, f.vars.len(), ArgKind::Output);
    }
    for (e, ty) in scalars {
        if let crate::expr::ExprKind::Param(name) = e.kind() {
            args.push(Arg { name: name.clone(), ty, kind: ArgKind::Scalar });
        }
    }
    args.extend(p.params.iter().map(|(n, ty)| Arg { name: n.clone(), ty: *ty, kind: ArgKind::Scalar }));
    args
}

/// The flat buffers that hold records, with their slots.
fn records(plan: &Plan, storage: &FxHashMap<Name, nests::Storage>) -> Vec<(Name, u8)> {
    let inputs = plan.pipeline.inputs.values().map(|i| (i.name.clone(), i.layout));
    let outputs = plan.pipeline.outputs.iter().map(|o| (output_buffer(&o.func, storage), o.layout));
    let slots = |(name, layout): (Name, Layout)| match layout {
        Layout::Record(n) => Some((name, n)),
        Layout::Planar | Layout::Strided => None,
    };
    inputs.chain(outputs).filter_map(slots).collect()
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
        if let Some(dir) = &self.options.dump {
            let dir = dir.join(&self.pipeline);
            let file = dir.join(format!("{:02}_after_{pass}.ir", self.passes.len()));
            std::fs::create_dir_all(&dir)
                .and_then(|()| std::fs::write(&file, made.to_string()))
                .map_err(|e| self.error(format!("cannot write {}: {e}", file.display())))?;
        }
        self.start = Instant::now();
        Ok(())
    }

    fn after(&mut self, pass: &'static str, s: &Stmt, level: verify::Level) -> Result<(), Error> {
        self.dump(pass, s)?;
        if self.options.verify {
            // A violated invariant is a defect of the pass; the statement helps whoever looks for it.
            verify::verify(s, level)
                .map_err(|e| self.error(format!("internal error: after {pass}: {e}\n{s}")))?;
        }
        self.start = Instant::now();
        Ok(())
    }

    fn error(&self, message: String) -> Error {
        Error::Pipeline { pipeline: self.pipeline.clone(), message }
    }
}
