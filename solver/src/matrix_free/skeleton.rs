//! Properties that all pipelines of an energy share, and the parts of one of them. Made in [`crate::matrix_free`], read by every file of it.

use crate::matrix_free::choices::{Choices, Value};
use crate::matrix_free::params::Param;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::shape::Hierarchy;
use crate::matrix_free::sums::Share;
use crate::matrix_free::vectors::{Extents, Initial, Role, VectorId, What};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
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
    /// The levels of a hierarchy that it runs on.
    pub span: Span,
}

/// The levels that a pipeline runs on. One for several is built for level 1 and what lies behind it: bound to a level, it has the vectors and
/// sizes that are as many levels away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Span {
    /// Those that it is built for.
    Once,
    /// The levels of a space's hierarchy from `from` to before `to` that lie before the coarsest, one after the other.
    Levels {
        /// The space.
        space: SpaceId,
        /// The first.
        from: u8,
        /// The one behind the last.
        to: u8,
        /// True if the coarser ones come first.
        descending: bool,
    },
    /// All levels of a space's hierarchy behind the problem itself.
    Behind(SpaceId),
    /// The coarsest level.
    Coarsest(SpaceId),
    /// The problem itself, where some element that adds up its hyperedges has several rows at a vertex.
    SeveralRows,
}

/// An index space that holds unknowns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Space {
    /// The space.
    pub id: SpaceId,
    /// Number of dims.
    pub dims: usize,
    /// Scalars per element.
    pub components: usize,
    /// Graph vertices that point into it, at or around which its unknowns are read.
    pub slots: Vec<(GraphId, u16)>,
    /// By choice: where p is computed.
    pub direction: Value,
    /// By choice: inside of sweep A, as p may be, are the products J p that are stored over it.
    pub rolls_products: bool,
    /// By choice: sweep A adds up the hyperedges of every element itself, but for those of elements with several rows, and stores q.
    pub by_element: bool,
    /// By choice: hyperedges add up what they have for their vertices, in any order: of g and the blocks, and of J^T J p before sweep A, which stores q.
    pub scatters: bool,
    /// By choice: D and M^-1 are expressions of the sweeps instead of fields, see [`crate::matrix_free::preconditioner::diagonal`].
    pub inline_diagonal: bool,
    /// By choice: vectors far from every free element are skipped, see [`crate::matrix_free::domain::mask`].
    pub skips: bool,
    /// True if any of its unknowns has box bounds.
    pub bounded: bool,
    /// The runs of components whose entries of J^T J make a block, see `problem::blocks`.
    pub blocks: Vec<Range<usize>>,
    /// True if some residual couples two scalars of one of these: the block is more than a diagonal.
    pub coupled: bool,
    /// The entries of the blocks of J^T J that come with g: those that some preconditioner reads.
    pub kept: Entries,
    /// By choice: sweep A stores q for sweep B, which computes it again otherwise.
    pub stores_q: bool,
    /// Coarser copies of it, if some preconditioner has them and stencils couple its elements.
    pub hierarchy: Option<Hierarchy>,
    /// Aggregates of its elements, if some preconditioner has them and residuals couple the elements.
    pub aggregates: Option<Sources>,
}

/// Entries of the diagonal blocks of J^T J.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Entries {
    /// The diagonal.
    Diagonal,
    /// The lower triangles of its blocks, each packed.
    Block,
}

/// A vector that a preconditioner has over a space.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Field {
    /// The level of a hierarchy, 0 for the problem itself.
    pub level: u8,
    /// Its points.
    pub points: Extents,
    /// Elements of its tuple.
    pub width: usize,
    /// Their type.
    pub ty: ScalarType,
    /// Its first values.
    pub initial: Initial,
}

/// The times at which a preconditioner has stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum When {
    /// After the free elements have changed.
    Masked,
    /// After g, the blocks, what J^T J p reads, and the first D, b and field 0 that are made of these.
    Linearised,
    /// After D, b and field 0, and what is made per linearisation.
    Damped,
    /// In every PCG iteration, between sweep B and the stop rules; and once before the first.
    Iteration,
}

/// Everything that vectors and phases have to know of a preconditioner.
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Its fields over every space with unknowns.
    pub fields: BTreeMap<SpaceId, Vec<Field>>,
    /// Numbers of its stages at these times, in the order of the enum.
    pub stages: [u8; 4],
    /// True if it has hierarchies.
    pub has_hierarchies: bool,
    /// True if it has aggregates.
    pub has_aggregates: bool,
}

impl When {
    /// In the order of the enum.
    pub const ALL: [When; 4] = [When::Masked, When::Linearised, When::Damped, When::Iteration];

