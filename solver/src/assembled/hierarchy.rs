//! Preconditioners with levels from sparse matrices: the oracles of the matrix-free kinds.
//!
//! Per index space that the kind serves: A_0, then A_{l+1} = P^T A_l P. A level is *additive*, z = S r + P e, where e is what the next one makes of
//! P^T r; or it smooths before and after, V(1,1). S = w M^-1. The coarsest one is factorised. Scalars that take no part have rows of 0 in all of
//! these matrices. What the matrices are is each kind's own: see [`multigrid`](super::multigrid) and [`aggregation`](super::aggregation).

use crate::assembled::preconditioner::{BlockDiagonal, element_blocks};
use crate::assembled::{Explicit, Jacobian};
use crate::problem::options::Preconditioner;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use sprs::{CsMat, TriMat};
use std::collections::BTreeSet;
use sumsq_energy::dag::At;
use sumsq_energy::model::{Energy, SpaceId};

/// Relative shift of the diagonal of the coarsest level.
const SHIFT: f64 = 1e-8;

/// A column of J that is none.
const EXCLUDED: u32 = u32::MAX;

/// M with levels, by its inverse.
pub struct Hierarchies {
    /// M of what no hierarchy serves.
    finest: BlockDiagonal,
    spaces: Vec<Hierarchy>,
}

/// The levels of a space.
pub(super) struct Hierarchy {
    pub space: SpaceId,
    pub scalars: Scalars,
    /// Levels from the finest on that are additive.
    pub additive: usize,
    pub levels: Vec<Level>,
    /// The near-null candidates of the finest level, if it has any.
    pub candidates: Vec<Vec<f64>>,
}

/// A level.
pub(super) struct Level {
    pub a: CsMat<f64>,
    /// S.
    pub smoother: CsMat<f64>,
    /// From the next level to this one.
    pub p: Option<CsMat<f64>>,
    /// Of the coarsest level.
    factor: Option<Factor>,
}

/// The scalars of a space, by element and component.
pub(super) struct Scalars {
    /// Those of an element.
    pub components: usize,
    /// The column of J of each.
    columns: Vec<u32>,
    /// True if it takes part.
    pub active: Vec<bool>,
}

/// The factor of A with its diagonal shifted, and the rows that take part.
struct Factor {
    of: Cholesky<f64, Dyn>,
    rows: Vec<usize>,
}

/// The linear system that M is for.
pub(super) struct System<'a> {
    pub problem: &'a Explicit<'a>,
    pub jacobian: &'a Jacobian,
    /// diag(J^T J).
    pub diag: &'a [f64],
    /// D.
    pub damping: &'a [f64],
}

impl Hierarchies {
    /// M with these hierarchies: block Jacobi where there is none.
    pub(super) fn new(
        system: &System<'_>,
        spaces: Vec<SpaceId>,
        of: impl Fn(SpaceId, &BlockDiagonal) -> Hierarchy,
    ) -> Hierarchies {
        let System { problem, jacobian, diag, damping } = *system;
        let blocks = element_blocks(Preconditioner::BlockJacobi, problem);
        let finest = BlockDiagonal::new(Preconditioner::BlockJacobi, jacobian, diag, damping, &blocks);
        let spaces = spaces.into_iter().map(|space| of(space, &finest)).collect();
        Hierarchies { finest, spaces }
    }

    /// M^-1 r.
    pub fn apply_inverse(&self, r: &[f64]) -> Vec<f64> {
        let mut z = self.finest.apply_inverse(r);
        for h in &self.spaces {
            h.scalars.write(&h.cycle(0, &h.scalars.of(r)), &mut z);
        }
        z
    }

    /// A of a level of a space, scalars by element and component; `None` if there is no such level.
    pub fn level(&self, space: SpaceId, level: usize) -> Option<&CsMat<f64>> {
        self.spaces.iter().find(|h| h.space == space)?.levels.get(level).map(|l| &l.a)
    }

