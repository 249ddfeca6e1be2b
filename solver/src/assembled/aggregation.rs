//! Smoothed aggregation from sparse matrices: the oracle of the matrix-free kind.
//!
//! Per index space with a spread unknown: A_0 is what J^T J + D has between its scalars. Elements of a level that are strongly
//! coupled form aggregates; T holds the near-null candidates of every aggregate, made orthonormal; P = (I - w D^-1 A) T, D the
//! blocks of A by elements; A_{l+1} = P^T A_l P, and the candidates of level l + 1 are what T leaves of those of level l. See
//! Vanek, Mandel and Brezina, Algebraic multigrid by smoothed aggregation (Computing 56, 1996).

use crate::assembled::eval::{self, Workspace};
use crate::assembled::multigrid::{factor, times};
use crate::assembled::preconditioner::{BlockDiagonal, element_blocks};
use crate::assembled::tape::Tape;
use crate::assembled::{Explicit, Jacobian};
use crate::problem::aggregates::{self, Candidate, NONE};
use crate::problem::grids;
use crate::problem::options::Preconditioner;
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use sprs::{CsMat, TriMat};
use std::collections::BTreeMap;
use sumsq_energy::model::{Domain, SpaceId};

/// A column of J that is none.
const EXCLUDED: u32 = u32::MAX;

/// Relative shift of the diagonal of a block before it is inverted.
const SHIFT: f64 = 1e-12;

/// M of aggregation, by its inverse.
pub struct Aggregation {
    finest: BlockDiagonal,
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
    /// Scalars of an element.
    block: usize,
    a: CsMat<f64>,
    /// The inverse of D, block by block.
    inverse: CsMat<f64>,
    /// w.
    weight: f64,
    /// Near-null candidates, by columns.
    candidates: Vec<Vec<f64>>,
    /// From the next level to this one.
    p: Option<CsMat<f64>>,
    /// Of the coarsest level.
    factor: Option<(Cholesky<f64, Dyn>, Vec<usize>)>,
}

impl Aggregation {
    /// M for A = J^T J + diag(`damping`) at `x`, `diag` = diag(J^T J); so many levels are `additive`.
    pub fn new(
        problem: &Explicit<'_>,
        x: &[f64],
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        additive: usize,
    ) -> Aggregation {
        let blocks = element_blocks(Preconditioner::BlockJacobi, problem);
        let finest = BlockDiagonal::new(Preconditioner::BlockJacobi, jacobian, diag, damping, &blocks);
        let spaces = aggregates::served(&problem.energy).into_iter();
        let spaces =
            spaces.map(|space| Hierarchy::new(problem, space, x, jacobian, (diag, damping), additive));
        Aggregation { finest, spaces: spaces.collect() }
    }

    /// M^-1 r.
    pub fn apply_inverse(&self, r: &[f64]) -> Vec<f64> {
        let mut z = self.finest.apply_inverse(r);
        for h in &self.spaces {
            let local: Vec<f64> =
                h.columns.iter().map(|&c| if c == EXCLUDED { 0.0 } else { r[c as usize] }).collect();
            let e = h.cycle(0, &local);
            h.columns.iter().zip(e).filter(|(c, _)| **c != EXCLUDED).for_each(|(&c, e)| z[c as usize] = e);
        }
        z
    }

    /// A of a level of a space, scalars by element and component; `None` if there is no such level.
    pub fn level(&self, space: SpaceId, level: usize) -> Option<&CsMat<f64>> {
        self.spaces.iter().find(|h| h.space == space)?.levels.get(level).map(|l| &l.a)
    }

