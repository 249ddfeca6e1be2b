//! Solves of pipeline energies: what is checked before, the solve itself, and what is said after.

use crate::outer::host::Host;
use crate::outer::lm::{Callback, Control, Minimiser};
use crate::pipeline_energy::compiled::{Numbers, Routines};
use crate::pipeline_energy::derive::OverUnknowns;
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::model::PipelineModel;
use crate::pipeline_energy::{Loss, PipelineEnergy, Residual};
use crate::problem::bounds::clamp;
use crate::problem::memory::{Memory, MemoryLimit};
use crate::problem::options::{Backend, CompileOptions, SolveOptions};
use crate::problem::report::{Lent, Report, Seconds, Setting};
use std::sync::Arc;
use std::time::Instant;
use sumsq_codegen::analysis::evaluate::{Known, evaluate};
use sumsq_codegen::runtime::{Buffer, Pool, Scalar};
use sumsq_codegen::{Expr, Param, Part, Schedule, Target};

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
    /// The schedules of energy, gradient, diagonal and product.
    pub fn schedules(&self) -> [&Schedule; 4] {
        let Routines { energy, gradient, diagonal, product, .. } = &self.routines;
        [energy, gradient, diagonal, product].map(|r| &r.schedule)
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
        let started = Instant::now();
        options.check()?;
        let numbers = Numbers::new(&self.energy, &self.routines, buffers, params, &self.pool)?;
        let memory = self.memory(&numbers)?;
        let mut x = self.start(&numbers, buffers, params);
        let warnings = self.project(&numbers, &mut x);
        let component = components(&numbers);
        let (free, bounds) = (x.len(), self.bounds(&numbers));
        let model = PipelineModel::new(numbers, &self.routines, self.options.preconditioner);
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
            setup: 0.0,
            solve: started.elapsed().as_secs_f64() - planned,
        };
        let setting = Setting {
            groups: self.energy.residuals.iter().map(|r| r.func.to_string()).collect(),
            unknowns: free,
            residuals: self.residuals(buffers, params),
            unconstrained: host.unconstrained,
            method: options.method,
            preconditioner: host.model.preconditioner(),
            device: Target::host().processor.name,
            backend: "cpu",
            why_cpu: None,
            lent: Lent::default(),
            precision: self.options.precision,
            threads: self.pool.threads(),
            memory,
            grids: Vec::new(),
        };
        Ok(Report::new(minimiser.finish(), setting, seconds, warnings))
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

    fn memory(&self, numbers: &Numbers<'_>) -> Result<Memory, PipelineEnergyError> {
        let (inputs, buffers) = numbers.bytes();
        // x, its trial, b, d, r, z, p, q, and four diagonals.
        let buffers = buffers + 12 * (numbers.len() * size_of::<f64>()) as u64;
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
    fn project(&self, numbers: &Numbers<'_>, x: &mut [f64]) -> Vec<String> {
        let mut warnings = vec![];
        for (u, (range, _)) in self.energy.unknowns.iter().zip(numbers.ranges()) {
            let mut moved = 0;
            for v in &mut x[range] {
                let inside = clamp(*v, u.lower, u.upper);
                moved += usize::from(inside != *v && !v.is_nan());
                *v = inside;
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

    fn bounds(&self, numbers: &Numbers<'_>) -> Option<[Vec<f64>; 2]> {
        let all = &self.energy.unknowns;
        if all.iter().all(|u| u.lower == f64::NEG_INFINITY && u.upper == f64::INFINITY) {
            return None;
        }
        let (mut lower, mut upper) = (vec![], vec![]);
        for (u, (range, _)) in all.iter().zip(numbers.ranges()) {
            lower.extend(range.clone().map(|_| u.lower));
            upper.extend(range.map(|_| u.upper));
        }
        Some([lower, upper])
    }

    pub(super) fn not_finite(
        &self,
        energy: f64,
        model: &mut PipelineModel<'_>,
        x: &[f64],
    ) -> PipelineEnergyError {
        use crate::outer::host::Model;
        let by_group = model.energies(x).by_group;
        let bad = self.energy.residuals.iter().zip(by_group).filter(|(_, e)| !e.is_finite());
        let residuals = bad.map(|(r, _)| r.func.to_string()).collect();
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
