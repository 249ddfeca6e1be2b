//! Smoothed aggregation from sparse matrices.
//!
//! Per index space with a spread unknown: A_0 is what J^T J + D has between its scalars. Elements of a level that are strongly
//! coupled form aggregates; T holds the near-null candidates of every aggregate, made orthonormal; P = (I - w D^-1 A) T, D the
//! blocks of A by elements, which is the M of every level; the candidates of level l + 1 are what T leaves of those of level l. See
//! Vanek, Mandel and Brezina, Algebraic multigrid by smoothed aggregation (Computing 56, 1996).

use crate::assembled::eval::{self, Workspace};
use crate::assembled::hierarchy::{
    Hierarchies, Hierarchy, Level, Scalars, System, diagonal_of, elements_of_a_row, times,
};
use crate::assembled::tape::Tape;
use crate::assembled::{Explicit, Jacobian};
use crate::problem::aggregates::{self, Candidate, NONE};
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use sprs::{CsMat, TriMat};
use std::collections::BTreeMap;
use sumsq_energy::model::{Domain, SpaceId};

/// Relative shift of the diagonal of a block before it is inverted.
const SHIFT: f64 = 1e-12;

/// Parts of a level and the next one.
struct Blocks {
    /// Scalars of an element.
    block: usize,
    a: CsMat<f64>,
    /// w D^-1.
    smoother: CsMat<f64>,
    /// Near-null candidates, by columns.
    candidates: Vec<Vec<f64>>,
}

impl Hierarchies {
    /// Smoothed aggregation for A = J^T J + diag(`damping`) at `x`, `diag` = diag(J^T J); so many levels are `additive`.
    pub fn aggregation(
        problem: &Explicit<'_>,
        x: &[f64],
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        additive: usize,
    ) -> Hierarchies {
        let system = System { problem, jacobian, diag, damping };
        Hierarchies::new(&system, aggregates::served(&problem.energy), |space, _| {
            of_aggregates(&system, space, x, additive)
        })
    }
}

impl Explicit<'_> {
    /// The displacements that the energy gives of the unknowns of a space, channel by channel over all elements.
    fn near_null(&self, space: SpaceId) -> Vec<Vec<f64>> {
        let domain = Domain::Space(space);
        let (point, mut work) = (self.point(&[]), Workspace::default());
        let given = aggregates::given(&self.energy, space).into_iter().flat_map(|(_, of)| &of.values);
        // An expression that cannot be evaluated was refused before: bounds and residuals hold the same constructs.
        let tapes = given.filter_map(|&of| Tape::compile(&self.energy, domain, of).ok());
        let mut values = |tape: Tape| {
            let all = 0..self.layout.instances(domain);
            all.map(|n| eval::value(&tape, &self.layout.instance(domain, n), &point, &mut work)).collect()
        };
        tapes.map(&mut values).collect()
    }
}

fn of_aggregates(system: &System<'_>, space: SpaceId, x: &[f64], additive: usize) -> Hierarchy {
    let (problem, scalars) = (system.problem, Scalars::new(system, space));
    let undamped = scalars.normal(system.jacobian, |_| true);
    let candidates = near_null(problem, space, x, &scalars, &undamped);
    let a = &undamped + &scalars.diagonal(system.damping);
    // A bound, as of grids.
    let bound = elements_of_a_row(&problem.energy) as f64;
    let mut last = Blocks::new(a, scalars.components, candidates.clone(), Some(bound));
    let mut levels = vec![last.level()];
    let mut threshold = aggregates::threshold(&problem.energy, space);
    while levels.len() == 1 || (levels.len() < aggregates::LEVELS && last.a.rows() > aggregates::COARSEST) {
        let Some((p, next)) = last.coarsen(threshold) else { break };
        threshold = aggregates::COUPLED;
        levels.last_mut().expect("the finest one is there").p = Some(p);
        levels.push(next.level());
        last = next;
    }
    if last.a.rows() <= aggregates::COARSEST {
        levels.last_mut().expect("the finest one is there").factorise();
    }
    Hierarchy { space, scalars, additive, levels, candidates }
}

/// The candidates on level 0.
fn near_null(
    problem: &Explicit<'_>,
    space: SpaceId,
    x: &[f64],
    scalars: &Scalars,
    undamped: &CsMat<f64>,
) -> Vec<Vec<f64>> {
    let spread = aggregates::spread_components(&problem.energy, space);
    let values = |i: usize| scalars.column(i).map_or(0.0, |c| x[problem.free_scalars()[c] as usize]);
    let given = problem.near_null(space);
    let all = aggregates::candidates(&problem.energy, space).into_iter();
    let seeds = all.map(|of| seed(of, scalars.components, &scalars.active, &values, &given));
    seeds.map(|b| completed(undamped, &spread, &scalars.active, b)).collect()
}

