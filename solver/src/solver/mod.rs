//! The solver: compile once per energy, plan once per size, solve many times.
//!
//! ```text
//! Solver::compile(energy, &options)?  ->  solver.plan(&data)?  ->  problem.solve(&mut data, &options)?
//!                                                              ->  problem.init(&data, &options)?  ->  session.step()? ...
//! ```

mod auto;
mod candidates;
mod probe;

pub use crate::solver::auto::{Machine, Work};
pub use crate::solver::probe::LinearProbe;

use crate::assembled::Threads;
use crate::check::{Certificate, CheckError, check};
use crate::error::{SolveError, Stale};
use crate::matrix_free::Wanted;
use crate::matrix_free::certify::Certified;
use crate::matrix_free::choices::{self, Choices, Derived};
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::kept::Place;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::plan::Plan;
use crate::matrix_free::plan::compile::{Modules, Settings, compile};
use crate::matrix_free::preconditioner;
use crate::matrix_free::skeleton::{Scheduled, Skeleton};
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::What;
use crate::outer::auto::Auto;
use crate::outer::lm::{Energies, energy_noise};
use crate::problem::data::ProblemData;
use crate::problem::memory::MemoryLimit;
use crate::problem::options::{Backend, CompileLimits, CompileOptions, OptionError, Preconditioner};
use crate::problem::report::{Grids, Held};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use sumsq_codegen::cache::Cache;
use sumsq_codegen::compile::cache;
use sumsq_codegen::error::CudaError;
use sumsq_codegen::ir::stmt::LoweredFunction;
use sumsq_codegen::lower::{LowerOptions, lower};
use sumsq_codegen::runtime::cuda::devices;
use sumsq_codegen::runtime::{FloatEnvironment, Pool};
use sumsq_codegen::target::Gpu;
use sumsq_codegen::{Limits, ScalarType, Target};
use sumsq_energy::model::{Energy, SpaceId};

/// An energy as machine code.
#[derive(Clone)]
pub struct Solver {
    pub(crate) code: Arc<Code>,
}

/// Things that all problems of a solver share.
pub(crate) struct Code {
    k: Arc<Outline>,
    pub(crate) settings: Settings,
    pub(crate) options: CompileOptions,
    modules: Modules,
    is_kept: bool,
    /// The reason for the CPU, where that was left open.
    pub(crate) why_cpu: Option<String>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) compile_seconds: f64,
    /// The energy as it was given, where `auto` may go on with other preconditioners: their code is made of it when they are first needed.
    given: Option<Energy>,
    /// The cache that this code was made with, for what is made later.
    cache: Option<Cache>,
    grown: Grown,
}

impl Solver {
    /// Derives the routines of an energy and compiles its pipelines.
    ///
    /// # Errors
    /// Options that are out of range or that the energy cannot honour, a back end that is not there, or a failure of the engine.
    pub fn compile(energy: Energy, options: &CompileOptions) -> Result<Solver, SolveError> {
        Solver::compile_using(energy, options, None, Kinds::Option, cache().as_ref())
    }

    /// As [`Solver::compile`], for a machine in place of that of the options: of other lanes, say. The code runs here.
    ///
    /// # Errors
    /// As of [`Solver::compile`].
    pub fn compile_for(
        energy: Energy,
        options: &CompileOptions,
        target: Target,
    ) -> Result<Solver, SolveError> {
        Solver::compile_using(energy, options, Some(target), Kinds::Option, cache().as_ref())
    }

    /// As [`Solver::compile`], with this cache in place of the user's.
    ///
    /// # Errors
    /// As of [`Solver::compile`].
    #[doc(hidden)]
    pub fn compile_kept(
        energy: Energy,
        options: &CompileOptions,
        cache: Option<&Cache>,
    ) -> Result<Solver, SolveError> {
        Solver::compile_using(energy, options, None, Kinds::Option, cache)
    }

    /// As [`Solver::compile_for`], with these preconditioners, at least one, in place of that of the options: a solve begins with the
    /// first, and [`Session::change_to`](crate::Session::change_to) goes on with another.
    ///
    /// # Errors
    /// As of [`Solver::compile`].
    #[doc(hidden)]
    pub fn compile_with(
        energy: Energy,
        options: &CompileOptions,
        preconditioners: Vec<Arc<dyn preconditioner::Preconditioner>>,
    ) -> Result<Solver, SolveError> {
        let cache = cache();
        Solver::compile_using(energy, options, None, Kinds::Given(preconditioners), cache.as_ref())
    }

