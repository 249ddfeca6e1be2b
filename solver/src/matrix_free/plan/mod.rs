//! A solver's buffers for given sizes, and its pipelines bound to them as programs.

mod build;
pub mod compile;
mod grids;
mod grow;
mod host;
mod lend;
pub mod on_device;
pub mod steps;
mod transfer;
mod upload;

use crate::error::SolveError;
use crate::matrix_free::domain::sizes::Sizes;
use crate::matrix_free::outline::Outline;
use crate::matrix_free::params::{Number, Param};
use crate::matrix_free::plan::build::{Builder, Held};
use crate::matrix_free::plan::compile::Modules;
use crate::matrix_free::plan::host::{Aggregates, Host};
use crate::matrix_free::plan::on_device::OnDevice;
use crate::matrix_free::scalars::Scalar;
use crate::matrix_free::skeleton::Space;
use crate::matrix_free::stages::{HostStep, Phase};
use crate::matrix_free::vectors::{Initial, Over, VectorId, What};
use crate::outer::lm::Energies;
use crate::problem::bounds::Bounds;
use crate::problem::cancel::Watch;
use crate::problem::data::{ProblemData, Stamp};
use crate::problem::memory::Memory;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::ScalarType;
use sumsq_codegen::program::{Flow, ParamId, Program, Table};
use sumsq_codegen::runtime::{self, Buffer, BufferError, Pool};
use sumsq_energy::model::{GraphId, SpaceId};

/// Buffers, parameters and programs of a problem of given sizes.
///
/// Tuples of scalars, and of every space x, x + d, d and r, and the directions, are always there. Any other vector is there if
/// some pipeline of the energy uses it.
pub struct Plan {
    pub(crate) k: Arc<Outline>,
    pub(crate) table: Table,
    vectors: BTreeMap<VectorId, Held>,
    params: FxHashMap<(Param, ScalarType), ParamId>,
    programs: BTreeMap<Phase, Program>,
    /// The coarsest level of every space that has a hierarchy.
    coarsest: BTreeMap<SpaceId, u8>,
    /// The hierarchy of every space that has aggregates.
    aggregates: BTreeMap<SpaceId, Aggregates>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) memory: Memory,
    uploaded: Uploaded,
    device: Option<OnDevice>,
}

/// Contents of the buffers of arrays and of the parameters.
#[derive(Default)]
struct Uploaded {
    arrays: Vec<Option<Stamp>>,
    params: Vec<Stamp>,
    graphs: Stamp,
}

impl Plan {
    /// Allocates everything for the sizes of `data`, unless it takes more bytes than the limit, or than a GPU has free, and copies its
    /// numbers.
    pub fn new(
        k: Arc<Outline>,
        modules: &Modules,
        data: &ProblemData<'_>,
        pool: Arc<Pool>,
        limit: Option<u64>,
    ) -> Result<Plan, SolveError> {
        let sizes = Sizes::new(&k, data)?;
        let mut plan = Plan::laid_out(k.clone(), modules, &sizes, data, pool, limit)?;
        plan.populate(|_| true);
        plan.fill_graphs(&sizes, data)?;
        plan.upload_arrays(data)?;
        plan.upload_unknowns(data)?;
        Ok(plan)
    }

    /// The same before anything is in its buffers.
    fn laid_out(
        k: Arc<Outline>,
        modules: &Modules,
        sizes: &Sizes<'_>,
        data: &ProblemData<'_>,
        pool: Arc<Pool>,
        limit: Option<u64>,
    ) -> Result<Plan, SolveError> {
        let mut b = Builder::new(k.clone(), pool);
        b.parameters(sizes);
        b.vectors(sizes)?;
        modules.pipelines.iter().zip(&k.pipelines).for_each(|(code, of)| b.params(code, &of.params));
        let aggregates = host::aggregates(&k, sizes, data);
        let levels: usize = aggregates.values().map(|of| of.levels.bytes()).sum();
        let (inputs, buffers) = (data.bytes(), b.buffer_bytes() + levels as u64);
        let too_much = |limit| SolveError::Memory { inputs, buffers, limit };
        let memory = Memory::within(inputs, buffers, limit).map_err(too_much)?;
        let gpu = modules.transfers.as_ref().map(|on| Ok::<_, SolveError>((on.clone(), on.device()?)));
        let gpu = gpu.transpose()?;
        if let Some((_, device)) = &gpu {
            device.require(buffers)?;
            b.gather_results(device)?;
        }
        let programs = b.programs(&modules.pipelines)?;
        let device = gpu.map(|(on, device)| OnDevice::new(on, device, &modules.pipelines, &b));
        let Builder { pool, table, vectors, params, coarsest, .. } = b;
        Ok(Plan {
            k,
            table,
            vectors,
            params,
            programs,
            coarsest,
            aggregates,
            pool,
            memory,
            uploaded: Uploaded::default(),
            device,
        })
    }

