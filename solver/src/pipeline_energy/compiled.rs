//! Machine code of the derived pipelines, and the buffers that it runs on.

use crate::pipeline_energy::derive::{Derived, OverUnknowns, direction_of, energy_of};
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::pipeline_energy::kept::Cut;
use crate::pipeline_energy::{DerivedPipeline, PipelineEnergy};
use crate::problem::memory::MemoryLimit;
use crate::problem::options::{CompileOptions, Precision};
use std::ops::Range;
use std::time::Instant;
use sumsq_codegen::compile::{Compiled, cache, first_schedule};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Dimension, FloatEnvironment, Pool, Scalar, View};
use sumsq_codegen::{Name, Pipeline, ScalarType, Schedule, Target};

/// A compiled pipeline with an output for each unknown, or none where the unknown has no effect.
pub(super) struct Routine {
    pub pipeline: Pipeline,
    pub code: Compiled,
    pub schedule: Schedule,
    pub outputs: Vec<Option<Name>>,
}

/// A symmetric matrix at the point, by its product with a direction.
pub(super) struct Linear {
    /// Values of the point alone that the product reads.
    pub kept: Option<Routine>,
    pub product: Routine,
}

/// The routines of a solve.
pub(super) struct Routines {
    pub energy: Routine,
    pub gradient: Routine,
    pub diagonal: Routine,
    pub product: Linear,
    pub wide: ScalarType,
    pub narrow: ScalarType,
    /// Names of the energies of the residual Funcs.
    pub energies: Vec<String>,
}

/// The types of energy and gradient, and of diagonal and product.
pub(super) fn floats(precision: Precision) -> (ScalarType, ScalarType) {
    match precision {
        Precision::Mixed => (ScalarType::F64, ScalarType::F32),
        Precision::F32 => (ScalarType::F32, ScalarType::F32),
        Precision::F64 => (ScalarType::F64, ScalarType::F64),
    }
}

/// Sizes of buffers by name, about.
pub(super) type OverSizes<'a> = Vec<(&'a str, &'a [i32])>;

/// A pipeline that is to be compiled, and its schedule, if somebody has given one.
pub(super) struct Job<'a> {
    pub pipeline: OverUnknowns,
    pub schedule: Option<&'a str>,
}

impl From<OverUnknowns> for Job<'_> {
    fn from(pipeline: OverUnknowns) -> Self {
        Job { pipeline, schedule: None }
    }
}

/// Compiles pipelines, all at once. Those without a schedule get one for about these sizes.
pub(super) fn compile_all(
    jobs: Vec<Job<'_>>,
    options: &CompileOptions,
    estimates: &[(&str, &[i32])],
) -> Result<Vec<Routine>, PipelineEnergyError> {
    let cache = cache();
    let mut scheduled: Vec<(Pipeline, Schedule)> = vec![];
    for Job { pipeline: OverUnknowns { pipeline, .. }, schedule: given } in &jobs {
        let made = match given {
            Some(text) => Schedule::parse(text)?,
            None => first_schedule(pipeline, estimates, cache.as_ref())?,
        };
        scheduled.push((pipeline.clone(), made));
    }
    let schedules: Vec<Schedule> = scheduled.iter().map(|(_, s)| s.clone()).collect();
    let limits = options.limits(Instant::now());
    let code = Compiled::all_within(scheduled, &Target::host(), limits)?;
    let routine = |((code, schedule), job): ((Compiled, Schedule), Job<'_>)| {
        let OverUnknowns { pipeline, outputs } = job.pipeline;
        Routine { pipeline, code, schedule, outputs }
    };
    Ok(code.into_iter().zip(schedules).zip(jobs).map(routine).collect())
}

/// Compiles one pipeline.
pub(super) fn compile(
    job: Job<'_>,
    options: &CompileOptions,
    estimates: &[(&str, &[i32])],
) -> Result<Routine, PipelineEnergyError> {
    let mut all = compile_all(vec![job], options, estimates)?;
    Ok(all.pop().unwrap_or_else(|| unreachable!("compile_all: as many routines as jobs")))
}