    /// The near-null candidates on level 0 of a space, over scalars by element and component; none if it has no aggregates.
    pub fn candidates(&self, space: SpaceId) -> &[Vec<f64>] {
        self.spaces.iter().find(|h| h.space == space).map_or(&[], |h| &h.candidates)
    }
}

impl Hierarchy {
    /// The correction that levels from `l` on make of r.
    fn cycle(&self, l: usize, r: &[f64]) -> Vec<f64> {
        let level = &self.levels[l];
        if let Some(factor) = &level.factor {
            return factor.solve(r);
        }
        let add = |e: &mut Vec<f64>, by: Vec<f64>| e.iter_mut().zip(by).for_each(|(e, by)| *e += by);
        let rest =
            |e: &[f64]| -> Vec<f64> { r.iter().zip(times(&level.a, e)).map(|(r, ae)| r - ae).collect() };
        let mut e = times(&level.smoother, r);
        let smooths_again = l >= self.additive;
        if let Some(p) = &level.p {
            let transposed = p.transpose_view().to_csr();
            let down = if smooths_again { times(&transposed, &rest(&e)) } else { times(&transposed, r) };
            add(&mut e, times(p, &self.cycle(l + 1, &down)));
        }
        if smooths_again {
            let again = times(&level.smoother, &rest(&e));
            add(&mut e, again);
        }
        e
    }
}

impl Level {
    /// One without a coarser one behind it.
    pub fn new(a: CsMat<f64>, smoother: CsMat<f64>) -> Level {
        Level { a, smoother, p: None, factor: None }
    }

    /// Makes it the coarsest: it is solved exactly from now on, if it can be.
    pub fn factorise(&mut self) {
        self.factor = Factor::new(&self.a);
    }
}

impl Scalars {
    /// Those of a space.
    pub fn new(system: &System<'_>, space: SpaceId) -> Scalars {
        let problem = system.problem;
        let fields = problem.energy.unknowns.iter().filter(|f| f.space == space);
        let components: usize = fields.map(|f| usize::from(f.channels)).sum();
        let mut columns = vec![];
        for e in 0..problem.layout.elements(space) {
            let own = problem.columns_at(space, e);
            (0..components).for_each(|c| columns.push(own.get(c).copied().unwrap_or(EXCLUDED)));
        }
        let active = columns.iter().map(|&c| c != EXCLUDED && system.diag[c as usize] > 0.0).collect();
        Scalars { components, columns, active }
    }

    /// The column of J of a scalar.
    pub fn column(&self, scalar: usize) -> Option<usize> {
        Some(self.columns[scalar] as usize).filter(|&c| c != EXCLUDED as usize)
    }

    /// Their share of a vector over all scalars.
    pub fn of(&self, all: &[f64]) -> Vec<f64> {
        (0..self.columns.len()).map(|i| self.column(i).map_or(0.0, |c| all[c])).collect()
    }

    /// Writes it.
    fn write(&self, own: &[f64], all: &mut [f64]) {
        own.iter().enumerate().for_each(|(i, v)| self.column(i).into_iter().for_each(|c| all[c] = *v));
    }

    /// J^T J between those that take part, of the rows of J that count.
    pub fn normal(&self, jacobian: &Jacobian, counts: impl Fn(usize) -> bool) -> CsMat<f64> {
        let rows = jacobian.rows();
        let mut scalar = vec![None; rows.cols()];
        for i in (0..self.columns.len()).filter(|&i| self.active[i]) {
            self.column(i).into_iter().for_each(|c| scalar[c] = Some(i));
        }
        let mut triplets = TriMat::new((rows.rows(), self.columns.len()));
        for (row, entries) in rows.outer_iterator().enumerate().filter(|(row, _)| counts(*row)) {
            for (i, v) in entries.iter().filter_map(|(c, v)| Some((scalar[c]?, *v))) {
                triplets.add_triplet(row, i, v);
            }
        }
        let j: CsMat<f64> = triplets.to_csr();
        &j.transpose_view().to_csr() * &j
    }

