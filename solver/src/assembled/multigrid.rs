//! Geometric multigrid from sparse matrices: the oracle of the matrix-free kind.
//!
//! Per index space whose unknowns stencils read at several offsets: A_0 is what these residuals make of J^T J, the diagonal
//! blocks of all others, and D; A_{l+1} = P^T A_l P with P linear along every dim. A level is *additive*, z = S r + P e, where e is
//! what the next one makes of P^T r; or it smooths before and after, V(1,1). S = w M^-1, M the preconditioner of the finest level
//! and the diagonal of the others. The coarsest one is factorised.

use crate::assembled::preconditioner::{BlockDiagonal, element_blocks};
use crate::assembled::{Explicit, Jacobian};
use crate::problem::grids;
use crate::problem::options::Preconditioner;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use sprs::{CsMat, TriMat};
use sumsq_energy::dag::Source;
use sumsq_energy::model::{Domain, Energy, SpaceId};

/// Scalars of the coarsest level at most.
const COARSEST: usize = 300;

/// Relative shift of the diagonal of the coarsest level.
const SHIFT: f64 = 1e-8;

/// A column that is none.
const NONE: u32 = u32::MAX;

/// M of multigrid, by its inverse.
pub struct Multigrid {
    finest: BlockDiagonal,
    /// w of the finest level.
    weight: f64,
    spaces: Vec<Hierarchy>,
}

/// The levels of a space.
struct Hierarchy {
    space: SpaceId,
    /// Per scalar of the space, components fastest: its column of J.
    columns: Vec<u32>,
    /// Levels from the finest on that are additive.
    additive: usize,
    levels: Vec<Level>,
}

struct Level {
    a: CsMat<f64>,
    /// w over the diagonal of A; on the finest level 1 where a scalar takes part.
    smoother: Vec<f64>,
    /// From the next level to this one.
    p: Option<CsMat<f64>>,
    /// Of the coarsest level.
    factor: Option<(Cholesky<f64, Dyn>, Vec<usize>)>,
}

impl Multigrid {
    /// M for A = J^T J + diag(`damping`), `diag` = diag(J^T J). So many levels are `additive`; `None`: as many as the matrix-free
    /// kind has.
    pub fn new(
        problem: &Explicit<'_>,
        jacobian: &Jacobian,
        diag: &[f64],
        damping: &[f64],
        additive: Option<usize>,
    ) -> Multigrid {
        let energy = &problem.energy;
        let blocks = element_blocks(Preconditioner::BlockJacobi, problem);
        let finest = BlockDiagonal::new(Preconditioner::BlockJacobi, jacobian, diag, damping, &blocks);
        let weight = 4.0 / (3.0 * grids::elements_of_a_row(energy) as f64);
        let spaces = grids::served(energy).into_iter().map(|space| {
            let additive = additive.unwrap_or_else(|| additive_levels(energy, space));
            Hierarchy::new(problem, space, jacobian, (diag, damping), additive)
        });
        let spaces = spaces.collect();
        Multigrid { finest, weight, spaces }
    }

    /// M^-1 r.
    pub fn apply_inverse(&self, r: &[f64]) -> Vec<f64> {
        let mut z = self.finest.apply_inverse(r);
        for h in &self.spaces {
            let local: Vec<f64> =
                h.columns.iter().map(|&c| if c == NONE { 0.0 } else { r[c as usize] }).collect();
            let smooth = |r: &[f64]| {
                let mut all = vec![0.0; z.len()];
                h.columns.iter().zip(r).filter(|(c, _)| **c != NONE).for_each(|(&c, r)| all[c as usize] = *r);
                let z = self.finest.apply_inverse(&all);
                h.columns.iter().map(|&c| if c == NONE { 0.0 } else { self.weight * z[c as usize] }).collect()
            };
            let e = h.cycle(0, &local, &smooth);
            h.columns.iter().zip(e).filter(|(c, _)| **c != NONE).for_each(|(&c, e)| z[c as usize] = e);
        }
        z
    }

    /// A of a level of a space, scalars by element and component; `None` if there is no such level.
    pub fn level(&self, space: SpaceId, level: usize) -> Option<&CsMat<f64>> {
        self.spaces.iter().find(|h| h.space == space)?.levels.get(level).map(|l| &l.a)
    }
}

impl Hierarchy {
    fn new(
        problem: &Explicit<'_>,
        space: SpaceId,
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        additive: usize,
    ) -> Hierarchy {
        let fields = problem.energy.unknowns.iter().filter(|f| f.space == space);
        let components: usize = fields.map(|f| usize::from(f.channels)).sum();
        let mut columns = vec![];
        for e in 0..problem.layout.elements(space) {
            let own = problem.columns_at(space, e);
            (0..components).for_each(|c| columns.push(own.get(c).copied().unwrap_or(NONE)));
        }
        let takes_part: Vec<bool> = columns.iter().map(|&c| c != NONE && diag[c as usize] > 0.0).collect();
        let a = finest(problem, space, jacobian, (&columns, &takes_part), components, damping);
        let ones = takes_part.iter().map(|&on| f64::from(u8::from(on))).collect();
        let mut levels = vec![Level { a, smoother: ones, p: None, factor: None }];
        let mut extents: Vec<usize> = problem.data.extents(&problem.energy, space);
        while levels.len() == 1 || extents.iter().product::<usize>() * components > COARSEST {
            let last = levels.last_mut().expect("the finest one is there");
            let p = interpolation(&extents, components, &last.smoother);
            let a = &(&p.transpose_view().to_csr() * &last.a) * &p;
            last.p = Some(p);
            let smoother = smoother(&a);
            levels.push(Level { a, smoother, p: None, factor: None });
            extents.iter_mut().for_each(|n| *n = n.div_ceil(2));
        }
        let coarsest = levels.last_mut().expect("there are two");
        coarsest.factor = factor(&coarsest.a);
        Hierarchy { space, columns, additive, levels }
    }