impl Routines {
    pub(super) fn new(
        e: &PipelineEnergy,
        options: &CompileOptions,
        estimates: &[(&str, &[i32])],
    ) -> Result<Routines, PipelineEnergyError> {
        let (wide, narrow) = floats(options.precision);
        let Derived { energy, gradient, diagonal, product } = Derived::new(e, wide, narrow)?;
        let energy = OverUnknowns { pipeline: energy, outputs: vec![] };
        let sizes = e.estimates(estimates, &[&gradient, &diagonal, &product]);
        let sizes: OverSizes<'_> = sizes.iter().map(|(n, s)| (n.as_str(), &s[..])).collect();
        use DerivedPipeline::{Diagonal, Energy, Gradient, Kept, Product};
        let job = |pipeline, which| Job { pipeline, schedule: e.schedule_of(which) };
        let jobs = vec![job(energy, Energy), job(gradient, Gradient), job(diagonal, Diagonal)];
        let all = compile_all(jobs, options, &sizes)?;
        let product = Linear::new(&product, e, [Kept, Product].map(|d| e.schedule_of(d)), options, &sizes)?;
        let Ok([energy, gradient, diagonal]) = <[Routine; 3]>::try_from(all) else {
            unreachable!("compile_all: as many routines as jobs")
        };
        let energies = e.residuals.iter().map(|r| energy_of(&r.func)).collect();
        Ok(Routines { energy, gradient, diagonal, product, wide, narrow, energies })
    }
}

impl Linear {
    /// Cuts and compiles `whole`, a pipeline over directions; `given` are the schedules of what is kept and of the rest.
    pub(super) fn new(
        whole: &OverUnknowns,
        e: &PipelineEnergy,
        given: [Option<&str>; 2],
        options: &CompileOptions,
        estimates: &[(&str, &[i32])],
    ) -> Result<Linear, PipelineEnergyError> {
        let mut dropped: Vec<Name> = vec![];
        loop {
            let Cut { kept, product } = Cut::new(whole, e, &dropped)?;
            let product = compile(Job { pipeline: product, schedule: given[1] }, options, estimates)?;
            let Some(pipeline) = kept else { return Ok(Linear { kept: None, product }) };
            let sizes = sizes_of(&product, &pipeline, estimates);
            let budget = MemoryLimit::bytes(options.max_memory, 0).map(|limit| match options.max_memory {
                Some(_) => limit / 2,
                None => limit / 4,
            });
            if let Some(largest) = beyond(&pipeline, &sizes, e, budget) {
                dropped.push(largest);
                continue;
            }
            let all = estimates.iter().copied();
            let all: OverSizes<'_> = all.chain(sizes.iter().map(|(n, s)| (&**n, &s[..]))).collect();
            let pipeline = OverUnknowns { pipeline, outputs: vec![] };
            let kept = compile(Job { pipeline, schedule: given[0] }, options, &all)?;
            return Ok(Linear { kept: Some(kept), product });
        }
    }

    /// The Funcs that are kept, with the number of values of an element and its bytes.
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.kept.iter().flat_map(|k| k.pipeline.outputs.iter().map(|o| &o.func))
    }
}

/// Extents of what is kept, about; of what they depend on more than on sizes nothing is known.
fn sizes_of(product: &Routine, kept: &Pipeline, estimates: &[(&str, &[i32])]) -> Vec<(Name, Vec<i32>)> {
    let domain = |sizes: &[i32]| -> Vec<(i32, i32)> { sizes.iter().map(|n| (0, *n)).collect() };
    let domains: Vec<(&str, Vec<(i32, i32)>)> = estimates.iter().map(|(n, s)| (*n, domain(s))).collect();
    let domains: Vec<(&str, &[(i32, i32)])> = domains.iter().map(|(n, d)| (*n, &d[..])).collect();
    let Ok(regions) = product.code.required_regions_over(&domains, &[]) else { return vec![] };
    let extent = |&(min, max): &(i64, i64)| i32::try_from(max - min + 1).unwrap_or(i32::MAX).max(0);
    let size = |name: &Name| Some((name.clone(), regions.get(name)?.iter().map(extent).collect()));
    kept.outputs.iter().filter_map(|o| size(&o.func)).collect()
}