    /// Takes the memory of these vectors; that of a GPU is taken when it is first written.
    fn populate(&self, of: impl Fn(&VectorId) -> bool) {
        if self.device.is_none() {
            let held = self.vectors.iter().filter(|(id, _)| of(id)).map(|(_, held)| held);
            held.for_each(|held| self.table.buffer(held.buffer).populate(&self.pool));
        }
    }

    /// A vector; `None` if no pipeline of the energy uses it.
    pub(crate) fn buffer(&self, id: VectorId) -> Option<&Buffer> {
        self.vectors.get(&id).map(|v| self.table.buffer(v.buffer))
    }

    /// A vector that is always there: see [`Outline`].
    fn essential(&self, id: VectorId) -> &Buffer {
        self.table.buffer(self.vectors[&id].buffer)
    }

    /// A scalar.
    pub(crate) fn scalar<S: Scalar>(&self, s: S) -> f64 {
        let value = self.essential(S::OF.of(())).get(&[], s.index());
        value.expect("a tuple has all its scalars")
    }

    /// All scalars of a tuple that is no vector.
    pub(crate) fn tuple(&self, id: VectorId) -> Vec<f64> {
        self.buffer(id).map(Buffer::to_vec::<f64>).unwrap_or_default()
    }

    /// E, as the last run of a cost says, and the number of instances that count.
    pub(crate) fn energies(&self) -> (Energies, usize) {
        let (mut by_group, mut count) = (vec![0.0; self.k.energy.groups.len()], 0.0);
        for (n, share) in self.k.shares.iter().enumerate() {
            let tuple = self.essential(What::Energy.of(Over::Share(n)));
            let scalar = |i| -> f64 { tuple.get(&[], i).expect("a tuple has all its scalars") };
            let groups = share.iter().map(|g| g.index()).enumerate();
            groups.for_each(|(i, group)| by_group[group] += scalar(i));
            count += scalar(share.len());
        }
        let total = by_group.iter().sum();
        (Energies { total, by_group }, count as usize)
    }

    /// Sets a number in every precision in which some pipeline takes it.
    pub(crate) fn set_number(&mut self, number: Number, value: f64) -> Result<(), SolveError> {
        let precisions = [runtime::Scalar::F32(value as f32), runtime::Scalar::F64(value)];
        for scalar in precisions {
            if let Some(&id) = self.params.get(&(Param::Number(number), scalar.ty())) {
                self.table.set_param(id, scalar)?;
            }
        }
        Ok(())
    }

    /// Evaluates what is excluded.
    pub(crate) fn evaluate_masks(&mut self) -> Result<(), SolveError> {
        let k = self.k.clone();
        // The pipeline writes the others, whole.
        let is_unmasked =
            |id: VectorId| !k.energy.excludes.iter().any(|(space, _)| id.over == Over::Space(*space));
        self.reset(Initial::OnesPerBinding, is_unmasked);
        self.start(Phase::Mask)?;
        self.mark_near()
    }

    /// Lets nothing be excluded, until masks are evaluated again.
    pub(crate) fn free_everything(&mut self) -> Result<(), SolveError> {
        self.reset(Initial::OnesPerBinding, |_| true);
        self.mark_near()
    }

    /// Gives vectors their first values again.
    fn reset(&self, to: Initial, of: impl Fn(VectorId) -> bool) {
        for (_, held) in self.vectors.iter().filter(|(id, held)| held.initial == to && of(**id)) {
            let buffer = self.table.buffer(held.buffer);
            match to {
                Initial::OnesPerBinding => buffer.fill(1u8),
                Initial::Zeros | Initial::ZerosPerMask => buffer.clear(),
            }
        }
    }

