//! A plan in the making: which buffers and parameters there are, and the programs over them.

use crate::error::SolveError;
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::{self, Outline};
use crate::matrix_free::params::Param;
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::{Initial, VectorId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::ScalarType;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};

/// A vector that a plan holds.
pub(super) struct Held {
    pub buffer: BufferId,
    pub initial: Initial,
    /// Vectors that hold the same numbers when it is copied from outside.
    pub copies: Vec<VectorId>,
}

/// A plan in the making.
pub(super) struct Builder {
    pub k: Arc<Outline>,
    pub pool: Arc<Pool>,
    pub table: Table,
    pub vectors: BTreeMap<VectorId, Held>,
    /// Those by number.
    pub buffers: Vec<BufferId>,
    pub params: FxHashMap<(Param, ScalarType), ParamId>,
}

impl Builder {
    /// Nothing is there yet.
    pub fn new(k: Arc<Outline>, pool: Arc<Pool>) -> Builder {
        let (table, params) = (Table::new(), FxHashMap::default());
        Builder { k, pool, table, vectors: BTreeMap::new(), buffers: vec![], params }
    }

    /// Adds the parameters that follow from sizes.
    pub fn parameters(&mut self, sizes: &Sizes) {
        for (size, v) in sizes.parameters() {
            let id = self.table.add_param(size.to_string(), Scalar::I32(v));
            self.params.insert((Param::Size(size), ScalarType::I32), id);
        }
    }

    /// Adds the vectors of the outline, which have its numbers then.
    pub fn vectors(&mut self, sizes: &Sizes) -> Result<(), SolveError> {
        let k = self.k.clone();
        for (id, of) in &k.vectors {
            let spec = BufferSpec::new(of.ty, &sizes.extents(of.extents));
            let spec = spec.channels(of.channels).layout(of.layout).halo(&of.halo);
            let buffer = Buffer::new(spec).map_err(|e| SolveError::of_buffer(&id.to_string(), e))?;
            let buffer = self.table.add(id.to_string(), buffer, true);
            self.buffers.push(buffer);
            self.vectors.insert(*id, Held { buffer, initial: of.initial, copies: of.copies.clone() });
        }
        Ok(())
    }

    /// Adds the parameters that a pipeline takes and that are not there yet.
    pub fn params(&mut self, code: &Compiled, params: &[Param]) {
        for ((name, &ty), &param) in code.signature().params.iter().zip(params) {
            let zero = match ty {
                ScalarType::F32 => Scalar::F32(0.0),
                ScalarType::F64 => Scalar::F64(0.0),
                _ => Scalar::I32(0),
            };
            let table = &mut self.table;
            let add = || table.add_param(format!("{name}:{}", ty.name()), zero);
            self.params.entry((param, ty)).or_insert_with(add);
        }
    }

    /// Bytes of all buffers. The large ones are addresses only: nothing was touched yet.
    pub fn buffer_bytes(&self) -> u64 {
        self.all().map(|buffer| buffer.bytes() as u64).sum()
    }

    /// Takes the memory of all buffers.
    pub fn populate(&self) {
        self.all().for_each(|buffer| buffer.populate(&self.pool));
    }

    fn all(&self) -> impl Iterator<Item = &Buffer> {
        self.vectors.values().map(|held| self.table.buffer(held.buffer))
    }

    /// The programs of all phases.
    pub fn programs(&self, code: &[Compiled]) -> Result<BTreeMap<Phase, Program>, SolveError> {
        let program = |(phase, steps): &(Phase, Vec<outline::Step>)| {
            let mut pipelines = vec![];
            let steps = self.steps(steps, code, &mut pipelines);
            Ok((*phase, Program::new(&pipelines, &self.table, &steps)?))
        };
        self.k.phases.iter().map(program).collect()
    }

    fn steps(&self, of: &[outline::Step], code: &[Compiled], pipelines: &mut Vec<Compiled>) -> Vec<Step> {
        let step = |step: &outline::Step| match step {
            outline::Step::Run(number, vectors) => {
                pipelines.push(code[*number].clone());
                self.run(
                    PipelineId(pipelines.len() - 1),
                    &code[*number],
                    &self.k.pipelines[*number].params,
                    vectors,
                )
            }
            outline::Step::Swap(a, b) => Step::Swap(self.vectors[a].buffer, self.vectors[b].buffer),
            outline::Step::Until(done, body) => {
                // The host may end it before any iteration: see `Plan::run_until`.
                let mut body = self.steps(body, code, pipelines);
                body.insert(0, Step::Host("watch".into()));
                // `done` ends it: `max` is only what a usize can count.
                Step::Repeat { max: usize::MAX, until: self.vectors[done].buffer, body }
            }
        };
        of.iter().map(step).collect()
    }

    fn run(&self, pipeline: PipelineId, code: &Compiled, params: &[Param], vectors: &[usize]) -> Step {
        let signature = code.signature();
        let bindings = signature.buffers.iter().zip(vectors);
        let bindings = bindings.map(|(slot, &number)| (slot.name.clone(), self.buffers[number]));
        let params = signature.params.iter().zip(params);
        let params =
            params.map(|((name, &ty), &param)| (name.clone(), Value::Param(self.params[&(param, ty)])));
        Step::Run { pipeline, bindings: bindings.collect(), params: params.collect() }
    }
}
