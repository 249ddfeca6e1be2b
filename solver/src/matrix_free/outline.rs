//! Facts about an energy that plans of any size need besides its code: everything that derivation has settled.
//!
//! An [`Outline`] is made of a skeleton and its pipelines, or is what an earlier start has kept of one ([`crate::matrix_free::kept`]). Plans
//! cannot tell: they see neither routines nor pipelines.

use crate::matrix_free::choices::{Of, Value};
use crate::matrix_free::params::Param;
use crate::matrix_free::skeleton::{Skeleton, Space, Span};
use crate::matrix_free::stages::{self, HostStep, Phase, Stage};
use crate::matrix_free::vectors::{Extents, Initial, Over, Role, VectorId, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::{Layout, ScalarType, Target};
use sumsq_energy::model::{ArrayId, Energy, GroupId, SpaceId};

/// The outline of an energy's solver.
#[derive(Serialize, Deserialize)]
pub struct Outline {
    /// The energy, without the computed arrays that are substituted. Not kept: it follows from the text.
    #[serde(skip)]
    pub energy: Arc<Energy>,
    /// The names of these arrays.
    pub substituted: Vec<String>,
    /// The machine that the code is for.
    pub target: Target,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// Index spaces with unknowns.
    pub spaces: Vec<Space>,
    /// The residual groups of every share of the sums.
    pub shares: Vec<Vec<GroupId>>,
    /// Of every preconditioner: true if the first z is had only after stages behind the damping.
    pub follows_damping: Vec<bool>,
    /// The vectors that plans hold.
    pub vectors: Vec<(VectorId, Vector)>,
    /// Per array, the vectors that have its numbers; not all of them need be held.
    pub arrays: Vec<Vec<VectorId>>,
    /// The arguments of every pipeline.
    pub pipelines: Vec<Pipeline>,
    /// The steps of every phase.
    pub phases: Vec<(Phase, Vec<Step>)>,
}

/// A vector as plans make it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Vector {
    /// Element type.
    pub ty: ScalarType,
    /// Elements of a tuple.
    pub channels: usize,
    /// Its layout in memory.
    pub layout: Layout,
    /// Readable elements beyond the domain, per dim.
    pub halo: Vec<u32>,
    /// Its points.
    pub extents: Extents,
    /// Its first values.
    pub initial: Initial,
}

/// Arguments of a pipeline, in the order of its signature.
#[derive(Serialize, Deserialize)]
pub struct Pipeline {
    /// The vectors, by number, in the role that it was made for.
    pub vectors: Vec<usize>,
    /// The parameters.
    pub params: Vec<Param>,
}

/// A step of a phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Runs a pipeline on vectors, both by number: those of its own role or of another; on these levels.
    Run(usize, Vec<usize>, Span),
    /// The host does something.
    Host(HostStep),
    /// Exchanges two vectors.
    Swap(VectorId, VectorId),
    /// Runs steps until a scalar is not 0 behind them.
    Until(VectorId, Vec<Step>),
}

/// A compiled pipeline, as far as an outline is made of it.
pub struct Module {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// The copy of the numbers that it was made for.
    pub role: Role,
    /// The vectors that it takes, in the order of its signature.
    pub vectors: Vec<VectorId>,
    /// Its parameters, likewise.
    pub params: Vec<Param>,
    /// The levels that it runs on.
    pub span: Span,
}

impl Outline {
    /// The outline of a skeleton with these pipelines, in the order in which those of a stage run.
    pub fn new(k: &Skeleton, modules: &[Module]) -> Outline {
        let mut table = Table { k, modules, vectors: vec![], numbers: BTreeMap::new() };
        table.essentials();
        for m in modules {
            m.vectors.iter().for_each(|&id| table.add(k.in_role(id, m.role)));
        }
        let pipeline = |m: &Module| Pipeline { vectors: table.of(m, m.role), params: m.params.clone() };
        let pipelines = modules.iter().map(pipeline).collect();
        let phases = Phase::all(k).into_iter().map(|p| (p, table.steps(&p.steps(k)))).collect();
        let substituted = |of: Of, value: Value| matches!(of, Of::Computed(_)) && value == Value::Inline;
        let substituted = k.choices.all().iter().filter(|c| substituted(c.of, c.value));
        Outline {
            energy: k.energy.clone(),
            substituted: substituted.map(|c| c.name.clone()).collect(),
            target: k.target.clone(),
            linear: k.linear,
            spaces: k.spaces.clone(),
            shares: k.shares.iter().map(|share| share.groups.clone()).collect(),
            follows_damping: k.preconditioners.iter().map(|m| m.follows_damping()).collect(),
            vectors: table.vectors,
            arrays: (0..k.energy.arrays.len() as u32).map(|a| numbers_of(k, ArrayId(a))).collect(),
            pipelines,
            phases,
        }
    }

