//! The matrix-free path: PCG and what is around it as engine pipelines that call an energy's routines; no Jacobian is stored.
//!
//! | file or folder | holds |
//! |---|---|
//! | [`skeleton`] | the energy, its routines, index spaces, precisions and target: what all pipelines share |
//! | [`vectors`], [`params`], [`scalars`] | ids of everything that pipelines read and write |
//! | [`describe`] | one table of what each of them is |
//! | [`draft`], [`finish`] | a pipeline in the making, and made: declares by id what its Funcs call |
//! | [`pipelines`], [`pcg`] | the Funcs: energy, gradient, damping, linearisation, trial point; the sweeps of PCG and its loop |
//! | [`preconditioner`] | the trait of M^-1, and its kinds |
//! | [`sums`] | which residuals are summed in one nest |
//! | [`stop`] | the rules that end PCG |
//! | [`schedule`] | each nest of a pipeline as data, and the directives that a target makes of it |
//! | [`domain`] | index spaces: incidence lists, layouts, masks, sizes |
//! | [`choices`] | for everything that could be stored, kept in a ring or computed again: which of these it is |
//! | [`stages`], [`phases`] | the table of pipelines, and the phases of a solve that run them |
//! | [`outline`], [`kept`] | what plans need to know of all this; kept from one start to the next |
//! | [`plan`] | buffers of given sizes, programs over them, the steps of the outer loop |
//! | [`certify`] | the routines one by one, for the certificate |
//!
//! Invariants: every vector has a halo of zeros; M^-1 = 0, p = 0, r = 0 and d = 0 at excluded elements, at unconstrained and held
//! scalars, in halos and in pads. Where SIMD vectors are skipped ([`domain::mask`]), g, D and what is stored at x have any value. (An M^-1
//! that is computed where it is read is merely finite in halos, see [`preconditioner::diagonal`].)

pub mod certify;
pub mod choices;
pub mod describe;
pub mod domain;
pub mod draft;
pub mod finish;
pub mod kept;
pub mod outline;
pub mod params;
pub mod pcg;
pub mod phases;
pub mod pipelines;
pub mod plan;
pub mod preconditioner;
pub mod scalars;
pub mod schedule;
pub mod skeleton;
pub mod stages;
pub mod stop;
pub mod sums;
pub mod vectors;

use crate::matrix_free::choices::{ChoiceError, Derived, Facts, Of, Overrides, Value};
use crate::matrix_free::pipelines::{computed, gather};
use crate::matrix_free::preconditioner::Preconditioner;
use crate::matrix_free::preconditioner::aggregates::sources::Sources;
use crate::matrix_free::preconditioner::hierarchy::shape::Hierarchy;
use crate::matrix_free::skeleton::{Entries, Field, Shape, Skeleton, Space, When, packed};
use crate::matrix_free::vectors::{Extents, Initial};
use crate::problem::{blocks, grids};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use sumsq_codegen::{ScalarType, Target};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Routines, Site};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{DimId, Energy, GraphId, SpaceId};

/// Requests that the choices of an energy are made by.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Choices that a user made.
    pub given: &'a Overrides,
    /// The sizes of the energy's dims, if they are known.
    pub sizes: Option<&'a [usize]>,
}

impl Skeleton {
    /// The skeleton of an energy.
    ///
    /// # Errors
    /// A given choice that cannot be.
    pub fn new(
        derived: Derived,
        master: ScalarType,
        linear: ScalarType,
        preconditioners: &[Arc<dyn Preconditioner>],
        target: Target,
        wanted: Wanted,
    ) -> Result<Skeleton, ChoiceError> {
        let Derived { energy, routines, choices, .. } = derived;
        let spaces = (0..energy.spaces.len() as u32).map(SpaceId);
        let spaces = spaces.filter(|&s| component_count(&energy, s) > 0);
        let roots = roots(&routines);
        let reaches = reaches(&energy, &routines, &roots, 1);
        let halos = halos(&energy, &routines, &roots, target.lanes as u32);
        let mut spaces: Vec<Space> =
            spaces.map(|id| bare_space(&energy, &routines, id, preconditioners)).collect();
        // On a GPU threads find level 0 in memory.
        for s in spaces.iter_mut().filter(|s| s.dims > 1 && target.gpu.is_none()) {
            let [halo, reach] = [&halos, &reaches].map(|of| of[s.id.index()][0]);
            s.hierarchy = s.hierarchy.take().map(|of| of.rolling(halo.saturating_sub(reach)));
        }
        let extents = wanted.sizes.map(|sizes| extents(&energy, sizes));
        let mut beside = gather::beside(&energy, &routines);
        let facts = Facts {
            energy: &energy,
            routines: &routines,
            roots: &roots,
            beside: &beside,
            reaches: &reaches,
            target: &target,
            extents: extents.as_deref(),
            scalar: linear.bytes(),
        };
        let (choices, shares) = choices::store(&facts, &mut spaces, choices, wanted.given)?;
        for s in &mut spaces {
            s.hierarchy.iter_mut().for_each(|of| of.skips = s.skips);
        }
        for (&(graph, vertex), channels) in &mut beside {
            let scattered = spaces.iter().any(|s| s.scatters && s.slots.contains(&(graph, vertex)));
            if scattered || choices.is(Of::Entries(graph, vertex), Value::Indirect) {
                channels.clear();
            }
        }
        let shapes = preconditioners.iter().map(|m| shape(&**m, &spaces, linear)).collect();
        let (energy, routines) = (Arc::new(energy), Arc::new(routines));
        Ok(Skeleton {
            energy,
            routines,
            master,
            linear,
            preconditioners: shapes,
            target,
            spaces,
            reaches,
            halos,
            choices,
            shares,
            beside,
        })
    }
}

