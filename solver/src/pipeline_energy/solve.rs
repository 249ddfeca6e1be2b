//! Solves of pipeline energies: what is checked before, the solve itself, and what is said after.

use crate::outer::host::Host;
use crate::outer::lm::{Callback, Control, Minimiser};
use crate::pipeline_energy::beside::Beside;
use crate::pipeline_energy::compiled::{Numbers, Routines};
use crate::pipeline_energy::derive::OverUnknowns;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::model::PipelineModel;
use crate::pipeline_energy::{DerivedPipeline, Loss, PipelineEnergy, Residual};
use crate::problem::bounds::clamp;
use crate::problem::data::ProblemData;
use crate::problem::memory::{Memory, MemoryLimit};
use crate::problem::options::{Backend, CompileOptions, SolveOptions};
use crate::problem::report::{KeptValues, Lent, Report, Seconds, Setting};
use std::sync::Arc;
use std::time::Instant;
use sumsq_codegen::analysis::evaluate::{Known, evaluate};
use sumsq_codegen::runtime::{Buffer, Pool, Scalar};
use sumsq_codegen::{Expr, Param, Part, Pipeline, Schedule, Target};
use sumsq_energy::model::Energy;

/// Vectors of a solve.
const VECTORS: u64 = 16;

impl PipelineEnergy {
    /// Names of the unknowns.
    pub(super) fn names(&self) -> Vec<&str> {
        self.unknowns.iter().map(|u| &*u.name).collect()
    }

    /// First coordinate and extent of each dimension of a residual Func.
    pub(super) fn domain(&self, r: &Residual) -> Result<Vec<(Expr, Expr)>, PipelineEnergyError> {
        let (name, dims) = (r.func.to_string(), self.pipeline.funcs[&r.func].vars.len());
        if let Some(domain) = &r.domain {
            let came = domain.len();
            let fits = came == dims;
            return if fits {
                Ok(domain.clone())
            } else {
                Err(PipelineEnergyError::Domain { name, dims, came })
            };
        }
        let output = self.pipeline.outputs.iter().find(|o| o.func == r.func);
        let part = |d: usize| {
            let c = output?.constraints.get(d)?;
            Some((c.min.clone().unwrap_or_else(|| Expr::from(0)), c.extent.clone()?))
        };
        let all = (0..dims).map(|d| {
            part(d).ok_or_else(|| PipelineEnergyError::NoDomain { name: name.clone(), dimension: d })
        });
        all.collect()
    }

    /// That domain, by the sizes of buffers and integer parameters.
    pub(super) fn domain_at(
        &self,
        r: &Residual,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
    ) -> Vec<(i32, i32)> {
        let mut known = Known::default();
        for (name, b) in buffers {
            for (d, (extent, min)) in b.spec().extents.iter().zip(&b.spec().min).enumerate() {
                known.params.insert(Param::Of((*name).into(), Part::Extent(d)), Expr::from(*extent));
                known.params.insert(Param::Of((*name).into(), Part::Min(d)), Expr::from(*min));
            }
        }
        known.params.extend(params.iter().map(|(n, v)| (Param::from(*n), v.constant())));
        let value = |e: &Expr| evaluate(e, &known).and_then(|v| i32::try_from(v).ok()).unwrap_or(0);
        let domain = self.domain(r).unwrap_or_default();
        domain.iter().map(|(min, extent)| (value(min), value(extent).max(0))).collect()
    }

    /// Sizes for schedules: those given, and for every result that of its unknown.
    pub(super) fn estimates(
        &self,
        given: &[(&str, &[i32])],
        results: &[&OverUnknowns],
    ) -> Vec<(String, Vec<i32>)> {
        let mut all: Vec<(String, Vec<i32>)> =
            given.iter().map(|(n, s)| (n.to_string(), s.to_vec())).collect();
        for (k, u) in self.unknowns.iter().enumerate() {
            let Some((_, size)) = given.iter().find(|(n, _)| **n == *u.name) else { continue };
            let names = results.iter().filter_map(|r| r.outputs[k].as_ref());
            all.extend(names.map(|name| (name.to_string(), size.to_vec())));
            all.push((super::derive::direction_of(&u.name), size.to_vec()));
        }
        all
    }