    /// The near-null candidates on level 0 of a space, over scalars by element and component; none if it has no hierarchy.
    pub fn candidates(&self, space: SpaceId) -> &[Vec<f64>] {
        let own = self.spaces.iter().find(|h| h.space == space);
        own.map_or(&[], |h| &h.levels[0].candidates)
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

impl Hierarchy {
    fn new(
        problem: &Explicit<'_>,
        space: SpaceId,
        x: &[f64],
        jacobian: &Jacobian,
        (diag, damping): (&[f64], &[f64]),
        additive: usize,
    ) -> Hierarchy {
        let spread = aggregates::spread_components(&problem.energy, space);
        let components = spread.len();
        let mut columns = vec![];
        for e in 0..problem.layout.elements(space) {
            let own = problem.columns_at(space, e);
            (0..components).for_each(|c| columns.push(own.get(c).copied().unwrap_or(EXCLUDED)));
        }
        let takes_part: Vec<bool> =
            columns.iter().map(|&c| c != EXCLUDED && diag[c as usize] > 0.0).collect();
        let undamped = normal(jacobian, &columns, &takes_part);
        let mut added = TriMat::new((columns.len(), columns.len()));
        for (i, &c) in columns.iter().enumerate().filter(|(i, _)| takes_part[*i]) {
            added.add_triplet(i, i, damping[c as usize]);
        }
        let values = |i: usize| match columns[i] {
            EXCLUDED => 0.0,
            c => x[problem.free_scalars()[c as usize] as usize],
        };
        let all = aggregates::candidates(&problem.energy, space);
        let given = problem.near_null(space);
        let seeds = all.iter().map(|of| seed(*of, components, &takes_part, &values, &given));
        let candidates = seeds.map(|b| completed(&undamped, &spread, &takes_part, b)).collect();
        let a = &undamped + &added.to_csr::<usize>();
        let threshold = aggregates::threshold(&problem.energy, space);
        let mut levels = vec![Level::new(a, components, candidates)];
        // A bound, as of grids.
        levels[0].weight = 4.0 / (3.0 * grids::elements_of_a_row(&problem.energy) as f64);
        let mut threshold = Some(threshold);
        while levels.len() == 1 || levels.len() < aggregates::LEVELS {
            let last = levels.last_mut().expect("the finest one is there");
            if levels_end(last, threshold.is_some()) {
                break;
            }
            let Some(next) = last.coarsen(threshold.take().unwrap_or(aggregates::COUPLED)) else { break };
            levels.push(next);
        }
        let coarsest = levels.last_mut().expect("there is one");
        if coarsest.a.rows() <= aggregates::COARSEST {
            coarsest.factor = factor(&coarsest.a);
        }
        Hierarchy { space, columns, additive, levels }
    }

    /// The correction that levels from `l` on make of r.
    fn cycle(&self, l: usize, r: &[f64]) -> Vec<f64> {
        let level = &self.levels[l];
        if level.factor.is_some() {
            return level.solve(r);
        }
        let smooth = |r: &[f64]| -> Vec<f64> {
            times(&level.inverse, r).into_iter().map(|z| level.weight * z).collect()
        };
        let add = |e: &mut Vec<f64>, by: Vec<f64>| e.iter_mut().zip(by).for_each(|(e, by)| *e += by);
        let rest =
            |e: &[f64]| -> Vec<f64> { r.iter().zip(times(&level.a, e)).map(|(r, ae)| r - ae).collect() };
        let mut e = smooth(r);
        let smooths_again = l >= self.additive;
        if let Some(p) = &level.p {
            let transposed = p.transpose_view().to_csr();
            let down = if smooths_again { times(&transposed, &rest(&e)) } else { times(&transposed, r) };
            add(&mut e, times(p, &self.cycle(l + 1, &down)));
        }
        if smooths_again {
            let again = smooth(&rest(&e));
            add(&mut e, again);
        }
        e
    }
}

/// Tells whether a level is the coarsest.
fn levels_end(level: &Level, finest: bool) -> bool {
    !finest && level.a.rows() <= aggregates::COARSEST
}

impl Level {
    fn new(a: CsMat<f64>, block: usize, candidates: Vec<Vec<f64>>) -> Level {
        let inverse = inverse_blocks(&a, block);
        let weight = 4.0 / (3.0 * largest_eigenvalue(&a, &inverse));
        Level { block, a, inverse, weight, candidates, p: None, factor: None }
    }

    /// Makes P and the next level, if any elements form aggregates.
    fn coarsen(&mut self, threshold: f64) -> Option<Level> {
        let (starts, neighbours) = strong(&self.a, self.block, threshold);
        let (own, count) = aggregates::aggregates(&starts, &neighbours);
        if count == 0 {
            return None;
        }
        let (t, candidates) = self.tentative(&own, count);
        let smoothed = &self.inverse * &(&self.a * &t);
        let p = &t + &smoothed.map(|v| -self.weight * v);
        let a = silenced(&self.a, &p, &(&p.transpose_view().to_csr() * &self.a) * &p);
        self.p = Some(p);
        Some(Level::new(a, self.candidates.len(), candidates))
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

    fn solve(&self, r: &[f64]) -> Vec<f64> {
        let mut e = vec![0.0; r.len()];
        if let Some((factor, rows)) = &self.factor {
            let own = DVector::from_iterator(rows.len(), rows.iter().map(|&i| r[i]));
            rows.iter().zip(factor.solve(&own).iter()).for_each(|(&i, &v)| e[i] = v);
        }
        e
    }
}

/// P^T A P, with rows and columns 0 whose diagonal entry is not above what rounding leaves of 0.
fn silenced(fine: &CsMat<f64>, p: &CsMat<f64>, coarse: CsMat<f64>) -> CsMat<f64> {
    let diagonal = |a: &CsMat<f64>, i: usize| a.get(i, i).copied().unwrap_or(0.0);
    let mut scales = vec![0.0; coarse.rows()];
    for (i, row) in p.outer_iterator().enumerate() {
        row.iter().for_each(|(j, v)| scales[j] += v * v * diagonal(fine, i));
    }
    let kept = |i: usize| diagonal(&coarse, i) > aggregates::NOISE * scales[i];
    let mut left = TriMat::new(coarse.shape());
    for (i, row) in coarse.outer_iterator().enumerate().filter(|(i, _)| kept(*i)) {
        row.iter().filter(|(j, _)| kept(*j)).for_each(|(j, v)| left.add_triplet(i, j, *v));
    }
    left.to_csr()
}

/// J^T J between the scalars of a space that take part; others have rows of 0.
fn normal(jacobian: &Jacobian, columns: &[u32], takes_part: &[bool]) -> CsMat<f64> {
    let rows = jacobian.rows();
    let mut scalar = vec![EXCLUDED; rows.cols()];
    for (i, &c) in columns.iter().enumerate().filter(|(i, _)| takes_part[*i]) {
        scalar[c as usize] = i as u32;
    }
    let mut triplets = TriMat::new((rows.rows(), columns.len()));
    for (row, entries) in rows.outer_iterator().enumerate() {
        for (c, v) in entries.iter().filter(|(c, _)| scalar[*c] != EXCLUDED) {
            triplets.add_triplet(row, scalar[c] as usize, *v);
        }
    }
    let j: CsMat<f64> = triplets.to_csr();
    &j.transpose_view().to_csr() * &j
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