impl Blocks {
    /// Those of A: with this bound of the largest eigenvalue of D^-1 A, or with what the power method finds.
    fn new(a: CsMat<f64>, block: usize, candidates: Vec<Vec<f64>>, bound: Option<f64>) -> Blocks {
        let inverse = inverse_blocks(&a, block);
        let weight = 4.0 / (3.0 * bound.unwrap_or_else(|| largest_eigenvalue(&a, &inverse)));
        Blocks { block, a, smoother: inverse.map(|v| weight * v), candidates }
    }

    fn level(&self) -> Level {
        Level::new(self.a.clone(), self.smoother.clone())
    }

    /// P and the next level, if any elements form aggregates.
    fn coarsen(&self, threshold: f64) -> Option<(CsMat<f64>, Blocks)> {
        let (starts, neighbours) = strong(&self.a, self.block, threshold);
        let (own, count) = aggregates::aggregates(&starts, &neighbours);
        if count == 0 {
            return None;
        }
        let (t, candidates) = self.tentative(&own, count);
        let smoothed = &self.smoother * &(&self.a * &t);
        let p = &t + &smoothed.map(|v| -v);
        let a = silenced(&self.a, &p, &(&p.transpose_view().to_csr() * &self.a) * &p);
        Some((p, Blocks::new(a, self.candidates.len(), candidates, None)))
    }

    /// T, and what it leaves of the candidates: Gram and Schmidt, twice, per aggregate.
    fn tentative(&self, own: &[u32], count: usize) -> (CsMat<f64>, Vec<Vec<f64>>) {
        let k = self.candidates.len();
        let mut members = vec![vec![]; count];
        for (e, &a) in own.iter().enumerate().filter(|(_, a)| **a != NONE) {
            members[a as usize].extend(e * self.block..(e + 1) * self.block);
        }
        let mut t = TriMat::new((self.a.rows(), count * k));
        let mut left = vec![vec![0.0; count * k]; k];
        for (aggregate, rows) in members.iter().enumerate() {
            let mut basis: Vec<DVector<f64>> = vec![];
            for (j, candidate) in self.candidates.iter().enumerate() {
                let mut q = DVector::from_iterator(rows.len(), rows.iter().map(|&i| candidate[i]));
                let whole = q.norm();
                for _ in 0..2 {
                    for (i, b) in basis.iter().enumerate() {
                        let share = b.dot(&q);
                        left[j][aggregate * k + i] += share;
                        q.axpy(-share, b, 1.0);
                    }
                }
                let norm = q.norm();
                if norm > aggregates::DEPENDENT * whole {
                    left[j][aggregate * k + j] = norm;
                    q /= norm;
                } else {
                    q.fill(0.0);
                }
                for (&i, &v) in rows.iter().zip(q.iter()).filter(|(_, v)| **v != 0.0) {
                    t.add_triplet(i, aggregate * k + j, v);
                }
                basis.push(q);
            }
        }
        (t.to_csr(), left)
    }
}

/// P^T A P, with rows and columns 0 whose diagonal entry is not above what rounding leaves of 0.
fn silenced(fine: &CsMat<f64>, p: &CsMat<f64>, coarse: CsMat<f64>) -> CsMat<f64> {
    let [of_fine, of_coarse] = [diagonal_of(fine), diagonal_of(&coarse)];
    let mut scales = vec![0.0; coarse.rows()];
    for (i, row) in p.outer_iterator().enumerate() {
        row.iter().for_each(|(j, v)| scales[j] += v * v * of_fine[i]);
    }
    let kept = |i: usize| of_coarse[i] > aggregates::NOISE * scales[i];
    let mut left = TriMat::new(coarse.shape());
    for (i, row) in coarse.outer_iterator().enumerate().filter(|(i, _)| kept(*i)) {
        row.iter().filter(|(j, _)| kept(*j)).for_each(|(j, v)| left.add_triplet(i, j, *v));
    }
    left.to_csr()
}

/// A candidate before it is completed; 0 where a scalar takes no part.
fn seed(
    of: Candidate,
    components: usize,
    takes_part: &[bool],
    value: &dyn Fn(usize) -> f64,
    given: &[Vec<f64>],
) -> Vec<f64> {
    let n = takes_part.len();
    let mut b = vec![0.0; n];
    match of {
        Candidate::Constant(c) => (c..n).step_by(components).for_each(|i| b[i] = 1.0),
        Candidate::Turn(first, second) => {
            let mean = |c: usize| {
                let own = (c..n).step_by(components).filter(|&i| takes_part[i]);
                own.clone().map(value).sum::<f64>() / own.count().max(1) as f64
            };
            let (m1, m2) = (mean(first), mean(second));
            for e in (0..n).step_by(components) {
                b[e + first] = -(value(e + second) - m2);
                b[e + second] = value(e + first) - m1;
            }
        }
        Candidate::Given { component, count, channel } => {
            for e in 0..n / components {
                (0..count).for_each(|c| b[e * components + component + c] = given[channel + c][e]);
            }
        }
    }
    b.iter_mut().zip(takes_part).filter(|(_, on)| !**on).for_each(|(b, _)| *b = 0.0);
    b
}