    /// Marks the vectors that hold free elements or are near one. No others are written: there the vectors and M^-1 become 0 here, and stay so.
    fn mark_near(&mut self) -> Result<(), SolveError> {
        self.reset(Initial::ZerosPerMask, |_| true);
        self.start(Phase::Near)
    }

    /// 1 per free element of a space, 0 per excluded one; `None` where nothing masks it.
    pub(crate) fn free(&self, space: SpaceId) -> Result<Option<Vec<u8>>, SolveError> {
        let Some(free) = self.buffer(What::Free.of(space)) else { return Ok(None) };
        free.sync_host()?;
        Ok(Some(free.to_vec()))
    }

    /// The number of free elements of a space; `None` where it excludes none.
    pub(crate) fn free_count(&self, space: SpaceId) -> Result<Option<usize>, SolveError> {
        let Some(count) = self.buffer(What::FreeCount.of(space)) else { return Ok(None) };
        count.sync_host()?;
        Ok(count.get::<f64>(&[], 0).map(|n| n as usize))
    }

    /// The elements of a space that sweeps go over: where vectors are skipped, about as many as are free.
    pub(crate) fn elements_swept(
        &self,
        data: &ProblemData<'_>,
    ) -> Result<impl Fn(SpaceId) -> f64, SolveError> {
        let of = |space: SpaceId| data.elements(&self.k.energy, space);
        let skipping = self.k.spaces.iter().filter(|s| s.skips);
        let free = skipping.map(|s| Ok((s.id, self.free_count(s.id)?.unwrap_or_else(|| of(s.id)))));
        let free = free.collect::<Result<FxHashMap<SpaceId, usize>, SolveError>>()?;
        Ok(move |space| free.get(&space).copied().unwrap_or_else(|| of(space)) as f64)
    }

    /// Moves x into its bounds. Says of which unknowns how many scalars were outside.
    pub fn project(&mut self, data: &ProblemData<'_>) -> Result<Vec<String>, SolveError> {
        let k = self.k.clone();
        let energy = &*k.energy;
        if energy.bounds.is_empty() {
            return Ok(Vec::new());
        }
        self.run(Phase::Bounds)?;
        let mut bounds = Bounds::none(data);
        self.download(What::Lower, |_| 0, &mut bounds.lower)?;
        self.download(What::Upper, |_| 0, &mut bounds.upper)?;
        bounds.check(energy, data)?;
        let free = |s: &Space| Ok((s.id, self.free(s.id)?));
        let free = self.k.spaces.iter().map(free).collect::<Result<Vec<_>, SolveError>>()?;
        let is_free = |u: usize, element: usize| {
            let own = free.iter().find(|(s, _)| *s == energy.unknowns[u].space);
            own.and_then(|(_, free)| free.as_ref()).is_none_or(|free| free[element] != 0)
        };
        let mut x: Vec<Vec<f64>> = data.unknown_lengths().into_iter().map(|n| vec![0.0; n]).collect();
        self.download(What::X, |_| 0, &mut x)?;
        let warnings = bounds.project(energy, &mut x, is_free);
        if !warnings.is_empty() {
            self.upload(What::X, |_| 0, &x)?;
            self.start(Phase::Matched)?;
        }
        Ok(warnings)
    }

    /// Takes all bounds off, until they are evaluated again.
    pub(crate) fn unbound(&self) {
        for s in self.k.spaces.iter().filter(|s| s.bounded) {
            for (what, value) in [(What::Lower, f64::NEG_INFINITY), (What::Upper, f64::INFINITY)] {
                if let Some(b) = self.buffer(what.of(s.id)) {
                    b.fill(value);
                }
            }
        }
    }

