//! Facts about hierarchies of grids that follow from an energy and its sizes: both paths have the same.

use sumsq_energy::dag::{Access, At};
use sumsq_energy::emit::component_count;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// Scalars of the coarsest level at most. Its inverse is dense, and on small grids most of a set-up. Volumes, which shrink eightfold a level, have more:
/// with 100 those of `volumetric_mesh_deformation` need a quarter more iterations.
fn coarsest(dims: usize) -> usize {
    if dims < 3 { 100 } else { 300 }
}

/// The spaces of an energy that have a hierarchy of grids: elements of the others that are [`coupled`] have too many unknowns.
pub fn served(energy: &Energy) -> Vec<SpaceId> {
    let mut all = coupled(energy);
    all.retain(|&s| component_count(energy, s) <= most_components(energy.spaces[s.index()].len()));
    all
}

/// The spaces of an energy whose unknowns some residual reads at several offsets.
pub fn coupled(energy: &Energy) -> Vec<SpaceId> {
    let spaces = (0..energy.spaces.len() as u32).map(SpaceId).filter(|&s| !energy.is_global(s));
    let couples = |space: SpaceId| {
        let own = energy.residuals.iter().filter(|r| r.domain == Domain::Space(space));
        own.into_iter().any(|r| {
            let reads = r.unknown_reads.iter().filter(|a| energy.space_of(a.source) == space);
            let mut at = reads.map(|a| &a.at).filter(|at| matches!(at, At::Offset(_)));
            at.next().is_some_and(|first| at.any(|other| other != first))
        })
    };
    spaces.filter(|&s| couples(s)).collect()
}

/// Unknowns that a residual reads, with all of its block under a loss of second order: J^T J couples what is read together.
pub fn reads_of(energy: &Energy, residual: usize) -> Vec<&Access> {
    let block = energy.residuals[residual].block.filter(|b| energy.blocks[b.index()].second_order);
    let rows = energy.residuals.iter().enumerate();
    let rows = rows.filter(|(m, r)| *m == residual || (block.is_some() && r.block == block));
    rows.flat_map(|(_, r)| &r.unknown_reads).collect()
}

/// The least number of additive levels, of at least one, with which the first level that is not moves at most half the bytes of a PCG
/// iteration for its two products with A. Bytes are those of vectors of the iteration and of A, both for interior elements.
pub fn additive_levels(dims: usize, components: usize, coupled: bool) -> usize {
    let pairs = if coupled { components * components } else { components };
    let stencil = 3usize.pow(dims as u32).div_ceil(2) * pairs;
    let level = |n: usize| (2 * (stencil + 3 * components)) >> (dims * n).min(63);
    let iteration = 8 * components + 2 * pairs;
    (1..8).find(|&n| 2 * level(n) <= iteration).unwrap_or(8)
}

/// Terms of A v at an element at most, whose ways lead to its neighbours: it is straight code.
const MOST_TERMS: usize = 2000;

/// Unknowns per element at most, for spaces of so many dims.
pub fn most_components(dims: usize) -> usize {
    let terms = |components: usize| 3usize.saturating_pow(dims as u32) * components * components;
    (1..=8).rev().find(|&c| terms(c) <= MOST_TERMS).unwrap_or(0)
}

/// The extents of every level, and of the coarsest: the first behind level 0 that has few scalars.
pub fn levels(extents: &[usize], components: usize) -> Vec<Vec<usize>> {
    let mut all = vec![extents.to_vec()];
    loop {
        let next: Vec<usize> = all[all.len() - 1].iter().map(|n| n.div_ceil(2)).collect();
        let scalars = next.iter().product::<usize>() * components;
        all.push(next);
        if scalars <= coarsest(extents.len()) {
            return all;
        }
    }
}
