//! The generated path: the solver's skeleton as engine pipelines around an energy's routines.
//!
//! Each file holds one pipeline: its algorithm (Funcs that call the routines) and its default schedule.
//!
//! | pipeline | from | to |
//! |---|---|---|
//! | [`boxed`] | arrays | bounds of x |
//! | [`cost`] | x | E per group, number of counted instances |
//! | [`computed`] | x | computed arrays and their partials |
//! | [`gradient`] | x, computed arrays | g = J^T r and diag or blocks of J^T J |
//! | [`damping`] | g, blocks, radius | D, M^-1, b = -g, r.z, norms |
//! | [`linearise`] | x | x and the hoisted parts in the linear solver's precision |
//! | [`pcg`] | r, p, ... | sweeps A and B of one PCG iteration, and what comes before them |
//! | [`trial`] | x, d | x + d, predicted decrease, norms |
//!
//! Invariants: every field has a halo of zeros; M^-1 = 0, p = 0, r = 0 and d = 0 at excluded elements, unconstrained and held
//! scalars, in halos and in pads. Where vectors are skipped ([`mask`]), g, D and what is stored at x have any value. (A computed M^-1 is merely finite in halos, see [`diagonal`].)

pub mod certify;
pub mod choices;
pub mod domain;
pub mod draft;
pub mod params;
pub mod pcg;
pub mod pipelines;
pub mod plan;
pub mod preconditioner;
pub mod scalars;
pub mod schedule;
pub mod stages;
pub mod vectors;

