//! A plan in the making: which buffers and parameters there are, of which sizes, and the programs over them.

use crate::matrix_free::domain::fields::{over, over_domain};
use crate::matrix_free::domain::incidence::Incidence;
use crate::matrix_free::domain::{mask, sizes};
use crate::matrix_free::pcg::part_name;
use crate::matrix_free::pipelines::{computed, gather};
use crate::matrix_free::plan::compile::{Modules, Reads};
use crate::matrix_free::plan::{Phases, linear_name};
use crate::matrix_free::{LANES, Skeleton};
use crate::problem::data::ProblemData;
use crate::problem::error::SolveError;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::compile::{BufferSlot, Compiled};
use sumsq_codegen::program::{BufferId, ParamId, PipelineId, Program, Step, Table, Value};
use sumsq_codegen::runtime::{Buffer, BufferSpec, Pool, Scalar};
use sumsq_codegen::{Name, ScalarType};
use sumsq_energy::emit::names;
use sumsq_energy::model::{ArrayId, ComputedId, Domain, GraphId, SpaceId};

/// Which copy of the numbers a pipeline reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// x and the arrays in the master precision.
    Master,
    /// x + d in place of x.
    Trial,
    /// x and the arrays in the linear solver's precision.
    Linear,
    /// As `Linear`, reading the new direction.
    LinearB,
}

/// A plan in the making.
pub(super) struct Builder {
    pub k: Arc<Skeleton>,
    pub pool: Arc<Pool>,
    pub table: Table,
    /// Buffers by the table's names for them.
    pub ids: BTreeMap<String, BufferId>,
    /// Parameters by name and type, such as `streaming:i32`.
    pub params: BTreeMap<String, ParamId>,
}

impl Builder {
    /// Nothing is there yet.
    pub fn new(k: Arc<Skeleton>, pool: Arc<Pool>) -> Builder {
        Builder { k, pool, table: Table::new(), ids: BTreeMap::new(), params: BTreeMap::new() }
    }

    pub fn incidences(&self, data: &ProblemData) -> Vec<(GraphId, u16, Incidence)> {
        let slots = self.k.spaces.iter().flat_map(|s| s.slots.iter().map(move |&(g, slot)| (s.id, g, slot)));
        slots
            .map(|(space, g, slot)| {
                let elements = data.elements(&self.k.energy, space);
                (g, slot, Incidence::build(elements, &data.graphs()[g.index()].vertices[slot as usize]))
            })
            .collect()
    }

    /// Extents of every buffer that has dims, by name.
    pub fn extents(
        &self,
        data: &ProblemData,
        incidences: &[(GraphId, u16, Incidence)],
    ) -> BTreeMap<String, Vec<i32>> {
        let mut out = BTreeMap::new();
        let ints = |e: Vec<usize>| -> Vec<i32> { e.into_iter().map(|n| n as i32).collect() };
        for s in &self.k.spaces {
            let e = ints(data.extents(&self.k.energy, s.id));
            for prefix in
                ["x", "xt", "xl", "gb", "sc", "free", "dr", "p", "pn", "minv", "damp", "q", "lo", "hi", "bd"]
            {
                out.insert(over(prefix, s.id), e.clone());
            }
            for prefix in [mask::LIVE, mask::NEAR] {
                out.insert(over(prefix, s.id), mask::vector_extents(&e));
            }
        }
        for s in (0..self.k.energy.spaces.len() as u32).map(SpaceId) {
            for prefix in ["h", "jp"] {
                out.insert(over(prefix, s), ints(data.extents(&self.k.energy, s)));
            }
        }
        for (k, c) in self.k.energy.computed.iter().enumerate() {
            out.insert(computed::name(ComputedId(k as u32)), ints(data.extents(&self.k.energy, c.space)));
        }
        for (k, a) in self.k.energy.arrays.iter().enumerate() {
            let name = names::array(ArrayId(k as u32));
            let e = ints(data.extents(&self.k.energy, a.space));
            out.insert(linear_name(&name), e.clone());
            out.insert(name, e);
        }
        for (g, graph) in data.graphs().iter().enumerate() {
            for prefix in ["h", "jp"] {
                let domain = Domain::Graph(GraphId(g as u32));
                out.insert(over_domain(prefix, domain), vec![graph.edges as i32]);
            }
            for slot in 0..graph.vertices.len() {
                out.insert(names::vertex(GraphId(g as u32), slot as u16), vec![graph.edges as i32]);
            }
        }
        for (g, slot, i) in incidences {
            let prefix = gather::rows(*g, *slot);
            let space = self.k.energy.graphs[g.index()].vertices[*slot as usize].space;
            let list = |n: usize| vec![n as i32];
            out.insert(format!("{prefix}.block"), list(i.block.len()));
            out.insert(format!("{prefix}.length"), list(i.rows()));
            out.insert(format!("{prefix}.own"), list(i.rows()));
            out.insert(format!("{prefix}.edge"), list(i.edge.len()));
            out.insert(gather::stored(*g, *slot), list(i.edge.len()));
            for other in 0..self.k.energy.graphs[g.index()].vertices.len() as u16 {
                out.insert(gather::listed(*g, *slot, other), list(i.edge.len()));
            }
            out.insert(format!("{prefix}.of"), list(i.of.len()));
            for suffix in ["first", "count"] {
                out.insert(format!("{prefix}.{suffix}"), ints(data.extents(&self.k.energy, space)));
            }
            out.insert(part_name(*g, *slot), vec![LANES, (i.rows() / LANES as usize) as i32]);
        }
        out
    }

