//! What all pipelines of an energy share, and what one of them is made of. Made in [`crate::matrix_free`], read by every file of it.

use crate::matrix_free::choices::Choices;
use crate::matrix_free::params::Param;
use crate::matrix_free::vectors::{Role, VectorId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use sumsq_codegen::{Name, Pipeline, ScalarType, Schedule, Target};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::model::{Energy, GraphId, SpaceId};

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
    /// By choice: p is computed in a ring of rows inside of sweep A.
    pub rolls: bool,
    /// By choice: so are the products J p that are stored over it.
    pub rolls_products: bool,
    /// By choice: D and M^-1 are expressions of the sweeps instead of fields, see [`crate::matrix_free::preconditioner::diagonal`].
    pub inline_diagonal: bool,
    /// By choice: vectors far from every free element are skipped, see [`crate::matrix_free::domain::mask`].
    pub skips: bool,
    /// Whether any of its unknowns has box bounds.
    pub bounded: bool,
    /// Whether M holds whole blocks: where they are more than a diagonal.
    pub block: bool,
    /// By choice: sweep A stores q for sweep B, which computes it again otherwise.
    pub stores_q: bool,
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
    /// What is stored, in which form, and what is computed again.
    pub choices: Choices,
    /// Per vertex, the channels of what is stored over its graph's hyperedges that J^T J p reads there. Every vertex has its own copy in the
    /// order of its entries, unless a choice has them read through the number of the hyperedge: then there are none.
    pub(super) beside: FxHashMap<(GraphId, u16), Vec<usize>>,
}

impl Skeleton {
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

/// Position of entry (i, j) in the packed lower triangle, row-major.
pub fn packed(i: usize, j: usize) -> usize {
    let (i, j) = (i.max(j), i.min(j));
    i * (i + 1) / 2 + j
}

/// The entries of a packed block that are kept.
pub fn kept_entries(space: &Space) -> Vec<usize> {
    let c = space.components;
    if space.block { (0..c * (c + 1) / 2).collect() } else { (0..c).map(|i| packed(i, i)).collect() }
}