    fn is_sound(&self) -> Result<(), PipelineEnergyError> {
        use PipelineEnergyError::*;
        if self.unknowns.is_empty() {
            return Err(NoUnknown);
        }
        if self.residuals.is_empty() {
            return Err(NoResidual);
        }
        for (k, u) in self.unknowns.iter().enumerate() {
            let (name, p) = (u.name.to_string(), &self.pipeline);
            let types = match (p.inputs.get(&u.name), p.params.get(&u.name)) {
                (Some(input), _) => input.types.clone(),
                (None, Some(ty)) => vec![*ty],
                (None, None) => return Err(NoSuchUnknown { name }),
            };
            if types.iter().any(|t| !t.is_float()) {
                return Err(IntegerUnknown { name });
            }
            if self.unknowns[..k].iter().any(|other| other.name == u.name) {
                return Err(Twice { name });
            }
            let fits = u.lower <= u.upper;
            if !fits {
                return Err(Bounds { name, lower: u.lower, upper: u.upper });
            }
        }
        for r in &self.residuals {
            let name = r.func.to_string();
            let Some(f) = self.pipeline.funcs.get(&r.func) else { return Err(NoSuchResidual { name }) };
            if !f.types().iter().any(|t| t.is_float()) {
                return Err(IntegerResidual { name });
            }
            match r.loss {
                Loss::Robust { scale, .. } if !(scale > 0.0 && scale.is_finite()) => {
                    return Err(Scale { name, scale });
                }
                _ => {}
            }
            self.domain(r)?;
        }
        Ok(())
    }

    /// Derives and compiles what a solve runs. `estimates` are the sizes, about, of inputs, outputs and residuals: schedules go by them, results do
    /// not. Of `options`, precision, preconditioner, threads, memory and limits count.
    ///
    /// # Errors
    /// Names that are not there or of the wrong kind, options out of range, a pipeline that the engine refuses.
    pub fn compile(
        &self,
        options: &CompileOptions,
        estimates: &[(&str, &[i32])],
    ) -> Result<PipelineSolver, PipelineEnergyError> {
        let started = Instant::now();
        self.is_sound()?;
        options.check()?;
        if options.backend == Backend::Cuda {
            return Err(PipelineEnergyError::Backend);
        }
        if options.preconditioner.has_levels() {
            return Err(PipelineEnergyError::Preconditioner { name: options.preconditioner.name() });
        }
        let routines = Routines::new(self, options, estimates)?;
        let pool = options.threads.map_or_else(Pool::with_all_cores, Pool::new);
        match options.threads {
            Some(asked) if pool.threads() < asked => {
                return Err(PipelineEnergyError::Threads { asked, started: pool.threads() });
            }
            _ => {}
        }
        let compile_seconds = started.elapsed().as_secs_f64();
        let (energy, options) = (self.clone(), options.clone());
        Ok(PipelineSolver { energy, options, routines, pool: Arc::new(pool), compile_seconds })
    }
}

/// A pipeline energy as machine code, for problems of any size.
pub struct PipelineSolver {
    pub(super) energy: PipelineEnergy,
    pub(super) options: CompileOptions,
    pub(super) routines: Routines,
    pub(super) pool: Arc<Pool>,
    compile_seconds: f64,
}

