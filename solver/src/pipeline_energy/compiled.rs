//! Machine code of the derived pipelines, and the buffers that it runs on.

use crate::pipeline_energy::PipelineEnergy;
use crate::pipeline_energy::derive::{Derived, OverUnknowns, direction_of, energy_of};
use crate::pipeline_energy::error::PipelineEnergyError;
use crate::problem::options::{CompileOptions, Precision};
use std::ops::Range;
use std::time::Instant;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::gradient::schedule;
use sumsq_codegen::runtime::{Buffer, BufferSpec, FloatEnvironment, Pool, Scalar};
use sumsq_codegen::{Name, Pipeline, ScalarType, Schedule, Target};

/// A compiled pipeline with an output for each unknown, or none where the unknown has no effect.
pub(super) struct Routine {
    pub code: Compiled,
    pub schedule: Schedule,
    pub outputs: Vec<Option<Name>>,
}

/// The four routines.
pub(super) struct Routines {
    pub energy: Routine,
    pub gradient: Routine,
    pub diagonal: Routine,
    pub product: Routine,
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

/// Schedules pipelines for about these sizes, and compiles them, all at once.
pub(super) fn compile_all(
    pipelines: Vec<OverUnknowns>,
    options: &CompileOptions,
    estimates: &[(&str, &[i32])],
) -> Result<Vec<Routine>, PipelineEnergyError> {
    let mut jobs: Vec<(Pipeline, Schedule)> = vec![];
    for d in &pipelines {
        jobs.push((d.pipeline.clone(), schedule(&d.pipeline, estimates, &[], &[])?));
    }
    let schedules: Vec<Schedule> = jobs.iter().map(|(_, s)| s.clone()).collect();
    let limits = options.limits(Instant::now());
    let code = Compiled::all_within(jobs, &Target::host(), limits)?;
    let all = code.into_iter().zip(schedules).zip(pipelines);
    Ok(all.map(|((code, schedule), d)| Routine { code, schedule, outputs: d.outputs }).collect())
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
        let estimates = e.estimates(estimates, &[&gradient, &diagonal, &product]);
        let estimates: Vec<(&str, &[i32])> = estimates.iter().map(|(n, s)| (n.as_str(), &s[..])).collect();
        let all = compile_all(vec![energy, gradient, diagonal, product], options, &estimates)?;
        let Ok([energy, gradient, diagonal, product]) = <[Routine; 4]>::try_from(all) else {
            unreachable!("compile_all: as many routines as pipelines")
        };
        let energies = e.residuals.iter().map(|r| energy_of(&r.func)).collect();
        Ok(Routines { energy, gradient, diagonal, product, wide, narrow, energies })
    }
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

/// The numbers of a problem: what the caller gave, and buffers for the unknowns.
pub(super) struct Numbers<'a> {
    given: Vec<(&'a str, &'a Buffer)>,
    params: Vec<(String, Scalar)>,
    fields: Vec<Field>,
    energies: Vec<Buffer>,
    pool: &'a Pool,
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
            memory.set(&f.name, &x[f.range.clone()])?;
        }
        Ok(())
    }

    /// The directions of products.
    pub(super) fn set_direction(&mut self, p: &[f64]) -> Result<(), PipelineEnergyError> {
        self.fields.iter_mut().try_for_each(|f| f.along.set(&f.name, &p[f.range.clone()]))
    }

    /// The energy of each residual Func at the point.
    pub(super) fn energies(&self, r: &Routines) -> Result<Vec<f64>, PipelineEnergyError> {
        let outputs: Vec<(&str, &Buffer)> =
            r.energies.iter().map(String::as_str).zip(&self.energies).collect();
        self.run(&r.energy.code, true, &outputs)?;
        Ok(self.energies.iter().map(|b| b.get::<f64>(&[], 0).unwrap_or(f64::NAN)).collect())
    }

    /// The results of a routine, one per unknown scalar; 0 of unknowns without effect.
    pub(super) fn evaluate(&self, routine: &Routine, is_wide: bool) -> Result<Vec<f64>, PipelineEnergyError> {
        let pairs = || self.fields.iter().zip(&routine.outputs);
        let outputs = pairs().filter_map(|(f, name)| Some((&**name.as_ref()?, f.result(is_wide))));
        let outputs: Vec<(&str, &Buffer)> = outputs.collect();
        self.run(&routine.code, is_wide, &outputs)?;
        let mut all = Vec::with_capacity(self.len());
        for (f, name) in pairs() {
            match name {
                Some(_) => all.extend(f.result(is_wide).to_vec::<f64>()),
                None => all.extend(f.range.clone().map(|_| 0.0)),
            }
        }
        Ok(all)
    }

    /// Runs code at the point, with these outputs.
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
    fn set(&mut self, name: &Name, values: &[f64]) -> Result<(), PipelineEnergyError> {
        match self {
            Memory::Buffer(b) => b
                .copy_from(values)
                .map_err(|source| PipelineEnergyError::Buffer { name: name.to_string(), source })?,
            Memory::Param(v) => *v = scalar(values[0], v.ty()),
        }
        Ok(())
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
