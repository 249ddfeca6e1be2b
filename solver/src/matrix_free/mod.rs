//! The matrix-free path: PCG and what is around it as engine pipelines that call an energy's routines; no Jacobian is stored.
//!
//! | file or folder | holds |
//! |---|---|
//! | [`skeleton`] | the energy, its routines, index spaces, precisions and target: what all pipelines share |
//! | [`vectors`], [`params`], [`scalars`] | ids of everything that pipelines read and write, and one table of what each is |
//! | [`draft`] | a pipeline in the making: declares by id what its Funcs call |
//! | [`pipelines`], [`pcg`] | the Funcs: energy, gradient, damping, linearisation, trial point; the sweeps of PCG and its loop |
//! | [`preconditioner`] | the trait of M^-1, and its kinds |
//! | [`stop`] | the rules that end PCG |
//! | [`schedule`] | each nest of a pipeline as data, and the directives that a target makes of it |
//! | [`domain`] | index spaces: incidence lists, layouts, masks, sizes |
//! | [`choices`] | what is stored for the next sweep, and what is computed again |
//! | [`stages`] | the table of pipelines, and the phases of a solve that run them |
//! | [`plan`] | buffers of given sizes, programs over them, the steps of the outer loop |
//! | [`certify`] | the routines one by one, for the certificate |
//!
//! Invariants: every vector has a halo of zeros; M^-1 = 0, p = 0, r = 0 and d = 0 at excluded elements, at unconstrained and held
//! scalars, in halos and in pads. Where SIMD vectors are skipped ([`domain::mask`]), g, D and what is stored at x have any value. (An M^-1
//! that is computed where it is read is merely finite in halos, see [`preconditioner::diagonal`].)

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
pub mod skeleton;
pub mod stages;
pub mod stop;
pub mod vectors;

use crate::matrix_free::choices as traffic;
use crate::matrix_free::domain::{layout, mask};
use crate::matrix_free::pipelines::{computed, gather};
use crate::matrix_free::preconditioner::{Preconditioner, diagonal};
use crate::matrix_free::skeleton::{Entries, Field, Shape, Skeleton, Space, When, packed};
use crate::matrix_free::vectors::{Extents, Initial};
use std::collections::BTreeSet;
use std::sync::Arc;
use sumsq_codegen::{ScalarType, Target};
use sumsq_energy::dag::ExprId;
use sumsq_energy::derive::{Kind, Materialize, Passes, Routines, Site};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Energy, GraphId, SpaceId};

/// Derives the routines of an energy, simplifies them and hoists out what only a linearisation changes of J^T J p.
pub fn prepare(energy: &Energy, passes: Passes, choices: &Materialize) -> Routines {
    let mut routines = Routines::build_with(energy, passes, choices);
    routines.hoist(energy, passes);
    routines
}

impl Skeleton {
    /// The skeleton of an energy.
    pub fn new(
        of: Arc<Energy>,
        derived: Arc<Routines>,
        master: ScalarType,
        linear: ScalarType,
        preconditioners: &[Arc<dyn Preconditioner>],
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
                coupled: false,
                kept: Entries::Diagonal,
                stores_q: false,
            };
            let space = Space { coupled: !has_diagonal_blocks(energy, routines, &stored), ..stored };
            let asked = preconditioners.iter().map(|m| m.entries(&space));
            let kept = asked.max().unwrap_or(Entries::Diagonal);
            let inline_diagonal = kept == Entries::Diagonal
                && !bounded
                && !energy.is_global(id)
                && diagonal::is_computable(routines, &space);
            let skips = mask::skips(energy, id);
            let space = Space { inline_diagonal, skips, kept, ..space };
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
        let shapes = preconditioners.iter().map(|m| shape(&**m, &spaces, linear)).collect();
        Skeleton {
            energy: of.clone(),
            routines: derived.clone(),
            master,
            linear,
            preconditioners: shapes,
            target,
            spaces,
            reaches,
            halos,
            at_vertices,
            bytes,
            beside,
        }
    }
}

/// Everything that the table of vectors and the phases have to know of a preconditioner.
fn shape(m: &dyn Preconditioner, spaces: &[Space], linear: ScalarType) -> Shape {
    let fields = |space: &Space| {
        let (points, initial) = (Extents::Space(space.id), Initial::ZerosPerMask);
        let pointwise = Field { level: 0, points, width: m.width(space), ty: linear, initial };
        [vec![pointwise], m.fields(space, linear)].concat()
    };
    let fields = spaces.iter().map(|space| (space.id, fields(space))).collect();
    Shape { name: m.name(), fields, stages: When::ALL.map(|when| m.stages(when)) }
}

/// True if no residual couples two scalars of one element of a space: their blocks of J^T J are diagonal.
fn has_diagonal_blocks(energy: &Energy, r: &Routines, space: &Space) -> bool {
    let own = r.of(Kind::Blocks).filter(|b| b.site.row_space(energy) == Some(space.id));
    let mut couplings = (0..space.components).flat_map(|i| (0..i).map(move |j| packed(i, j)));
    let blocks: Vec<&[ExprId]> = own.map(|b| &b.roots[..]).collect();
    couplings.all(|at| blocks.iter().all(|b| r.dag.as_constant(b[at]) == Some(0.0)))
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