impl PipelineSolver {
    /// A derived pipeline and its schedule; none of [`DerivedPipeline::Kept`] if nothing is kept.
    pub fn derived(&self, which: DerivedPipeline) -> Option<(&Pipeline, &Schedule)> {
        let Routines { energy, gradient, diagonal, product, .. } = &self.routines;
        let routine = match which {
            DerivedPipeline::Energy => energy,
            DerivedPipeline::Gradient => gradient,
            DerivedPipeline::Diagonal => diagonal,
            DerivedPipeline::Kept => product.kept.as_ref()?,
            DerivedPipeline::Product => &product.product,
        };
        Some((&routine.pipeline, &routine.schedule))
    }

    /// Names of the Funcs whose values are kept between products.
    pub fn kept(&self) -> impl Iterator<Item = &str> {
        self.routines.product.names().map(|n| &**n)
    }

    /// Minimises E from the unknowns among `buffers` and `params`, which become the solution. All inputs and parameters of the pipeline must
    /// be given; unknowns are copied, the others read in place.
    ///
    /// Radii, tolerances and the rest of `options` mean the same as for any energy; what is left open is decided as for one over images.
    ///
    /// # Errors
    /// A buffer or parameter that is missing or does not fit, too little memory, an energy or gradient that is not finite at the start, or a
    /// failure of the engine: then the unknowns are as they were.
    pub fn solve(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
        options: &SolveOptions,
    ) -> Result<Report, PipelineEnergyError> {
        self.solve_with(buffers, params, options, &mut |_| Control::Continue)
    }

    /// [`PipelineSolver::solve`], observed after each step.
    ///
    /// # Errors
    /// As for [`PipelineSolver::solve`].
    pub fn solve_with(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
        options: &SolveOptions,
        callback: Callback<'_>,
    ) -> Result<Report, PipelineEnergyError> {
        self.solve_all(buffers, params, None, options, callback)
    }

