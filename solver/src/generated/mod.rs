//! The generated path: the solver's skeleton as engine pipelines around an energy's routines.
//!
//! Each file holds one pipeline: its algorithm (Funcs that call the routines) and its default schedule.
//!
//! | pipeline | from | to |
//! |---|---|---|
//! | [`cost`] | x | E per group, number of counted instances |
//! | [`gradient`] | x | g = J^T r and diag or blocks of J^T J |
//! | [`damping`] | g, blocks, radius | D, M^-1, b = -g, r.z, norms |
//! | [`linearise`] | x | x and the hoisted parts in the linear solver's precision |
//! | [`pcg`] | r, p, ... | sweeps A and B of one PCG iteration |
//! | [`trial`] | x, d | x + d, predicted decrease, norms |
//!
//! Invariants: every field has a halo of zeros; M^-1 = 0, p = 0, r = 0 and d = 0 at excluded and unconstrained elements,
//! in halos and in pads.

pub mod cost;
pub mod damping;
pub mod fields;
pub mod gather;
pub mod gradient;
pub mod incidence;
pub mod linearise;
pub mod mask;
pub mod pcg;
pub mod reduce;
pub mod sizes;
pub mod trial;


use sumsq_codegen::ScalarType;
use sumsq_energy::dag::{At, ExprId, Source};
use sumsq_energy::derive::Routines;
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, GraphId, SpaceId};

/// Lanes that schedules vectorise by: a 512-bit vector of float32. Wider types take several registers.
pub const LANES: i32 = 16;

/// A compiled pipeline's algorithm and schedule.
pub type Scheduled = (sumsq_codegen::Pipeline, sumsq_codegen::Schedule);

/// An index space that holds unknowns.
#[derive(Clone, Debug)]
pub struct Space {
    /// Which one.
    pub id: SpaceId,
    /// Number of dims.
    pub dims: usize,
    /// Scalars per element.
    pub components: usize,
    /// Graph vertices that point into it.
    pub slots: Vec<(GraphId, u16)>,
}

/// What all pipelines of an energy share.
pub struct Skeleton<'a> {
    /// The energy.
    pub energy: &'a Energy,
    /// Its routines.
    pub routines: &'a Routines,
    /// Type of the master copy of x, E, g.
    pub master: ScalarType,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// Whether M holds whole blocks.
    pub block: bool,
    /// Whether M = I.
    pub identity: bool,
    /// Index spaces with unknowns.
    pub spaces: Vec<Space>,
    /// Halo of every index space, elements per dim.
    pub halos: Vec<Vec<u32>>,
}

impl<'a> Skeleton<'a> {
    /// The skeleton of an energy.
    pub fn new(
        energy: &'a Energy,
        routines: &'a Routines,
        master: ScalarType,
        linear: ScalarType,
        block: bool,
        identity: bool,
    ) -> Skeleton<'a> {
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let spaces = spaces.filter(|&s| component_count(energy, s) > 0).map(|id| Space {
            id,
            dims: energy.spaces[id.index()].len(),
            components: component_count(energy, id),
            slots: slots_into(energy, routines, id),
        });
        let spaces = spaces.collect();
        Skeleton { energy, routines, master, linear, block, identity, spaces, halos: halos(energy, routines) }
    }

    /// The routines of a space's stencils, if any stencil residual reads it.
    pub fn stencil(&self, space: SpaceId) -> Option<&'a sumsq_energy::derive::SpaceRoutines> {
        self.routines.spaces.iter().find(|r| r.space == space)
    }

    /// Number of entries of M^-1 per element: the packed lower triangle, or the diagonal.
    pub fn block_entries(&self, space: &Space) -> usize {
        let c = space.components;
        if self.block { c * (c + 1) / 2 } else { c }
    }
}

/// Position of entry (i, j) in the packed lower triangle, row-major.
pub fn packed(i: usize, j: usize) -> usize {
    let (i, j) = (i.max(j), i.min(j));
    i * (i + 1) / 2 + j
}

/// Graph vertices that point into a space and through which some residual reads its unknowns.
fn slots_into(energy: &Energy, routines: &Routines, space: SpaceId) -> Vec<(GraphId, u16)> {
    let mut slots = vec![];
    for g in &routines.graphs {
        for s in &g.slots {
            if energy.graphs[g.graph.index()].vertices[s.slot as usize].space == space {
                slots.push((g.graph, s.slot));
            }
        }
    }
    slots
}

/// The reach of every stencil read, per index space and dim; dim 0 at least a vector, so that whole vectors around
/// the domain may be read.
fn halos(energy: &Energy, routines: &Routines) -> Vec<Vec<u32>> {
    let mut halos: Vec<Vec<u32>> = energy.spaces.iter().map(|dims| vec![0; dims.len()]).collect();
    for access in routines.dag.accesses_of(&routines.roots()) {
        let At::Offset(offset) = &access.at else { continue };
        let space = match access.source {
            Source::Unknown(u) | Source::Direction(u) => energy.unknowns[u.index()].space,
            Source::Array(a) => energy.arrays[a.index()].space,
            Source::Hoisted(s) => s,
        };
        for (h, o) in halos[space.index()].iter_mut().zip(offset) {
            *h = (*h).max(o.unsigned_abs());
        }
    }
    for h in halos.iter_mut().filter(|h| !h.is_empty()) {
        h[0] = (h[0].max(1)).next_multiple_of(LANES as u32);
    }
    halos
}

/// The expressions of every routine, for passes that look at all of them.
pub fn roots_of(lists: &[&[ExprId]]) -> Vec<ExprId> {
    lists.iter().flat_map(|l| l.iter().copied()).collect()
}