/// A space with unknowns before choices are made.
fn bare_space(
    energy: &Energy,
    routines: &Routines,
    id: SpaceId,
    preconditioners: &[Arc<dyn Preconditioner>],
) -> Space {
    let bare = Space {
        id,
        dims: energy.spaces[id.index()].len(),
        components: component_count(energy, id),
        slots: slots_into(energy, routines, id),
        direction: Value::Root,
        rolls_products: false,
        by_element: false,
        scatters: false,
        inline_diagonal: false,
        skips: false,
        bounded: energy.bounds.iter().any(|b| energy.unknowns[b.unknown.index()].space == id),
        blocks: blocks::of_space(energy, id),
        coupled: false,
        kept: Entries::Diagonal,
        stores_q: false,
        hierarchy: None,
        aggregates: None,
    };
    let space = Space { coupled: !has_diagonal_blocks(energy, routines, &bare), ..bare };
    let kept = preconditioners.iter().map(|m| m.entries(&space)).max().unwrap_or(Entries::Diagonal);
    let has_hierarchies =
        preconditioners.iter().any(|m| m.has_hierarchies()) && grids::served(energy).contains(&id);
    let coupled = |i, j| couples(energy, routines, id, i, j);
    let of = || Hierarchy::of(&routines.couplings, id, (space.dims, space.components), &coupled);
    let hierarchy = if has_hierarchies { of() } else { None };
    let has_aggregates = preconditioners.iter().any(|m| m.has_aggregates());
    let aggregates = if has_aggregates { Sources::of(energy, &routines.couplings, id) } else { None };
    Space { kept, hierarchy, aggregates, ..space }
}

/// The extents of every index space for the sizes of the dims.
fn extents(energy: &Energy, sizes: &[usize]) -> Vec<Vec<usize>> {
    let given = |d: &DimId| sizes.get(d.index()).copied().unwrap_or(0);
    let of = |d: &DimId| energy.dims[d.index()].fixed.map_or(given(d), |n| n as usize);
    energy.spaces.iter().map(|dims| dims.iter().map(of).collect()).collect()
}

/// Everything that the table of vectors and the phases have to know of a preconditioner.
fn shape(m: &dyn Preconditioner, spaces: &[Space], linear: ScalarType) -> Shape {
    let fields = |space: &Space| {
        let (points, initial) = (Extents::Space(space.id), Initial::ZerosPerMask);
        let pointwise = Field { level: 0, points, width: m.width(space), ty: linear, initial };
        [vec![pointwise], m.fields(space, linear)].concat()
    };
    let fields = spaces.iter().map(|space| (space.id, fields(space))).collect();
    let stages = When::ALL.map(|when| m.stages(when));
    let (has_hierarchies, has_aggregates) = (m.has_hierarchies(), m.has_aggregates());
    Shape { name: m.name(), fields, stages, has_hierarchies, has_aggregates }
}

/// True if no residual couples two scalars of a block of M over a space.
fn has_diagonal_blocks(energy: &Energy, r: &Routines, space: &Space) -> bool {
    let pairs = |block: &Range<usize>| {
        let first = block.start;
        block.clone().flat_map(move |i| (first..i).map(move |j| (i, j)))
    };
    space.blocks.iter().flat_map(pairs).all(|(i, j)| !couples(energy, r, space.id, i, j))
}

/// True if some residual couples these two scalars of one element of a space.
fn couples(energy: &Energy, r: &Routines, space: SpaceId, i: usize, j: usize) -> bool {
    let mut own = r.of(Kind::Blocks).filter(|b| b.site.row_space(energy) == Some(space));
    own.any(|b| r.dag.as_constant(b.roots[packed(i, j)]) != Some(0.0))
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
    let given = energy.near_null.iter().flat_map(|n| &n.values);
    let roots: Vec<ExprId> = roots.iter().chain(bounds).chain(given).copied().collect();
    computed::reaches(energy, r, &roots, block)
}

/// The reach of whole vectors, per index space and dim; in dim 0 at least a vector, so that whole ones around the domain may be read.
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
