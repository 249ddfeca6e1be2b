//! Copies on a GPU: numbers as they came, of the host or of the caller's memory there, to the channels of a plan's buffers, and x back.
//!
//! Numbers of the host go up as they are, in their own type, and are converted there. The kernels are generated like all others, one for every
//! pair of types and number of dims, when it is first asked for.

use crate::error::SolveError;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::error::CudaError;
use sumsq_codegen::runtime::cuda::Device;
use sumsq_codegen::runtime::{Access, Buffer, Pool, View};
use sumsq_codegen::{Constraint, Expr, Func, Input, Pipeline, ScalarType, Schedule, Tail, Target, Var};

/// Threads of a block over a list, and over tiles of what has more dims.
const LONG: i32 = 256;
const WIDE: i32 = 32;
const HIGH: i32 = 8;

/// The copies of a solver for a GPU.
pub struct Transfers {
    target: Target,
    ordinal: usize,
    made: Mutex<FxHashMap<(ScalarType, ScalarType, usize), Compiled>>,
}

impl Transfers {
    /// Those of a target, if it is a GPU.
    pub fn of(target: &Target) -> Option<Transfers> {
        let gpu = target.gpu?;
        Some(Transfers { target: target.clone(), ordinal: gpu.ordinal, made: Mutex::default() })
    }

    /// The number of the GPU.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The GPU.
    pub fn device(&self) -> Result<Device, CudaError> {
        Device::shared(self.ordinal)
    }

    /// Tells whether numbers of the host had better go up as they are: not where they take more bytes than `there`, nor where only the host
    /// converts them.
    pub fn pays(&self, from: &View<'_>, to: ScalarType, there: usize) -> bool {
        let (ty, bytes) = (from.spec().ty, from.bytes());
        let converts = to.is_float() && !matches!(ty, ScalarType::Bool | ScalarType::F16);
        (converts || ty == to) && bytes <= there
    }

    /// Copies a view, its first dimension the channels, to the channels of a buffer from `first` on.
    pub fn fill(&self, to: &Buffer, first: usize, from: &View<'_>, pool: &Pool) -> Result<(), SolveError> {
        let channels = from.spec().extents[0] as usize;
        let to = to.channels_on(&self.device()?, first, channels, Access::Write).map_err(failed)?;
        self.copy(from, &to, pool)
    }

    /// Copies the channels of a buffer from `first` on to a view.
    pub fn read(&self, from: &Buffer, first: usize, to: &View<'_>, pool: &Pool) -> Result<(), SolveError> {
        let channels = to.spec().extents[0] as usize;
        let from = from.channels_on(&self.device()?, first, channels, Access::Read).map_err(failed)?;
        self.copy(&from, to, pool)
    }

    fn copy(&self, from: &View<'_>, to: &View<'_>, pool: &Pool) -> Result<(), SolveError> {
        let code = self.code(from.spec().ty, to.spec().ty, to.spec().extents.len())?;
        Ok(code.run(pool, &[("from", from), ("to", to)], &[])?)
    }

    fn code(&self, from: ScalarType, to: ScalarType, dims: usize) -> Result<Compiled, SolveError> {
        // One at a time: who comes second finds it made.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (from, to, dims);
        if let Some(code) = made.get(&key) {
            return Ok(code.clone());
        }
        let (pipeline, schedule) = pipeline(from, to, dims);
        let code = Compiled::new(&pipeline, &schedule, &self.target)?;
        made.insert(key, code.clone());
        Ok(code)
    }
}

fn failed(error: sumsq_codegen::runtime::BufferError) -> SolveError {
    SolveError::of_buffer("a copy on the GPU", error)
}

/// `to(c, x, y, ..) = from(c, x, y, ..)`, both anywhere in memory.
fn pipeline(from: ScalarType, to: ScalarType, dims: usize) -> (Pipeline, Schedule) {
    let mut p = Pipeline::new(format!("copy_{}_{}_{dims}", from.name(), to.name()));
    let names: Vec<String> = (0..dims).map(|d| format!("x{d}")).collect();
    let vars: Vec<Var> = names.iter().map(|name| Var::new(name.as_str())).collect();
    let at: Vec<Expr> = vars.iter().map(Var::expr).collect();
    let anywhere = |input: Input, d| input.constrain(d, Constraint::new());
    let input = p.input((0..dims).fold(Input::strided("from", &[from], dims), anywhere));
    let func = p.func(Func::new("to", &vars, vec![input.at(&at, 0).cast(to)]));
    p.output_strided(&func, vec![Constraint::new(); dims]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (p, schedule(&names))
}

/// A thread has the channels of one element.
fn schedule(vars: &[&str]) -> Schedule {
    let (mut s, tail) = (Schedule::new(), Tail::Predicate);
    let stage = s.func("to").compute_root();
    match *vars {
        [] | [_] => {
            stage.gpu_single();
        }
        [c, x] => {
            stage
                .split(x, "bx", "tx", LONG, tail)
                .reorder(&[c, "tx", "bx"])
                .gpu_blocks(&["bx"])
                .gpu_threads(&["tx"]);
        }
        [c, x, y, ref more @ ..] => {
            let (third, further) = more.split_at(more.len().min(1));
            let grid = [&["bx", "by"], third].concat();
            stage
                .split(x, "bx", "tx", WIDE, tail)
                .split(y, "by", "ty", HIGH, tail)
                .reorder(&[&[c], further, &["tx", "ty"], &grid].concat())
                .gpu_blocks(&grid)
                .gpu_threads(&["tx", "ty"]);
        }
    }
    s
}