/// The largest of what is kept without having to be, if all of it takes more than `budget` bytes.
fn beyond(
    kept: &Pipeline,
    sizes: &[(Name, Vec<i32>)],
    e: &PipelineEnergy,
    budget: Option<u64>,
) -> Option<Name> {
    let bytes = |(name, size): &(Name, Vec<i32>)| {
        let element: usize = kept.funcs[name].types().iter().map(|t| t.bytes()).sum();
        size.iter().fold(element as u64, |n, extent| n.saturating_mul(*extent as u64))
    };
    let all = sizes.iter().fold(0u64, |sum, of| sum.saturating_add(bytes(of)));
    let may_go =
        |(name, _): &&(Name, Vec<i32>)| kept.funcs[name].updates.is_empty() && !e.keep.contains(name);
    let largest = sizes.iter().filter(may_go).max_by_key(|of| bytes(of));
    largest.filter(|_| budget.is_some_and(|budget| all > budget)).map(|(name, _)| name.clone())
}

/// The memory of an unknown in one type.
enum Memory {
    Buffer(Buffer),
    Param(Scalar),
}

/// An unknown among the scalars of x.
struct Field {
    name: Name,
    direction: String,
    /// Its scalars: of a buffer in C order, the elements of a tuple fastest.
    range: Range<usize>,
    channels: usize,
    wide: Memory,
    narrow: Memory,
    along: Memory,
    /// A routine's part of the result.
    result_wide: Buffer,
    result_narrow: Buffer,
}

/// The values that products keep, by name.
pub(super) struct Kept(Vec<(Name, Buffer)>);

impl Kept {
    fn named(&self) -> Vec<(&str, &Buffer)> {
        self.0.iter().map(|(n, b)| (&**n, b)).collect()
    }

    /// Bytes of each, by name.
    pub(super) fn bytes(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(n, b)| (n, b.bytes() as u64))
    }
}

/// The numbers of a problem: what the caller gave, and buffers for the unknowns.
pub(super) struct Numbers<'a> {
    given: Vec<(&'a str, &'a Buffer)>,
    params: Vec<(String, Scalar)>,
    fields: Vec<Field>,
    energies: Vec<Buffer>,
    pub pool: &'a Pool,
}

fn scalar(v: f64, ty: ScalarType) -> Scalar {
    if ty == ScalarType::F32 { Scalar::F32(v as f32) } else { Scalar::F64(v) }
}