    fn fill_graphs(&self, sizes: &Sizes, data: &ProblemData<'_>) -> Result<(), SolveError> {
        // No two vertices of a graph need be of the same space.
        let extents = |g: GraphId, v: usize| {
            data.extents(&self.k.energy, self.k.energy.graphs[g.index()].vertices[v].space)
        };
        for (g, graph) in (0..).map(GraphId).zip(data.graphs()) {
            for (v, elements) in graph.vertices.iter().enumerate() {
                let extents = extents(g, v);
                let at = |e: usize, dim: usize| coordinate(elements[e] as usize, &extents, dim);
                self.generate_if_held(What::Vertex.of((g, v as u16)), at)?;
            }
        }
        for (&(g, v), i) in &sizes.incidences {
            let lists = [
                (What::RowBlock, &i.block),
                (What::RowLength, &i.length),
                (What::RowEdge, &i.edge),
                (What::FirstRow, &i.first),
                (What::RowCount, &i.count),
                (What::RowOf, &i.of),
                (What::FirstEntry, &i.entry),
                (What::EntryCount, &i.entries),
            ];
            lists
                .into_iter()
                .try_for_each(|(what, values)| self.generate_if_held(what.of((g, v)), |n, _| values[n]))?;
            let own = extents(g, usize::from(v));
            let at = |row: usize, dim: usize| coordinate(i.own[row] as usize, &own, dim);
            self.generate_if_held(What::RowElement.of((g, v)), at)?;
            for (other, elements) in data.graphs()[g.index()].vertices.iter().enumerate() {
                let extents = extents(g, other);
                let at =
                    |n: usize, dim: usize| coordinate(elements[i.edge[n] as usize] as usize, &extents, dim);
                self.generate_if_held(What::RowVertex(other as u16).of((g, v)), at)?;
            }
        }
        Ok(())
    }

    /// Sets a vector that some pipelines use to `value(element, component)`; nothing where none does.
    fn generate_if_held(
        &self,
        id: VectorId,
        value: impl Fn(usize, usize) -> i32 + Sync,
    ) -> Result<(), SolveError> {
        let Some(buffer) = self.buffer(id) else { return Ok(()) };
        buffer.generate(&self.pool, value).map_err(not_copied(id))
    }

    /// Sets which elements of every space are free.
    pub(crate) fn set_free(&mut self, free: &[Vec<bool>]) -> Result<(), SolveError> {
        for s in &self.k.spaces {
            let bytes: Vec<u8> = free[s.id.index()].iter().map(|&f| f as u8).collect();
            let id = What::Free.of(s.id);
            self.buffer(id).map_or(Ok(()), |b| b.copy_from(&bytes).map_err(not_copied(id)))?;
        }
        self.mark_near()
    }

    /// Sets a tuple of scalars; those that are not given become 0.
    pub(crate) fn set_scalars<S: Scalar>(&self, given: &[(S, f64)]) -> Result<(), SolveError> {
        let id = S::OF.of(());
        let tuple = self.essential(id);
        let mut values = vec![0.0; tuple.spec().channels];
        given.iter().for_each(|&(s, v)| values[s.index()] = v);
        tuple.copy_from(&values).map_err(not_copied(id))
    }

    /// Returns x, a list per unknown; `to` takes its place, if it is given.
    pub(crate) fn exchange_x(&mut self, to: Option<Vec<Vec<f64>>>) -> Result<Vec<Vec<f64>>, SolveError> {
        let elements =
            |s| self.essential(What::X.of(s)).spec().extents.iter().map(|&n| n as usize).product::<usize>();
        let unknowns = self.k.energy.unknowns.iter();
        let mut x: Vec<Vec<f64>> =
            unknowns.map(|u| vec![0.0; elements(u.space) * usize::from(u.channels)]).collect();
        self.download(What::X, |_| 0, &mut x)?;
        if let Some(to) = to {
            self.upload(What::X, |_| 0, &to)?;
            self.start(Phase::Matched)?;
        }
        Ok(x)
    }

    /// Exchanges x and x + d.
    pub(crate) fn swap_trial(&mut self) -> Result<(), SolveError> {
        for s in &self.k.spaces {
            let [x, trial] = [What::X, What::Trial].map(|what| self.vectors[&what.of(s.id)].buffer);
            self.table.swap(x, trial)?;
        }
        Ok(())
    }

