//! A plan in the making: which buffers and parameters there are, and the programs over them.

use crate::error::SolveError;
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::params::Param;
use crate::matrix_free::plan::compile::{Module, Modules};
use crate::matrix_free::skeleton::Skeleton;
use crate::matrix_free::stages::{self, Phase};
use crate::matrix_free::vectors::{Initial, Over, Role, VectorId, What};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Name, ScalarType};

/// A vector that a plan holds.
pub(super) struct Held {
    pub buffer: BufferId,
    pub initial: Initial,
    /// Vectors that hold the same numbers when it is copied from outside.
    pub copies: Vec<VectorId>,
}

/// A plan in the making.
pub(super) struct Builder {
    pub k: Arc<Skeleton>,
    pub pool: Arc<Pool>,
    pub table: Table,
    pub vectors: BTreeMap<VectorId, Held>,
    pub params: FxHashMap<(Param, ScalarType), ParamId>,
}

impl Builder {
    /// Nothing is there yet.
    pub fn new(k: Arc<Skeleton>, pool: Arc<Pool>) -> Builder {
        Builder { k, pool, table: Table::new(), vectors: BTreeMap::new(), params: FxHashMap::default() }
    }

    /// Adds the parameters that follow from sizes.
    pub fn parameters(&mut self, sizes: &Sizes) {
        for (size, v) in sizes.parameters() {
            let id = self.table.add_param(size.to_string(), Scalar::I32(v));
            self.params.insert((Param::Size(size), ScalarType::I32), id);
        }
    }

    /// Adds what the host counts on, whoever else uses it: the tuples of scalars, and per space x, x + d, d and r, and the directions.
    pub fn essentials(&mut self, sizes: &Sizes) -> Result<(), SolveError> {
        let tuples = [What::State, What::Next, What::Alpha, What::Done, What::Start, What::Model];
        let mut all = tuples.map(|what| what.of(())).to_vec();
        all.extend((0..self.k.shares.len()).map(|n| What::Energy.of(Over::Share(n))));
        let vectors = [What::X, What::Trial, What::DR, What::P, What::PNew];
        all.extend(self.k.spaces.iter().flat_map(|s| vectors.map(|what| what.of(s.id))));
        all.into_iter().try_for_each(|id| self.vector(id, sizes))
    }

    /// Adds the vectors and parameters that a pipeline takes and that are not there yet.
    pub fn module(&mut self, m: &Module, sizes: &Sizes) -> Result<(), SolveError> {
        let signature = m.code.signature();
        for slot in &signature.buffers {
            self.vector(self.k.in_role(m.vectors[&slot.name], m.role), sizes)?;
        }
        for (name, &ty) in &signature.params {
            let zero = match ty {
                ScalarType::F32 => Scalar::F32(0.0),
                ScalarType::F64 => Scalar::F64(0.0),
                _ => Scalar::I32(0),
            };
            let table = &mut self.table;
            let add = || table.add_param(format!("{name}:{}", ty.name()), zero);
            self.params.entry((m.params[name], ty)).or_insert_with(add);
        }
        Ok(())
    }

    fn vector(&mut self, id: VectorId, sizes: &Sizes) -> Result<(), SolveError> {
        if self.vectors.contains_key(&id) {
            return Ok(());
        }
        let of = self.k.describe(id);
        // The elements of a tuple have one type.
        let spec = BufferSpec::new(of.types[0], &sizes.extents(of.extents));
        let spec = spec.channels(of.types.len()).layout(of.layout).halo(&of.halo);
        let buffer = Buffer::new(spec).map_err(|e| SolveError::Buffer { of: id.to_string(), source: e })?;
        let buffer = self.table.add(id.to_string(), buffer, true);
        self.vectors.insert(id, Held { buffer, initial: of.initial, copies: of.copies });
        Ok(())
    }

    /// Bytes of all buffers. The large ones are addresses only: nothing was touched yet.
    pub fn buffer_bytes(&self) -> u64 {
        self.buffers().map(|buffer| buffer.bytes() as u64).sum()
    }

    /// Takes the memory of all buffers.
    pub fn populate(&self) {
        self.buffers().for_each(|buffer| buffer.populate(&self.pool));
    }

    fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.vectors.values().map(|held| self.table.buffer(held.buffer))
    }

    /// The programs of all phases.
    pub fn programs(&self, modules: &Modules) -> Result<BTreeMap<Phase, Program>, SolveError> {
        let program = |phase: Phase| {
            let mut pipelines = vec![];
            let steps = self.steps(&phase.steps(&self.k), modules, &mut pipelines);
            Ok((phase, Program::new(&pipelines, &self.table, &steps)?))
        };
        Phase::all(&self.k).into_iter().map(program).collect()
    }

    fn steps(&self, of: &[stages::Step], modules: &Modules, pipelines: &mut Vec<Compiled>) -> Vec<Step> {
        let mut steps = vec![];
        for step in of {
            match step {
                stages::Step::Run(stage) => {
                    steps.extend(modules.of(*stage).map(|m| self.run(m, m.role, pipelines)));
                }
                stages::Step::RunAs(role, stage) => {
                    steps.extend(modules.of(*stage).map(|m| self.run(m, *role, pipelines)));
                }
                stages::Step::Swap(a, b) => {
                    steps.push(Step::Swap(self.vectors[a].buffer, self.vectors[b].buffer))
                }
                stages::Step::Until(done, body) => {
                    // The host may end it before any iteration: see `Plan::run_until`.
                    let mut body = self.steps(body, modules, pipelines);
                    body.insert(0, Step::Host("watch".into()));
                    // `done` ends it: `max` is only what a usize can count.
                    steps.push(Step::Repeat { max: usize::MAX, until: self.vectors[done].buffer, body });
                }
            }
        }
        steps
    }

    fn run(&self, m: &Module, role: Role, pipelines: &mut Vec<Compiled>) -> Step {
        pipelines.push(m.code.clone());
        let signature = m.code.signature();
        let bindings = signature.buffers.iter().map(|slot| {
            let id = self.k.in_role(m.vectors[&slot.name], role);
            (slot.name.clone(), self.vectors[&id].buffer)
        });
        let params = signature.params.iter().map(|(name, &ty)| {
            let id = self.params[&(m.params[name], ty)];
            (name.clone(), Value::Param(id))
        });
        let pipeline = PipelineId(pipelines.len() - 1);
        Step::Run { pipeline, bindings: bindings.collect(), params: params.collect::<Vec<(Name, Value)>>() }
    }
}
