//! A plan in the making: which buffers and parameters there are, and the programs over them.

use crate::error::SolveError;
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::{self, Outline, Vector};
use crate::matrix_free::params::Param;
use crate::matrix_free::skeleton::Span;
use crate::matrix_free::stages::Phase;
use crate::matrix_free::vectors::{Extents, Initial, Over, VectorId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::ScalarType;
use sumsq_codegen::compile::Compiled;
use sumsq_codegen::program::{BufferId, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::cuda::Device;
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_energy::model::SpaceId;

/// A vector that a plan holds.
pub(super) struct Held {
    pub buffer: BufferId,
    pub initial: Initial,
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
    /// The coarsest level of every space that has a hierarchy.
    pub coarsest: BTreeMap<SpaceId, u8>,
    /// See [`Sizes::has_several_rows`].
    pub has_several_rows: bool,
}

impl Builder {
    /// Nothing is there yet.
    pub fn new(k: Arc<Outline>, pool: Arc<Pool>) -> Builder {
        let (table, params) = (Table::new(), FxHashMap::default());
        let (vectors, coarsest) = (BTreeMap::new(), BTreeMap::new());
        Builder { k, pool, table, vectors, buffers: vec![], params, coarsest, has_several_rows: false }
    }

    /// Adds the parameters that follow from sizes.
    pub fn parameters(&mut self, sizes: &Sizes) {
        for (size, v) in sizes.parameters() {
            let id = self.table.add_param(size.to_string(), Scalar::I32(v));
            self.params.insert((Param::Size(size), ScalarType::I32), id);
        }
    }

    /// Adds the vectors of the outline, which have its numbers then. Those of level 1 stand for all coarser levels.
    pub fn vectors(&mut self, sizes: &Sizes) -> Result<(), SolveError> {
        let k = self.k.clone();
        self.has_several_rows = sizes.has_several_rows();
        for space in k.spaces.iter().filter(|s| s.hierarchy.is_some()) {
            self.coarsest.insert(space.id, (sizes.levels(space.id).len() - 1) as u8);
        }
        for (id, of) in k.vectors.iter().filter(|(id, _)| id.level <= 1) {
            self.vector(sizes, *id, of, of.extents)?;
            let coarsest = match id.over {
                Over::Space(space) if id.level == 1 => self.coarsest.get(&space).copied().unwrap_or(0),
                _ => 0,
            };
            for level in 2..=coarsest {
                self.vector(sizes, VectorId { level, ..*id }, of, of.extents.on_level(level))?;
            }
        }
        for (id, _) in &k.vectors {
            // A level that is not there is never read.
            let held = self.vectors.get(id).unwrap_or_else(|| &self.vectors[&VectorId { level: 1, ..*id }]);
            self.buffers.push(held.buffer);
        }
        Ok(())
    }

    fn vector(
        &mut self,
        sizes: &Sizes,
        id: VectorId,
        of: &Vector,
        extents: Extents,
    ) -> Result<(), SolveError> {
        let spec = BufferSpec::new(of.ty, &sizes.extents(extents));
        let spec = spec.channels(of.channels).layout(of.layout).halo(&of.halo);
        let buffer = Buffer::new(spec).map_err(|e| SolveError::of_buffer(&id.to_string(), e))?;
        let buffer = self.table.add(id.to_string(), buffer, true);
        self.vectors.insert(id, Held { buffer, initial: of.initial });
        Ok(())
    }

    /// Has the tuples that the host reads lie together on a GPU.
    pub fn gather_results(&mut self, device: &Device) -> Result<(), SolveError> {
        let results = self.vectors.iter().filter(|(id, _)| id.what.is_result());
        let ids: Vec<BufferId> = results.map(|(_, held)| held.buffer).collect();
        let ids: Vec<BufferId> =
            ids.into_iter().filter(|id| self.table.buffer(*id).spec().extents.is_empty()).collect();
        self.table.gather(device, &ids).map_err(|e| SolveError::of_buffer("results", e))
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
        self.vectors.values().map(|held| self.table.buffer(held.buffer).bytes() as u64).sum()
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
        let mut steps = vec![];
        for step in of {
            match step {
                outline::Step::Run(number, vectors, span) => {
                    for shift in self.shifts(*span) {
                        pipelines.push(code[*number].clone());
                        let pipeline = PipelineId(pipelines.len() - 1);
                        steps.push(self.run(pipeline, &code[*number], *number, vectors, shift));
                    }
                }
                outline::Step::Swap(a, b) => {
                    steps.push(Step::Swap(self.vectors[a].buffer, self.vectors[b].buffer));
                }
                outline::Step::Host(of) => steps.push(Step::Host(of.to_string().into())),
                outline::Step::Until(done, body) => {
                    // The host may end it before any iteration: see `Plan::run_until`.
                    let mut body = self.steps(body, code, pipelines);
                    body.insert(0, Step::Host("watch".into()));
                    // `done` ends it: `max` is only what a usize can count.
                    steps.push(Step::Repeat { max: usize::MAX, until: self.vectors[done].buffer, body });
                }
            }
        }
        steps
    }

    /// Distances of the levels of a span from those that its pipeline is built for, in the order in which it runs on them.
    fn shifts(&self, span: Span) -> Vec<u8> {
        match span {
            Span::Once => vec![0],
            Span::SeveralRows => vec![0; usize::from(self.has_several_rows)],
            Span::Behind(space) => (0..self.coarsest[&space]).collect(),
            Span::Coarsest(space) => vec![self.coarsest[&space] - 1],
            Span::Levels { space, from, to, descending } => {
                let levels = (from..to.min(self.coarsest[&space])).map(|level| level - 1);
                if descending { levels.rev().collect() } else { levels.collect() }
            }
        }
    }

    fn run(
        &self,
        pipeline: PipelineId,
        code: &Compiled,
        number: usize,
        vectors: &[usize],
        shift: u8,
    ) -> Step {
        let signature = code.signature();
        let buffer = |number: usize| match shift {
            0 => self.buffers[number],
            _ => self.vectors[&self.k.vectors[number].0.shifted(shift)].buffer,
        };
        let bindings = signature.buffers.iter().zip(vectors);
        let bindings = bindings.map(|(slot, &number)| (slot.name.clone(), buffer(number)));
        let param = |param: Param| match param {
            Param::Size(size) => Param::Size(size.shifted(shift)),
            number => number,
        };
        let params = signature.params.iter().zip(&self.k.pipelines[number].params);
        let params =
            params.map(|((name, &ty), &of)| (name.clone(), Value::Param(self.params[&(param(of), ty)])));
        Step::Run { pipeline, bindings: bindings.collect(), params: params.collect() }
    }
}