    /// The same outline of an energy as it was given, before anything is substituted.
    pub fn of(self, energy: Energy) -> Outline {
        let energy = match self.substituted.is_empty() {
            true => energy,
            false => energy.inlined_where(|c| self.substituted.contains(&c.name)),
        };
        Outline { energy: Arc::new(energy), ..self }
    }

    /// A space that is known to hold unknowns.
    pub fn space_of_unknowns(&self, id: SpaceId) -> &Space {
        self.spaces.iter().find(|s| s.id == id).expect("the space holds unknowns")
    }
}

/// The vectors that have the numbers of an array.
fn numbers_of(k: &Skeleton, array: ArrayId) -> Vec<VectorId> {
    let id = What::Array.of(array);
    k.describe(id).copies.into_iter().chain([id]).collect()
}

/// The table of vectors in the making.
struct Table<'a> {
    k: &'a Skeleton,
    modules: &'a [Module],
    vectors: Vec<(VectorId, Vector)>,
    numbers: BTreeMap<VectorId, usize>,
}

impl Table<'_> {
    /// Adds what the host counts on, whoever else uses it: the tuples of scalars, and per space x, x + d, d and r, and the directions.
    fn essentials(&mut self) {
        let tuples = [What::State, What::Next, What::Alpha, What::Done, What::Start, What::Model];
        tuples.iter().for_each(|what| self.add(what.of(())));
        (0..self.k.shares.len()).for_each(|n| self.add(What::Energy.of(Over::Share(n))));
        for s in &self.k.spaces {
            let vectors = [What::X, What::Trial, What::DR, What::P, What::PNew];
            vectors.iter().for_each(|what| self.add(what.of(s.id)));
        }
    }

    /// Adds a vector, unless it is there.
    fn add(&mut self, id: VectorId) {
        if self.numbers.contains_key(&id) {
            return;
        }
        let of = self.k.describe(id);
        let vector = Vector {
            // The elements of a tuple have one type.
            ty: of.types[0],
            channels: of.types.len(),
            layout: of.layout,
            halo: of.halo,
            extents: of.extents,
            initial: of.initial,
        };
        self.numbers.insert(id, self.vectors.len());
        self.vectors.push((id, vector));
    }

    fn steps(&self, of: &[stages::Step]) -> Vec<Step> {
        let mut steps = vec![];
        for step in of {
            match step {
                stages::Step::Run(stage) => self.run(*stage, None, &mut steps),
                stages::Step::RunAs(role, stage) => self.run(*stage, Some(*role), &mut steps),
                stages::Step::Swap(a, b) => steps.push(Step::Swap(*a, *b)),
                stages::Step::Host(of) => steps.push(Step::Host(*of)),
                stages::Step::Until(done, body) => steps.push(Step::Until(*done, self.steps(body))),
            }
        }
        steps
    }

    /// Adds the pipelines of a stage, in a role of their own or in this one.
    fn run(&self, stage: Stage, role: Option<Role>, steps: &mut Vec<Step>) {
        for (number, m) in self.modules.iter().enumerate().filter(|(_, m)| m.stage == stage) {
            steps.push(Step::Run(number, self.of(m, role.unwrap_or(m.role)), m.span));
        }
    }

    /// The numbers of the vectors of a pipeline in a role.
    fn of(&self, m: &Module, role: Role) -> Vec<usize> {
        m.vectors.iter().map(|&id| self.numbers[&self.k.in_role(id, role)]).collect()
    }
}