impl<'a> Numbers<'a> {
    /// With the caller's buffers and parameters, unknowns among them.
    pub(super) fn new(
        e: &PipelineEnergy,
        r: &Routines,
        buffers: &[(&'a str, &'a Buffer)],
        params: &[(&str, Scalar)],
        pool: &'a Pool,
    ) -> Result<Numbers<'a>, PipelineEnergyError> {
        let (mut fields, mut start) = (vec![], 0);
        for u in &e.unknowns {
            let field = Field::new(&u.name, e, r, start, buffers, params)?;
            start = field.range.end;
            fields.push(field);
        }
        let is_unknown = |name: &str| e.unknowns.iter().any(|u| *u.name == *name);
        let new = |_: &String| {
            Buffer::new(BufferSpec::new(ScalarType::F64, &[]))
                .map_err(|e| PipelineEnergyError::Buffer { name: "energy".into(), source: e })
        };
        Ok(Numbers {
            given: buffers.iter().filter(|(n, _)| !is_unknown(n)).copied().collect(),
            params: params.iter().filter(|(n, _)| !is_unknown(n)).map(|(n, v)| (n.to_string(), *v)).collect(),
            fields,
            energies: r.energies.iter().map(new).collect::<Result<_, _>>()?,
            pool,
        })
    }

    /// Number of unknown scalars.
    pub(super) fn len(&self) -> usize {
        self.fields.last().map_or(0, |f| f.range.end)
    }

    /// The scalars of each unknown, and the number of its channels.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.fields.iter().map(|f| (f.range.clone(), f.channels))
    }

    /// Bytes of the caller's buffers, and of those made here.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let of = |m: &Memory| if let Memory::Buffer(b) = m { b.bytes() } else { 0 };
        let field = |f: &Field| {
            of(&f.wide) + of(&f.narrow) + of(&f.along) + f.result_wide.bytes() + f.result_narrow.bytes()
        };
        let given = self.given.iter().map(|(_, b)| b.bytes()).sum::<usize>();
        (given as u64, self.fields.iter().map(field).sum::<usize>() as u64)
    }

    /// x becomes the point at which routines in either type run.
    pub(super) fn set_point(&mut self, x: &[f64], is_wide: bool) -> Result<(), PipelineEnergyError> {
        for f in &mut self.fields {
            let memory = if is_wide { &mut f.wide } else { &mut f.narrow };
            memory.set(&f.name, &x[f.range.clone()], self.pool)?;
        }
        Ok(())
    }

    /// The directions of products.
    pub(super) fn set_direction(&mut self, p: &[f64]) -> Result<(), PipelineEnergyError> {
        let pool = self.pool;
        self.fields.iter_mut().try_for_each(|f| f.along.set(&f.name, &p[f.range.clone()], pool))
    }

    /// Buffers for what products keep, of the sizes that they read.
    pub(super) fn kept(&self, linear: &Linear) -> Result<Kept, PipelineEnergyError> {
        let Some(routine) = &linear.kept else { return Ok(Kept(vec![])) };
        let domain = |b: &Buffer| -> Vec<(i32, i32)> {
            b.spec().min.iter().copied().zip(b.spec().extents.iter().copied()).collect()
        };
        let mut domains: Vec<(&str, Vec<(i32, i32)>)> =
            self.given.iter().map(|(n, b)| (*n, domain(b))).collect();
        for (f, output) in self.fields.iter().zip(&linear.product.outputs) {
            let own = domain(&f.result_narrow);
            domains.extend(output.iter().map(|name| (&**name, own.clone())));
            domains.extend([&*f.name, f.direction.as_str()].map(|name| (name, own.clone())));
        }
        let domains: Vec<(&str, &[(i32, i32)])> = domains.iter().map(|(n, d)| (*n, &d[..])).collect();
        let params: Vec<(&str, Scalar)> = self.params.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let regions = linear.product.code.required_regions_over(&domains, &params)?;
        let buffer = |name: &Name| {
            let f = &routine.pipeline.funcs[name];
            let region = regions.get(name).cloned().unwrap_or_else(|| vec![(0, -1); f.vars.len()]);
            let extents: Vec<i32> = region
                .iter()
                .map(|(min, max)| i32::try_from(max - min + 1).unwrap_or(i32::MAX).max(0))
                .collect();
            let min: Vec<i32> = region.iter().map(|(min, _)| i32::try_from(*min).unwrap_or(0)).collect();
            let types = f.types();
            let spec = BufferSpec::new(types[0], &extents).starting_at(&min).channels(types.len());
            let new = Buffer::new(spec);
            let of = |source| PipelineEnergyError::Buffer { name: name.to_string(), source };
            Ok((name.clone(), new.map_err(of)?))
        };
        Ok(Kept(linear.names().map(buffer).collect::<Result<_, PipelineEnergyError>>()?))
    }

    /// Computes what products keep, at the point.
    pub(super) fn keep(&self, linear: &Linear, kept: &Kept) -> Result<(), PipelineEnergyError> {
        match &linear.kept {
            Some(routine) => self.run(&routine.code, false, &kept.named()),
            None => Ok(()),
        }
    }

    /// Sets q to the product with the direction, by what is kept at the point.
    pub(super) fn product(
        &self,
        linear: &Linear,
        kept: &Kept,
        q: &mut [f64],
    ) -> Result<(), PipelineEnergyError> {
        self.evaluate_with(&linear.product, false, &kept.named(), q)
    }

    /// The energy of each residual Func at the point.
    pub(super) fn energies(&self, r: &Routines) -> Result<Vec<f64>, PipelineEnergyError> {
        let outputs: Vec<(&str, &Buffer)> =
            r.energies.iter().map(String::as_str).zip(&self.energies).collect();
        self.run(&r.energy.code, true, &outputs)?;
        Ok(self.energies.iter().map(|b| b.get::<f64>(&[], 0).unwrap_or(f64::NAN)).collect())
    }

    /// Sets `results` to those of a routine, one per unknown scalar; 0 of unknowns without effect.
    pub(super) fn evaluate(
        &self,
        routine: &Routine,
        is_wide: bool,
        results: &mut [f64],
    ) -> Result<(), PipelineEnergyError> {
        self.evaluate_with(routine, is_wide, &[], results)
    }

    /// The same, with more buffers to read.
    fn evaluate_with(
        &self,
        routine: &Routine,
        is_wide: bool,
        more: &[(&str, &Buffer)],
        results: &mut [f64],
    ) -> Result<(), PipelineEnergyError> {
        let pairs = || self.fields.iter().zip(&routine.outputs);
        let outputs = pairs().filter_map(|(f, name)| Some((&**name.as_ref()?, f.result(is_wide))));
        let outputs: Vec<(&str, &Buffer)> = outputs.chain(more.iter().copied()).collect();
        self.run(&routine.code, is_wide, &outputs)?;
        for (f, name) in pairs() {
            let own = &mut results[f.range.clone()];
            match name {
                Some(_) => f.result(is_wide).copy_channels_to(0, f.channels, own, self.pool),
                None => {
                    own.fill(0.0);
                    Ok(())
                }
            }
            .map_err(|source| PipelineEnergyError::Buffer { name: f.name.to_string(), source })?;
        }
        Ok(())
    }

    /// Runs code at the point, with these buffers besides those of the problem.
    pub(super) fn run(
        &self,
        code: &Compiled,
        is_wide: bool,
        outputs: &[(&str, &Buffer)],
    ) -> Result<(), PipelineEnergyError> {
        let _standard = FloatEnvironment::standard();
        let signature = code.signature();
        let (mut buffers, mut params) = (outputs.to_vec(), vec![]);
        for f in &self.fields {
            for (name, memory) in
                [(&*f.name, if is_wide { &f.wide } else { &f.narrow }), (f.direction.as_str(), &f.along)]
            {
                match memory {
                    Memory::Buffer(b) => buffers.push((name, b)),
                    Memory::Param(v) => params.push((name, *v)),
                }
            }
        }
        buffers.extend(self.given.iter().copied());
        params.extend(self.params.iter().map(|(n, v)| (n.as_str(), *v)));
        buffers.retain(|(name, _)| signature.buffers.iter().any(|s| *s.name == **name));
        params.retain(|(name, _)| signature.params.contains_key(*name));
        Ok(code.run(self.pool, &buffers, &params)?)
    }
}