use crate::matrix_free::choices as traffic;
use crate::matrix_free::domain::{layout, mask};
use crate::matrix_free::params::Param;
use crate::matrix_free::pipelines::{computed, gather};
use crate::matrix_free::preconditioner::diagonal;
use crate::matrix_free::vectors::{Role, VectorId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use sumsq_codegen::{Name, Pipeline, ScalarType, Schedule, Target};
use sumsq_energy::dag::{ExprId, Source};
use sumsq_energy::derive::{Kind, Materialize, Passes, Routines, Site};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{ArrayId, Energy, GraphId, SpaceId};

/// A pipeline's algorithm and schedule, and what its names mean.
pub struct Scheduled {
    /// The algorithm.
    pub pipeline: Pipeline,
    /// The schedule.
    pub schedule: Schedule,
    /// The copy of the numbers that it computes with.
    pub role: Role,
    /// The vectors behind the names of its inputs and outputs.
    pub vectors: BTreeMap<Name, VectorId>,
    /// The parameters behind their names.
    pub params: BTreeMap<Name, Param>,
}

/// An index space that holds unknowns.
#[derive(Clone, Debug)]
pub struct Space {
    /// Which one.
    pub id: SpaceId,
    /// Number of dims.
    pub dims: usize,
    /// Scalars per element.
    pub components: usize,
    /// Graph vertices that point into it, at or around which its unknowns are read.
    pub slots: Vec<(GraphId, u16)>,
    /// Whether D and M^-1 are expressions of the sweeps instead of fields: see [`diagonal`].
    pub inline_diagonal: bool,
    /// Whether vectors far from every free element are skipped, see [`mask`].
    pub skips: bool,
    /// Whether any of its unknowns has box bounds.
    pub bounded: bool,
    /// Whether M holds whole blocks: where they are more than a diagonal.
    pub block: bool,
    /// Whether sweep A stores q for sweep B, which computes it again otherwise, see [`traffic`]; always where it keeps J p
    /// in a ring of rows.
    pub stores_q: bool,
}

/// Derives the routines of an energy, simplifies them and hoists out what only a linearisation changes of J^T J p.
pub fn prepare(energy: &Energy, passes: Passes, choices: &Materialize) -> Routines {
    let mut routines = Routines::build_with(energy, passes, choices);
    routines.hoist(energy, passes);
    routines
}

/// What all pipelines of an energy share.
pub struct Skeleton {
    /// The energy.
    pub energy: Arc<Energy>,
    /// Its routines.
    pub routines: Arc<Routines>,
    /// Type of the master copy of x, E, g.
    pub master: ScalarType,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// Whether M = I.
    pub identity: bool,
    /// The machine that the code is for. Vectors have as many elements as it has lanes; wider types take several registers.
    pub target: Target,
    /// Index spaces with unknowns.
    pub spaces: Vec<Space>,
    /// How far every index space is read around an element, per dim.
    pub reaches: Vec<Vec<u32>>,
    /// Halo of every index space, elements per dim: what is read by whole vectors.
    pub halos: Vec<Vec<u32>>,
    /// What is read at the vertices of hyperedges.
    at_vertices: FxHashSet<Source>,
    /// Arrays that are stored as bytes.
    bytes: FxHashSet<ArrayId>,
    /// Per vertex, the channels of what is stored over its graph's hyperedges that J^T J p reads there. Every vertex has its own copy in the
    /// order of its entries: read once per PCG iteration, it had better be dense.
    beside: FxHashMap<(GraphId, u16), Vec<usize>>,
}

impl Skeleton {
    /// The skeleton of an energy.
    pub fn new(
        of: Arc<Energy>,
        derived: Arc<Routines>,
        master: ScalarType,
        linear: ScalarType,
        block: bool,
        identity: bool,
        target: Target,
    ) -> Skeleton {
        let (energy, routines) = (&*of, &*derived);
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let spaces = spaces.filter(|&s| component_count(energy, s) > 0).map(|id| {
            let (dims, components) = (energy.spaces[id.index()].len(), component_count(energy, id));
            let slots = slots_into(energy, routines, id);
            let bounded = energy.bounds.iter().any(|b| energy.unknowns[b.unknown.index()].space == id);
            let stored = Space {
                id,
                dims,
                components,
                slots,
                inline_diagonal: false,
                skips: false,
                bounded,
                block: false,
                stores_q: false,
            };
            let block = block && !has_diagonal_blocks(energy, routines, &stored);
            let inline_diagonal =
                !block && !bounded && !energy.is_global(id) && diagonal::is_computable(routines, &stored);
            let skips = mask::skips(energy, id);
            let space = Space { inline_diagonal, skips, block, ..stored };
            Space { stores_q: traffic::keeps_q(energy, routines, &space), ..space }
        });
        let mut spaces: Vec<Space> = spaces.collect();
        if routines.has(Kind::Product) && pcg::rolls(routines, &spaces) {
            // Sweep B does not have them.
            spaces[0].stores_q = true;
        }
        let roots = roots(routines);
        let at_vertices = layout::at_vertices(routines, &roots);
        let bytes = layout::bytes(energy, routines, &roots);
        let (reaches, halos) =
            (reaches(energy, routines, &roots, 1), halos(energy, routines, &roots, target.lanes as u32));
        let beside = gather::beside(energy, routines);
        Skeleton {
            energy: of.clone(),
            routines: derived.clone(),
            master,
            linear,
            identity,
            target,
            spaces,
            reaches,
            halos,
            at_vertices,
            bytes,
            beside,
        }
    }

    /// Whether a share of the diagonal blocks of J^T J is stored over a space.
    pub fn stores_blocks(&self, space: &Space) -> bool {
        let mut sites = self.routines.of(Kind::StoredBlocks).map(|r| r.site);
        sites.any(|site| site.row_space(&self.energy) == Some(space.id))
    }

    /// When elements of a space are excluded.
    pub fn excluded(&self, space: SpaceId) -> Option<ExprId> {
        self.routines.roots(Kind::Excluded, Site::Element(space)).first().copied()
    }

    /// Number of entries of M^-1 per element: the packed lower triangle, or the diagonal.
    pub fn block_entries(&self, space: &Space) -> usize {
        let c = space.components;
        if space.block { c * (c + 1) / 2 } else { c }
    }
}

/// Whether no residual couples two scalars of one element of a space: their blocks of J^T J are diagonal.
fn has_diagonal_blocks(energy: &Energy, r: &Routines, space: &Space) -> bool {
    let own = r.of(Kind::Blocks).filter(|b| b.site.row_space(energy) == Some(space.id));
    let mut couplings = (0..space.components).flat_map(|i| (0..i).map(move |j| packed(i, j)));
    let blocks: Vec<&[ExprId]> = own.map(|b| &b.roots[..]).collect();
    couplings.all(|at| blocks.iter().all(|b| r.dag.as_constant(b[at]) == Some(0.0)))
}

/// Position of entry (i, j) in the packed lower triangle, row-major.
pub fn packed(i: usize, j: usize) -> usize {
    let (i, j) = (i.max(j), i.min(j));
    i * (i + 1) / 2 + j
}

/// Graph vertices that point into a space, at or around which some residual reads its unknowns; ascending in each graph.
fn slots_into(energy: &Energy, routines: &Routines, space: SpaceId) -> Vec<(GraphId, u16)> {
    let own = routines.of(Kind::JtJp).filter(|r| r.site.row_space(energy) == Some(space));
    let vertices: BTreeSet<(GraphId, u16)> = own
        .filter_map(|r| match r.site {
            Site::Slot(graph, slot) => Some((graph, energy.graphs[graph.index()].vertex_of(slot).0)),
            _ => None,
        })
        .collect();
    vertices.into_iter().collect()
}

/// The reach of every stencil read, per index space and dim; see [`computed::reaches`].
fn reaches(energy: &Energy, r: &Routines, roots: &[ExprId], block: u32) -> Vec<Vec<u32>> {
    let bounds = energy.bounds.iter().flat_map(|b| b.lower.iter().chain(&b.upper));
    let roots: Vec<ExprId> = roots.iter().chain(bounds).copied().collect();
    computed::reaches(energy, r, &roots, block)
}

/// What whole vectors reach, per index space and dim; in dim 0 at least a vector, so that whole ones around the domain may be read.
fn halos(energy: &Energy, r: &Routines, roots: &[ExprId], lanes: u32) -> Vec<Vec<u32>> {
    let mut halos = reaches(energy, r, roots, lanes);
    for h in halos.iter_mut().filter(|h| !h.is_empty()) {
        *h = computed::blocks(h, lanes);
        h[0] = h[0].next_multiple_of(lanes);
    }
    halos
}

/// Every expression that some pipeline emits, but for computed arrays.
fn roots(r: &Routines) -> Vec<ExprId> {
    r.table.iter().filter(|r| r.kind != Kind::Computed).flat_map(|r| r.roots.iter().copied()).collect()
}