    fn compile_using(
        energy: Energy,
        options: &CompileOptions,
        target: Option<Target>,
        kinds: Kinds,
        cache: Option<&Cache>,
    ) -> Result<Solver, SolveError> {
        let _standard = FloatEnvironment::standard();
        options.check()?;
        let started = Instant::now();
        let machine = match target {
            Some(target) => Machine { target, why: None },
            None => options.machine_for_energy(&energy)?,
        };
        let Machine { target, why } = machine;
        let why_cpu = why.filter(|_| target.gpu.is_none());
        let pool = || {
            let pool = Arc::new(options.threads.map_or_else(Pool::with_all_cores, Pool::new));
            match options.threads {
                Some(asked) if pool.threads() < asked => {
                    Err(SolveError::Threads { asked, started: pool.threads() })
                }
                _ => Ok(pool),
            }
        };
        let mut code = Code::new(energy, options, target, kinds, cache, pool)?;
        (code.why_cpu, code.compile_seconds) = (why_cpu, started.elapsed().as_secs_f64());
        Ok(Solver { code: Arc::new(code) })
    }

    /// The energy.
    pub fn energy(&self) -> &Energy {
        &self.code.k.energy
    }

    /// Tells whether an earlier start had kept everything: nothing was derived or compiled.
    #[doc(hidden)]
    pub fn is_kept(&self) -> bool {
        self.code.is_kept
    }

    /// Allocates buffers for the sizes of `data` and copies its numbers, which are then the problem's own.
    ///
    /// # Errors
    /// Too little memory, or a failure of the engine.
    pub fn plan(&self, data: &ProblemData) -> Result<Problem, SolveError> {
        let _standard = FloatEnvironment::standard();
        Problem::new(self.code.clone(), data)
    }
}

/// The code with a second preconditioner, for each that has levels; `None` where it was refused.
#[derive(Default)]
struct Grown {
    multigrid: OnceLock<Option<Arc<Code>>>,
    aggregation: OnceLock<Option<Arc<Code>>>,
}

impl Code {
    fn grown(&self, second: Preconditioner) -> &OnceLock<Option<Arc<Code>>> {
        match second {
            Preconditioner::Multigrid => &self.grown.multigrid,
            _ => &self.grown.aggregation,
        }
    }

    /// Tells whether [`Code::with`] has its answer already.
    pub(crate) fn has(&self, second: Preconditioner) -> bool {
        self.grown(second).get().is_some()
    }

    /// The same with a second preconditioner, if that can be.
    pub(crate) fn with(&self, second: Preconditioner) -> Option<Arc<Code>> {
        let make = || {
            let (energy, target, pool) = (self.given.clone()?, self.k.target.clone(), self.pool.clone());
            let kinds = Kinds::And(second);
            let cache = self.cache.as_ref();
            Code::new(energy, &self.options, target, kinds, cache, || Ok(pool)).ok().map(Arc::new)
        };
        self.grown(second).get_or_init(make).clone()
    }
}

/// The preconditioners of a solver.
enum Kinds {
    /// That of the options.
    Option,
    /// A second one beside it.
    And(Preconditioner),
    /// These.
    Given(Vec<Arc<dyn preconditioner::Preconditioner>>),
}

impl Code {
    /// Loads or makes it.
    fn new(
        energy: Energy,
        options: &CompileOptions,
        target: Target,
        kinds: Kinds,
        cache: Option<&Cache>,
        pool: impl FnOnce() -> Result<Arc<Pool>, SolveError>,
    ) -> Result<Code, SolveError> {
        let started = Instant::now();
        let second = if let Kinds::And(second) = &kinds { Some(*second) } else { None };
        let may_grow = matches!(kinds, Kinds::Option)
            && options.preconditioner == Preconditioner::Auto
            && target.gpu.is_none()
            && !preconditioner::kinds::with_levels(&energy).is_empty();
        let given = may_grow.then(|| energy.clone());
        // Preconditioners of others have no key.
        let place = cache.filter(|_| !matches!(kinds, Kinds::Given(_)));
        let place = place.map(|cache| Place::new(cache, &energy, (options, second), &target));
        let kept = place.as_ref().and_then(Place::load);
        let is_kept = kept.is_some();
        let (k, pipelines, settings) = match kept {
            Some((k, pipelines)) => {
                let k = k.of(options.losses.apply(energy));
                let settings = Settings::new(&k.energy, options)?.and(second, &k.energy)?;
                (k, pipelines, settings)
            }
            None => {
                let (k, settings) = skeleton(energy, options, target, kinds)?;
                let compiled = compile(&k, &settings, options.limits(started), cache);
                let (k, pipelines) = compiled.map_err(|e| e.at_largest(&k.energy))?;
                place.iter().for_each(|place| place.keep(&k, &pipelines));
                (k, pipelines, settings)
            }
        };
        let modules = Modules::new(pipelines, &k.target);
        Ok(Code {
            k: Arc::new(k),
            settings,
            options: options.clone(),
            modules,
            is_kept,
            why_cpu: None,
            pool: pool()?,
            compile_seconds: started.elapsed().as_secs_f64(),
            given,
            cache: cache.cloned(),
            grown: Grown::default(),
        })
    }