    /// The diagonal matrix of a vector over all scalars, of those that take part.
    pub fn diagonal(&self, all: &[f64]) -> CsMat<f64> {
        let values = self.of(all).into_iter().zip(&self.active);
        diagonal(&values.map(|(v, on)| if *on { v } else { 0.0 }).collect::<Vec<f64>>())
    }

    /// The matrix of what M, of one element each, makes of them, times w.
    pub fn smoother(&self, system: &System<'_>, m: &BlockDiagonal, w: f64) -> CsMat<f64> {
        let (c, n) = (self.components, self.columns.len());
        let mut all = TriMat::new((n, n));
        let mut unit = vec![0.0; system.diag.len()];
        for column in 0..c {
            let ones: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i % c == column))).collect();
            unit.fill(0.0);
            self.write(&ones, &mut unit);
            let z = self.of(&m.apply_inverse(&unit));
            for (i, z) in z.into_iter().enumerate().filter(|(_, z)| *z != 0.0) {
                all.add_triplet(i, i - i % c + column, w * z);
            }
        }
        all.to_csr()
    }
}

impl Factor {
    fn new(a: &CsMat<f64>) -> Option<Factor> {
        let entry = |i: usize, j: usize| a.get(i, j).copied().unwrap_or(0.0);
        let rows: Vec<usize> = (0..a.rows()).filter(|&i| entry(i, i) > 0.0).collect();
        let shifted = |i: usize, j: usize| entry(rows[i], rows[j]) * if i == j { 1.0 + SHIFT } else { 1.0 };
        let of = Cholesky::new(DMatrix::from_fn(rows.len(), rows.len(), shifted))?;
        Some(Factor { of, rows })
    }

    fn solve(&self, r: &[f64]) -> Vec<f64> {
        let mut e = vec![0.0; r.len()];
        let own = DVector::from_iterator(self.rows.len(), self.rows.iter().map(|&i| r[i]));
        self.rows.iter().zip(self.of.solve(&own).iter()).for_each(|(&i, &v)| e[i] = v);
        e
    }
}

/// Elements that one row of J reads at most, of an energy without computed arrays: a bound of the largest eigenvalue of M^-1 A, with M the
/// blocks of A by elements.
pub(super) fn elements_of_a_row(energy: &Energy) -> usize {
    let mut dag = energy.dag.clone();
    let mut places_of = |residual: usize| {
        let value = energy.residuals[residual].value;
        let reads = energy.residuals[residual].unknown_reads.iter();
        let places: BTreeSet<(SpaceId, At)> = reads
            .filter(|access| {
                let partial = dag.derivative(value, access);
                !dag.is_constant(partial, 0.0)
            })
            .map(|access| (energy.space_of(access.source), access.at.clone()))
            .collect();
        places
    };
    let own: Vec<_> = (0..energy.residuals.len()).map(&mut places_of).collect();
    // J^T J couples what a block under a loss of second order reads together.
    let second = |n: usize| energy.residuals[n].block.filter(|b| energy.blocks[b.index()].second_order);
    let together = |n: usize| {
        let all = (0..own.len()).filter(|&m| m == n || (second(n).is_some() && second(m) == second(n)));
        all.flat_map(|m| own[m].iter()).collect::<BTreeSet<_>>().len()
    };
    (0..own.len()).map(together).max().unwrap_or(1).max(1)
}

/// The entries of a diagonal.
pub(super) fn diagonal_of(a: &CsMat<f64>) -> Vec<f64> {
    (0..a.rows()).map(|i| a.get(i, i).copied().unwrap_or(0.0)).collect()
}

/// A diagonal matrix.
pub(super) fn diagonal(values: &[f64]) -> CsMat<f64> {
    let mut all = TriMat::new((values.len(), values.len()));
    values.iter().enumerate().filter(|(_, v)| **v != 0.0).for_each(|(i, v)| all.add_triplet(i, i, *v));
    all.to_csr()
}

/// A v.
pub(super) fn times(a: &CsMat<f64>, v: &[f64]) -> Vec<f64> {
    a.outer_iterator().map(|row| row.iter().map(|(j, a)| a * v[j]).sum()).collect()
}
