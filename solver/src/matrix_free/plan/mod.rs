//! A solver's buffers for given sizes, and its pipelines bound to them as programs.

mod build;
pub mod compile;
pub mod steps;
mod upload;

use crate::matrix_free::domain::fields::over;
use crate::matrix_free::domain::incidence::Incidence;
use crate::matrix_free::domain::mask;
use crate::matrix_free::pcg::state;
use crate::matrix_free::pipelines::gather;
use crate::matrix_free::plan::build::Builder;
use crate::matrix_free::plan::compile::Modules;
use crate::matrix_free::plan::upload::Uploaded;
use crate::matrix_free::{Skeleton, Space};
use crate::problem::bounds::Bounds;
use crate::problem::data::ProblemData;
use crate::problem::error::SolveError;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::program::{BufferId, Flow, ParamId, Program, Table};
use sumsq_codegen::runtime::{Buffer, Pool, Scalar};
use sumsq_energy::emit::names;
use sumsq_energy::model::{GraphId, SpaceId};

/// The phases of a solve, each a program over the same table.
pub struct Phases {
    mask: Option<Program>,
    bounds: Option<Program>,
    cost: Program,
    trial_cost: Program,
    linearise: Program,
    scales: Program,
    damping: Program,
    pcg: Program,
    sweep_a: Program,
    sweep_b: Program,
    trial: Program,
}

/// Buffers, parameters and programs of a problem of given sizes.
pub struct Plan {
    pub(crate) k: Arc<Skeleton>,
    pub(crate) table: Table,
    ids: BTreeMap<String, BufferId>,
    params: BTreeMap<String, ParamId>,
    pub(crate) phases: Phases,
    pub(crate) pool: Arc<Pool>,
    uploaded: Uploaded,
}

impl Plan {
    /// Allocates everything for the sizes of `data` and copies its numbers.
    pub fn new(
        k: Arc<Skeleton>,
        modules: &Modules,
        data: &ProblemData<'_>,
        pool: Arc<Pool>,
        streaming: bool,
    ) -> Result<Plan, SolveError> {
        let mut b = Builder::new(k, pool);
        let incidences = b.incidences(data);
        let extents = b.extents(data, &incidences);
        b.parameters(data, &incidences, streaming);
        for (role, m) in modules.roles() {
            b.buffers(role.into(), m, &extents)?;
        }
        let phases = b.phases(modules)?;
        let Builder { k, pool, table, ids, params } = b;
        let mut plan = Plan { k, table, ids, params, phases, pool, uploaded: Uploaded::default() };
        plan.fill_graphs(data, &incidences)?;
        plan.upload_arrays(data)?;
        plan.upload_unknowns(data)?;
        Ok(plan)
    }

