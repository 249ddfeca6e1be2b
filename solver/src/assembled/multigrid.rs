//! Geometric multigrid from sparse matrices.
//!
//! Per index space whose unknowns stencils read at several offsets: A_0 is what these residuals make of J^T J, the diagonal
//! blocks of all others, and D; P is linear along every dim. M is the preconditioner of the finest level and the diagonal of the others.

use crate::assembled::hierarchy::{
    Hierarchies, Hierarchy, Level, Scalars, System, diagonal, diagonal_of, elements_of_a_row,
};
use crate::assembled::preconditioner::BlockDiagonal;
use crate::assembled::{Explicit, Jacobian};
use crate::problem::grids;
use sprs::{CsMat, TriMat};
use sumsq_energy::dag::Source;
use sumsq_energy::model::{Domain, Energy, SpaceId};

impl Hierarchies {
    /// Multigrid for A = J^T J + diag(`damping`), `diag` = diag(J^T J). So many levels are `additive`; `None`: as many as the matrix-free
    /// kind has.
    pub fn multigrid(
        problem: &Explicit<'_>,
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        additive: Option<usize>,
    ) -> Hierarchies {
        let system = System { problem, jacobian, diag, damping };
        let energy = &problem.energy;
        Hierarchies::new(&system, grids::served(energy), |space, finest| {
            let additive = additive.unwrap_or_else(|| additive_levels(energy, space));
            of_grid(&system, space, finest, additive)
        })
    }
}

fn of_grid(system: &System<'_>, space: SpaceId, finest: &BlockDiagonal, additive: usize) -> Hierarchy {
    let scalars = Scalars::new(system, space);
    let energy = &system.problem.energy;
    let weight = 4.0 / (3.0 * elements_of_a_row(energy) as f64);
    let a = finest_matrix(system, space, &scalars);
    let mut levels = vec![Level::new(a, scalars.smoother(system, finest, weight))];
    let extents = grids::levels(&system.problem.data.extents(energy, space), scalars.components);
    for extents in &extents[..extents.len() - 1] {
        let last = levels.last_mut().expect("the finest one is there");
        let active: Vec<bool> = diagonal_of(&last.a).iter().map(|a| *a > 0.0).collect();
        let p = interpolation(extents, scalars.components, &active);
        let a = &(&p.transpose_view().to_csr() * &last.a) * &p;
        last.p = Some(p);
        let smoother = smoother(&a);
        levels.push(Level::new(a, smoother));
    }
    levels.last_mut().expect("there are two").factorise();
    Hierarchy { space, scalars, additive, levels, candidates: vec![] }
}

/// The number of additive levels of the matrix-free kind: see its rule.
fn additive_levels(energy: &Energy, space: SpaceId) -> usize {
    let fields = energy.unknowns.iter().filter(|f| f.space == space);
    let components = fields.map(|f| usize::from(f.channels)).sum();
    let coupled = energy.residuals.iter().any(|r| {
        let own = r.unknown_reads.iter().filter(|a| energy.space_of(a.source) == space);
        let own: Vec<_> = own.filter(|a| matches!(a.source, Source::Unknown(_))).collect();
        own.iter().any(|a| own.iter().any(|b| a.at == b.at && (a.source, a.channel) != (b.source, b.channel)))
    });
    grids::additive_levels(energy.spaces[space.index()].len(), components, coupled)
}

/// A_0 of a space.
fn finest_matrix(system: &System<'_>, space: SpaceId, scalars: &Scalars) -> CsMat<f64> {
    let mut of_domain = vec![];
    let templates = &system.problem.templates;
    templates.iter().for_each(|t| of_domain.extend(t.counted.iter().map(|_| t.domain)));
    let part = |stencil: bool| {
        scalars.normal(system.jacobian, |row| (of_domain[row] == Domain::Space(space)) == stencil)
    };
    let (others, c) = (part(false), scalars.components);
    let mut blocks = TriMat::new(others.shape());
    for (i, row) in others.outer_iterator().enumerate() {
        row.iter().filter(|(j, _)| j / c == i / c).for_each(|(j, v)| blocks.add_triplet(i, j, *v));
    }
    &(&part(true) + &blocks.to_csr::<usize>()) + &scalars.diagonal(system.damping)
}

/// P from the next level, element by element; 0 where a scalar takes no part.
fn interpolation(extents: &[usize], components: usize, active: &[bool]) -> CsMat<f64> {
    let coarse: Vec<usize> = extents.iter().map(|n| n.div_ceil(2)).collect();
    let elements: usize = extents.iter().product();
    let mut p = TriMat::new((elements * components, coarse.iter().product::<usize>() * components));
    for element in 0..elements {
        let (mut rest, mut stride) = (element, 1);
        let mut parents = vec![(0, 1.0)];
        for (&n, &m) in extents.iter().zip(&coarse) {
            let x = rest % n;
            rest /= n;
            let along = match x % 2 {
                0 => vec![(x / 2, 1.0)],
                _ if x / 2 + 1 == m => vec![(x / 2, 1.0)],
                _ => vec![(x / 2, 0.5), (x / 2 + 1, 0.5)],
            };
            parents = parents
                .iter()
                .flat_map(|&(at, w)| along.iter().map(move |&(x, v)| (at + x * stride, w * v)))
                .collect();
            stride *= m;
        }
        for c in (0..components).filter(|c| active[element * components + c]) {
            parents
                .iter()
                .for_each(|&(at, w)| p.add_triplet(element * components + c, at * components + c, w));
        }
    }
    p.to_csr()
}

/// w over the diagonal; 0 where that is.
fn smoother(a: &CsMat<f64>) -> CsMat<f64> {
    let own = diagonal_of(a);
    let bound = a.outer_iterator().enumerate().filter(|(i, _)| own[*i] > 0.0).map(|(i, row)| {
        let terms = row.iter().filter(|(j, _)| own[*j] > 0.0);
        terms.map(|(j, v)| v.abs() / (own[i] * own[j]).sqrt()).sum::<f64>()
    });
    let bound = bound.fold(0.0, f64::max);
    let inverse = own.iter().map(|&d| if d > 0.0 { 4.0 / (3.0 * bound * d) } else { 0.0 });
    diagonal(&inverse.collect::<Vec<f64>>())
}
