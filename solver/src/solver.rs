//! The solver: compile once per energy, plan once per size, solve many times.
//!
//! ```text
//! Solver::compile(energy, &options)?  ->  solver.plan(&data)?  ->  problem.solve(&mut data, &options, &mut callback)?
//! ```

mod probe;

pub use probe::LinearProbe;

use crate::data::ProblemData;
use crate::error::SolveError;
use crate::generated::Prepared;
use crate::generated::compile::{Modules, Settings};
use crate::generated::plan::Plan;
use crate::generated::steps::Run;
use crate::lm::{Callback, minimise};
use crate::options::{Backend, Method, Options, Precision};
use crate::report::{Report, Seconds, Termination};
use std::sync::Arc;
use std::time::Instant;
use sumsq_codegen::backend::HostTarget;
use sumsq_codegen::runtime::Pool;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, SpaceId};

/// An energy as machine code.
pub struct Solver {
    energy: Energy,
    prepared: Prepared,
    settings: Settings,
    modules: Modules,
    target: HostTarget,
    pool: Arc<Pool>,
    compile_seconds: f64,
}

impl Solver {
    /// Derives the routines of an energy and compiles its pipelines. Precision, preconditioner, back end and thread count are taken
    /// from `options` here; all else when solving.
    pub fn compile(energy: Energy, options: &Options) -> Result<Solver, SolveError> {
        let started = Instant::now();
        if options.backend == Backend::Cuda {
            return Err(SolveError::Backend("cuda"));
        }
        let settings = Settings::new(&energy, options)?;
        let prepared = Prepared::new(&energy);
        let target = HostTarget::host();
        let modules = Modules::new(&settings.skeleton(&energy, &prepared), &target)?;
        let pool = Arc::new(options.threads.map_or_else(Pool::with_all_cores, Pool::new));
        let compile_seconds = started.elapsed().as_secs_f64();
        Ok(Solver { energy, prepared, settings, modules, target, pool, compile_seconds })
    }

    /// The energy.
    pub fn energy(&self) -> &Energy {
        &self.energy
    }

    /// Allocates buffers for the sizes of `data` and copies its numbers.
    pub fn plan(&self, data: &ProblemData) -> Result<Problem<'_>, SolveError> {
        let started = Instant::now();
        let k = self.settings.skeleton(&self.energy, &self.prepared);
        let streaming = self.vector_bytes(data) > self.target.llc_bytes;
        let plan = Plan::new(k, &self.modules, data, self.pool.clone(), streaming)?;
        Ok(Problem { solver: self, plan, plan_seconds: started.elapsed().as_secs_f64() })
    }

    /// Bytes that a sweep of PCG moves: a bound on what it would keep in the cache.
    fn vector_bytes(&self, data: &ProblemData) -> usize {
        let spaces = (0..self.energy.spaces.len() as u32).map(SpaceId);
        let scalars = spaces.map(|s| component_count(&self.energy, s) * data.elements(&self.energy, s));
        4 * scalars.sum::<usize>() * self.settings.linear.bytes()
    }
}

/// A problem of given sizes, ready to be solved again and again. Unknowns, arrays and params may change between solves.
pub struct Problem<'s> {
    solver: &'s Solver,
    plan: Plan<'s>,
    plan_seconds: f64,
}

impl Problem<'_> {
    /// Takes arrays and params of the same sizes anew.
    pub fn set_arrays(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        self.plan.upload_arrays(data)
    }

    /// Minimises from the unknowns in `data` and writes the result there. On an error `data` is unchanged.
    pub fn solve(
        &mut self,
        data: &mut ProblemData,
        options: &Options,
        callback: Callback<'_>,
    ) -> Result<Report, SolveError> {
        self.plan.upload_unknowns(data)?;
        let free = self.free_scalars(data);
        let ten_times = || if options.linear_tolerance.is_some() { 10 * free } else { 500 };
        let limit = options.linear_iterations.unwrap_or_else(ten_times);
        let started = Instant::now();
        let mut run = Run::new(&mut self.plan, options, limit);
        let outcome = minimise(&mut run, options, free, callback);
        let (failure, residuals, unconstrained) =
            (run.failure.take(), run.residuals, run.start.unconstrained);
        if let Some(e) = failure {
            return Err(e);
        }
        let outcome =
            outcome.map_err(|e| SolveError::InitialNotFinite { energy: e.energy, place: String::new() })?;
        let solve = started.elapsed().as_secs_f64();
        self.plan.download_unknowns(data);
        let seconds = Seconds { compile: self.solver.compile_seconds, plan: self.plan_seconds, solve };
        let mut warnings = data.warnings.clone();
        if outcome.termination == Termination::NoFreeUnknown {
            warnings.push("every unknown is excluded: there is nothing to solve".into());
        }
        Ok(Report {
            energy_initial: outcome.energy_initial,
            energy_final: outcome.energy_final,
            termination: outcome.termination,
            linear_iterations_total: outcome.iterations.iter().map(|i| i.linear_iterations).sum(),
            iterations: outcome.iterations,
            unknowns: free,
            residuals,
            unconstrained: unconstrained as usize,
            method: if options.method == Method::GaussNewton { "gn" } else { "lm" },
            preconditioner: self.preconditioner(),
            backend: "cpu",
            device: self.solver.target.cpu.clone(),
            precision: match options.precision {
                Precision::Mixed => "mixed",
                Precision::F32 => "f32",
                Precision::F64 => "f64",
            },
            threads: self.solver.pool.threads(),
            seconds,
            warnings,
        })
    }

    fn preconditioner(&self) -> &'static str {
        match self.solver.settings {
            Settings { identity: true, .. } => "none",
            Settings { block: true, .. } => "block_jacobi",
            _ => "jacobi",
        }
    }

    /// Scalars that are not excluded.
    fn free_scalars(&self, data: &ProblemData) -> usize {
        let spaces = self.plan.k.spaces.iter();
        let free = spaces.map(|s| {
            let mask = self.plan.buffer(&sumsq_energy::emit::names::free(s.id)).map(|b| b.to_vec::<u8>());
            let elements = match mask {
                Some(m) => m.iter().filter(|&&f| f != 0).count(),
                None => data.elements(&self.solver.energy, s.id),
            };
            elements * s.components
        });
        free.sum()
    }
}