    /// Minimises the sum of E and of an ordinary energy over some of the same unknowns: those of the same names, scalar for scalar as they lie in a
    /// buffer in C order. Of `beside`, an energy and its data, the values of unknowns do not count; its bounds narrow those of the pipeline
    /// energy, and what it excludes stays as it is. It is evaluated by its assembled Jacobian, in float64.
    ///
    /// # Errors
    /// As for [`PipelineSolver::solve`]; an unknown of `beside` that is none of these, or of another size.
    pub fn solve_beside(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
        (energy, data): (&Energy, &ProblemData<'_>),
        options: &SolveOptions,
        callback: Callback<'_>,
    ) -> Result<Report, PipelineEnergyError> {
        let energy = self.options.losses.apply(energy.clone());
        self.solve_all(buffers, params, Some((&energy, data)), options, callback)
    }

    fn solve_all(
        &self,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
        beside: Option<(&Energy, &ProblemData<'_>)>,
        options: &SolveOptions,
        callback: Callback<'_>,
    ) -> Result<Report, PipelineEnergyError> {
        let started = Instant::now();
        options.check()?;
        let numbers = Numbers::new(&self.energy, &self.routines, buffers, params, &self.pool)?;
        let mut x = self.start(&numbers, buffers, params);
        let beside = beside.map(|of| Beside::new(&self.energy, &numbers, of, &self.options)).transpose()?;
        let bounds = self.bounds(&numbers, beside.as_ref(), &x)?;
        let warnings = self.project(&numbers, bounds.as_ref(), &mut x);
        let (free, component) = (x.len(), components(&numbers));
        let mut model = PipelineModel::new(numbers, &self.routines, self.options.preconditioner)?;
        model.beside = beside;
        model.beside.iter_mut().for_each(|beside| beside.start(&x));
        let memory = self.memory(&model)?;
        let mut host = Host::new(model, x, bounds, component, options);
        let planned = started.elapsed().as_secs_f64();
        let minimiser = Minimiser::start(&mut host, options.clone(), self.options.precision, free);
        if let Some(failure) = host.model.failure.take() {
            return Err(failure);
        }
        let mut minimiser = minimiser.map_err(|e| self.not_finite(e.energy, &mut host.model, &host.x))?;
        let unknowns = self.bad_gradients(&host);
        if !unknowns.is_empty() {
            return Err(PipelineEnergyError::GradientNotFinite { unknowns });
        }
        minimiser.run(&mut host, callback);
        if let Some(failure) = host.model.failure.take() {
            return Err(failure);
        }
        self.write(&host.x, &host.model.numbers, buffers, params)?;
        let seconds = Seconds {
            compile: self.compile_seconds,
            plan: planned,
            solve: started.elapsed().as_secs_f64() - planned,
            ..Seconds::default()
        };
        let setting = Setting {
            groups: self.groups(host.model.beside.as_ref()),
            unknowns: free,
            residuals: self.residuals(buffers, params)
                + host.model.beside.as_ref().map_or(0, Beside::residuals),
            unconstrained: host.unconstrained,
            method: options.method,
            preconditioner: host.model.preconditioner(),
            device: Target::host().processor.name,
            backend: "cpu",
            repeatable: true,
            why_cpu: None,
            lent: Lent::default(),
            waits: 0,
            precision: self.options.precision,
            threads: self.pool.threads(),
            memory,
            grids: Vec::new(),
            without_levels: Vec::new(),
        };
        let mut report = Report::new(minimiser.finish(), setting, seconds, warnings);
        let kept = host.model.kept.bytes();
        report.kept = kept.map(|(name, bytes)| KeptValues { func: name.to_string(), bytes }).collect();
        Ok(report)
    }

    fn groups(&self, beside: Option<&Beside<'_>>) -> Vec<String> {
        let own = self.energy.residuals.iter().map(|r| r.func.to_string());
        own.chain(beside.into_iter().flat_map(|b| b.groups.iter().cloned())).collect()
    }

    /// Number of residuals, tuples by their floats.
    fn residuals(&self, buffers: &[(&str, &Buffer)], params: &[(&str, Scalar)]) -> usize {
        let count = |r: &Residual| {
            let floats = self.energy.pipeline.funcs[&r.func].types().into_iter().filter(|t| t.is_float());
            let domain = self.energy.domain_at(r, buffers, params);
            floats.count() * domain.iter().map(|(_, extent)| *extent as usize).product::<usize>()
        };
        self.energy.residuals.iter().map(count).sum()
    }

    /// The memory of a solve. Buffers are not touched before it is known to suffice.
    fn memory(&self, model: &PipelineModel<'_>) -> Result<Memory, PipelineEnergyError> {
        let (inputs, buffers) = model.numbers.bytes();
        let kept: u64 = model.kept.bytes().map(|(_, bytes)| bytes).sum();
        // x, its trial, the step between them, g, b, d, r, z, p, q; the damping, four diagonals and the channel of each scalar.
        let kept = kept + model.beside.as_ref().map_or(0, Beside::bytes);
        let buffers = buffers + kept + VECTORS * (model.numbers.len() * size_of::<f64>()) as u64;
        let limit = MemoryLimit::bytes(self.options.max_memory, inputs);
        let too_much = |limit| PipelineEnergyError::Memory { needed: inputs.saturating_add(buffers), limit };
        Memory::within(inputs, buffers, limit).map_err(too_much)
    }

    /// The unknowns as they are given.
    pub(super) fn start(
        &self,
        numbers: &Numbers<'_>,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
    ) -> Vec<f64> {
        let mut x = Vec::with_capacity(numbers.len());
        for u in &self.energy.unknowns {
            match buffers.iter().find(|(n, _)| **n == *u.name) {
                Some((_, b)) => x.extend(b.to_vec::<f64>()),
                None => {
                    let given = params.iter().find(|(n, _)| **n == *u.name);
                    x.extend(given.and_then(|(_, v)| v.constant().as_float()));
                }
            }
        }
        x
    }

    /// Moves x into its bounds; says of which unknowns how many scalars were outside.
    fn project(&self, numbers: &Numbers<'_>, bounds: Option<&[Vec<f64>; 2]>, x: &mut [f64]) -> Vec<String> {
        let Some([lower, upper]) = bounds else { return vec![] };
        let mut warnings = vec![];
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            let mut moved = 0;
            for i in range {
                let inside = clamp(x[i], lower[i], upper[i]);
                moved += usize::from(inside != x[i] && !x[i].is_nan());
                x[i] = inside;
            }
            if moved > 0 {
                warnings.push(format!(
                    "{moved} scalars of `{}` started outside of their bounds: moved to the nearest bound",
                    u.name
                ));
            }
        }
        warnings
    }

    /// Lower and upper bound of each scalar, if there are any.
    pub(super) fn bounds(
        &self,
        numbers: &Numbers<'_>,
        beside: Option<&Beside<'_>>,
        x: &[f64],
    ) -> Result<Option<[Vec<f64>; 2]>, PipelineEnergyError> {
        let mut bounds = [vec![], vec![]];
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            bounds[0].extend(range.clone().map(|_| u.lower));
            bounds[1].extend(range.map(|_| u.upper));
        }
        beside.iter().for_each(|beside| beside.narrow(&mut bounds, x));
        let [lower, upper] = &bounds;
        for (u, (mut range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            if let Some(i) = range.find(|&i| lower[i] > upper[i]) {
                let (name, lower, upper) = (u.name.to_string(), lower[i], upper[i]);
                return Err(PipelineEnergyError::Bounds { name, lower, upper });
            }
        }
        let is_free = bounds.iter().flatten().all(|b| b.is_infinite());
        Ok((!is_free).then_some(bounds))
    }

    pub(super) fn not_finite(
        &self,
        energy: f64,
        model: &mut PipelineModel<'_>,
        x: &[f64],
    ) -> PipelineEnergyError {
        use crate::outer::host::Model;
        let by_group = model.energies(x).by_group;
        let groups = self.groups(model.beside.as_ref());
        let bad = groups.into_iter().zip(by_group).filter(|(_, e)| !e.is_finite());
        let residuals = bad.map(|(name, _)| name).collect();
        PipelineEnergyError::InitialNotFinite { energy, residuals }
    }

    /// Unknowns whose gradient is not finite at the start.
    fn bad_gradients(&self, host: &Host<'_, PipelineModel<'_>>) -> Vec<String> {
        let ranges = host.model.numbers.ranges();
        let bad = |range: std::ops::Range<usize>| host.gradient()[range].iter().any(|g| !g.is_finite());
        let all = self.energy.unknowns.iter().zip(ranges);
        all.filter(|(_, (range, _))| bad(range.clone())).map(|(u, _)| u.name.to_string()).collect()
    }

    /// Writes x to the caller's unknowns.
    pub(super) fn write(
        &self,
        x: &[f64],
        numbers: &Numbers<'_>,
        buffers: &[(&str, &Buffer)],
        params: &mut [(&str, Scalar)],
    ) -> Result<(), PipelineEnergyError> {
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            if let Some((name, b)) = buffers.iter().find(|(n, _)| **n == *u.name) {
                let source = b.copy_from(&x[range]);
                source.map_err(|source| PipelineEnergyError::Buffer { name: name.to_string(), source })?;
            } else if let Some((_, v)) = params.iter_mut().find(|(n, _)| **n == *u.name) {
                *v = match v {
                    Scalar::F32(_) => Scalar::F32(x[range.start] as f32),
                    _ => Scalar::F64(x[range.start]),
                };
            }
        }
        Ok(())
    }
}

/// The channel of an unknown that each scalar belongs to, by number.
fn components(numbers: &Numbers<'_>) -> Vec<usize> {
    let (mut all, mut first) = (vec![], 0);
    for (range, channels) in numbers.ranges() {
        all.extend((0..range.len()).map(|i| first + i % channels));
        first += channels;
    }
    all
}