    /// Those that run behind the damping.
    pub const BEHIND_DAMPING: [When; 3] = [When::Linearised, When::Damped, When::Iteration];
}

impl Shape {
    /// Number of its stages at these times.
    pub fn stages(&self, when: When) -> u8 {
        self.stages[when as usize]
    }

    /// Tells whether the first z is had only after stages behind the damping, and r0.z0 with it.
    pub fn follows_damping(&self) -> bool {
        When::BEHIND_DAMPING.iter().any(|&when| self.stages(when) > 0)
    }
}

/// Everything that all pipelines of an energy share.
pub struct Skeleton {
    /// The energy.
    pub energy: Arc<Energy>,
    /// Its routines.
    pub routines: Arc<Routines>,
    /// Type of the master copy of x, E, g.
    pub master: ScalarType,
    /// Type of PCG vectors and applyJTJ.
    pub linear: ScalarType,
    /// The preconditioners, by number.
    pub preconditioners: Vec<Shape>,
    /// The machine that the code is for. Vectors have as many elements as it has lanes; wider types take several registers.
    pub target: Target,
    /// Index spaces with unknowns.
    pub spaces: Vec<Space>,
    /// Reach of reads around an element, per index space and dim.
    pub reaches: Vec<Vec<u32>>,
    /// Halo of every index space, elements per dim: what is read by whole vectors.
    pub halos: Vec<Vec<u32>>,
    /// Storage: what is stored, in which form, and what is computed again.
    pub choices: Choices,
    /// The sums of the energy, as pipelines have them.
    pub shares: Vec<Share>,
    /// Per vertex, the channels of what is stored over its graph's hyperedges that J^T J p reads there. Every vertex has its own copy in the
    /// order of its entries, unless a choice has them read through the number of the hyperedge: then there are none.
    pub(super) beside: FxHashMap<(GraphId, u16), Vec<usize>>,
}

impl Skeleton {
    /// True if a share of the diagonal blocks of J^T J is stored over a space.
    pub fn stores_blocks(&self, space: &Space) -> bool {
        let mut sites = self.routines.of(Kind::StoredBlocks).map(|r| r.site);
        sites.any(|site| site.row_space(&self.energy) == Some(space.id))
    }

    /// The condition that excludes elements of a space.
    pub fn excluded(&self, space: SpaceId) -> Option<ExprId> {
        self.routines.roots(Kind::Excluded, Site::Element(space)).first().copied()
    }

    /// A preconditioner's vector over a space. Of a field of coarser levels, that of the first.
    pub fn field(&self, kind: u8, field: u8, space: SpaceId) -> VectorId {
        let level = self.preconditioners[usize::from(kind)].fields[&space][usize::from(field)].level;
        VectorId { level, ..What::M { kind, field }.of(space) }
    }
}

/// Position of entry (i, j) in the packed lower triangle, row-major.
pub fn packed(i: usize, j: usize) -> usize {
    let (i, j) = (i.max(j), i.min(j));
    i * (i + 1) / 2 + j
}

impl Entries {
    /// Their positions in the packed lower triangles of elements with these blocks.
    pub fn list(self, blocks: &[Range<usize>]) -> Vec<usize> {
        let rows = blocks
            .iter()
            .flat_map(|b| b.clone().map(move |i| (i, if self == Entries::Block { b.start } else { i })));
        rows.flat_map(|(i, first)| (first..=i).map(move |j| packed(i, j))).collect()
    }
}

impl Space {
    /// True if p is computed inside of sweep A.
    pub fn rolls(&self) -> bool {
        self.direction != Value::Root
    }

    /// The entries of the packed blocks of J^T J that come with g.
    pub fn kept_entries(&self) -> Vec<usize> {
        self.kept.list(&self.blocks)
    }

    /// The roots at a site of what is computed with g: g, these entries, and the first-order diagonal under losses of second order.
    pub fn gradient_roots(&self, routines: &Routines, site: Site) -> Vec<ExprId> {
        let [gradient, blocks, first_order] =
            [Kind::Gradient, Kind::Blocks, Kind::FirstOrder].map(|kind| routines.roots(kind, site));
        let blocks = self.kept_entries().into_iter().map(|i| blocks[i]);
        gradient.iter().copied().chain(blocks).chain(first_order.iter().copied()).collect()
    }

    /// Position of entry (i, j) of the block among those.
    pub fn kept_at(&self, i: usize, j: usize) -> Option<usize> {
        self.kept_entries().iter().position(|&e| e == packed(i, j))
    }
}