    /// A plan for the sizes of `data`, within so many bytes.
    pub(crate) fn plan(&self, data: &ProblemData<'_>, limit: Option<u64>) -> Result<Plan, SolveError> {
        Plan::new(self.k.clone(), &self.modules, data, self.pool.clone(), limit)
    }

    /// A plan for the sizes of `data`, within so many bytes, and its code: with levels where an earlier problem of this solver has gone on with them and
    /// they fit, so that no solve waits for their memory.
    fn plan_at_once(
        self: &Arc<Code>,
        data: &ProblemData<'_>,
        limit: Option<u64>,
    ) -> Result<(Arc<Code>, Plan), SolveError> {
        for code in
            [&self.grown.multigrid, &self.grown.aggregation].into_iter().filter_map(|of| of.get()?.as_ref())
        {
            match code.plan(data, limit) {
                Ok(plan) => return Ok((code.clone(), plan)),
                Err(SolveError::Memory { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok((self.clone(), self.plan(data, limit)?))
    }

    /// A plan that goes on from another one of the same problem, within so many bytes: see [`Plan::grown`].
    pub(crate) fn plan_from(
        &self,
        data: &ProblemData<'_>,
        limit: Option<u64>,
        from: &mut Plan,
    ) -> Result<Plan, SolveError> {
        Plan::grown(self.k.clone(), &self.modules, data, limit, from)
    }

    /// The machine that the code is for.
    pub(crate) fn target(&self) -> &Target {
        &self.k.target
    }
}

impl CompileOptions {
    /// The machine that code is to run on.
    ///
    /// # Errors
    /// A CPU without the instructions, a GPU that is not there or cannot be used.
    pub fn machine(&self) -> Result<Target, SolveError> {
        if self.backend != Backend::Cuda {
            return Ok(self.target.target()?);
        }
        let all = devices()?;
        let unknown = || CudaError::NoSuchDevice { asked: self.device, last: all.len() - 1 };
        let device = all.get(self.device).ok_or_else(unknown)?;
        match device.obstacle() {
            Some(obstacle) => Err(CudaError::from(obstacle).into()),
            None => {
                Ok(self.capability.map_or_else(|| device.target(), |sm| Target::cuda(sm).on(self.device)))
            }
        }
    }

    /// The machine that code is made for and not run, but shown or written: neither a GPU nor a processor need be there.
    pub fn shown_machine(&self) -> Target {
        match (self.backend, self.capability) {
            (Backend::Cuda, Some(sm)) => Target::cuda(sm),
            (Backend::Cuda, None) => self.machine().unwrap_or_else(|_| Target::cuda(Gpu::LEAST)),
            _ => self.target.anywhere(),
        }
    }

    /// Limits of a compilation that started then.
    pub fn limits(&self, started: Instant) -> Limits {
        let CompileLimits { instructions, seconds, effort } = self.limits;
        let time = Duration::try_from_secs_f64(seconds).ok().map(|longest| (started, longest));
        Limits { instructions, block: instructions / BLOCK_SHARE, time, effort }
    }

    /// The energy with its losses and choices so, and its routines.
    ///
    /// # Errors
    /// A choice that cannot be.
    pub fn derive(&self, energy: Energy) -> Result<Derived, SolveError> {
        choices::derive(&self.losses.apply(energy), self.passes, &self.choices)
    }
}

/// Share of a pipeline's instructions that one block without branches may have: what LLVM takes some ten seconds for.
const BLOCK_SHARE: u64 = 12;

/// The skeleton that the pipelines of an energy are made from, and its settings.
fn skeleton(
    energy: Energy,
    options: &CompileOptions,
    target: Target,
    kinds: Kinds,
) -> Result<(Skeleton, Settings), SolveError> {
    options.check()?;
    let mut derived = options.derive(energy)?;
    let mut settings = Settings::new(&derived.energy, options)?;
    match kinds {
        Kinds::Option => {}
        Kinds::And(second) => settings = settings.and(Some(second), &derived.energy)?,
        Kinds::Given(given) => settings.preconditioners = given,
    }
    if settings.preconditioners.iter().any(|m| m.has_hierarchies() || m.has_aggregates()) {
        derived.routines.add_couplings(&derived.energy, options.passes)?;
    }
    if settings.preconditioners.iter().any(|m| m.has_aggregates()) {
        derived.routines.add_pair_couplings(&derived.energy, options.passes)?;
    }
    let wanted = Wanted { given: &options.choices, sizes: options.sizes.as_deref() };
    let k = settings.skeleton(derived, target, wanted).map_err(OptionError::from)?;
    Ok((k, settings))
}

/// The choices of storage that an energy is compiled with. Their text is what [`crate::Overrides`] reads.
///
/// # Errors
/// As for [`Solver::compile`].
pub fn choices(energy: &Energy, options: &CompileOptions) -> Result<Choices, SolveError> {
    Ok(skeleton(energy.clone(), options, options.shown_machine(), Kinds::Option)?.0.choices)
}

/// The schedules of an energy's pipelines as text, each below the name of its pipeline.
///
/// # Errors
/// As for [`Solver::compile`].
pub fn schedules(energy: &Energy, options: &CompileOptions) -> Result<String, SolveError> {
    let (k, settings) = skeleton(energy.clone(), options, options.shown_machine(), Kinds::Option)?;
    let text = |(_, s): (_, Scheduled)| format!("# {}\n{}\n", s.pipeline.name, s.schedule);
    Ok(settings.pipelines(&k).into_iter().map(text).collect())
}

/// The kernels of an energy's pipelines as PTX for a GPU that need not be here: a module for each pipeline, with its name.
///
/// # Errors
/// As for [`Solver::compile`].
pub fn ptx(energy: &Energy, options: &CompileOptions) -> Result<Vec<(String, String)>, SolveError> {
    ptx_of(energy, options, |_| true)
}

/// As [`ptx`], of those pipelines alone whose names are wanted: no others are compiled.
///
/// # Errors
/// As for [`Solver::compile`].
#[doc(hidden)]
pub fn ptx_of(
    energy: &Energy,
    options: &CompileOptions,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, SolveError> {
    let options = CompileOptions { backend: Backend::Cuda, ..options.clone() };
    let target = options.shown_machine();
    let limits = options.limits(Instant::now());
    let (k, settings) = skeleton(energy.clone(), &options, target.clone(), Kinds::Option)?;
    let text = |(_, s): (_, Scheduled)| {
        let text = sumsq_codegen::compile::ptx_within(&s.pipeline, &s.schedule, &target, limits)?;
        Ok((s.pipeline.name, text))
    };
    let of_name = |(_, s): &(_, Scheduled)| wanted(&s.pipeline.name);
    let all: Result<_, SolveError> = settings.pipelines(&k).into_iter().filter(of_name).map(text).collect();
    all.map_err(|e| e.at_largest(energy))
}

/// The pipelines of an energy, lowered: loops, before LLVM sees them.
pub fn lowered(energy: &Energy, options: &CompileOptions) -> Result<Vec<LoweredFunction>, SolveError> {
    let limits = options.limits(Instant::now());
    let (k, settings) = skeleton(energy.clone(), options, options.shown_machine(), Kinds::Option)?;
    let options = LowerOptions { limits, ..LowerOptions::default() };
    let all = settings.pipelines(&k).into_iter().map(|(_, s)| lower(&s.pipeline, &s.schedule, &options));
    all.collect::<Result<_, _>>().map_err(|e| SolveError::from(e).at_largest(energy))
}

/// The parameters of an energy's pipelines that follow from the sizes of `data`, by the names that [`schedules`] and [`lowered`] show,
/// with their values.
///
/// # Errors
/// As for [`Solver::compile`].
pub fn sizes(
    energy: &Energy,
    options: &CompileOptions,
    data: &ProblemData,
) -> Result<BTreeMap<String, i32>, SolveError> {
    let (k, _) = skeleton(energy.clone(), options, options.shown_machine(), Kinds::Option)?;
    let all = Sizes::new(&Outline::new(&k, &[]), data)?.parameters();
    Ok(all.into_iter().map(|(size, value)| (size.to_string(), value)).collect())
}

/// E and its gradient at some x.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// E, in total and per residual group; it may be inf or NaN.
    pub energies: Energies,
    /// Residual instances that count.
    pub residuals: usize,
    /// g = J^T r per unknown, in C order, 0 where excluded. The gradient of E is 2 g.
    pub gradient: Vec<Vec<f64>>,
}

/// A problem of given sizes, ready to be solved again and again. Between solves unknowns, arrays, params and graphs may change.
pub struct Problem {
    /// The code that `plan` is of: the solver's, or, once `auto` has gone on with another preconditioner, the one that was made for it.
    pub(crate) code: Arc<Code>,
    /// The solver's.
    pub(crate) base: Arc<Code>,
    pub(crate) plan: Plan,
    /// The course of `auto` as a solve begins, where it may go on with another preconditioner.
    pub(crate) auto: Option<Auto>,
    pub(crate) plan_seconds: f64,
    dims: Vec<usize>,
}

impl Problem {
    fn new(base: Arc<Code>, data: &ProblemData) -> Result<Problem, SolveError> {
        let started = Instant::now();
        data.check_declared(&base.k.energy)?;
        let limit = MemoryLimit::bytes(base.options.max_memory, data.bytes());
        let (code, plan) = base.plan_at_once(data, limit)?;
        let plan_seconds = started.elapsed().as_secs_f64();
        let auto = match &base.given {
            Some(energy) => Some(candidates::auto(energy, data, &plan.elements_swept(data)?)),
            None => None,
        };
        Ok(Problem { code, base, plan, auto, plan_seconds, dims: data.dims().to_vec() })
    }

    /// The energy.
    pub fn energy(&self) -> &Energy {
        &self.code.k.energy
    }

    /// The hierarchies of grids that the preconditioner has, level by level.
    pub fn hierarchies(&self) -> Vec<Grids> {
        self.plan.hierarchies()
    }

    /// The entries of A on a level of a space's hierarchy, as of the last linear system: row and column as element times components plus
    /// component, and the number. `None` if there is no such level, or if it is never stored, as level 0 where its rows are made with level 1.
    #[doc(hidden)]
    pub fn level(&self, space: SpaceId, level: u8) -> Option<Vec<(usize, usize, f64)>> {
        self.plan.level(space, level)
    }

    /// The near-null candidates that the aggregates of a space were made of last, each by element and component; none if it has no aggregates.
    #[doc(hidden)]
    pub fn candidates(&self, space: SpaceId) -> Vec<Vec<f64>> {
        self.plan.candidates(space)
    }

    /// The problem, where compiling the code of preconditioners with levels costs `auto` nothing: it goes on with them that much sooner.
    #[doc(hidden)]
    #[must_use]
    pub fn with_free_compilation(mut self) -> Problem {
        self.auto = self.auto.map(Auto::with_free_compilation);
        self
    }

    /// Bytes of the buffers that the problem was planned with.
    pub fn buffer_bytes(&self) -> usize {
        self.plan.memory.buffers as usize
    }

    /// Takes arrays and params of the same sizes anew: those that have changed.
    ///
    /// # Errors
    /// Other dims, or other graphs: [`Problem::rebind`] takes these.
    pub fn set_arrays(&mut self, data: &ProblemData<'_>) -> Result<(), SolveError> {
        self.check_sizes(data)?;
        if self.plan.stale_graphs(data) {
            return Err(SolveError::Stale(Stale::Graphs));
        }
        self.plan.upload_arrays(data)
    }

    /// Takes everything in `data` anew: other sizes, other graphs. The machine code stays.
    ///
    /// # Errors
    /// As for [`Solver::plan`]; the problem is then as it was.
    pub fn rebind(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        *self = Problem::new(self.base.clone(), data)?;
        Ok(())
    }

    /// E and g = J^T r at the unknowns in `data`. (r itself is never stored; [`crate::assembled::Explicit::residuals`] lists it.)
    ///
    /// # Errors
    /// Data that the problem does not hold, or a failure of the engine. An energy that is not finite is an answer.
    pub fn evaluate(&mut self, data: &ProblemData) -> Result<Evaluation, SolveError> {
        let _standard = FloatEnvironment::standard();
        self.upload_unknowns(data)?;
        self.plan.run(Phase::Cost)?;
        let (energies, residuals) = self.plan.energies();
        self.plan.run(Phase::Linearise)?;
        let mut gradient: Vec<Vec<f64>> = data.unknown_lengths().into_iter().map(|n| vec![0.0; n]).collect();
        self.plan.download(What::GradientAndBlocks, |_| 0, &mut gradient)?;
        for (values, field) in gradient.iter_mut().zip(&self.energy().unknowns) {
            let Some(free) = self.plan.free(field.space)? else { continue };
            let elements = values.chunks_mut(usize::from(field.channels));
            elements.zip(free).filter(|(_, free)| *free == 0).for_each(|(v, _)| v.fill(0.0));
        }
        Ok(Evaluation { energies, residuals, gradient })
    }

    /// The residuals that read no unknown but excluded ones, at the unknowns in `data`. No step changes them, so that E leaves them out.
    ///
    /// # Errors
    /// As for [`Problem::evaluate`].
    pub fn held(&mut self, data: &ProblemData) -> Result<Held, SolveError> {
        let _standard = FloatEnvironment::standard();
        self.upload_unknowns(data)?;
        if self.energy().excludes.is_empty() {
            return Ok(Held::default());
        }
        self.plan.run(Phase::Cost)?;
        let (counted, residuals) = self.plan.energies();
        self.plan.free_everything()?;
        let all = self.plan.run(Phase::Cost).map(|()| self.plan.energies());
        self.plan.evaluate_masks()?;
        let (all, of_all) = all?;
        let noise = energy_noise(self.code.options.precision) * all.total;
        let energy = all.total - counted.total;
        Ok(Held { residuals: of_all - residuals, energy: if energy.abs() <= noise { 0.0 } else { energy } })
    }

    pub(crate) fn upload_unknowns(&mut self, data: &ProblemData) -> Result<(), SolveError> {
        self.check_held(data)?;
        self.plan.upload_unknowns(data)
    }

    /// Fails where anything but the unknowns in `data` is not what the plan holds.
    fn check_held(&self, data: &ProblemData<'_>) -> Result<(), SolveError> {
        self.check_sizes(data)?;
        self.plan.stale(data).map_or(Ok(()), |what| Err(SolveError::Stale(what)))
    }

    /// Fails where `data` are of other sizes or of another energy.
    pub(crate) fn check_sizes(&self, data: &ProblemData) -> Result<(), SolveError> {
        data.check_declared(self.energy())?;
        if data.dims() == self.dims {
            return Ok(());
        }
        Err(SolveError::Dims { planned: self.dims.clone(), came: data.dims().to_vec() })
    }

    /// Certifies the generated routines at `x` in direction `v`, both over all unknown scalars (see [`crate::check`]). Needs a
    /// solver compiled for float64.
    ///
    /// # Errors
    /// Another precision, an energy that the explicit path cannot evaluate, or a failure of the engine.
    pub fn certify(
        &mut self,
        data: &ProblemData,
        x: &[f64],
        v: &[f64],
    ) -> Result<Certificate, CheckError<SolveError>> {
        let _standard = FloatEnvironment::standard();
        if self.code.k.linear != ScalarType::F64 {
            return Err(CheckError::Routines(OptionError::CertificatePrecision.into()));
        }
        self.check_held(data).map_err(CheckError::Routines)?;
        let threads = Threads::new(Some(self.code.pool.threads()));
        let mut routines = Certified::new(&mut self.plan);
        let certificate = threads.run(|| check(&self.code.k.energy, data, &mut routines, x, v));
        // The last mask tried is a random one.
        self.plan.evaluate_masks().map_err(CheckError::Routines)?;
        self.plan.run(Phase::Bounds).map_err(CheckError::Routines)?;
        certificate
    }

    /// Scalars that are not excluded.
    pub(crate) fn free_scalars(&self, data: &ProblemData) -> Result<usize, SolveError> {
        let free = self.plan.k.spaces.iter().map(|s| {
            let free = self.plan.free_count(s.id)?;
            Ok(free.unwrap_or_else(|| data.elements(self.energy(), s.id)) * s.components)
        });
        free.sum()
    }
}