    /// The correction that levels from `l` on make of r.
    fn cycle(&self, l: usize, r: &[f64], finest: &dyn Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let level = &self.levels[l];
        let Some(p) = &level.p else { return level.solve(r) };
        let smooth = |r: &[f64]| match l {
            0 => finest(r),
            _ => level.smoother.iter().zip(r).map(|(s, r)| s * r).collect(),
        };
        let restrict = |r: &[f64]| times(&p.transpose_view().to_csr(), r);
        let add = |e: &mut Vec<f64>, by: Vec<f64>| e.iter_mut().zip(by).for_each(|(e, by)| *e += by);
        let rest =
            |e: &[f64]| -> Vec<f64> { r.iter().zip(times(&level.a, e)).map(|(r, ae)| r - ae).collect() };
        let mut e = smooth(r);
        let smooths_again = l >= self.additive;
        let down = if smooths_again { restrict(&rest(&e)) } else { restrict(r) };
        add(&mut e, times(p, &self.cycle(l + 1, &down, finest)));
        if smooths_again {
            let again = smooth(&rest(&e));
            add(&mut e, again);
        }
        e
    }
}

impl Level {
    fn solve(&self, r: &[f64]) -> Vec<f64> {
        let mut e = vec![0.0; r.len()];
        if let Some((factor, rows)) = &self.factor {
            let own = DVector::from_iterator(rows.len(), rows.iter().map(|&i| r[i]));
            rows.iter().zip(factor.solve(&own).iter()).for_each(|(&i, &v)| e[i] = v);
        }
        e
    }
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
fn finest(
    problem: &Explicit<'_>,
    space: SpaceId,
    jacobian: &Jacobian,
    (columns, takes_part): (&[u32], &[bool]),
    components: usize,
    damping: &[f64],
) -> CsMat<f64> {
    let mut scalar = vec![NONE; damping.len()];
    for (i, &c) in columns.iter().enumerate().filter(|(i, _)| takes_part[*i]) {
        scalar[c as usize] = i as u32;
    }
    let (rows, n) = (jacobian.rows(), columns.len());
    let mut of_domain = vec![];
    problem.templates.iter().for_each(|t| of_domain.extend(t.counted.iter().map(|_| t.domain)));
    let part = |stencil: bool| {
        let mut triplets = TriMat::new((rows.rows(), n));
        for (row, entries) in rows.outer_iterator().enumerate() {
            if (of_domain[row] == Domain::Space(space)) != stencil {
                continue;
            }
            for (c, v) in entries.iter().filter(|(c, _)| scalar[*c] != NONE) {
                triplets.add_triplet(row, scalar[c] as usize, *v);
            }
        }
        let j: CsMat<f64> = triplets.to_csr();
        &j.transpose_view().to_csr() * &j
    };
    let others = part(false);
    let mut blocks = TriMat::new((n, n));
    for (i, row) in others.outer_iterator().enumerate() {
        let own = row.iter().filter(|(j, _)| j / components == i / components);
        own.for_each(|(j, v)| blocks.add_triplet(i, j, *v));
    }
    for (i, &c) in columns.iter().enumerate().filter(|(i, _)| takes_part[*i]) {
        blocks.add_triplet(i, i, damping[c as usize]);
    }
    &part(true) + &blocks.to_csr::<usize>()
}

/// P from the next level, element by element; 0 where the smoother is.
fn interpolation(extents: &[usize], components: usize, smoother: &[f64]) -> CsMat<f64> {
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
        for c in (0..components).filter(|c| smoother[element * components + c] != 0.0) {
            parents
                .iter()
                .for_each(|&(at, w)| p.add_triplet(element * components + c, at * components + c, w));
        }
    }
    p.to_csr()
}

/// w over the diagonal; 0 where that is.
fn smoother(a: &CsMat<f64>) -> Vec<f64> {
    let diagonal: Vec<f64> = (0..a.rows()).map(|i| a.get(i, i).copied().unwrap_or(0.0)).collect();
    let bound = a.outer_iterator().enumerate().filter(|(i, _)| diagonal[*i] > 0.0).map(|(i, row)| {
        let terms = row.iter().filter(|(j, _)| diagonal[*j] > 0.0);
        terms.map(|(j, v)| v.abs() / (diagonal[i] * diagonal[j]).sqrt()).sum::<f64>()
    });
    let bound = bound.fold(0.0, f64::max);
    diagonal.iter().map(|&d| if d > 0.0 { 4.0 / (3.0 * bound * d) } else { 0.0 }).collect()
}

/// The factor of A with its diagonal shifted, and the rows that take part.
pub(super) fn factor(a: &CsMat<f64>) -> Option<(Cholesky<f64, Dyn>, Vec<usize>)> {
    let entry = |i: usize, j: usize| a.get(i, j).copied().unwrap_or(0.0);
    let rows: Vec<usize> = (0..a.rows()).filter(|&i| entry(i, i) > 0.0).collect();
    let shifted = |i: usize, j: usize| entry(rows[i], rows[j]) * if i == j { 1.0 + SHIFT } else { 1.0 };
    Cholesky::new(DMatrix::from_fn(rows.len(), rows.len(), shifted)).map(|factor| (factor, rows.clone()))
}

/// A v.
pub(super) fn times(a: &CsMat<f64>, v: &[f64]) -> Vec<f64> {
    a.outer_iterator().map(|row| row.iter().map(|(j, a)| a * v[j]).sum()).collect()
}