    pub fn parameters(
        &mut self,
        data: &ProblemData,
        incidences: &[(GraphId, u16, Incidence)],
        streaming: bool,
    ) {
        let mut integers = sizes::integers(&self.k, data);
        for (g, slot, i) in incidences {
            integers.insert(format!("{}.rows", gather::rows(*g, *slot)), i.rows() as i64);
            integers.insert(format!("{}.entries", gather::rows(*g, *slot)), i.edge.len() as i64);
        }
        integers.insert("streaming".into(), streaming as i64);
        for (name, v) in integers {
            let id = self.table.add_param(name.as_str(), Scalar::I32(v as i32));
            self.params.insert(format!("{name}:i32"), id);
        }
    }

    /// The table's name for a slot of a pipeline.
    fn table_name(&self, role: Role, slot: &BufferSlot) -> String {
        let (is_byte, slot) = (slot.ty == ScalarType::U8, &*slot.name);
        let separate = self.k.master != self.k.linear;
        let numbered = |prefix: &str| slot.strip_prefix(prefix).filter(|n| n.parse::<u32>().is_ok());
        if let Some(n) = numbered("drn") {
            return format!("dr{n}");
        }
        // Views hold x as of the last accepted step: x itself, also where x + d is tried.
        if let Some(n) = numbered("v") {
            let linear = separate && matches!(role, Role::Linear | Role::LinearB);
            return format!("{}{n}", if linear { "xl" } else { "x" });
        }
        match role {
            Role::Trial => match numbered("x") {
                Some(n) => format!("xt{n}"),
                None => slot.into(),
            },
            Role::LinearB | Role::Linear => match (numbered("x"), numbered("a"), numbered("p")) {
                (Some(n), ..) if separate => format!("xl{n}"),
                // There is one copy of bytes.
                (_, Some(_), _) if separate && !is_byte => linear_name(slot),
                (_, _, Some(n)) if role == Role::LinearB => format!("pn{n}"),
                _ => slot.into(),
            },
            Role::Master => slot.into(),
        }
    }