    /// Bytes of all buffers.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.ids.values().map(|&id| self.table.buffer(id).bytes()).sum()
    }

    pub(crate) fn buffer(&self, name: &str) -> Option<&Buffer> {
        self.ids.get(name).map(|&id| self.table.buffer(id))
    }

    /// A scalar of the tuple `name`; NaN if there is none.
    pub(crate) fn scalar(&self, name: &str, i: usize) -> f64 {
        self.buffer(name).and_then(|b| b.get(&[], i)).unwrap_or(f64::NAN)
    }

    /// Sets a float parameter in every precision it is declared in.
    pub(crate) fn set_param(&mut self, name: &str, value: f64) -> Result<(), SolveError> {
        for (ty, scalar) in [("f32", Scalar::F32(value as f32)), ("f64", Scalar::F64(value))] {
            if let Some(&id) = self.params.get(&format!("{name}:{ty}")) {
                self.table.set_param(id, scalar)?;
            }
        }
        Ok(())
    }

    fn match_trials(&self) -> Result<(), SolveError> {
        self.k.spaces.iter().filter(|s| s.skips).try_for_each(|s| self.match_trial(s.id))
    }

    /// Copies x to x + d: what the trial skips is the same in both.
    fn match_trial(&self, space: SpaceId) -> Result<(), SolveError> {
        let (x, trial) = (self.buffer(&names::unknowns(space)), self.buffer(&over("xt", space)));
        let (Some(x), Some(trial)) = (x, trial) else { return Ok(()) };
        trial.copy_domain(x, &self.pool).map_err(|e| SolveError::Data(format!("x + d: {e}")))
    }

    /// Evaluates what is excluded.
    pub(crate) fn evaluate_masks(&mut self) -> Result<(), SolveError> {
        for s in &self.k.spaces {
            if let Some(&id) = self.ids.get(&names::free(s.id)) {
                self.table.buffer(id).fill(1u8);
            }
        }
        self.run(Phase::Mask)?;
        self.k.spaces.iter().try_for_each(|s| self.update_live(s.id))
    }

    /// Which vectors hold free elements or are near one. No others are written: there the vectors and M^-1 become 0 here, and stay so.
    fn update_live(&self, space: SpaceId) -> Result<(), SolveError> {
        let Some(free) = self.buffer(&names::free(space)) else { return Ok(()) };
        for name in ["p", "pn", "dr", "minv"] {
            if let Some(p) = self.buffer(&over(name, space)) {
                p.clear();
            }
        }
        if !self.k.spaces.iter().any(|s| s.id == space && s.skips) {
            return Ok(());
        }
        self.match_trial(space)?;
        let (extents, reach) = (&free.spec().extents, &self.k.reaches[space.index()]);
        let free = free.to_vec::<u8>();
        self.copy(&over(mask::LIVE, space), &mask::live_vectors(&free, extents))?;
        self.copy(&over(mask::NEAR, space), &mask::near_vectors(&free, extents, reach))
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
        self.download(|s| over("lo", s), 0, &mut bounds.lower);
        self.download(|s| over("hi", s), 0, &mut bounds.upper);
        bounds.check(energy, data)?;
        let free = |s: &Space| self.buffer(&names::free(s.id)).map(Buffer::to_vec::<u8>);
        let free: Vec<(SpaceId, Option<Vec<u8>>)> = self.k.spaces.iter().map(|s| (s.id, free(s))).collect();
        let is_free = |u: usize, element: usize| {
            let own = free.iter().find(|(s, _)| *s == energy.unknowns[u].space);
            own.and_then(|(_, free)| free.as_ref()).is_none_or(|free| free[element] != 0)
        };
        let mut x: Vec<Vec<f64>> = data.unknown_lengths().into_iter().map(|n| vec![0.0; n]).collect();
        self.download(names::unknowns, 0, &mut x);
        let warnings = bounds.project(energy, &mut x, is_free);
        if !warnings.is_empty() {
            self.upload(names::unknowns, 0, &x)?;
            self.match_trials()?;
        }
        Ok(warnings)
    }

    /// Takes all bounds off, until they are evaluated again.
    pub(crate) fn unbound(&self) {
        for s in self.k.spaces.iter().filter(|s| s.bounded) {
            for (name, value) in [("lo", f64::NEG_INFINITY), ("hi", f64::INFINITY)] {
                if let Some(b) = self.buffer(&over(name, s.id)) {
                    b.fill(value);
                }
            }
        }
    }

    fn fill_graphs(
        &mut self,
        data: &ProblemData<'_>,
        incidences: &[(GraphId, u16, Incidence)],
    ) -> Result<(), SolveError> {
        for (g, graph) in data.graphs().iter().enumerate() {
            for (slot, elements) in graph.vertices.iter().enumerate() {
                let space = self.k.energy.graphs[g].vertices[slot].space;
                let extents = data.extents(&self.k.energy, space);
                let coordinates = coordinates(elements.iter().copied(), &extents);
                self.copy(&names::vertex(GraphId(g as u32), slot as u16), &coordinates)?;
            }
        }
        for (g, slot, i) in incidences {
            let prefix = gather::rows(*g, *slot);
            let space = self.k.energy.graphs[g.index()].vertices[*slot as usize].space;
            let extents = data.extents(&self.k.energy, space);
            let own = coordinates(i.own.iter().map(|&v| v as u32), &extents);
            let lists = [("block", &i.block), ("length", &i.length), ("edge", &i.edge), ("own", &own)];
            let lists = lists.into_iter().chain([("first", &i.first), ("count", &i.count), ("of", &i.of)]);
            for (suffix, values) in lists {
                self.copy(&format!("{prefix}.{suffix}"), values)?;
            }
            for (other, elements) in data.graphs()[g.index()].vertices.iter().enumerate() {
                let space = self.k.energy.graphs[g.index()].vertices[other].space;
                let extents = data.extents(&self.k.energy, space);
                let beside = i.edge.iter().map(|&e| elements[e as usize]);
                self.copy(&gather::listed(*g, *slot, other as u16), &coordinates(beside, &extents))?;
            }
        }
        Ok(())
    }

    /// Copies into a buffer, if any pipeline reads it.
    fn copy<T: sumsq_codegen::runtime::Element>(&self, name: &str, values: &[T]) -> Result<(), SolveError> {
        let Some(&id) = self.ids.get(name) else { return Ok(()) };
        self.table.buffer(id).copy_from(values).map_err(|e| SolveError::Data(format!("{name}: {e}")))
    }

    /// Sets which elements of each space with unknowns are free, in the order of [`Skeleton::spaces`].
    pub(crate) fn set_free(&self, space: SpaceId, free: &[u8]) -> Result<(), SolveError> {
        self.copy(&names::free(space), free)?;
        self.update_live(space)
    }

    /// Sets a scalar tuple.
    pub(crate) fn set_scalars(&self, name: &str, values: &[f64]) -> Result<(), SolveError> {
        self.copy(name, values)
    }

    /// Exchanges x and x + d.
    pub(crate) fn swap_trial(&mut self) -> Result<(), SolveError> {
        for s in &self.k.spaces {
            let (x, xt) = (self.ids[&names::unknowns(s.id)], self.ids[&over("xt", s.id)]);
            self.table.swap(x, xt)?;
        }
        Ok(())
    }

    /// Sets the carried scalars of PCG for a solve from d = 0 with old direction 0.
    pub(crate) fn start_pcg(&mut self, rz: f64, rr: f64) -> Result<(), SolveError> {
        let mut values = [0.0; state::LEN];
        values[state::RZ] = rz;
        values[state::RR] = rr;
        for s in &self.k.spaces {
            if let Some(p) = self.buffer(&over("p", s.id)) {
                p.clear();
            }
        }
        self.set_scalars("state", &values)
    }

    /// Runs a phase.
    pub(crate) fn run(&mut self, phase: Phase) -> Result<(), SolveError> {
        let p = &mut self.phases;
        let program = match phase {
            Phase::Mask => p.mask.as_mut(),
            Phase::Bounds => p.bounds.as_mut(),
            Phase::Cost => Some(&mut p.cost),
            Phase::TrialCost => Some(&mut p.trial_cost),
            Phase::Linearise => Some(&mut p.linearise),
            Phase::Scales => Some(&mut p.scales),
            Phase::Damping => Some(&mut p.damping),
            Phase::Pcg => Some(&mut p.pcg),
            Phase::SweepA => Some(&mut p.sweep_a),
            Phase::SweepB => Some(&mut p.sweep_b),
            Phase::Trial => Some(&mut p.trial),
        };
        match program {
            Some(program) => Ok(program.run(&mut self.table, &self.pool, &mut |_, _| Ok(Flow::Stop))?),
            None => Ok(()),
        }
    }
}

/// A phase of a solve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Excluded elements.
    Mask,
    /// Box bounds.
    Bounds,
    /// E at x.
    Cost,
    /// E at x + d.
    TrialCost,
    /// g, blocks and what applyJTJ reads, at x.
    Linearise,
    /// Scales of the damping.
    Scales,
    /// D, M^-1, b.
    Damping,
    /// PCG to its end.
    Pcg,
    /// One sweep A, on its own, with what comes before it.
    SweepA,
    /// One sweep B, on its own.
    SweepB,
    /// x + d and the model.
    Trial,
}

fn linear_name(name: &str) -> String {
    format!("l.{name}")
}

/// Coordinates, fastest dim first and innermost, of element numbers.
fn coordinates(elements: impl Iterator<Item = u32>, extents: &[usize]) -> Vec<i32> {
    let mut out = vec![];
    for e in elements {
        let mut rest = e as usize;
        for &n in extents {
            out.push((rest % n) as i32);
            rest /= n;
        }
    }
    out
}