/// The candidate whose local components minimise the energy with the spread ones held, element by element.
fn completed(a: &CsMat<f64>, spread: &[bool], takes_part: &[bool], mut b: Vec<f64>) -> Vec<f64> {
    let force = times(a, &b);
    for first in (0..b.len()).step_by(spread.len()) {
        let local = (0..spread.len()).filter(|&c| !spread[c] && takes_part[first + c]);
        let rows: Vec<usize> = local.map(|c| first + c).collect();
        if let Some(factor) = shifted_factor(a, &rows) {
            let own = DVector::from_iterator(rows.len(), rows.iter().map(|&i| -force[i]));
            rows.iter().zip(factor.solve(&own).iter()).for_each(|(&i, &v)| b[i] = v);
        }
    }
    b
}

/// The factor of some rows and columns of A, the diagonal shifted.
fn shifted_factor(a: &CsMat<f64>, rows: &[usize]) -> Option<Cholesky<f64, Dyn>> {
    let entry = |i: usize, j: usize| a.get(rows[i], rows[j]).copied().unwrap_or(0.0);
    let shifted = |i: usize, j: usize| entry(i, j) * if i == j { 1.0 + SHIFT } else { 1.0 };
    if rows.is_empty() { None } else { Cholesky::new(DMatrix::from_fn(rows.len(), rows.len(), shifted)) }
}

/// The inverse of the blocks of A by elements; rows of scalars that take no part are 0.
fn inverse_blocks(a: &CsMat<f64>, block: usize) -> CsMat<f64> {
    let mut inverse = TriMat::new(a.shape());
    for first in (0..a.rows()).step_by(block) {
        let diagonal = |i: usize| a.get(i, i).copied().unwrap_or(0.0);
        let rows: Vec<usize> = (first..first + block).filter(|&i| diagonal(i) > 0.0).collect();
        let own = shifted_factor(a, &rows).map(|factor| factor.inverse());
        for (i, &row) in rows.iter().enumerate() {
            match &own {
                Some(own) => {
                    (0..rows.len()).for_each(|j| inverse.add_triplet(row, rows[j], own[(i, j)]));
                }
                None => inverse.add_triplet(row, row, 1.0 / diagonal(row)),
            }
        }
    }
    inverse.to_csr()
}

/// The largest eigenvalue of D^-1 A, a little more than the power method finds.
fn largest_eigenvalue(a: &CsMat<f64>, inverse: &CsMat<f64>) -> f64 {
    let mut v: Vec<f64> = (0..a.rows()).map(aggregates::start).collect();
    let mut largest = 1.0;
    for _ in 0..aggregates::POWER_STEPS {
        let av = times(a, &v);
        let next = times(inverse, &av);
        // Behind the first step v^T D v = 1.
        largest = next.iter().zip(&av).map(|(x, y)| x * y).sum::<f64>().sqrt();
        if largest.is_nan() || largest <= 0.0 {
            return 1.0;
        }
        v = next.into_iter().map(|x| x / largest).collect();
    }
    aggregates::SAFETY * largest
}

/// The elements that every element is strongly coupled with: where their lists begin, and the lists, ascending.
fn strong(a: &CsMat<f64>, block: usize, threshold: f64) -> (Vec<usize>, Vec<u32>) {
    let elements = a.rows() / block;
    let mut norms: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); elements];
    for (i, row) in a.outer_iterator().enumerate() {
        row.iter().for_each(|(j, v)| *norms[i / block].entry(j / block).or_default() += v * v);
    }
    let others = |e: usize| norms[e].iter().filter(move |(f, _)| **f != e).map(|(_, n)| *n);
    let largest: Vec<f64> = (0..elements).map(|e| others(e).fold(0.0, f64::max)).collect();
    let (mut starts, mut neighbours) = (vec![0], vec![]);
    for (e, norms) in norms.iter().enumerate() {
        // Squares of norms.
        let bound = |f: usize| threshold.powi(2) * (largest[e] * largest[f]).sqrt();
        let strong = |f: usize, norm: f64| f != e && norm > 0.0 && norm >= bound(f);
        neighbours.extend(norms.iter().filter(|(f, norm)| strong(**f, **norm)).map(|(f, _)| *f as u32));
        starts.push(neighbours.len());
    }
    (starts, neighbours)
}