    /// Adds the buffers and parameters that a pipeline takes and that are not there yet.
    pub fn buffers(
        &mut self,
        role: Role,
        m: &Compiled,
        extents: &BTreeMap<String, Vec<i32>>,
    ) -> Result<(), SolveError> {
        for slot in &m.signature().buffers {
            let name = self.table_name(role, slot);
            if self.ids.contains_key(&name) {
                continue;
            }
            let extents = match (slot.dims, extents.get(&name)) {
                (0, _) => vec![],
                (_, Some(e)) => e.clone(),
                (_, None) => unreachable!("{name}: every buffer with dims has its extents listed"),
            };
            let spec = BufferSpec::new(slot.ty, &extents)
                .channels(slot.channels)
                .layout(slot.layout)
                .halo(&slot.halo);
            let buffer = Buffer::new(spec).map_err(|e| SolveError::Data(format!("{name}: {e}")))?;
            buffer.populate(&self.pool);
            let id = self.table.add(name.as_str(), buffer, true);
            self.ids.insert(name, id);
        }
        for (name, ty) in &m.signature().params {
            let key = format!("{name}:{}", ty.name());
            let zero = match ty {
                ScalarType::F32 => Scalar::F32(0.0),
                ScalarType::F64 => Scalar::F64(0.0),
                _ => Scalar::I32(0),
            };
            if !self.params.contains_key(&key) {
                let id = self.table.add_param(key.as_str(), zero);
                self.params.insert(key, id);
            }
        }
        Ok(())
    }

    fn run(&self, pipelines: &mut Vec<Compiled>, role: Role, m: &Compiled) -> Step {
        pipelines.push(m.clone());
        let signature = m.signature();
        let bindings = signature.buffers.iter().map(|slot| {
            let id = self.ids[&self.table_name(role, slot)];
            (slot.name.clone(), id)
        });
        let params = signature.params.iter().map(|(name, ty)| {
            let id = self.params[&format!("{name}:{}", ty.name())];
            (name.clone(), Value::Param(id))
        });
        let pipeline = PipelineId(pipelines.len() - 1);
        Step::Run { pipeline, bindings: bindings.collect(), params: params.collect::<Vec<(Name, Value)>>() }
    }

    fn program(&self, runs: &[(Role, &Compiled)]) -> Result<Program, SolveError> {
        let mut pipelines = vec![];
        let steps: Vec<Step> = runs.iter().map(|(role, m)| self.run(&mut pipelines, *role, m)).collect();
        Ok(Program::new(&pipelines, &self.table, &steps)?)
    }

    pub fn phases(&self, m: &Modules) -> Result<Phases, SolveError> {
        let linearise = m.computed.iter().chain([&m.gradient]).chain(&m.linearise);
        let linearise: Vec<_> = linearise.map(|m| (Role::Master, m)).collect();
        Ok(Phases {
            mask: m.mask.as_ref().map(|m| self.program(&[(Role::Master, m)])).transpose()?,
            bounds: m.bounds.as_ref().map(|m| self.program(&[(Role::Master, m)])).transpose()?,
            cost: self.program(&[(Role::Master, &m.cost)])?,
            trial_cost: self.program(&[(Role::Trial, &m.cost)])?,
            linearise: self.program(&linearise)?,
            scales: self.program(&[(Role::Master, &m.scales)])?,
            damping: self.program(&[(Role::Master, &m.damping)])?,
            pcg: self.pcg(m)?,
            sweep_a: self.program(&m.before_b().map(|m| (Role::Linear, m)).collect::<Vec<_>>())?,
            sweep_b: self.program(&[(Role::LinearB, &m.sweep_b)])?,
            trial: self.program(&[(Role::Master, &m.trial)])?,
        })
    }

    fn pcg(&self, m: &Modules) -> Result<Program, SolveError> {
        let mut pipelines = vec![];
        let mut body: Vec<Step> = m.before_b().map(|m| self.run(&mut pipelines, Role::Linear, m)).collect();
        body.push(self.run(&mut pipelines, Role::LinearB, &m.sweep_b));
        let swaps = self.k.spaces.iter().map(|s| (over("p", s.id), over("pn", s.id)));
        for (a, b) in swaps.chain([("state".to_string(), "next".to_string())]) {
            body.push(Step::Swap(self.ids[&a], self.ids[&b]));
        }
        // The stop rules hold the iteration limit: `max` is only what a usize can count.
        let steps = [Step::Repeat { max: usize::MAX, until: self.ids["done"], body }];
        Ok(Program::new(&pipelines, &self.table, &steps)?)
    }
}

impl From<Reads> for Role {
    fn from(r: Reads) -> Role {
        match r {
            Reads::Master => Role::Master,
            Reads::Linear => Role::Linear,
            Reads::LinearB => Role::LinearB,
        }
    }
}