impl Memory {
    /// Takes values in C order, on the threads of `pool`.
    fn set(&mut self, name: &Name, values: &[f64], pool: &Pool) -> Result<(), PipelineEnergyError> {
        let b = match self {
            Memory::Buffer(b) => b,
            Memory::Param(v) => {
                *v = scalar(values[0], v.ty());
                return Ok(());
            }
        };
        let extents: Vec<i32> =
            std::iter::once(b.spec().channels as i32).chain(b.spec().extents.iter().copied()).collect();
        let copied = View::reading(values, &Dimension::dense(&extents))
            .and_then(|values| b.copy_channels(0, &values, pool));
        copied.map_err(|source| PipelineEnergyError::Buffer { name: name.to_string(), source })
    }
}

impl Field {
    fn result(&self, is_wide: bool) -> &Buffer {
        if is_wide { &self.result_wide } else { &self.result_narrow }
    }

    fn new(
        name: &Name,
        e: &PipelineEnergy,
        r: &Routines,
        start: usize,
        buffers: &[(&str, &Buffer)],
        params: &[(&str, Scalar)],
    ) -> Result<Field, PipelineEnergyError> {
        let missing = || PipelineEnergyError::NotGiven { name: name.to_string() };
        let new = |spec: BufferSpec| {
            Buffer::new(spec).map_err(|source| PipelineEnergyError::Buffer { name: name.to_string(), source })
        };
        let field = |spec: BufferSpec, memory: &dyn Fn(ScalarType) -> Result<Memory, PipelineEnergyError>| {
            let of = |ty| BufferSpec { ty, ..spec.clone() };
            Ok(Field {
                name: name.clone(),
                direction: direction_of(name),
                range: start..start + spec.len() * spec.channels,
                channels: spec.channels,
                wide: memory(r.wide)?,
                narrow: memory(r.narrow)?,
                along: memory(r.narrow)?,
                result_wide: new(of(r.wide))?,
                result_narrow: new(of(r.narrow))?,
            })
        };
        let Some(input) = e.pipeline.inputs.get(name) else {
            params.iter().find(|(n, _)| **n == **name).ok_or_else(missing)?;
            return field(BufferSpec::new(r.wide, &[]), &|ty| Ok(Memory::Param(scalar(0.0, ty))));
        };
        let (_, given) = buffers.iter().find(|(n, _)| **n == **name).ok_or_else(missing)?;
        let given = given.spec();
        let spec = BufferSpec::new(r.wide, &given.extents).starting_at(&given.min).channels(given.channels);
        let own = BufferSpec { layout: given.layout, halo: input.halo.clone(), ..spec.clone() };
        field(spec, &|ty| Ok(Memory::Buffer(new(BufferSpec { ty, ..own.clone() })?)))
    }
}