    /// Takes d and r of every space out of the plan, and leaves 0 in their place.
    pub(crate) fn take_d_and_r(&mut self) -> Result<Vec<Buffer>, SolveError> {
        let new = |s: &Space| {
            let id = What::DR.of(s.id);
            let new = Buffer::new(self.essential(id).spec().clone());
            new.map_err(|e| SolveError::of_buffer(&id.to_string(), e))
        };
        let new = self.k.spaces.iter().map(new).collect::<Result<_, _>>()?;
        self.put_d_and_r(new)
    }

    /// Puts d and r of every space into the plan, and returns those that were there.
    pub(crate) fn put_d_and_r(&mut self, to: Vec<Buffer>) -> Result<Vec<Buffer>, SolveError> {
        let k = self.k.clone();
        let ids = k.spaces.iter().map(|s| self.vectors[&What::DR.of(s.id)].buffer).zip(to);
        let put = |(id, buffer)| Ok(self.table.replace(id, buffer)?);
        ids.collect::<Vec<_>>().into_iter().map(put).collect()
    }

    /// Makes the old direction 0.
    pub(crate) fn clear_direction(&self) {
        self.k.spaces.iter().for_each(|s| self.essential(What::P.of(s.id)).clear());
    }

    /// Runs a phase.
    pub(crate) fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        self.run_until(phase, &Watch::default()).map(|_| ())
    }

    /// As [`Plan::start_until`]; then the host has its results.
    pub(crate) fn run_until(&mut self, phase: Phase, watch: &Watch) -> Result<bool, SolveError> {
        let whole = self.start_until(phase, watch)?;
        self.fetch_results()?;
        Ok(whole)
    }

    /// Runs a phase, and on a GPU does not wait for more of it than it must: the host has no results before it fetches them.
    pub(crate) fn start(&mut self, phase: Phase) -> Result<(), SolveError> {
        self.start_until(phase, &Watch::default()).map(|_| ())
    }

    /// As [`Plan::start`]. The phase ends between two iterations of PCG once the watch says so. Returns whether it came to its own end.
    pub(crate) fn start_until(&mut self, phase: Phase, watch: &Watch) -> Result<bool, SolveError> {
        self.run_program(phase, watch, true)
    }

    /// As [`Plan::start_until`], for a loop of which a GPU may have done a part only behind it: started again, it goes on.
    pub(crate) fn start_loop(&mut self, phase: Phase, watch: &Watch) -> Result<bool, SolveError> {
        self.run_program(phase, watch, false)
    }

    fn run_program(&mut self, phase: Phase, watch: &Watch, whole: bool) -> Result<bool, SolveError> {
        let (mut over, mut failed) = (false, None);
        let Plan { k, vectors, coarsest, aggregates, pool, programs, table, .. } = self;
        let program = programs.get_mut(&phase).expect("every phase of the skeleton has a program");
        let mut own = Host { k, vectors, coarsest, aggregates, pool };
        let mut host = |name: &str, table: &mut Table| {
            if let Some(step) = HostStep::named(name) {
                return Ok(match own.run(step, table) {
                    Ok(()) => Flow::Continue,
                    Err(e) => {
                        failed = Some(SolveError::of_buffer("a level of the preconditioner", e));
                        Flow::Stop
                    }
                });
            }
            over = watch.is_over();
            Ok(if over { Flow::Stop } else { Flow::Continue })
        };
        match whole {
            true => program.run(table, pool, &mut host)?,
            false => program.start(table, pool, &mut host)?,
        }
        failed.map_or(Ok(!over), Err)
    }

    /// Brings to the host what it reads of a phase.
    pub(crate) fn fetch_results(&self) -> Result<(), SolveError> {
        let results = self.vectors.iter().filter(|(id, _)| id.what.is_result());
        Ok(self.table.fetch(results.map(|(_, held)| held.buffer))?)
    }
}

/// A coordinate of an element, by its number: of a list, the number, without divisions, which graphs of millions of edges would wait for.
fn coordinate(element: usize, extents: &[usize], dim: usize) -> i32 {
    match extents {
        [_] => element as i32,
        _ => (element / extents[..dim].iter().product::<usize>() % extents[dim]) as i32,
    }
}

/// The error of numbers that a vector did not take.
fn not_copied(id: VectorId) -> impl Fn(BufferError) -> SolveError {
    move |source| SolveError::of_buffer(&id.to_string(), source)
}
